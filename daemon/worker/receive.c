// SPDX-License-Identifier: Apache-2.0
#include "daemon/worker/receive.h"

#include "daemon/packet/packet.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <time.h>

#define HEADERS_MAX 128 /* of a frame that packet_parse() is shown: 14 + 8 + 60 + 8, or IPv6's */

/* What one batch adds to the counters. */
struct tally {
	uint32_t rows;
	uint32_t errored;
	uint32_t shorts;
	uint32_t truncated;
	uint32_t irregular;
	uint32_t bad_checksum;
	uint64_t bytes;
};

static inline uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- one row ------------------------------------------------------------------------------------- */

/*
 * Where the device split the frame is not where its payload starts: a VLAN tag, IP options, a fragment.
 * Headers that run over into the payload row leave the payload behind them; headers shorter than the
 * split have taken payload with them, and the row is of no use.
 */
static __attribute__((noinline, cold)) void describe_irregular(const struct rx_ring *ring, uint32_t bytes,
							       const uint8_t *headers, const uint8_t *payload,
							       struct ibvcap_meta *meta)
{
	uint8_t frame[HEADERS_MAX];
	uint32_t in_headers = min_u32(bytes, ring->header_bytes);
	uint32_t in_payload = min_u32(bytes - in_headers, ring->slot_bytes);
	uint32_t copied = min_u32(in_payload, HEADERS_MAX - in_headers);
	struct packet_view view;

	memcpy(frame, headers, in_headers);
	memcpy(frame + in_headers, payload, copied);
	*meta = (struct ibvcap_meta){ .flags = IBVCAP_PKT_IRREGULAR, .header_length = (uint8_t)in_headers };
	if (!packet_parse(frame, in_headers + copied, &view)) {
		meta->flags |= IBVCAP_PKT_UNUSABLE;
		return;
	}
	meta->header_length = (uint8_t)view.header_length;
	meta->wire_length = view.payload_length;
	if (view.fragment)
		meta->flags |= IBVCAP_PKT_FRAGMENT;
	if (view.header_length < ring->header_bytes) {
		meta->flags |= IBVCAP_PKT_UNUSABLE;
		return;
	}
	uint32_t offset = view.header_length - ring->header_bytes;
	uint32_t present = in_payload > offset ? in_payload - offset : 0;

	meta->payload_offset = (uint8_t)offset;
	meta->length = (uint16_t)min_u32(view.payload_length, present);
	if (meta->length < view.payload_length)
		meta->flags |= IBVCAP_PKT_TRUNCATED;
	if (offset + meta->length < ring->slot_bytes)
		meta->flags |= IBVCAP_PKT_SHORT;
}

/*
 * Length and flags of a plain frame. The length comes from the UDP header: a short frame is padded to
 * 60 bytes, and what the device reports includes the padding (verbs-rules, posting and polling).
 */
static inline void describe_plain(uint32_t wire, uint32_t present, uint32_t slot_bytes, uint32_t header_bytes,
				  struct ibvcap_meta *meta)
{
	uint32_t length = min_u32(wire, min_u32(present, slot_bytes));

	meta->length = (uint16_t)length;
	meta->flags = (uint16_t)((length < slot_bytes ? IBVCAP_PKT_SHORT : 0) |
				 (wire > length ? IBVCAP_PKT_TRUNCATED : 0));
	meta->header_length = (uint8_t)header_bytes;
	meta->payload_offset = 0;
	meta->wire_length = (uint16_t)wire;
}

static inline void tally_row(struct tally *tally, const struct ibvcap_meta *meta)
{
	tally->bytes += meta->length;
	tally->shorts += meta->flags & IBVCAP_PKT_SHORT;
	if (__builtin_expect(!(meta->flags & ~IBVCAP_PKT_SHORT), 1))
		return;
	tally->truncated += !!(meta->flags & IBVCAP_PKT_TRUNCATED);
	tally->irregular += !!(meta->flags & IBVCAP_PKT_IRREGULAR);
	tally->bad_checksum += !!(meta->flags & IBVCAP_PKT_BAD_CHECKSUM);
	tally->errored += !!(meta->flags & IBVCAP_PKT_ERROR);
}

static_assert(IBVCAP_PKT_SHORT == 1, "tally_row adds the flag itself");

/* ---- one span: rows of one block ----------------------------------------------------------------- */

static inline bool is_plain(const struct receive *receive, const uint8_t *frame)
{
	return receive->ipv6 ? packet_is_plain_ipv6(frame, receive->l3) : packet_is_plain_ipv4(frame, receive->l3);
}

