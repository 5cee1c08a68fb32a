// SPDX-License-Identifier: Apache-2.0
/* The calls of ibvcap.h on a receive handle. */
#include "lib/base/time.h"
#include "lib/ibvcap/error.h"
#include "lib/ibvcap/owner.h"
#include "lib/ibvcap/rx.h"
#include "lib/ibvcap/sized_struct.h"

#include <errno.h>

/* ibvcap_rx_release() reads the fields up to lease, so a caller's batch has at least these. */
#define BATCH_BYTES_MIN (offsetof(struct ibvcap_rx_batch, lease) + sizeof(uint32_t))

/* ibvcap_rx_track() reads those up to flags. */
#define TRACKED_BATCH_BYTES (offsetof(struct ibvcap_rx_batch, flags) + sizeof(uint32_t))

/* ---- life ---------------------------------------------------------------------------------------------- */

int ibvcap_rx_open(const char *socket_path, const char *stream, const struct ibvcap_rx_options *options,
                   struct ibvcap_rx **rx)
{
	struct ibvcap_rx_options known = IBVCAP_INIT(struct ibvcap_rx_options);
	struct ibvcap_rx *new;
	int r = options ? sized_struct_read(&known, sizeof(known), options, "ibvcap_rx_options") : 0;

	if (r == 0)
		r = rx_new(&new, socket_path, stream, &known);
	if (r < 0)
		return r;
	r = rx_attach(new, &known);
	if (r < 0)
		rx_free(new);
	else
		*rx = new;
	return r;
}

void ibvcap_rx_close(struct ibvcap_rx *rx)
{
	rx_free(rx);
}

/* ---- packets ------------------------------------------------------------------------------------------- */

/* A tap writes to no shared memory, so a child may use its copy of one. */
static int check_owner(const struct ibvcap_rx *rx)
{
	return rx->is_tap ? 0 : owner_check(rx->shared.owner, rx->shared.stream);
}

static int acquire(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min, int timeout_ms)
{
	int r;

	if (max == 0)
		return error_set(-EINVAL, "max is 0: ask for at least one packet");
	if (timeout_ms < -1)
		return error_set(-EINVAL, "timeout_ms is %d: -1 waits for ever, 0 not at all", timeout_ms);
	r = check_owner(rx);
	if (r < 0)
		return r;
	r = rx_acquire(rx, batch, max > INT32_MAX ? INT32_MAX : max, min, timeout_ms);
	if (r == -ENOBUFS)
		error_set_text(
			"stream '%s': the caller holds as many blocks as it may, or batches of an epoch that has "
			"ended: release some",
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
	int r = check_owner(rx);

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

	if (r == 0 && rx->is_tap)
		r = error_set(-EOPNOTSUPP, "stream '%s': nobody wakes a tap: look at it in intervals",
		              rx->shared.stream);
	return r < 0 ? r : rx_open_poll(rx);
}

/* ---- what it says about itself -------------------------------------------------------------------------- */

int ibvcap_rx_add_losses(const struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch,
                         struct ibvcap_rx_losses *losses)
{
	const struct rx_queue *giver = rx_giver(rx, batch);

	return giver ? rx_add_losses(giver, batch, losses) : rx_refuse_batch(rx->shared.stream);
}

int ibvcap_rx_take_moment(struct ibvcap_rx *rx, struct ibvcap_rx_moment *moment)
{
	struct ibvcap_rx_moment now;

	rx_take_moment(rx, &now);
	return sized_struct_write(moment, &now, sizeof(now), "ibvcap_rx_moment");
}

int ibvcap_rx_settle_moment(const struct ibvcap_rx *rx, struct ibvcap_rx_moment *moment)
{
	int r = sized_struct_check(moment, sizeof(*moment), "ibvcap_rx_moment");

	return r < 0 ? r : rx_settle_moment(rx, moment);
}

int ibvcap_rx_sequence(const struct ibvcap_rx *rx, struct ibvcap_sequence *sequence)
{
	const struct rx_queue *first = rx_first(rx);

	if (!first)
		return error_set(-EAGAIN, "no queue of the group is this handle's yet: ask after its first packets");
	*sequence = first->sequence;
	return sequence->bytes != 0;
}

int ibvcap_rx_track(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch, struct ibvcap_tracker *tracker,
                    struct ibvcap_tracked *tracked)
{
	struct rx_queue *giver;
	int r = sized_struct_check(batch, TRACKED_BATCH_BYTES, "ibvcap_rx_batch");

	if (r < 0)
		return r;
	giver = rx_giver(rx, batch);
	return giver ? rx_track(giver, rx_first(rx), batch, tracker, tracked) : rx_refuse_batch(rx->shared.stream);
}

int ibvcap_rx_info(const struct ibvcap_rx *rx, struct ibvcap_rx_info *info)
{
	struct ibvcap_rx_info now;

	rx_describe(rx, &now);
	return sized_struct_write(info, &now, sizeof(now), "ibvcap_rx_info");
}

int ibvcap_rx_counts(const struct ibvcap_rx *rx, struct ibvcap_rx_counts *counts)
{
	struct ibvcap_rx_counts now;

	rx_count(rx, &now);
	return sized_struct_write(counts, &now, sizeof(now), "ibvcap_rx_counts");
}

/* ---- symbols of what ibvcap.h has inline, for other languages --------------------------------------------- */

extern const uint8_t *ibvcap_rx_payload(const struct ibvcap_rx_batch *batch, uint32_t i);
extern const uint8_t *ibvcap_rx_headers(const struct ibvcap_rx_batch *batch, uint32_t i);
