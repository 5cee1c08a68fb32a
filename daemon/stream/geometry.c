// SPDX-License-Identifier: Apache-2.0
/* Translates the keys of a stream or a channel into the options, and so the sizes, of its shared memory. */
#include "daemon/stream/geometry.h"

#include "daemon/flow/flow.h"
#include "daemon/ring/sender.h"

struct rx_ring_options geometry_of_ring(const struct config_stream *stream, uint32_t queue, uint64_t epoch)
{
	return (struct rx_ring_options){
		.stream = stream->name,
		.epoch = epoch,
		.slot_bytes = stream->payload_size,
		.slots_per_block = stream->slots_per_block,
		.header_bytes = flow_header_bytes(&stream->flows[0]),
		.history_blocks = stream->history_blocks,
		.receive_queue_slots = stream->receive_queue_slots,
		.spare_blocks = stream->max_consumers * stream->lease_blocks,
		.lease_blocks_max = stream->lease_blocks,
		.page_bytes = stream->page_bytes,
		.queue_index = queue,
		.n_queues = stream->queues,
		.sequence = stream->sequence,
	};
}

uint64_t geometry_ring_bytes(const struct config_stream *stream)
{
	const struct rx_ring_options options = geometry_of_ring(stream, 0, 0);
	uint64_t payload, headers, ring;

	rx_ring_size(&options, &payload, &headers, &ring);
	return stream->queues * (payload + headers);
}

uint32_t geometry_row_bytes(const struct config_stream *stream)
{
	return flow_header_bytes(&stream->flows[0]) + stream->payload_size;
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
