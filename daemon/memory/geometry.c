// SPDX-License-Identifier: Apache-2.0
/* Translates the keys of a stream or a channel into the options, and so the sizes, of its shared memory. */
#include "daemon/memory/geometry.h"

#include "daemon/flow/flow.h"
#include "daemon/ring/sender.h"
#include "lib/base/min.h"

#define IPV4_UDP_BYTES     28
#define IPV6_UDP_BYTES     48
#define IPV6_HEADERS_BYTES 62 /* and the Ethernet header; with IPv4 and a VLAN tag there are fewer */
#define JUMBO_MTU          9000
#define ETHERNET_BYTES_MAX 22  /* with two VLAN tags */
#define COPIED_SLOTS       128 /* two batches of a worker */

static uint32_t geometry_header_bytes(const struct config_stream *stream)
{
	uint32_t network_bytes = stream->layout == CONFIG_LAYOUT_FRAME ? 0 : flow_header_bytes(&stream->flows[0]);

	return network_bytes + stream->application_header_bytes;
}

static uint32_t geometry_ring_flags(const struct config_stream *stream)
{
	return (stream->layout == CONFIG_LAYOUT_FRAME ? IBVCAP_RING_FLAG_FRAMES : 0) |
	       (stream->zero_rest ? IBVCAP_RING_FLAG_ZERO_REST : 0) |
	       (stream->flow_numbers ? IBVCAP_RING_FLAG_FLOWS : 0) |
	       (stream->payload_is_lent ? IBVCAP_RING_FLAG_LENT : 0);
}

uint32_t geometry_posted_slots(const struct config_stream *stream, bool copies)
{
	bool few = copies && stream->lossless_deadline_ms == 0 && stream->receive_queue_slots > COPIED_SLOTS;

	return few ? COPIED_SLOTS : stream->receive_queue_slots;
}

struct rx_ring_options geometry_of_ring(const struct config_stream *stream, bool copies, uint32_t queue, uint64_t epoch)
{
	return (struct rx_ring_options){
		.stream = stream->name,
		.epoch = epoch,
		.slot_bytes = stream->payload_size - stream->application_header_bytes,
		.row_stride = stream->row_stride,
		.slots_per_block = stream->slots_per_block,
		.header_bytes = geometry_header_bytes(stream),
		.application_header_bytes = stream->application_header_bytes,
		.flags = geometry_ring_flags(stream),
		.history_blocks = stream->history_blocks,
		.posted_slots = geometry_posted_slots(stream, copies),
		.spare_blocks = stream->max_consumers * stream->lease_blocks + stream->extra_lease_blocks,
		.lease_blocks_max = u32_min(stream->lease_blocks + stream->extra_lease_blocks, IBVCAP_LEASE_SLOTS_MAX),
		.page_bytes = stream->page_bytes,
		.queue_index = queue,
		.n_queues = stream->queues,
		.sequence = stream->sequence,
	};
}

uint64_t geometry_ring_bytes(const struct config_stream *stream, bool copies)
{
	const struct rx_ring_options options = geometry_of_ring(stream, copies, 0, 0);
	uint64_t payload, headers, ring;

	rx_ring_size(&options, &payload, &headers, &ring);
	return stream->queues * ((stream->payload_is_lent ? 0 : payload) + headers);
}

uint64_t geometry_lent_bytes(const struct config_stream *stream)
{
	const struct rx_ring_options options = geometry_of_ring(stream, false, 0, 0);
	uint64_t payload, headers, ring;

	rx_ring_size(&options, &payload, &headers, &ring);
	return payload;
}

uint32_t geometry_ip_udp_bytes(sa_family_t family)
{
	return family == AF_INET6 ? IPV6_UDP_BYTES : IPV4_UDP_BYTES;
}

uint32_t geometry_sent_packet_bytes(const struct config_channel *channel)
{
	uint32_t headers = 0;

	for (uint32_t i = 0; i < channel->n_destinations; i++) {
		uint32_t bytes = geometry_ip_udp_bytes(channel->destinations[i].address.family);

		headers = bytes > headers ? bytes : headers;
	}
	return channel->payload_size + headers;
}

static uint32_t geometry_frame_mtu(uint32_t mtu)
{
	return mtu > JUMBO_MTU ? mtu : JUMBO_MTU;
}

uint32_t geometry_cut_bytes(const struct config_channel *channel, uint32_t mtu)
{
	bool cuts = channel->fragment == CONFIG_FRAGMENT_AUTO && geometry_sent_packet_bytes(channel) > mtu;

	return cuts ? geometry_frame_mtu(mtu) : 0;
}

/* The MTU does not count a frame's Ethernet header and VLAN tags. */
uint32_t geometry_packet_bytes(const struct config_stream *stream)
{
	bool ipv6 = flow_header_bytes(&stream->flows[0]) >= IPV6_HEADERS_BYTES;

	if (stream->layout == CONFIG_LAYOUT_UDP)
		return stream->payload_size + geometry_ip_udp_bytes(ipv6 ? AF_INET6 : AF_INET);
	return stream->payload_size > ETHERNET_BYTES_MAX ? stream->payload_size - ETHERNET_BYTES_MAX : 0;
}

bool geometry_reassembles(const struct config_stream *stream, uint32_t mtu)
{
	return stream->layout == CONFIG_LAYOUT_UDP &&
	       (stream->reassemble == CONFIG_REASSEMBLE_ON ||
	        (stream->reassemble == CONFIG_REASSEMBLE_AUTO && geometry_packet_bytes(stream) > mtu));
}

uint32_t geometry_reassembled_frame_bytes(uint32_t mtu)
{
	return geometry_frame_mtu(mtu) + ETHERNET_BYTES_MAX;
}

uint32_t geometry_received_bytes(const struct config_stream *stream, uint32_t mtu)
{
	if (geometry_reassembles(stream, mtu))
		return geometry_reassembled_frame_bytes(mtu);
	return geometry_header_bytes(stream) + stream->payload_size - stream->application_header_bytes;
}

uint64_t geometry_arena_bytes(const struct config_channel *channel)
{
	const struct sender_options options = {.n_slots = channel->arena_slots,
	                                       .slot_bytes = channel->payload_size,
	                                       .page_bytes = channel->page_bytes};
	uint64_t arena, page, state;

	sender_size(&options, &arena, &page, &state);
	return arena;
}
