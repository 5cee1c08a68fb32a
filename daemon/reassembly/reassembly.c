// SPDX-License-Identifier: Apache-2.0
/* Takes frames from the device's queue, and copies whole datagrams to the worker's rows. */
#include "daemon/reassembly/reassembly.h"

#include "daemon/backend/posted_rows.h"
#include "lib/base/time.h"
#include "lib/ibvcap/ring.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BATCH      64 /* frames of a poll, and of a run that is posted */
#define LINE_BYTES 64u
#define HUGE_BYTES (UINT64_C(2) << 20)

struct reassembly {
	struct backend_queue queue; /* first */
	const struct backend_ops *ops;
	struct backend *backend;
	struct backend_queue *device;
	struct backend_memory *memory;
	uint8_t *frames; /* a ring of frames, which the device fills in order */
	uint64_t frames_bytes;
	uint32_t frame_stride;
	uint32_t n_frames;
	uint32_t slots; /* depth of the device's queue */
	bool waits_for_rows;
	bool checksums;  /* of its rows' options: events say which are right */
	bool is_drained; /* the last poll took all frames that the device had */
	/* What had come by that moment has been taken when `slots` more frames than these have been. */
	uint64_t moment_ns;
	uint64_t moment_taken;
	struct posted_rows rows;
	struct datagrams *datagrams;
	uint64_t n_other;           /* whole datagrams to other ports */
	uint64_t n_no_row;          /* frames that came while there was no row */
	_Atomic uint64_t *counters; /* of the ring */
	_Atomic uint64_t ports[REASSEMBLY_N_PORTS / 64];
	struct backend_event taken_events[BATCH];
};

/* ---- frames ---------------------------------------------------------------------------------------- */

static struct reassembly *reassembly_of(struct backend_queue *queue)
{
	return (struct reassembly *)queue;
}

static uint8_t *frame_at(const struct reassembly *r, uint32_t slot)
{
	return r->frames + (size_t)slot * r->frame_stride;
}

static void show_given(struct reassembly *r)
{
	r->queue.use.given = r->is_drained ? r->queue.use.posted : r->queue.use.taken;
}

/* Give the device all frames that it has not, in runs that do not pass the end of the memory. */
static int post_frames(struct reassembly *r)
{
	while (r->n_frames - (r->queue.use.posted - r->queue.use.taken) >= BATCH) {
		uint32_t slot = (uint32_t)(r->queue.use.posted % r->n_frames);
		struct backend_run run = {.slot = slot,
		                          .n = r->n_frames - slot < BATCH ? r->n_frames - slot : BATCH,
		                          .payload = frame_at(r, slot),
		                          .headers = frame_at(r, slot)};
		int n = r->device->ops->post(r->device, &run);

		if (n < 0)
			return n;
		r->queue.use.posted += (uint32_t)n;
		if (n < (int)run.n)
			break;
	}
	show_given(r);
	return 0;
}

static bool wants_port(const void *context, uint16_t port_be)
{
	const struct reassembly *r = context;
	uint16_t port = ntohs(port_be);

	return atomic_load_explicit(&r->ports[port / 64], memory_order_relaxed) >> port % 64 & 1;
}

/* ---- one frame ------------------------------------------------------------------------------------- */

/* The oldest row gets a frame. Its event has the time and the flags of the device's event. */
static void end_row(struct reassembly *r, uint32_t bytes, const struct backend_event *from, struct backend_event *to)
{
	posted_rows_end(&r->rows, bytes, to);
	to->timestamp_raw = from->timestamp_raw;
	to->flags = from->flags;
	to->tag = from->tag;
	if (from->status != BACKEND_OK) {
		to->status = from->status;
		to->bytes = 0;
	}
}

static bool take_fragment(struct reassembly *r, const struct backend_event *from, const struct frame *frame,
                          struct backend_event *to)
{
	struct datagram_frame whole;

	if (!datagrams_add(r->datagrams, frame_at(r, from->slot), from->bytes, frame, from->tag, time_monotonic_ns(),
	                   &whole))
		return false;
	posted_rows_copy(&r->rows, 0, whole.headers, whole.header_bytes);
	posted_rows_copy(&r->rows, whole.header_bytes, whole.bytes, whole.n_kept);
	end_row(r, whole.header_bytes + whole.n_bytes, from, to);
	to->tag = whole.tag;
	to->flags &= (uint8_t) ~(BACKEND_EVENT_CHECKSUM_BAD | BACKEND_EVENT_CHECKSUM_PARTIAL);
	if (whole.is_checksum_bad || (r->checksums && whole.has_wrong_header))
		to->flags |= BACKEND_EVENT_CHECKSUM_BAD;
	else if (r->checksums)
		to->flags |= BACKEND_EVENT_CHECKSUM_GOOD;
	return true;
}

