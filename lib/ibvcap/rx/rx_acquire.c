// SPDX-License-Identifier: Apache-2.0
/*
 * Acquires and releases batches. Of several queues it takes turns, waits for all of them, and follows each of them to
 * the next epoch.
 */
#include "lib/base/min.h"
#include "lib/base/pause.h"
#include "lib/base/time.h"
#include "lib/ibvcap/client/client.h"
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/client/owner.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/rx/rx.h"
#include "lib/ibvcap/client/sized_struct.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

/* ibvcap_rx_release() reads the fields up to lease, so a caller's batch has at least these. */
#define BATCH_BYTES_MIN (offsetof(struct ibvcap_rx_batch, lease) + sizeof(uint32_t))

#define RX_FEWER   2                  /* the part has fewer rows than wanted, and no more will come */
#define ASK_NS     UINT64_C(20000000) /* while packets come without a pause, how often a new queue is looked for */
#define TAP_NAP_MS 1                  /* the daemon does not wake taps */
#define SLICE_MS   (PAUSE_SLICE_NS / 1000000)

/* ---- one part in turn ---------------------------------------------------------------------------------- */

static bool is_recalled(const struct ibvcap_rx *rx, const struct rx_queue *part)
{
	return rx->is_group && rx_member_is_recalled(part);
}

/* Rows; 0: it has none now; -ENOBUFS: all its leases are taken; -errno. */
static int take_from(struct ibvcap_rx *rx, uint32_t index, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min)
{
	struct rx_queue *part = rx->parts[index];
	int r;

	if (!part || part->reattach.away)
		return 0;
	r = is_recalled(rx, part) ? -ECONNABORTED : rx_queue_try(part, batch, max, min);
	if (r != -ECONNABORTED || !is_recalled(rx, part)) /* it may be recalled and ended just now */
		return r;
	if (!rx_queue_has_batches(part))
		rx_part_drop(rx, index);
	return 0;
}

/* Rows of the next part that has some. Results as of take_from(). */
static int take_in_turn(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min,
                        uint32_t *index)
{
	const uint32_t n = rx->n_parts, first = rx->turn < n ? rx->turn : 0;
	int full = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = first + i < n ? first + i : first + i - n;
		int r = take_from(rx, at, batch, max, min);

		if (r == -ENOBUFS) {
			full = r;
			continue;
		}
		if (r == 0)
			continue;
		rx->turn = at + 1;
		*index = at;
		return r;
	}
	return full;
}

/*
 * A part has reached the next epoch: search for the queues that are new there, and for those that had failed. The
 * search for a queue that the stream no longer has fails. 1 or -errno.
 */
static int follow_queues(struct ibvcap_rx *rx, const struct rx_queue *first)
{
	uint32_t n_queues = u32_min(first->info.n_queues, IBVCAP_QUEUES_MAX);

	if (first->info.epoch == rx->epoch)
		return 1;
	rx->epoch = first->info.epoch;
	rx->failed = 0;
	for (uint32_t i = 0; i < n_queues; i++) {
		struct rx_queue *part;
		int r;

		if (rx->parts[i])
			continue;
		r = rx_part_new(rx, i, &part);
		if (r < 0)
			return r;
		part->reattach.next_flags |= IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN;
		rx_part_put(rx, i, part);
	}
	rx->n_queues = n_queues;
	return 1;
}

/* Give up a queue that has failed; the others go on. 1: done; 0: the caller still holds batches of the queue. */
static int give_up_failed(struct ibvcap_rx *rx, uint32_t index)
{
	const struct rx_queue *part = rx->parts[index];

	if (rx_queue_has_batches(part))
		return 0;
	rx->failed |= rx_queue_failed(part);
	rx_part_drop(rx, index);
	return 1;
}

/* The epoch of the part has ended. 1: the part is in the next epoch, or was given up; 0: not yet; -errno. */
static int step_ended(struct ibvcap_rx *rx, uint32_t index)
{
	struct rx_queue *part = rx->parts[index];
	int r;

	if (rx_queue_failed(part) && (rx->is_group || rx_part_count(rx) > 1))
		return give_up_failed(rx, index);
	if (rx->is_group && !part->reattach.away && !rx_queue_is_removed(part)) {
		if (rx->options.reattach_ms == IBVCAP_NO_REATTACH)
			return error_set(-ESHUTDOWN, "stream '%s': its daemon has ended, or opens its interface again",
			                 rx->shared.stream);
		if (rx_queue_has_batches(part))
			return -ENOBUFS;
		rx_part_drop(rx, index); /* the next daemon shares the queues out anew */
		return 1;
	}
	r = rx_reattach(part, 0);
	if (r == -EINVAL && index > 0) {
		rx_part_drop(rx, index);
		return 1;
	}
	return r == 1 ? follow_queues(rx, part) : r;
}

