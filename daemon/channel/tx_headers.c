// SPDX-License-Identifier: Apache-2.0
/* Checks a channel's keys about addresses, MTU and checksums, and fills in the header template of a destination. */
#include "daemon/channel/tx_headers.h"

#include "daemon/base/log.h"
#include "daemon/memory/geometry.h"
#include "daemon/packet/packet_fragment.h"
#include "daemon/worker/tx_queue.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

static bool tx_headers_has_ipv6(const struct config_channel *channel)
{
	for (uint32_t i = 0; i < channel->n_destinations; i++)
		if (channel->destinations[i].address.family == AF_INET6)
			return true;
	return false;
}

/* IPv6 has the longer headers, and so needs the more fragments. */
static int tx_headers_check_cut(const struct config_channel *channel, const struct net_interface *interface,
                                struct failure *failure)
{
	bool ipv6 = tx_headers_has_ipv6(channel);
	struct packet_cut cut;

	packet_cut_init(&cut, ipv6, channel->payload_size, interface->mtu);
	if (cut.n > 0 && cut.n <= TX_QUEUE_FRAGMENTS_MAX)
		return 0;
	return failure_set(failure, EX_CONFIG, EMSGSIZE,
	                   "%s:%d: channel '%s': payload_size = %u makes packets of more than %u IP fragments, and the "
	                   "MTU of %s is %u: accepted is payload_size = %u or less, or 'ip link set %s mtu %u'",
	                   channel->file, channel->line, channel->name, channel->payload_size, TX_QUEUE_FRAGMENTS_MAX,
	                   channel->interface, interface->mtu,
	                   packet_cut_payload_max(ipv6, interface->mtu, TX_QUEUE_FRAGMENTS_MAX), channel->interface,
	                   packet_cut_mtu_min(ipv6, channel->payload_size, TX_QUEUE_FRAGMENTS_MAX));
}

/* No error, because an address that moves between machines (a failover) may be on another machine now. */
static void tx_headers_check_source(const struct config_channel *channel, const struct net_interface *interface)
{
	char text[INET6_ADDRSTRLEN] = "";

	if (channel->source.family == AF_UNSPEC || net_has_address(interface->index, &channel->source))
		return;
	inet_ntop(channel->source.family, channel->source.address, text, sizeof(text));
	log_warning("%s:%d: channel '%s': source %s is no address of this machine: answers go elsewhere", channel->file,
	            channel->line, channel->name, text);
}

int tx_headers_check(const struct config_channel *channel, const struct net_interface *interface,
                     struct failure *failure)
{
	uint32_t needed = geometry_sent_packet_bytes(channel), headers = needed - channel->payload_size;

	if (needed > interface->mtu && channel->fragment == CONFIG_FRAGMENT_OFF)
		return failure_set(
			failure, EX_CONFIG, EMSGSIZE,
			"%s:%d: channel '%s': payload_size = %u makes packets of %u bytes, and the MTU of %s is %u: "
			"accepted is payload_size = %u or less, fragment = \"auto\", or 'ip link set %s mtu %u'",
			channel->file, channel->line, channel->name, channel->payload_size, needed, channel->interface,
			interface->mtu, interface->mtu > headers ? interface->mtu - headers : 0, channel->interface,
			needed);
	if (needed > interface->mtu && tx_headers_check_cut(channel, interface, failure) < 0)
		return -EMSGSIZE;
	tx_headers_check_source(channel, interface);
	return 0;
}

int tx_headers_checksums(const struct config_channel *channel, const struct backend_capabilities *capabilities,
                         bool cuts, enum packet_checksums *checksums, struct failure *failure)
{
	switch (channel->udp_checksum) {
	case CONFIG_UDP_CHECKSUM_DEVICE:
		if (!capabilities->send_checksums)
			return failure_set(
				failure, EX_CONFIG, ENOTSUP,
				"%s:%d: channel '%s': udp_checksum = \"device\", and device %s of %s fills in none: "
				"accepted is \"auto\" or \"software\"%s",
				channel->file, channel->line, channel->name, capabilities->device, channel->interface,
				tx_headers_has_ipv6(channel) ? "" : ", or \"zero\"");
		*checksums = PACKET_CHECKSUMS_DEVICE;
		return 0;
	case CONFIG_UDP_CHECKSUM_ZERO:
		*checksums = PACKET_CHECKSUMS_ZERO;
		return 0;
	case CONFIG_UDP_CHECKSUM_SOFTWARE:
		*checksums = PACKET_CHECKSUMS_SOFTWARE;
		return 0;
	case CONFIG_UDP_CHECKSUM_AUTO:
		break;
	}
	*checksums = capabilities->send_checksums           ? PACKET_CHECKSUMS_DEVICE
	             : cuts || tx_headers_has_ipv6(channel) ? PACKET_CHECKSUMS_SOFTWARE
	                                                    : PACKET_CHECKSUMS_ZERO;
	return 0;
}

void tx_headers_want(const struct config_channel *channel, uint32_t index, unsigned interface_index,
                     struct neighbour_wanted *wanted)
{
	const struct config_destination *destination = &channel->destinations[index];

	*wanted = (struct neighbour_wanted){
		.interface_index = interface_index,
		.destination = destination->address,
		.source = channel->source,
		.has_mac = destination->has_next_hop_mac,
	};
	memcpy(wanted->mac, destination->next_hop_mac, sizeof(wanted->mac));
}

/* 0, or the reason why no packet can be sent there now. */
static int32_t tx_headers_find_error(const struct config_channel *channel, const struct config_destination *destination,
                                     bool cuts, const struct next_hop *next_hop)
{
	uint32_t packet_bytes = channel->payload_size + geometry_ip_udp_bytes(destination->address.family);

	if (next_hop->state == NEXT_HOP_LINK_DOWN)
		return -ENETDOWN;
	if (next_hop->state != NEXT_HOP_READY || next_hop->source.family != destination->address.family)
		return -EHOSTUNREACH;
	return packet_bytes > next_hop->mtu && !cuts ? -EMSGSIZE : 0;
}

void tx_headers_make(const struct config_channel *channel, uint32_t index, enum packet_checksums checksums, bool cuts,
                     const struct next_hop *next_hop, struct tx_queue_destination *destination)
{
	const struct config_destination *to = &channel->destinations[index];
	struct packet_route route = {
		.family = to->address.family,
		.destination_port = to->port,
		.source_port = channel->source_port,
		.vlan = channel->vlan,
		.dscp = channel->dscp,
		.hop_limit = config_ttl(channel, to),
	};

	memset(destination, 0, sizeof(*destination));
	destination->error = tx_headers_find_error(channel, to, cuts, next_hop);
	if (destination->error)
		return;
	memcpy(route.destination_mac, next_hop->mac, sizeof(route.destination_mac));
	memcpy(route.source_mac, next_hop->source_mac, sizeof(route.source_mac));
	memcpy(route.destination, to->address.address, sizeof(route.destination));
	memcpy(route.source, next_hop->source.address, sizeof(route.source));
	destination->mtu = cuts ? next_hop->mtu : 0;
	if (!packet_template_init(&destination->headers, &route, checksums))
		destination->error = -EHOSTUNREACH; /* the checks of the configuration exclude it */
}
