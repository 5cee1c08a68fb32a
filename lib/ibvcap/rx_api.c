// SPDX-License-Identifier: Apache-2.0
/* The calls on a receive handle: each goes to its one queue, or to the set of its queues. */
#include "lib/base/time.h"
#include "lib/ibvcap/error.h"
#include "lib/ibvcap/owner.h"
#include "lib/ibvcap/rx.h"
#include "lib/ibvcap/rx_set.h"
#include "lib/ibvcap/sized_struct.h"

#include <errno.h>
#include <stdlib.h>

/* ibvcap_rx_release() reads the fields up to lease, so a caller's batch has at least these. */
#define BATCH_BYTES_MIN (offsetof(struct ibvcap_rx_batch, lease) + sizeof(uint32_t))

/* ---- life ---------------------------------------------------------------------------------------------- */

static int open_set(const char *path, const char *stream, const struct ibvcap_rx_options *options,
                    struct ibvcap_rx **rx)
{
	struct ibvcap_rx *new;
	int r = rx_handle_new_empty(&new);

	if (r < 0)
		return r;
	r = owner_mark_new(&new->owner);
	if (r == 0)
		r = rx_set_new(&new->set, path, stream, options);
	if (r < 0)
		rx_handle_free(new);
	else
		*rx = new;
	return r;
}

int ibvcap_rx_open(const char *socket_path, const char *stream, const struct ibvcap_rx_options *options,
                   struct ibvcap_rx **rx)
{
	struct ibvcap_rx_options known = IBVCAP_INIT(struct ibvcap_rx_options);
	int r = options ? sized_struct_read(&known, sizeof(known), options, "ibvcap_rx_options") : 0;

	if (r < 0)
		return r;
	return known.queue == IBVCAP_QUEUE_ALL || known.group[0] ? open_set(socket_path, stream, &known, rx)
	                                                         : rx_open(socket_path, stream, &known, rx);
}

void ibvcap_rx_close(struct ibvcap_rx *rx)
{
	if (rx)
		rx_set_free(rx->set);
	rx_handle_free(rx);
}

/* ---- packets ------------------------------------------------------------------------------------------- */

static bool is_tap(const struct ibvcap_rx *rx)
{
	return rx->set ? rx->set->is_tap : rx->is_tap;
}

static const char *rx_stream_name(const struct ibvcap_rx *rx)
{
	return rx->set ? rx->set->stream : rx->info.stream;
}

/* A tap writes to no shared memory, so a child may use its copy of one. */
static int check_owner(const struct ibvcap_rx *rx)
{
	return rx->set && !rx->set->is_tap ? owner_check(rx->owner, rx->set->stream) : 0;
}

/* The handle that gave the batch out; NULL: none did. *batch becomes the batch as that handle knows it, in *copy. */
static struct ibvcap_rx *giver_of(const struct ibvcap_rx *rx, const struct ibvcap_rx_batch **batch,
                                  struct ibvcap_rx_batch *copy)
{
	struct ibvcap_rx *part;

	if (!rx->set)
		return (struct ibvcap_rx *)rx;
	part = rx_set_part(rx->set, *batch, copy);
	*batch = copy;
	return part;
}

static int acquire(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min, int timeout_ms)
{
	int r;

	if (rx->set) {
		r = rx_check_request(max, timeout_ms);
		if (r == 0)
			r = check_owner(rx);
		if (r == 0)
			r = rx_set_acquire(rx->set, batch, max > INT32_MAX ? INT32_MAX : max, min, timeout_ms);
	} else {
		r = rx_acquire(rx, batch, max, min, timeout_ms);
	}
	if (r == -ENOBUFS)
		error_set_text(
			"stream '%s': the caller holds as many blocks as it may, or batches of an epoch that has "
			"ended: release some",
			rx_stream_name(rx));
	return r;
}

int ibvcap_rx_acquire(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min, int timeout_ms)
{
	int r;

	if (is_tap(rx))
		return error_set(-EOPNOTSUPP, "a tap has no leases: read its packets by ibvcap_rx_recv()");
	r = sized_struct_check(batch, BATCH_BYTES_MIN, "ibvcap_rx_batch");
	if (r < 0)
		return r;
	return acquire(rx, batch, max, min, timeout_ms);
}

int ibvcap_rx_release(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch)
{
	const struct ibvcap_rx_batch *given = batch;
	struct ibvcap_rx_batch copy;
	struct ibvcap_rx *giver;
	int r;

	if (!rx->set)
		return rx_release(rx, batch);
	r = check_owner(rx);
	if (r < 0)
		return r;
	giver = giver_of(rx, &given, &copy);
	r = giver ? rx_release(giver, given) : rx_refuse_batch(rx->set->stream);
	if (r != -EINVAL)
		rx_set_note_release(rx->set, batch);
	return r;
}

