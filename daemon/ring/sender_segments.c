// SPDX-License-Identifier: Apache-2.0
/*
 * The memory of a sender: its size, its segments and their layout, and the message that says what to do when there are
 * too few pages.
 */
#include "daemon/ring/pages.h"
#include "daemon/ring/sender.h"
#include "lib/base/size.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void sender_size(const struct sender_options *options, uint64_t *arena, uint64_t *page, uint64_t *state)
{
	uint64_t n = options->n_slots;

	*arena = round_up_to_pages(n * options->slot_bytes, options->page_bytes);
	*page = round_up_to_pages(sizeof(struct ibvcap_sender_page) + n * sizeof(struct ibvcap_tx_descriptor),
	                          SMALL_PAGE_BYTES);
	*state = round_up_to_pages(sizeof(struct ibvcap_sender_state) + n * sizeof(int32_t), SMALL_PAGE_BYTES);
}

static int sender_create_segment(struct shm *shm, const char *name, uint64_t bytes, uint32_t page_bytes,
                                 const struct sender_options *options, struct failure *failure)
{
	char advice[PAGES_ADVICE_MAX];
	int r = shm_create(shm, name, bytes, page_bytes);

	if (r == -ENOMEM && page_bytes != SMALL_PAGE_BYTES)
		return failure_set(failure, EX_TEMPFAIL, ENOMEM,
		                   "channel '%s': a sender's arena of %u slots wants %llu hugepages of %u kB and found "
		                   "too few of them %s",
		                   options->channel, options->n_slots, (unsigned long long)bytes / page_bytes,
		                   page_bytes / 1024,
		                   pages_advice(advice, page_bytes, bytes / page_bytes, "arena_slots"));
	if (r < 0)
		return failure_set(failure, EX_OSERR, -r, "channel '%s': cannot create a sender's %s of %llu bytes: %s",
		                   options->channel, name, (unsigned long long)bytes, strerror(-r));
	return 0;
}

static int sender_create_segments(struct sender *sender, const struct sender_options *options, struct failure *failure)
{
	uint64_t arena, page, state;
	int r;

	sender_size(options, &arena, &page, &state);
	r = sender_create_segment(&sender->arena, "ibvcap-arena", arena, options->page_bytes, options, failure);
	if (r == 0)
		r = sender_create_segment(&sender->page_shm, "ibvcap-sender-page", page, SMALL_PAGE_BYTES, options,
		                          failure);
	if (r == 0)
		r = sender_create_segment(&sender->state_shm, "ibvcap-sender-state", state, SMALL_PAGE_BYTES, options,
		                          failure);
	return r;
}

static void sender_describe(struct sender *sender, const struct sender_options *options)
{
	struct ibvcap_sender_state *state = sender->state;

	state->n_slots = options->n_slots;
	state->slot_bytes = options->slot_bytes;
	state->n_destinations = options->n_destinations;
	state->counters_n = IBVCAP_TX_COUNTER_N;
	state->arena_segment_bytes = sender->arena.bytes;
	state->page_segment_bytes = sender->page_shm.bytes;
	state->descriptors_offset = sizeof(struct ibvcap_sender_page);
	state->statuses_offset = sizeof(struct ibvcap_sender_state);
	state->rate_bps = options->rate_bps;
	state->burst_bytes = options->burst_bytes;
	state->page_bytes = options->page_bytes;
	state->late_after_ns = options->late_after_ns;
	snprintf(state->channel, sizeof(state->channel), "%s", options->channel);
	segment_describe(&state->segment, IBVCAP_SENDER_STATE_MAGIC, sender->state_shm.bytes, options->epoch);
	segment_describe(&sender->page->segment, IBVCAP_SENDER_PAGE_MAGIC, sender->page_shm.bytes, options->epoch);
	segment_set_ready(&state->segment);
	segment_set_ready(&sender->page->segment);
}

int sender_init(struct sender *sender, const struct sender_options *options, struct failure *failure)
{
	uint32_t n = options->n_slots;
	int r;

	*sender = (struct sender){.arena = SHM_INIT,
	                          .page_shm = SHM_INIT,
	                          .state_shm = SHM_INIT,
	                          .kick = SENDER_KICK_INIT,
	                          .socket = -1,
	                          .kick_credit = SENDER_KICK_CREDIT,
	                          .n_slots = n,
	                          .slot_bytes = options->slot_bytes};
	if (n < IBVCAP_TX_SLOTS_MIN || n > IBVCAP_TX_SLOTS_MAX || (n & (n - 1)) || options->slot_bytes == 0 ||
	    options->slot_bytes > UINT16_MAX)
		return failure_set(
			failure, EX_CONFIG, EINVAL,
			"channel '%s': no arena has %u slots of %u bytes: arena_slots is a power of two from "
			"%u to %u, payload_size at most %u",
			options->channel, n, options->slot_bytes, IBVCAP_TX_SLOTS_MIN, IBVCAP_TX_SLOTS_MAX, UINT16_MAX);
	r = sender_create_segments(sender, options, failure);
	if (r < 0)
		goto fail;
	sender->state = sender->state_shm.address;
	sender->page = sender->page_shm.address;
	sender->descriptors = (const struct ibvcap_tx_descriptor *)(const void *)(sender->page + 1);
	sender->statuses = (int32_t *)(void *)(sender->state + 1);
	sender_describe(sender, options);
	r = shm_fix_size(&sender->arena);
	if (r == 0)
		r = shm_fix_size(&sender->page_shm);
	if (r == 0)
		r = shm_seal_readonly(&sender->state_shm);
	if (r < 0) {
		failure_set(failure, EX_OSERR, -r, "channel '%s': cannot seal a sender's memory: %s", options->channel,
		            strerror(-r));
		goto fail;
	}
	return 0;

fail:
	sender_deinit(sender);
	return r;
}

int sender_seal(struct sender *sender)
{
	int r = shm_seal_mapped(&sender->arena);

	return r == 0 ? shm_seal_mapped(&sender->page_shm) : r;
}

void sender_deinit(struct sender *sender)
{
	shm_deinit(&sender->arena);
	shm_deinit(&sender->page_shm);
	shm_deinit(&sender->state_shm);
}