/* Length and flags of each row. Stops at a slot that was flushed or is not the expected one. */
static uint32_t describe_rows(const struct receive *receive, const struct rx_span *span,
			      const struct backend_event *events, struct tally *tally)
{
	const struct rx_ring *ring = receive->ring;
	const uint32_t header_bytes = ring->header_bytes;
	const uint32_t slot_bytes = ring->slot_bytes;
	const uint8_t *headers = span->headers;
	uint32_t i;

	for (i = 0; i < span->n; i++, headers += ring->header_stride) {
		const struct backend_event *event = &events[i];
		struct ibvcap_meta *meta = &span->meta[i];

		if (__builtin_expect(event->slot != span->slot + i || event->status == BACKEND_FLUSHED, 0))
			break;
		if (__builtin_expect(event->status != BACKEND_OK || event->bytes < header_bytes, 0))
			*meta = (struct ibvcap_meta){ .flags = IBVCAP_PKT_ERROR };
		else if (__builtin_expect(is_plain(receive, headers), 1))
			describe_plain(packet_udp_payload_length(headers, header_bytes), event->bytes - header_bytes,
				       slot_bytes, header_bytes, meta);
		else
			describe_irregular(ring, event->bytes, headers, span->payload + (size_t)i * slot_bytes, meta);
		if (__builtin_expect(event->flags & BACKEND_EVENT_CHECKSUM_BAD, 0))
			meta->flags |= IBVCAP_PKT_BAD_CHECKSUM;
		tally_row(tally, meta);
	}
	return i;
}

static uint64_t utc_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The device's time of each row; without it, the time at which the batch was polled. */
static void stamp_rows(const struct receive *receive, const struct backend_event *events, struct ibvcap_meta *meta,
		       uint32_t n)
{
	if (receive->device_timestamps && receive->has_clock) {
		const struct clock_line clock = receive->clock;

		for (uint32_t i = 0; i < n; i++)
			meta[i].timestamp_ns = clock_utc_ns(&clock, events[i].timestamp_raw);
		return;
	}
	uint64_t now_ns = receive->device_timestamps ? 0 : utc_now_ns();

	for (uint32_t i = 0; i < n; i++)
		meta[i].timestamp_ns = now_ns;
}

/* ---- one batch ----------------------------------------------------------------------------------- */

static void count_batch(struct receive *receive, const struct tally *tally)
{
	_Atomic uint64_t *counters = receive->ring->ring->counters;

	receive->published += tally->rows - tally->errored;
	receive->errored += tally->errored;
	counter_set(&counters[IBVCAP_CTR_PUBLISHED], receive->published);
	counter_set(&counters[IBVCAP_CTR_ERRORED], receive->errored);
	counter_add(&counters[IBVCAP_CTR_PUBLISHED_BYTES], tally->bytes);
	counter_add(&counters[IBVCAP_CTR_SHORT], tally->shorts);
	counter_add(&counters[IBVCAP_CTR_BATCHES], 1);
	if (__builtin_expect(tally->truncated | tally->irregular | tally->bad_checksum, 0)) {
		counter_add(&counters[IBVCAP_CTR_TRUNCATED], tally->truncated);
		counter_add(&counters[IBVCAP_CTR_IRREGULAR], tally->irregular);
		counter_add(&counters[IBVCAP_CTR_BAD_CHECKSUM], tally->bad_checksum);
	}
}

/* Publish a poll's events, span by span. -EIO: a flushed slot; -EPROTO: a slot out of order. */
static int publish_events(struct receive *receive, uint32_t n)
{
	struct tally tally = { 0 };
	int r = 0;

	while (tally.rows < n) {
		const struct backend_event *events = receive->events + tally.rows;
		struct rx_span span;

		rx_ring_head_span(receive->ring, &span);
		span.n = min_u32(span.n, n - tally.rows);
		uint32_t done = describe_rows(receive, &span, events, &tally);

		stamp_rows(receive, events, span.meta, done);
		rx_ring_publish(receive->ring, done);
		tally.rows += done;
		if (__builtin_expect(done < span.n || span.n == 0, 0)) {
			r = events[done].status == BACKEND_FLUSHED ? -EIO : -EPROTO;
			break;
		}
	}
	count_batch(receive, &tally);
	return r;
}

int receive_refill(struct receive *receive)
{
	struct rx_ring *ring = receive->ring;
	uint32_t posted = 0;

	while (receive->queue_slots - (ring->posted - ring->head) >= RX_RING_CHUNK_SLOTS) {
		struct rx_span span;

		rx_ring_post_span(ring, RX_RING_CHUNK_SLOTS, &span);
		if (span.n == 0)
			break;
		const struct backend_run run = { span.slot, span.n, span.payload, span.headers };
		int r = receive->queue->ops->post(receive->queue, &run);

		if (r < (int)span.n)
			rx_ring_unpost(ring, span.n - (r < 0 ? 0 : (uint32_t)r));
		if (r < 0)
			return r;
		posted += (uint32_t)r;
		if (r < (int)span.n)
			break;
	}
	if (posted)
		counter_add(&ring->ring->counters[IBVCAP_CTR_POSTED], posted);
	return 0;
}

int receive_batch(struct receive *receive)
{
	int n = receive->queue->ops->poll(receive->queue, receive->events, RECEIVE_BATCH);

	if (n < 0)
		return n;
	if (n == 0) {
		counter_add(&receive->ring->ring->counters[IBVCAP_CTR_EMPTY_POLLS], 1);
		return 0;
	}
	int r = publish_events(receive, (uint32_t)n);

	if (r == 0)
		r = receive_refill(receive);
	return r < 0 ? r : n;
}

int receive_restart(struct receive *receive)
{
	struct backend_queue *queue = receive->queue;
	int r = queue->ops->reset(queue);

	if (r < 0)
		return r;
	counter_add(&receive->ring->ring->counters[IBVCAP_CTR_QUEUE_RESETS], 1);
	rx_ring_rewind(receive->ring);
	r = receive_refill(receive);
	return r < 0 ? r : queue->ops->start(queue);
}
