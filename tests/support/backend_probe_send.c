// SPDX-License-Identifier: Apache-2.0
/* Commands of a queue that sends. */
#include "tests/support/backend_probe.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define PACKETS_MAX 1024
#define RUNS_MAX    16

/* to DESTINATION PORT SOURCE SOURCE_PORT MAC VLAN DSCP HOP_LIMIT CHECKSUMS: of the packets from now on (0 to 2, as enum
 * packet_checksums) */
static void command_to(struct probe *probe, char *arguments)
{
	char destination_text[64], source_text[64];
	struct config_address destination, source;
	struct packet_route route;
	unsigned checksums;
	uint8_t *mac = route.destination_mac;
	int n = sscanf(arguments, "%63s %hu %63s %hu %hhx:%hhx:%hhx:%hhx:%hhx:%hhx %d %hhu %hhu %u", destination_text,
	               &route.destination_port, source_text, &route.source_port, &mac[0], &mac[1], &mac[2], &mac[3],
	               &mac[4], &mac[5], &route.vlan, &route.dscp, &route.hop_limit, &checksums);

	memcpy(route.source_mac, probe->interface.mac, sizeof(route.source_mac));
	if (n != 14 || !parse_address(destination_text, &destination) || !parse_address(source_text, &source)) {
		answer(-EINVAL);
		return;
	}
	route.family = destination.family;
	memcpy(route.destination, destination.address, sizeof(route.destination));
	memcpy(route.source, source.address, sizeof(route.source));
	answer(packet_template_init(&probe->template, &route, (enum packet_checksums)checksums) ? 0 : -EINVAL);
}

/* A packet in the next row. Payload byte i is (uint8_t)(i + seed). */
static void build(struct probe *probe, struct backend_packet *packet, uint32_t bytes, uint32_t seed)
{
	uint8_t *headers = probe->headers + (size_t)probe->next_row * HEADER_STRIDE;
	uint8_t *payload = probe->payload + (size_t)probe->next_row * probe->options.slot_bytes;

	for (uint32_t i = 0; i < bytes; i++)
		payload[i] = (uint8_t)(i + seed);
	packet_write_headers(&probe->template, headers, payload, bytes, probe->n_built++);
	*packet = (struct backend_packet){
		.headers = headers,
		.payload = bytes ? payload : NULL,
		.payload_memory = bytes ? probe->payload_memory : NULL,
		.header_bytes = probe->template.header_bytes,
		.payload_bytes = bytes,
	};
	probe->next_row = (probe->next_row + 1) % probe->n_rows;
}

/* n packets in one call; that number `bad` lies where the device may not read. */
static void send_packets(struct probe *probe, uint32_t n, uint32_t bytes, uint32_t seed, uint32_t bad)
{
	static struct backend_packet packets[PACKETS_MAX];
	int posted;

	if (n > PACKETS_MAX || bytes > probe->options.slot_bytes) {
		answer(-EINVAL);
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		build(probe, &packets[i], bytes, seed + i);
		if (i == bad)
			packets[i].payload = probe->payload + probe->payload_bytes;
	}
	posted = probe->queue->ops->send_post(probe->queue, packets, n);
	if (posted < 0)
		answer(posted);
	else
		printf("{\"error\": 0, \"posted\": %d}\n", posted);
}

/* send N BYTES SEED: the pattern of packet k starts at SEED + k */
static void command_send(struct probe *probe, char *arguments)
{
	uint32_t n = 0, bytes = 0, seed = 0;

	if (sscanf(arguments, "%u %u %u", &n, &bytes, &seed) == 3)
		send_packets(probe, n, bytes, seed, PACKETS_MAX);
	else
		answer(-EINVAL);
}

/* send_unregistered N BYTES BAD: number BAD of N is refused by the device */
static void command_send_unregistered(struct probe *probe, char *arguments)
{
	uint32_t n = 0, bytes = 0, bad = 0;

	if (sscanf(arguments, "%u %u %u", &n, &bytes, &bad) == 3)
		send_packets(probe, n, bytes, 0, bad);
	else
		answer(-EINVAL);
}

/* reap N MS: until N packets are done, or an error, or MS milliseconds passed */
static void command_reap(struct probe *probe, char *arguments)
{
	struct backend_sent runs[RUNS_MAX];
	uint32_t wanted = 0, n = 0, ms = 0;
	const char *between = "";
	int got = 0;

	if (sscanf(arguments, "%u %u", &wanted, &ms) != 2) {
		answer(-EINVAL);
		return;
	}
	uint64_t deadline_ns = now_ns(CLOCK_MONOTONIC) + ms * 1000000ull;

	printf("{\"runs\": [");
	while (n < wanted && got >= 0 && now_ns(CLOCK_MONOTONIC) < deadline_ns) {
		got = probe->queue->ops->send_reap(probe->queue, runs, RUNS_MAX);
		for (int i = 0; i < got; i++, between = ", ") {
			printf("%s[%u, %u]", between, runs[i].n, runs[i].status);
			n += runs[i].n;
		}
	}
	printf("], \"error\": %d}\n", got < 0 ? got : 0);
}

const struct probe_command probe_send_commands[] = {
	{"to", command_to},
	{"send", command_send},
	{"send_unregistered", command_send_unregistered},
	{"reap", command_reap},
	{0},
};