/* True: the frame is a whole datagram of UDP to a port of no flow; a device that steers by address sends such. */
static bool is_for_other_port(const struct reassembly *r, const uint8_t *bytes, const struct frame *frame)
{
	uint16_t port_be;

	memcpy(&port_be, bytes + frame->l4_at + 2, sizeof(port_be));
	return !wants_port(r, port_be);
}

/* True: the frame has an event. */
static bool take_frame(struct reassembly *r, const struct backend_event *from, struct backend_event *to)
{
	const uint8_t *bytes = frame_at(r, from->slot);
	struct frame frame;

	if (from->status == BACKEND_OK) {
		if (!frame_find_plain(bytes, from->bytes, &frame)) {
			frame_walk(bytes, from->bytes, from->bytes, &frame);
			if (frame_is_fragment(&frame) && (frame.end == FRAME_UDP || frame.end == FRAME_LATER_FRAGMENT))
				return take_fragment(r, from, &frame, to);
		}
		if (frame.protocol == IPPROTO_UDP && frame.l4_at && frame.l4_at + FRAME_UDP_BYTES <= from->bytes &&
		    is_for_other_port(r, bytes, &frame)) {
			r->n_other++;
			return false;
		}
		posted_rows_copy(&r->rows, 0, bytes, from->bytes);
	}
	end_row(r, from->bytes, from, to);
	return true;
}

/* ---- the queue ------------------------------------------------------------------------------------- */

static int reassembly_post(struct backend_queue *queue, const struct backend_run *run)
{
	struct reassembly *r = reassembly_of(queue);
	int failed = post_frames(r);

	return failed < 0 ? failed : posted_rows_add(&r->rows, run);
}

static void show_drops(const struct reassembly *r, enum backend_drop reason, uint64_t n)
{
	atomic_store_explicit(&r->device->n_dropped[reason], n, memory_order_relaxed);
}

static void show_counts(struct reassembly *r)
{
	const struct datagram_counts *counts = datagrams_counts(r->datagrams);
	struct backend_use *use = &r->queue.use;

	use->held = counts->held;
	use->joined = counts->joined + r->n_other;
	use->ambiguous = counts->ambiguous;
	use->unjoined = counts->lost + counts->refused;
	use->decided_ns = datagrams_oldest_ns(r->datagrams);
	show_drops(r, BACKEND_DROP_INCOMPLETE, counts->lost);
	show_drops(r, BACKEND_DROP_REFUSED, counts->refused);
	if (!r->waits_for_rows)
		show_drops(r, BACKEND_DROP_RING_FULL, r->n_no_row);
	counter_set(&r->counters[IBVCAP_RX_COUNTER_JOINED], use->joined);
	counter_set(&r->counters[IBVCAP_RX_COUNTER_AMBIGUOUS], use->ambiguous);
	counter_set(&r->counters[IBVCAP_RX_COUNTER_REASSEMBLED], counts->whole);
	counter_set(&r->counters[IBVCAP_RX_COUNTER_INCOMPLETE_DATAGRAMS], counts->incomplete);
	counter_set(&r->counters[IBVCAP_RX_COUNTER_INCOMPLETE_BYTES], counts->incomplete_bytes);
}

/*
 * Under a load that the worker never gets to the end of, too, no fragment may wait for another one for long: the
 * sender's 16 bits of identification begin anew. The socket of a kernel may hold more frames than the device has slots.
 */
static void expire_datagrams(struct reassembly *r, uint64_t before_ns)
{
	if (r->is_drained)
		datagrams_expire(r->datagrams, before_ns);
	else if (r->queue.use.taken - r->moment_taken >= r->slots)
		datagrams_time_out(r->datagrams, r->moment_ns);
	else
		return;
	r->moment_ns = before_ns;
	r->moment_taken = r->queue.use.taken;
}

static int reassembly_poll(struct backend_queue *queue, struct backend_event *events, uint32_t max)
{
	struct reassembly *r = reassembly_of(queue);
	uint64_t before_ns = time_of_clock_ns(CLOCK_MONOTONIC_COARSE); /* not later than CLOCK_MONOTONIC */
	bool has_rows = r->rows.n_posted > 0;
	int n, n_events = 0, failed;

	if (has_rows && r->rows.n_posted < max)
		max = r->rows.n_posted;
	max = max < BATCH ? max : BATCH;
	n = has_rows || !r->waits_for_rows ? r->device->ops->poll(r->device, r->taken_events, max) : 0;
	r->is_drained = n < (int)max && (has_rows || !r->waits_for_rows);
	for (int i = 0; i < n && has_rows; i++)
		n_events += take_frame(r, &r->taken_events[i], &events[n_events]);
	if (n > 0 && !has_rows)
		r->n_no_row += (uint32_t)n;
	expire_datagrams(r, before_ns);
	show_counts(r);
	show_given(r);
	if (n <= 0)
		return n;
	r->queue.use.taken += (uint32_t)n;
	failed = post_frames(r);
	return failed < 0 ? failed : n_events;
}

static int reassembly_start(struct backend_queue *queue)
{
	struct reassembly *r = reassembly_of(queue);

	return r->device->ops->start(r->device);
}

