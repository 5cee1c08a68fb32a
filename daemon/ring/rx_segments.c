// SPDX-License-Identifier: Apache-2.0
/*
 * The memory of a receive ring: its size, its segments and their layout, and the message that says what to do when
 * there are too few pages.
 */
#include "daemon/ring/pages.h"
#include "daemon/ring/rx_ring.h"
#include "lib/base/size.h"

#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static uint64_t meta_offset(uint32_t table_entries)
{
	return round_up(sizeof(struct ibvcap_ring) + table_entries * sizeof(uint32_t), IBVCAP_CURSOR_ALIGN);
}

/* Blocks in the window: the history, and the rows with the device, which need not start at a block's first row. */
static uint32_t window_blocks(const struct rx_ring_options *options)
{
	uint32_t n = options->slots_per_block;

	return options->history_blocks + (options->posted_slots + n - 1) / n + 1;
}

/* A header row begins at a cache line. */
static uint32_t header_stride(const struct rx_ring_options *options)
{
	return (uint32_t)round_up(options->header_bytes, 64);
}

static uint32_t row_stride(const struct rx_ring_options *options)
{
	return options->row_stride ? options->row_stride : options->slot_bytes;
}

static uint64_t block_bytes(const struct rx_ring_options *options)
{
	return round_up((uint64_t)options->slots_per_block * row_stride(options), SMALL_PAGE_BYTES);
}

void rx_ring_size(const struct rx_ring_options *options, uint64_t *payload, uint64_t *headers, uint64_t *ring)
{
	uint64_t n_blocks = (uint64_t)window_blocks(options) + options->spare_blocks;
	uint64_t n_slots = n_blocks * options->slots_per_block;

	*payload = round_up_to_pages(n_blocks * block_bytes(options), options->page_bytes);
	*headers = round_up_to_pages(n_slots * header_stride(options), options->page_bytes);
	*ring = round_up_to_pages(meta_offset(round_up_to_power_of_two(window_blocks(options))) +
	                                  n_slots * sizeof(struct ibvcap_meta),
	                          SMALL_PAGE_BYTES);
}

/* ---- set-up -------------------------------------------------------------------------------------- */

static int rx_ring_explain_no_pages(const struct rx_ring_options *options, uint64_t bytes, const char *segment,
                                    int error, struct failure *failure)
{
	char advice[PAGES_ADVICE_MAX];
	uint64_t payload, headers, ring;

	if (options->page_bytes == SMALL_PAGE_BYTES || error != -ENOMEM)
		return failure_set(failure, EX_OSERR, -error,
		                   "stream '%s': cannot create its %s segment of %llu bytes: %s", options->stream,
		                   segment, (unsigned long long)bytes, strerror(-error));
	rx_ring_size(options, &payload, &headers, &ring);
	uint64_t wanted = (payload + headers) / options->page_bytes;

	return failure_set(failure, EX_TEMPFAIL, ENOMEM,
	                   "stream '%s': its ring wants %llu hugepages of %u kB, the %s segment found too few of them "
	                   "%s; " PAGES_HOLDERS,
	                   options->stream, (unsigned long long)wanted, options->page_bytes / 1024, segment,
	                   pages_advice(advice, options->page_bytes, wanted, "history_blocks"));
}

static int rx_ring_create_segments(struct rx_ring *ring, const struct rx_ring_options *options, struct failure *failure)
{
	uint64_t payload, headers, ring_bytes;
	int r;

	rx_ring_size(options, &payload, &headers, &ring_bytes);
	r = options->flags & IBVCAP_RING_FLAG_LENT
	            ? shm_reserve(&ring->payload, payload)
	            : shm_create(&ring->payload, "ibvcap-payload", payload, options->page_bytes);
	if (r < 0)
		return rx_ring_explain_no_pages(options, payload, "payload", r, failure);
	/* Without header rows, one small page stands for them. */
	r = shm_create(&ring->headers, "ibvcap-headers", headers ? headers : SMALL_PAGE_BYTES,
	               headers ? options->page_bytes : SMALL_PAGE_BYTES);
	if (r < 0)
		return rx_ring_explain_no_pages(options, headers, "headers", r, failure);
	r = shm_create(&ring->ring_shm, "ibvcap-ring", ring_bytes, SMALL_PAGE_BYTES);
	if (r < 0)
		return failure_set(failure, EX_OSERR, -r,
		                   "stream '%s': cannot create its ring segment of %llu bytes: %s", options->stream,
		                   (unsigned long long)ring_bytes, strerror(-r));
	return 0;
}

static int rx_ring_create_private(struct rx_ring *ring)
{
	ring->doorbell = eventfd(0, EFD_CLOEXEC);
	if (ring->doorbell < 0)
		return -errno;
	ring->physical = calloc(ring->table_mask + 1, sizeof(*ring->physical));
	ring->free_blocks = calloc(ring->n_blocks, sizeof(*ring->free_blocks));
	ring->held = calloc(ring->n_blocks, sizeof(*ring->held));
	if (!ring->physical || !ring->free_blocks || !ring->held)
		return -ENOMEM;
	for (uint32_t i = 0; i < ring->n_blocks; i++)
		ring->free_blocks[i] = ring->n_blocks - 1 - i;
	ring->n_free = ring->n_blocks;
	return 0;
}

