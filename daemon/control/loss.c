// SPDX-License-Identifier: Apache-2.0
/* Searches the ring's block records backwards for the newest interval in which packets were lost. */
#include "daemon/control/loss.h"

#include "lib/ibvcap/ring.h"

#include <stdbool.h>

#define BLOCKS_MAX 65536u /* blocks to look at: bounds the time of a status */

struct reading {
	uint64_t no_buffer;
	uint64_t at_ns;
};

/* False: the record belongs to another block by now. Reads as a tap does: the record first, then the floor. */
static bool read_block(const struct ibvcap_ring *ring, uint64_t number, struct reading *open, struct reading *close)
{
	const struct ibvcap_block *records = (const void *)((const uint8_t *)ring + ring->blocks_offset);
	uint32_t physical = consumer_load_table(ring, number);

	open->no_buffer = consumer_load_open(&records[physical], &open->at_ns);
	close->no_buffer = consumer_load_close(&records[physical], &close->at_ns);
	return tap_load_floor(ring) <= number;
}

static bool is_loss(const struct reading *before, const struct reading *after, struct loss *loss)
{
	if (after->no_buffer <= before->no_buffer)
		return false;
	*loss = (struct loss){after->no_buffer - before->no_buffer, before->at_ns, after->at_ns};
	return true;
}

/* Backwards from reading to reading, until two differ. */
static void find_loss(const struct ibvcap_ring *ring, struct reading after, struct loss *loss)
{
	uint64_t n = (consumer_load_head(ring) + ring->slots_per_block - 1) / ring->slots_per_block;
	struct reading open, close;

	*loss = (struct loss){0};
	for (uint32_t i = 0; i < BLOCKS_MAX && n > 0 && read_block(ring, n - 1, &open, &close); i++, n--) {
		if (is_loss(&close, &after, loss) || is_loss(&open, &close, loss))
			return;
		after = open;
	}
	/* The ring still has all of its blocks: the packets were lost before the first block. */
	open = (struct reading){0};
	if (n == 0)
		is_loss(&open, &after, loss);
}

const struct loss *loss_find_last(struct loss_memory *memory, const struct ibvcap_ring *ring, uint64_t now_ns)
{
	uint64_t no_buffer = counter_get(&ring->counters[IBVCAP_RX_COUNTER_NO_BUFFER]);

	if (no_buffer != memory->no_buffer) {
		memory->no_buffer = no_buffer;
		find_loss(ring, (struct reading){no_buffer, now_ns}, &memory->last);
	}
	return &memory->last;
}