/*
 * Make the descriptor readable when the part has min rows. 1: look at the parts again; 0: no rows yet; -errno.
 */
static int prepare_part(struct ibvcap_rx *rx, uint32_t index, uint32_t max, uint32_t min)
{
	struct rx_queue *part = rx->parts[index];
	uint64_t target;
	int r;

	if (part->reattach.away)
		return step_ended(rx, index);
	target = part->next + rx_queue_least(part, max, min);
	r = is_recalled(rx, part) ? -ECONNABORTED : waiter_wait(&part->waiter, target, 0, target);
	if (r == -ECONNABORTED && is_recalled(rx, part)) { /* it may be recalled just now */
		rx_member_give_back(rx, index);
		return 0;
	}
	if (r == WAIT_END)
		return consumer_load_head(part->ring) > part->next ? RX_FEWER : step_ended(rx, index);
	return r == WAIT_REACHED ? 1 : r == WAIT_TIME ? 0 : r;
}

/* -ENODEV only when all queues are removed, because the others may still have packets. Else as prepare_part(). */
static int prepare_all(struct ibvcap_rx *rx, uint32_t max, uint32_t min, uint64_t now_ns)
{
	uint32_t n_removed = 0;
	int found = 0, r;

	for (uint32_t i = 0; i < rx->n_parts; i++) {
		r = rx->parts[i] ? prepare_part(rx, i, max, min) : 0;
		n_removed += r == -ENODEV;
		if (r < 0 && r != -ENOBUFS && r != -ENODEV)
			return r;
		if (r > 0 ? r > found : r == -ENOBUFS && found == 0)
			found = r;
	}
	if (n_removed && n_removed == rx_part_count(rx))
		return -ENODEV;
	r = rx_member_ask(rx, now_ns);
	return r == 0 ? found : r;
}

/* ---- acquiring ------------------------------------------------------------------------------------------ */

/* A set that never waits for packets must ask for its next queue from time to time. */
static int look_for_queue(struct ibvcap_rx *rx)
{
	uint64_t now_ns;

	if (!rx->ask)
		return 0;
	now_ns = time_of_clock_ns(CLOCK_MONOTONIC_COARSE);
	return now_ns > rx->asked_ns && now_ns - rx->asked_ns >= ASK_NS ? rx_member_ask(rx, now_ns) : 0;
}

/* 0 or -EINTR. */
static int sleep_on_all(const struct ibvcap_rx *rx, uint64_t ns)
{
	struct pollfd poller = {.fd = rx->shared.poll_fd, .events = POLLIN};
	uint64_t ms = u64_min((ns + 999999) / 1000000, rx->is_tap ? TAP_NAP_MS : SLICE_MS);

	return poll(&poller, 1, (int)ms) < 0 && errno == EINTR ? PAUSE_INTERRUPTED : 0;
}

static bool spin_on_all(const struct ibvcap_rx *rx, uint32_t max, uint32_t min)
{
	for (unsigned spin = 0; spin < PAUSE_SPINS; spin++) {
		for (uint32_t i = 0; i < rx->n_parts; i++) {
			const struct rx_queue *part = rx->parts[i];

			if (part && part->ring &&
			    consumer_load_head(part->ring) >= part->next + rx_queue_least(part, max, min))
				return true;
		}
		pause_briefly();
	}
	return false;
}

static int acquire_from_any(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min,
                            int timeout_ms, uint32_t *index)
{
	uint64_t now_ns, deadline_ns = timeout_ms < 0 ? UINT64_MAX : 0;
	bool has_spun = timeout_ms == 0, fewer = false, is_last;
	int r = look_for_queue(rx);

	while (r >= 0) {
		r = take_in_turn(rx, batch, max, fewer ? 1 : min, index);
		if (r != 0)
			return r;
		now_ns = time_monotonic_ns();
		if (deadline_ns == 0)
			deadline_ns = now_ns + (uint64_t)timeout_ms * 1000000;
		is_last = now_ns >= deadline_ns;
		if (!has_spun) {
			has_spun = true;
			if (spin_on_all(rx, max, min))
				continue;
		}
		r = prepare_all(rx, max, is_last ? 1 : min, now_ns);
		fewer = is_last || r == RX_FEWER;
		if (r == 0 && is_last)
			return 0;
		if (r == 0)
			r = sleep_on_all(rx, deadline_ns - now_ns);
	}
	return r;
}

/* A stream of one queue. The part waits by itself, on its futex word. */
static int acquire_from_one(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min,
                            int timeout_ms)
{
	int r = rx_queue_acquire(rx->parts[0], batch, max, min, timeout_ms), followed = 0;

	if (!rx->parts[0]->reattach.away)
		followed = follow_queues(rx, rx->parts[0]);
	return r == 0 && followed < 0 ? followed : r;
}