static void rx_ring_describe(const struct rx_ring *ring, const struct rx_ring_options *options)
{
	struct ibvcap_ring *shared = ring->ring;

	segment_describe(&shared->segment, IBVCAP_RING_MAGIC, ring->ring_shm.bytes, options->epoch);
	shared->slots_per_block = ring->slots_per_block;
	shared->slot_bytes = ring->slot_bytes;
	shared->header_stride = ring->header_stride;
	shared->header_bytes = ring->header_bytes;
	shared->row_stride = ring->row_stride;
	shared->application_header_bytes = ring->application_header_bytes;
	shared->flags = ring->flags;
	shared->n_blocks = ring->n_blocks;
	shared->history_blocks = options->history_blocks;
	shared->table_entries = ring->table_mask + 1;
	shared->lease_blocks_max = options->lease_blocks_max;
	shared->block_bytes = ring->block_bytes;
	shared->payload_segment_bytes = ring->payload.bytes;
	shared->headers_segment_bytes = ring->headers.bytes;
	shared->table_offset = sizeof(struct ibvcap_ring);
	shared->meta_offset = meta_offset(shared->table_entries);
	shared->queue_index = options->queue_index;
	shared->n_queues = options->n_queues;
	shared->page_bytes = options->page_bytes;
	shared->counters_n = IBVCAP_RX_COUNTER_N;
	shared->sequence = options->sequence;
	snprintf(shared->stream, sizeof(shared->stream), "%s", options->stream);
	segment_set_ready(&shared->segment);
}

int rx_ring_init(struct rx_ring *ring, const struct rx_ring_options *options, struct failure *failure)
{
	uint64_t n_slots = ((uint64_t)window_blocks(options) + options->spare_blocks) * options->slots_per_block;
	int r;

	*ring = (struct rx_ring){
		.payload = SHM_INIT,
		.headers = SHM_INIT,
		.ring_shm = SHM_INIT,
		.doorbell = -1,
		.block_bytes = block_bytes(options),
		.slot_bytes = options->slot_bytes,
		.row_stride = row_stride(options),
		.slots_per_block = options->slots_per_block,
		.header_stride = header_stride(options),
		.header_bytes = options->header_bytes,
		.application_header_bytes = options->application_header_bytes,
		.flags = options->flags,
		.n_blocks = window_blocks(options) + options->spare_blocks,
		.posted_slots = options->posted_slots,
		.live_blocks_max = window_blocks(options),
		.table_mask = round_up_to_power_of_two(window_blocks(options)) - 1,
	};
	if (options->slots_per_block == 0 || options->slots_per_block % IBVCAP_BLOCK_SLOTS_MIN ||
	    !options->slot_bytes || ring->row_stride < options->slot_bytes ||
	    options->application_header_bytes > options->header_bytes ||
	    options->lease_blocks_max > IBVCAP_LEASE_SLOTS_MAX || n_slots > UINT32_MAX)
		return failure_set(
			failure, EX_CONFIG, EINVAL,
			"stream '%s': no ring has this geometry: slots_per_block %u, rows of %u bytes each %u, %llu "
			"slots in all (at most %u)",
			options->stream, options->slots_per_block, options->slot_bytes, ring->row_stride,
			(unsigned long long)n_slots, UINT32_MAX);
	r = rx_ring_create_segments(ring, options, failure);
	if (r < 0)
		goto fail;
	ring->ring = ring->ring_shm.address;
	r = rx_ring_create_private(ring);
	if (r < 0) {
		failure_set(failure, EX_OSERR, -r, "stream '%s': its ring cannot be made: %s", options->stream,
		            strerror(-r));
		goto fail;
	}
	rx_ring_describe(ring, options);
	ring->meta = ring_meta(ring->ring);
	return 0;

fail:
	rx_ring_deinit(ring);
	return r;
}

int rx_ring_seal(struct rx_ring *ring, struct failure *failure)
{
	struct shm *const segments[] = {&ring->payload, &ring->headers, &ring->ring_shm};

	for (size_t i = 0; i < sizeof(segments) / sizeof(segments[0]); i++) {
		int r = segments[i]->fd < 0 ? 0 : shm_seal_readonly(segments[i]);

		if (r < 0)
			return failure_set(failure, EX_OSERR, -r, "stream '%s': cannot seal its memory read-only: %s",
			                   ring->ring->stream, strerror(-r));
	}
	return 0;
}

void rx_ring_deinit(struct rx_ring *ring)
{
	shm_deinit(&ring->payload);
	shm_deinit(&ring->headers);
	shm_deinit(&ring->ring_shm);
	if (ring->ring && ring->doorbell >= 0)
		close(ring->doorbell);
	free(ring->physical);
	free(ring->free_blocks);
	free(ring->held);
	ring->ring = NULL;
	ring->meta = NULL;
	ring->physical = NULL;
	ring->free_blocks = NULL;
	ring->held = NULL;
}