static int reassembly_fd(const struct backend_queue *queue)
{
	const struct reassembly *r = (const struct reassembly *)queue;

	return r->device->ops->fd(r->device);
}

static int reassembly_arm(struct backend_queue *queue)
{
	struct reassembly *r = reassembly_of(queue);

	return r->device->ops->arm(r->device);
}

static void reassembly_clear(struct backend_queue *queue)
{
	struct reassembly *r = reassembly_of(queue);

	r->device->ops->clear(r->device);
}

/* Fragments that have come are copied: they stay. */
static int reassembly_reset(struct backend_queue *queue)
{
	struct reassembly *r = reassembly_of(queue);
	int failed = r->device->ops->reset(r->device);

	if (failed < 0)
		return failed;
	posted_rows_forget(&r->rows);
	backend_use_reset(&r->queue.use);
	return 0;
}

static void reassembly_give_up(struct backend_queue *queue)
{
	struct reassembly *r = reassembly_of(queue);

	datagrams_give_up(r->datagrams);
	show_counts(r);
}

static const struct backend_ops reassembly_ops = {
	.name = "reassembly",
	.post = reassembly_post,
	.poll = reassembly_poll,
	.start = reassembly_start,
	.fd = reassembly_fd,
	.arm = reassembly_arm,
	.clear = reassembly_clear,
	.reset = reassembly_reset,
	.give_up = reassembly_give_up,
};

/* ---- life ------------------------------------------------------------------------------------------ */

static uint32_t stride_of(uint32_t frame_bytes)
{
	return (frame_bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

uint64_t reassembly_bytes(uint32_t n_frames, uint32_t frame_bytes)
{
	uint64_t bytes = (uint64_t)n_frames * stride_of(frame_bytes);

	return (bytes + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
}

/* Pages that are zeroed now: the worker waits for none. */
static int make_frames(struct reassembly *r, struct failure *failure)
{
	r->frames = aligned_alloc(HUGE_BYTES, r->frames_bytes);
	if (!r->frames)
		return failure_no_memory(failure);
	madvise(r->frames, r->frames_bytes, MADV_HUGEPAGE);
	memset(r->frames, 0, r->frames_bytes);
	return r->ops->register_memory(r->backend, r->frames, r->frames_bytes, &r->memory, failure);
}

static int make_device_queue(struct reassembly *r, const struct reassembly_options *options, struct failure *failure)
{
	struct backend_queue_options frames = options->rows;
	int failed;

	frames.payload = frames.headers = r->memory;
	frames.header_bytes = frames.header_stride = 0;
	frames.slot_bytes = frames.row_stride = r->frame_stride;
	frames.oversize_sink = false;
	failed = r->ops->create_queue(r->backend, &frames, &r->device, failure);
	r->queue.device = r->device;
	return failed;
}

int reassembly_new(const struct reassembly_options *options, struct reassembly **reassembly, struct failure *failure)
{
	struct reassembly *r = calloc(1, sizeof(*r));
	uint32_t rows_bytes = options->rows.header_bytes + options->rows.slot_bytes;
	int failed;

	if (!r)
		return failure_no_memory(failure);
	r->queue.ops = &reassembly_ops;
	r->ops = options->ops;
	r->backend = options->backend;
	r->frame_stride = stride_of(options->frame_bytes);
	r->n_frames = options->n_frames;
	r->slots = options->rows.slots;
	r->frames_bytes = reassembly_bytes(r->n_frames, options->frame_bytes);
	r->waits_for_rows = options->waits_for_rows;
	r->checksums = options->rows.checksums;
	r->counters = options->counters;
	r->is_drained = true;
	if (posted_rows_init(&r->rows, &options->rows) < 0 ||
	    datagrams_new(rows_bytes, wants_port, r, &r->datagrams) < 0)
		failed = failure_no_memory(failure);
	else
		failed = make_frames(r, failure);
	if (failed == 0)
		failed = make_device_queue(r, options, failure);
	if (failed < 0)
		reassembly_free(r);
	else
		*reassembly = r;
	return failed;
}

void reassembly_free(struct reassembly *r)
{
	if (!r)
		return;
	if (r->device)
		r->device->ops->destroy_queue(r->device);
	if (r->memory)
		r->ops->unregister_memory(r->memory);
	free(r->frames);
	datagrams_free(r->datagrams);
	posted_rows_deinit(&r->rows);
	free(r);
}

struct backend_queue *reassembly_queue(struct reassembly *r)
{
	return &r->queue;
}

struct backend_queue *reassembly_device_queue(struct reassembly *r)
{
	return r->device;
}

void reassembly_set_ports(struct reassembly *r, const uint64_t ports[REASSEMBLY_N_PORTS / 64])
{
	for (unsigned i = 0; i < REASSEMBLY_N_PORTS / 64; i++)
		atomic_store_explicit(&r->ports[i], ports[i], memory_order_relaxed);
}