/* A tap writes to no shared memory, so a child may use its copy of one. */
static int rx_check_owner(const struct ibvcap_rx *rx)
{
	return rx->is_tap ? 0 : owner_check(rx->shared.owner, rx->shared.stream);
}

/* Rows of any queue. batch->size is checked. */
static int acquire(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min, int timeout_ms)
{
	uint32_t index = 0;
	int r;

	if (max == 0)
		return error_set(-EINVAL, "max is 0: ask for at least one packet");
	if (timeout_ms < -1)
		return error_set(-EINVAL, "timeout_ms is %d: -1 waits for ever, 0 not at all", timeout_ms);
	r = rx_check_owner(rx);
	if (r < 0)
		return r;
	max = u32_min(max, INT32_MAX);
	if (rx->is_single)
		r = rx_queue_acquire(rx->parts[0], batch, max, min, timeout_ms);
	else if (!rx->is_group && rx->n_parts == 1 && rx->n_queues == 1)
		r = acquire_from_one(rx, batch, max, min, timeout_ms);
	else
		r = acquire_from_any(rx, batch, max, min, timeout_ms, &index);
	if (r > 0)
		batch->lease |= index << RX_PART_SHIFT;
	if (r == -ENOBUFS)
		error_set_text(
			"stream '%s': the caller holds as many blocks as it may, or batches of an epoch that has "
			"ended: release some, or attach with more leases (lease_blocks of the options, "
			"extra_lease_blocks of the stream in ibvcapd.conf(5))",
			rx->shared.stream);
	return r;
}

int ibvcap_rx_acquire(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min, int timeout_ms)
{
	int r;

	if (rx->is_tap)
		return error_set(-EOPNOTSUPP, "a tap has no leases: read its packets by ibvcap_rx_recv()");
	r = sized_struct_check(batch, BATCH_BYTES_MIN, "ibvcap_rx_batch");
	if (r < 0)
		return r;
	return acquire(rx, batch, max, min, timeout_ms);
}

int ibvcap_rx_release(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch)
{
	struct rx_queue *giver = rx_giver(rx, batch);
	int r = rx_check_owner(rx);

	if (r < 0)
		return r;
	if (!giver)
		return rx_refuse_batch(rx->shared.stream);
	return rx->is_group ? rx_member_release(rx, batch) : rx_queue_release(giver, batch);
}

/* 1; 0: the row is not to be delivered; -errno. */
static int take_row(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch, void *buffer, size_t bytes,
                    size_t *length, struct ibvcap_meta *meta)
{
	int r = rx_queue_take_row(rx_giver(rx, batch), batch, buffer, bytes, length, meta);

	/* A queue that was taken from this member costs the row, which may be void, and no more. */
	return rx->is_group && rx_member_note_release(rx, batch) && r == -ECONNABORTED ? 0 : r;
}

int ibvcap_rx_recv(struct ibvcap_rx *rx, void *buffer, size_t bytes, size_t *length, struct ibvcap_meta *meta,
                   int timeout_ms)
{
	const uint64_t deadline = timeout_ms > 0 ? time_monotonic_ns() + (uint64_t)timeout_ms * 1000000 : 0;
	struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);
	struct ibvcap_meta copy;
	int r;

	if (rx->options.lend)
		return error_set(-EOPNOTSUPP,
		                 "stream '%s': its payload is in memory of a device: read it there, by "
		                 "ibvcap_rx_acquire()",
		                 rx->shared.stream);
	do {
		r = acquire(rx, &batch, 1, 1, timeout_ms);
		if (r <= 0)
			return r;
		r = take_row(rx, &batch, buffer, bytes, length, &copy);
		if (r < 0)
			return r;
		/* Rows that are passed over do not make the wait longer. */
		if (r == 0 && timeout_ms > 0)
			timeout_ms = client_ms_until(deadline);
	} while (r == 0);
	if (meta)
		*meta = copy;
	return 1;
}

int ibvcap_rx_fd(struct ibvcap_rx *rx)
{
	int r = rx_check_owner(rx);

	if (r == 0 && rx->is_tap)
		r = error_set(-EOPNOTSUPP, "stream '%s': nobody wakes a tap: look at it in intervals",
		              rx->shared.stream);
	return r < 0 ? r : rx_open_poll(rx);
}

/* ---- symbols of what ibvcap.h has inline, for other languages --------------------------------------------- */

extern const uint8_t *ibvcap_rx_payload(const struct ibvcap_rx_batch *batch, uint32_t i);
extern const uint8_t *ibvcap_rx_headers(const struct ibvcap_rx_batch *batch, uint32_t i);