/* 1; 0: the row is not to be delivered; -errno. */
static int take_row(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch, void *buffer, size_t bytes,
                    size_t *length, struct ibvcap_meta *meta)
{
	const struct ibvcap_rx_batch *given = batch;
	struct ibvcap_rx_batch copy;
	struct ibvcap_rx *giver = giver_of(rx, &given, &copy);
	int r = rx_take_row(giver, given, buffer, bytes, length, meta);

	/* A queue that was taken from this member costs the row, which may be void, and no more. */
	return rx->set && rx_set_note_release(rx->set, batch) && r == -ECONNABORTED ? 0 : r;
}

int ibvcap_rx_recv(struct ibvcap_rx *rx, void *buffer, size_t bytes, size_t *length, struct ibvcap_meta *meta,
                   int timeout_ms)
{
	const uint64_t deadline = timeout_ms > 0 ? time_monotonic_ns() + (uint64_t)timeout_ms * 1000000 : 0;
	struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);
	struct ibvcap_meta copy;
	int r;

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
	int r = check_owner(rx);

	if (r == 0 && is_tap(rx))
		r = error_set(-EOPNOTSUPP, "stream '%s': nobody wakes a tap: look at it in intervals",
		              rx_stream_name(rx));
	if (r < 0)
		return r;
	return rx->set ? rx->set->poll_fd : rx_poll_open(rx);
}

/* ---- what it says about itself -------------------------------------------------------------------------- */

int ibvcap_rx_add_losses(const struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch,
                         struct ibvcap_rx_losses *losses)
{
	struct ibvcap_rx_batch copy;
	const struct ibvcap_rx *giver = giver_of(rx, &batch, &copy);

	return giver ? rx_add_losses(giver, batch, losses) : rx_refuse_batch(rx->set->stream);
}

int ibvcap_rx_take_moment(struct ibvcap_rx *rx, struct ibvcap_rx_moment *moment)
{
	struct ibvcap_rx_moment now;

	if (rx->set)
		rx_set_take_moment(rx->set, &now);
	else
		rx_moment_take(rx, &now);
	return sized_struct_write(moment, &now, sizeof(now), "ibvcap_rx_moment");
}

int ibvcap_rx_settle_moment(const struct ibvcap_rx *rx, struct ibvcap_rx_moment *moment)
{
	int r = sized_struct_check(moment, sizeof(*moment), "ibvcap_rx_moment");

	if (r < 0)
		return r;
	return rx->set ? rx_set_settle_moment(rx->set, moment) : rx_moment_settle(rx, moment);
}

int ibvcap_rx_sequence(const struct ibvcap_rx *rx, struct ibvcap_sequence *sequence)
{
	const struct ibvcap_rx *of = rx->set ? rx_set_first(rx->set) : rx;

	if (!of)
		return error_set(-EAGAIN, "no queue of the group is this handle's yet: ask after its first packets");
	*sequence = of->sequence;
	return sequence->bytes != 0;
}

int ibvcap_rx_track(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch, struct ibvcap_tracker *tracker,
                    struct ibvcap_tracked *tracked)
{
	struct ibvcap_rx_batch copy;
	struct ibvcap_rx *giver = giver_of(rx, &batch, &copy);

	return giver ? rx_track(giver, rx->set ? rx_set_first(rx->set) : rx, batch, tracker, tracked)
	             : rx_refuse_batch(rx->set->stream);
}

int ibvcap_rx_info(const struct ibvcap_rx *rx, struct ibvcap_rx_info *info)
{
	struct ibvcap_rx_info now;

	if (rx->set)
		rx_set_describe(rx->set, &now);
	else
		rx_handle_describe(rx, &now);
	return sized_struct_write(info, &now, sizeof(now), "ibvcap_rx_info");
}

int ibvcap_rx_counts(const struct ibvcap_rx *rx, struct ibvcap_rx_counts *counts)
{
	struct ibvcap_rx_counts now;

	if (rx->set)
		rx_set_count(rx->set, &now);
	else
		rx_handle_count(rx, &now);
	return sized_struct_write(counts, &now, sizeof(now), "ibvcap_rx_counts");
}

/* ---- symbols of what ibvcap.h has inline, for other languages --------------------------------------------- */

extern const uint8_t *ibvcap_rx_payload(const struct ibvcap_rx_batch *batch, uint32_t i);
extern const uint8_t *ibvcap_rx_headers(const struct ibvcap_rx_batch *batch, uint32_t i);
