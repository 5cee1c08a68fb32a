// SPDX-License-Identifier: Apache-2.0
/*
 * Each change that the neighbour table reports of a next hop becomes new headers for the worker and, if the destination
 * became reachable or unreachable, a log line.
 */
#include "daemon/channel/channel.h"

#include "daemon/base/log.h"
#include "daemon/channel/tx_headers.h"
#include "daemon/packet/identifications.h"
#include "daemon/port/interface_tx.h"
#include "daemon/state/state.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *channel_destination_explain(const struct channel *channel, int32_t error,
                                               const struct next_hop *next_hop, char *why, size_t bytes)
{
	const char *interface = channel->config->interface;

	if (error != -EMSGSIZE)
		return next_hop_explain(next_hop, interface, why, bytes);
	snprintf(why, bytes, "the MTU of %s is %u now, too little for payload_size %u: 'ip link set dev %s mtu MTU'%s",
	         interface, next_hop->mtu, channel->config->payload_size, interface,
	         channel->config->fragment == CONFIG_FRAGMENT_OFF
	                 ? ""
	                 : ", or restart the daemon, which then cuts what is too long into IP fragments (fragment)");
	return why;
}

/*
 * The log has only changes between reachable and unreachable. If a destination changes again and again, it has the
 * 1st, 2nd, 4th, 8th … change, so that the destination cannot fill the log.
 */
static void channel_destination_tell(struct channel_destination *destination, int32_t error,
                                     const struct next_hop *next_hop)
{
	const struct channel *channel = destination->channel;
	const struct config_destination *to = &channel->config->destinations[destination->index];
	char address[INET6_ADDRSTRLEN] = "", why[256];

	if (next_hop->state == NEXT_HOP_ASKED_FOR || (error == 0 && destination->n_told == 0))
		return;
	destination->n_told++;
	if (destination->n_told & (destination->n_told - 1))
		return;
	inet_ntop(to->address.family, to->address.address, address, sizeof(address));
	if (error == 0)
		log_message(LOG_NOTICE,
		            &(struct log_about){.event = LOG_EVENT_DESTINATION_FOUND, .channel = channel->config->name},
		            "channel '%s': destination %s port %u can be sent to", channel->config->name, address,
		            to->port);
	else
		log_message(LOG_WARNING,
		            &(struct log_about){.event = LOG_EVENT_DESTINATION_LOST, .channel = channel->config->name},
		            "channel '%s': destination %s port %u: %s", channel->config->name, address, to->port,
		            channel_destination_explain(channel, error, next_hop, why, sizeof(why)));
}

static void on_changed(void *context, const struct next_hop *next_hop)
{
	struct channel_destination *destination = context;
	struct channel *channel = destination->channel;
	const struct config_address *to = &channel->config->destinations[destination->index].address;
	struct tx_queue_destination now;

	tx_headers_make(channel->config, destination->index, channel->checksums, channel->cut_bytes != 0, next_hop,
	                &now);
	if (channel->cut_bytes && now.error == 0)
		now.identification =
			identifications_find(channel->tx->daemon->identifications, next_hop->source.address,
		                             to->address, to->family == AF_INET6 ? 16 : 4);
	if (destination->state != next_hop->state || destination->now.error != now.error)
		channel_destination_tell(destination, now.error, next_hop);
	destination->state = next_hop->state;
	channel_set_destination(channel, destination->index, &now);
}

static int channel_destination_watch(struct channel *channel, uint32_t i, struct neighbours *neighbours)
{
	struct channel_destination *destination = &channel->destinations[i];
	struct neighbour_wanted wanted;
	int r;

	tx_headers_want(channel->config, i, channel->interface->net.index, &wanted);
	wanted.changed = on_changed;
	wanted.context = destination;
	destination->channel = channel;
	destination->index = i;
	destination->state = NEXT_HOP_ASKED_FOR;
	r = neighbours_add(neighbours, &wanted, &destination->neighbour);
	if (r == 0)
		on_changed(destination, neighbour_next_hop(destination->neighbour));
	return r;
}

int channel_destinations_watch(struct channel *channel, struct neighbours *neighbours, struct failure *failure)
{
	int r = 0;

	for (uint32_t i = 0; i < channel->config->n_destinations && r == 0; i++)
		r = channel_destination_watch(channel, i, neighbours);
	return r == 0 ? 0
	              : failure_set(failure, EX_OSERR, -r, "channel '%s': its destinations cannot be looked up: %s",
	                            channel->config->name, strerror(-r));
}

void channel_destinations_forget(struct channel *channel)
{
	for (uint32_t i = 0; channel->destinations && i < channel->config->n_destinations; i++) {
		neighbours_remove(channel->destinations[i].neighbour);
		channel->destinations[i].neighbour = NULL;
	}
}
