// SPDX-License-Identifier: Apache-2.0
/* Lets the control thread look at a few bytes of published rows, as a tap does: it leases nothing. */
#include "daemon/ring/rx_peek.h"

#include "lib/ibvcap/ring.h"

#include <ibvcap/ibvcap.h>
#include <string.h>

#define NO_PAYLOAD (IBVCAP_PACKET_FLAG_ERROR | IBVCAP_PACKET_FLAG_IRREGULAR | IBVCAP_PACKET_FLAG_FRAGMENT)

static const uint8_t *peek_at(const struct rx_ring *ring, uint32_t physical, uint32_t row, uint32_t offset)
{
	uint64_t slot = (uint64_t)physical * ring->slots_per_block + row;
	uint32_t application = ring->application_header_bytes;

	if (offset < application)
		return (const uint8_t *)ring->headers.address + slot * ring->header_stride + ring->header_bytes -
		       application + offset;
	return (const uint8_t *)ring->payload.address + physical * ring->block_bytes + (size_t)row * ring->row_stride +
	       offset - application;
}

bool rx_peek(const struct rx_ring *ring, uint64_t sequence, struct rx_peek_field field, uint8_t *to,
             uint64_t *timestamp_ns)
{
	uint64_t number = sequence / ring->slots_per_block;
	uint32_t row = (uint32_t)(sequence % ring->slots_per_block);
	uint32_t physical = consumer_load_table_at(ring_table(ring->ring), ring->table_mask, number);
	struct ibvcap_meta meta;

	if (sequence >= consumer_load_head(ring->ring) || physical >= ring->n_blocks)
		return false;
	memcpy(&meta, &ring->meta[(uint64_t)physical * ring->slots_per_block + row], sizeof(meta));
	memcpy(to, peek_at(ring, physical, row, field.offset), field.bytes);
	*timestamp_ns = meta.timestamp_ns;
	return meta.timestamp_ns && !(meta.flags & NO_PAYLOAD) &&
	       field.offset + field.bytes <= ring->application_header_bytes + meta.length &&
	       tap_load_floor(ring->ring) <= number;
}
