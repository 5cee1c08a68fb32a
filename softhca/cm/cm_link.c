// SPDX-License-Identifier: Apache-2.0
/* Builds and repeats the messages of a connection. */
#include "cm_link.h"

#include "../device/clock.h"
#include "../device/device.h"
#include "../device/netdev.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/random.h>

#define RESPONSE_TIMEOUT 20 /* CMA_CM_RESPONSE_TIMEOUT: 4.096 us << 20 */
#define MAX_RETRIES      15 /* CMA_MAX_CM_RETRIES */
#define INTERVAL_MS      4295

void cm_link_choose_numbers(struct cm_id *id)
{
	struct cm *cm = id->file->cm;
	uint32_t random[2] = {};

	if (getrandom(random, sizeof(random), 0) < 0)
		random[0] = (uint32_t)clock_raw_ns();
	if (!cm->next_communication)
		cm->next_communication = random[1];
	id->link.local_id = ++cm->next_communication;
	id->link.own_psn = random[0] & 0xffffff;
}

void cm_link_begin(struct cm_message *m, const struct cm_id *id, enum cm_attribute attribute)
{
	*m = (struct cm_message){
		.attribute = attribute,
		.transaction = id->link.transaction,
		.local_id = id->link.local_id,
		.remote_id = id->link.remote_id,
		.ca_guid = netdev_guid(id->device->config.netdev),
		.response_timeout = RESPONSE_TIMEOUT,
		.max_retries = MAX_RETRIES,
	};
}

void cm_link_send(struct cm_id *id, const struct cm_message *m)
{
	cm_transport_send(id->device, &id->path, m);
}

void cm_link_send_until_answered(struct cm_id *id, const struct cm_message *m)
{
	id->link.sent = *m;
	id->link.interval_ms = INTERVAL_MS;
	id->link.n_left = MAX_RETRIES;
	id->link.deadline_ns = clock_raw_ns() + INTERVAL_MS * 1000000ull;
	cm_link_send(id, m);
	cm_transport_wake(id->file->cm);
}

void cm_link_stop_sending(struct cm_id *id)
{
	id->link.deadline_ns = 0;
}

/* struct cma_hdr: version, IP version, the source's port, the source, the destination. */
void cm_link_put_addresses(const struct cm_id *id, uint8_t to[CM_ADDRESS_BYTES])
{
	bool ipv4 = id->src.any.sa_family == AF_INET;
	uint16_t port = htons(cm_address_port(&id->src));

	memset(to, 0, CM_ADDRESS_BYTES);
	to[1] = ipv4 ? 4 << 4 : 6 << 4;
	memcpy(to + 2, &port, 2);
	cm_address_gid(&id->src, to + 4);
	cm_address_gid(&id->dst, to + 20);
	if (ipv4) { /* IPv4 addresses lie at the end of zeros, and not of a mapped address */
		memset(to + 14, 0, 2);
		memset(to + 30, 0, 2);
	}
}

bool cm_link_get_addresses(struct cm_id *id, const uint8_t from[CM_ADDRESS_BYTES], uint16_t port)
{
	uint8_t gid[2][16];
	uint16_t source_port;

	if (from[0] || (from[1] >> 4 != 4 && from[1] >> 4 != 6))
		return false;
	memcpy(gid[0], from + 4, 16);
	memcpy(gid[1], from + 20, 16);
	for (unsigned int i = 0; i < 2 && from[1] >> 4 == 4; i++)
		memset(gid[i] + 10, 0xff, 2);
	memcpy(&source_port, from + 2, 2);
	cm_address_from_gid(&id->dst, gid[0], ntohs(source_port));
	cm_address_from_gid(&id->src, gid[1], port);
	return true;
}
