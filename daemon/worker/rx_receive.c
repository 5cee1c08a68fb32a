// SPDX-License-Identifier: Apache-2.0
/*
 * The hot path of receiving: polls completions, writes the metadata of each row, publishes rows and posts slots again.
 */
#include "daemon/worker/rx_receive.h"

#include "daemon/base/probes.h"
#include "daemon/packet/packet_plain.h"
#include "lib/base/min.h"
#include "lib/base/time.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>

#define LOW_PART         8 /* this part of the queue's slots, and a batch, count as none */
#define UNUSUAL_CHECKSUM (BACKEND_EVENT_CHECKSUM_BAD | BACKEND_EVENT_CHECKSUM_PARTIAL)

/* ---- one span: rows of one block ----------------------------------------------------------------- */

/*
 * No timestamp of a queue is before that of the row before it, which a renewed line would give it if it corrects the
 * old one. But when UTC itself was set back, the rows follow it: then the newest timestamp lies in the future.
 */
static void receive_follow_utc(struct rx_receive *receive, uint64_t now_ns)
{
	if (receive->newest_ns > now_ns + receive->clock.error_ns)
		receive->newest_ns = now_ns;
}

void rx_receive_set_clock(struct rx_receive *receive, const struct clock_line *clock)
{
	receive->clock = *clock;
	receive_follow_utc(receive, time_utc_ns());
}

/*
 * The time of each event becomes UTC, by the device's clock or by the kernel's. What the device stamped has the present
 * time after a step of its clock, or without it.
 */
static __attribute__((noinline)) const struct clock_line *convert_times(struct rx_receive *receive,
                                                                        struct backend_event *events, uint32_t n)
{
	static const struct clock_line utc = {.mult = 1, .mask = UINT64_MAX};
	const struct clock_line *clock = &receive->clock;
	uint64_t now_ns = time_utc_ns();

	for (struct backend_event *event = events; event != events + n; event++) {
		if (event->flags & BACKEND_EVENT_KERNEL_TIME)
			continue;
		if (clock_reaches(clock, event->timestamp_raw)) {
			event->timestamp_raw = clock_utc_ns(clock, event->timestamp_raw);
		} else if (!clock->can_step) {
			event->timestamp_raw = clock_utc_far_ns(clock, event->timestamp_raw);
		} else {
			event->timestamp_raw = now_ns;
			event->flags |= BACKEND_EVENT_KERNEL_TIME;
		}
	}
	receive_follow_utc(receive, now_ns);
	return &utc;
}

/* The events of a span are in the order of their times, but for errors, which have none. */
static inline bool clock_reaches_span(const struct clock_line *clock, const struct backend_event *events, uint32_t n)
{
	return clock_reaches(clock, events[0].timestamp_raw) && clock_reaches(clock, events[n - 1].timestamp_raw);
}

/* Without device timestamps every row of a span gets the present time: a line of slope 0 through now. */
static inline __attribute__((always_inline)) const struct clock_line *
span_clock(struct rx_receive *receive, struct backend_event *events, uint32_t n, struct clock_line *present)
{
	if (receive->device_timestamps)
		return __builtin_expect(clock_reaches_span(&receive->clock, events, n), 1)
		               ? &receive->clock
		               : convert_times(receive, events, n);
	*present = (struct clock_line){.base_utc_ns = time_utc_ns()};
	receive_follow_utc(receive, present->base_utc_ns);
	return present;
}

/* Row i is not ordinary. False: its slot was flushed, and there is no such row. */
static __attribute__((noinline, cold)) bool describe_other(struct rx_receive *receive, const struct rx_span *span,
                                                           uint32_t i, const struct backend_event *event,
                                                           const struct clock_line *clock, struct rx_tally *tally)
{
	if (event->status == BACKEND_FLUSHED)
		return false;
	if (event->status == BACKEND_OK) { /* else it has no time */
		uint64_t utc_ns = clock_utc_ns(clock, event->timestamp_raw);

		receive->newest_ns = utc_ns > receive->newest_ns ? utc_ns : receive->newest_ns;
	}
	span->meta[i].timestamp_ns = receive->newest_ns;
	rx_describe_unusual(receive, event, span, i, tally);
	return true;
}

static inline uint64_t event_word(const struct backend_event *event)
{
	uint64_t word;

	memcpy(&word, &event->bytes, sizeof(word));
	return word;
}

static inline uint64_t meta_word(struct ibvcap_meta meta)
{
	uint64_t word;

	memcpy(&word, &meta.length, sizeof(word));
	return word;
}

static inline void meta_set_word(struct ibvcap_meta *meta, uint64_t word)
{
	memcpy((uint8_t *)meta + offsetof(struct ibvcap_meta, length), &word, sizeof(word));
}

/*
 * Make a packet with plain headers the kind that describe_packets() repeats. False: its row is not ordinary.
 *
 * The length comes from the UDP header: a short frame is padded to 60 bytes, and the length that the device reports
 * includes the padding (doc/verbs-rules.md, posting and polling). bytes is 0 in an event with an error, so the
 * comparisons with it find errors, cut frames and wrong lengths.
 */
static inline __attribute__((always_inline)) bool learn_kind(const struct rx_receive *receive,
                                                             const struct backend_event *event, const uint8_t *ip,
                                                             uint64_t headers, size_t udp_length_at,
                                                             struct rx_kind *kind)
{
	const struct packet_plain *plain = &receive->plain;
	const uint16_t udp_length_be = packet_u16_be(ip + udp_length_at);
	const uint32_t udp_length = ntohs(udp_length_be), slot_bytes = receive->ring->slot_bytes;
	const uint32_t ip_end = packet_ip_end(plain, ip, udp_length_at);
	uint32_t length = udp_length - receive->before_payload; /* huge if the packet is too short */

	if (__builtin_expect(!packet_word_is_plain(plain, headers) || length > slot_bytes ||
	                             udp_length + plain->before_udp > ip_end || ip_end > event->bytes ||
	                             (event->flags & UNUSUAL_CHECKSUM),
	                     0))
		return false;
	kind->event = event_word(event);
	kind->headers = headers;
	kind->udp_length_be = udp_length_be;
	kind->length = length;
	kind->meta = (length < slot_bytes ? receive->meta_short : receive->meta_full) + length * receive->meta_byte;
	return true;
}

/*
 * The same for a packet whose sender left the checksum to a card: on some interfaces each packet is one. False with
 * zero_rest, too, whose pass knows no such rows.
 */
static __attribute__((noinline)) bool learn_partial_kind(struct rx_receive *receive, const struct rx_span *span,
                                                         uint32_t i, const struct backend_event *event)
{
	const uint8_t *ip = span->headers + (size_t)i * receive->header_stride + receive->plain.l3;
	const size_t udp_length_at = receive->plain.udp_length_at;
	struct backend_event other = *event;

	other.flags &= (uint8_t)~BACKEND_EVENT_CHECKSUM_PARTIAL;
	if (other.flags == event->flags || receive->ring->flags & IBVCAP_RING_FLAG_ZERO_REST ||
	    !learn_kind(receive, &other, ip, packet_plain_word(&receive->plain, ip, udp_length_at), udp_length_at,
	                &receive->kind))
		return false;
	receive->kind.event = event_word(event);
	receive->kind.meta |= meta_word((struct ibvcap_meta){.flags = IBVCAP_PACKET_FLAG_PARTIAL_CHECKSUM});
	return true;
}

static inline void tally_kind(struct rx_tally *tally, const struct rx_kind *kind, uint64_t n, uint32_t slot_bytes)
{
	tally->bytes += n * kind->length;
	if (kind->length < slot_bytes)
		tally->shorts += (uint32_t)n;
}

/*
 * Write the meta of each row. Stops at a flushed slot. Returns the number of rows written. Most packets of a stream
 * have the length of the packet before them, and then all of the meta but the time repeats itself. What the loop reads
 * stays in memory: there are more words than registers, and the loop is a third longer if they are copied first.
 */
static inline __attribute__((always_inline)) uint32_t
describe_packets(struct rx_receive *receive, const struct rx_span *span, const struct backend_event *event,
                 const struct clock_line *clock, struct rx_tally *tally, const size_t udp_length_at)
{
	const struct packet_plain *plain = &receive->plain;
	const struct rx_ring *ring = receive->ring;
	const uint8_t *ip = span->headers + plain->l3;
	struct ibvcap_meta *meta = span->meta;
	const struct ibvcap_meta *end = meta + span->n, *kind_from = meta;
	struct rx_kind *kind = &receive->kind;
	uint64_t newest_ns = receive->newest_ns, utc_ns;

	for (; meta != end; event++, meta++, ip += receive->header_stride) {
		uint16_t udp_length_be = packet_u16_be(ip + udp_length_at);
		uint64_t headers = packet_plain_word(plain, ip, udp_length_at);

		if (__builtin_expect(headers != kind->headers || event_word(event) != kind->event ||
		                             udp_length_be != kind->udp_length_be,
		                     0)) {
			tally_kind(tally, kind, (uint64_t)(meta - kind_from), ring->slot_bytes);
			kind_from = meta;
			if (__builtin_expect(!learn_kind(receive, event, ip, headers, udp_length_at, kind), 0) &&
			    !learn_partial_kind(receive, span, (uint32_t)(meta - span->meta), event)) {
				receive->newest_ns = newest_ns;
				if (!describe_other(receive, span, (uint32_t)(meta - span->meta), event, clock, tally))
					break;
				newest_ns = receive->newest_ns;
				kind_from = meta + 1;
				continue;
			}
		}
		utc_ns = clock_utc_ns(clock, event->timestamp_raw);
		newest_ns = utc_ns > newest_ns ? utc_ns : newest_ns;
		meta->timestamp_ns = newest_ns;
		meta_set_word(meta, kind->meta);
	}
	tally_kind(tally, kind, (uint64_t)(meta - kind_from), ring->slot_bytes);
	receive->newest_ns = newest_ns;
	return (uint32_t)(meta - span->meta);
}

/* Where the UDP length lies is a constant of each loop, and not one more word to read. */
static inline __attribute__((always_inline)) uint32_t
describe_rows(struct rx_receive *receive, const struct rx_span *span, const struct backend_event *event,
              const struct clock_line *clock, struct rx_tally *tally)
{
	return receive->plain.udp_length_at == PACKET_UDP_LENGTH_AT_IPV4
	               ? describe_packets(receive, span, event, clock, tally, PACKET_UDP_LENGTH_AT_IPV4)
	               : describe_packets(receive, span, event, clock, tally, PACKET_UDP_LENGTH_AT_IPV6);
}

/* The same for rows that hold frames. Their length is the one that the device reports. */
static uint32_t describe_frames(struct rx_receive *receive, const struct rx_span *span,
                                const struct backend_event *event, const struct clock_line *clock,
                                struct rx_tally *tally)
{
	const struct rx_ring *ring = receive->ring;
	struct ibvcap_meta *meta = span->meta;
	uint32_t i;

	for (i = 0; i < span->n; i++, event++, meta++) {
		uint64_t length = (uint64_t)event->bytes - ring->header_bytes, utc_ns;

		/* length is 0 or huge if there was an error. */
		if (__builtin_expect(length - 1 >= ring->slot_bytes || (event->flags & UNUSUAL_CHECKSUM), 0)) {
			if (!describe_other(receive, span, i, event, clock, tally))
				break;
			continue;
		}
		utc_ns = clock_utc_ns(clock, event->timestamp_raw);
		receive->newest_ns = utc_ns > receive->newest_ns ? utc_ns : receive->newest_ns;
		*meta = (struct ibvcap_meta){.timestamp_ns = receive->newest_ns,
		                             .length = (uint16_t)length,
		                             .wire_length = (uint16_t)length};
		tally->bytes += length;
		if (length < ring->slot_bytes) {
			meta->flags = IBVCAP_PACKET_FLAG_SHORT;
			tally->shorts++;
		}
	}
	return i;
}

/*
 * With any ring flag, the kernel's times among the device's, or checksums to verify. In passes of their own, so that
 * the loops above do nothing for what is switched off.
 */
static __attribute__((noinline)) uint32_t describe_by_flags(struct rx_receive *receive, const struct rx_span *span,
                                                            struct backend_event *events, struct rx_tally *tally)
{
	const struct rx_ring *ring = receive->ring;
	struct clock_line present;
	const struct clock_line *clock = receive->kernel_times ? convert_times(receive, events, span->n)
	                                                       : span_clock(receive, events, span->n, &present);
	uint32_t n;

	if (receive->verifies)
		rx_verify_checksums(ring, span, events);
	n = ring->flags & IBVCAP_RING_FLAG_FRAMES ? describe_frames(receive, span, events, clock, tally)
	                                          : describe_rows(receive, span, events, clock, tally);

	if (ring->flags & IBVCAP_RING_FLAG_FLOWS)
		for (uint32_t i = 0; i < n; i++)
			span->meta[i].flow = (uint8_t)events[i].tag;
	/* rx_describe_unusual() has seen to other rows. */
	if (ring->flags & IBVCAP_RING_FLAG_ZERO_REST)
		for (uint32_t i = 0; i < n; i++)
			if (span->meta[i].flags == IBVCAP_PACKET_FLAG_SHORT)
				rx_zero_rest(ring, span, i, span->meta[i].length);
	if (receive->kernel_times)
		for (uint32_t i = 0; i < n; i++)
			if (events[i].status == BACKEND_OK && events[i].flags & BACKEND_EVENT_KERNEL_TIME)
				span->meta[i].flags |= IBVCAP_PACKET_FLAG_KERNEL_TIME;
	return n;
}

/* Completions must come in the order of posting: each row is described from the slot at its own position. */
static bool in_order(const struct rx_span *span, const struct backend_event *events)
{
	return events[0].slot == span->slot && events[span->n - 1].slot == span->slot + span->n - 1;
}

/* ---- one batch ----------------------------------------------------------------------------------- */

static void count_batch(struct rx_receive *receive, const struct rx_tally *tally)
{
	_Atomic uint64_t *counters = receive->ring->ring->counters;

	receive->published += tally->rows - tally->errored;
	counter_set(&counters[IBVCAP_RX_COUNTER_PUBLISHED], receive->published);
	counter_add(&counters[IBVCAP_RX_COUNTER_PUBLISHED_BYTES], tally->bytes);
	counter_add(&counters[IBVCAP_RX_COUNTER_SHORT], tally->shorts);
	counter_add(&counters[IBVCAP_RX_COUNTER_BATCHES], 1);
	if (__builtin_expect(tally->unusual, 0)) {
		receive->errored += tally->errored;
		counter_set(&counters[IBVCAP_RX_COUNTER_ERRORED], receive->errored);
		counter_add(&counters[IBVCAP_RX_COUNTER_TRUNCATED], tally->truncated);
		counter_add(&counters[IBVCAP_RX_COUNTER_IRREGULAR], tally->irregular);
		counter_add(&counters[IBVCAP_RX_COUNTER_FRAGMENTS], tally->fragments);
		counter_add(&counters[IBVCAP_RX_COUNTER_FRAGMENT_LOST_BYTES], tally->fragment_lost_bytes);
		counter_add(&counters[IBVCAP_RX_COUNTER_BAD_CHECKSUM], tally->bad_checksum);
		counter_add(&counters[IBVCAP_RX_COUNTER_MALFORMED], tally->malformed);
	}
}

/* Publish the events of a poll, span by span. -EIO: a slot was flushed; -EPROTO: a slot was out of order. */
static int publish_events(struct rx_receive *receive, uint32_t n)
{
	struct rx_tally tally = {0};
	int r = 0;

	while (tally.rows < n) {
		struct backend_event *events = receive->events + tally.rows;
		struct clock_line present;
		struct rx_span span;

		rx_ring_head_span(receive->ring, &span);
		span.n = u32_min(span.n, n - tally.rows);
		if (span.n == 0 || !in_order(&span, events)) {
			r = -EPROTO;
			break;
		}
		uint32_t done = __builtin_expect(receive->has_passes, 0)
		                        ? describe_by_flags(receive, &span, events, &tally)
		                        : describe_rows(receive, &span, events,
		                                        span_clock(receive, events, span.n, &present), &tally);

		rx_ring_publish(receive->ring, done);
		tally.rows += done;
		if (done < span.n) {
			r = -EIO;
			break;
		}
	}
	count_batch(receive, &tally);
	return r;
}

int rx_receive_refill(struct rx_receive *receive)
{
	struct rx_ring *ring = receive->ring;
	uint32_t posted = 0;

	while (ring->posted_slots - (ring->posted - ring->head) >= RX_RING_CHUNK_SLOTS) {
		struct rx_span span;

		rx_ring_post_span(ring, RX_RING_CHUNK_SLOTS, &span);
		if (span.n == 0)
			break;
		const struct backend_run run = {span.slot, span.n, span.payload, span.headers};
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
		counter_add(&ring->ring->counters[IBVCAP_RX_COUNTER_POSTED], posted);
	return 0;
}

/*
 * The last short poll showed that the device had completed no more packets. If the device has used up its slots at some
 * time since then, packets with all the slots of that time, and maybe more, are published by the next short poll. The
 * margin is for completions that have not reached memory yet.
 */
bool rx_receive_may_have_lost(const struct rx_receive *receive)
{
	const struct backend_use *use = &receive->queue->use;

	return __builtin_expect(use->taken + receive->low_slots >= receive->short_given, 0) &&
	       (use->taken != receive->short_taken || use->given == use->taken);
}

static void receive_note_given(struct rx_receive *receive)
{
	receive->short_taken = receive->queue->use.taken;
	receive->short_given = receive->queue->use.given;
}

static void receive_note_short_poll(struct rx_receive *receive)
{
	if (rx_receive_may_have_lost(receive))
		receive->n_low++;
	receive_note_given(receive);
}

int rx_receive_init(struct rx_receive *receive)
{
	const struct rx_ring *ring = receive->ring;
	struct packet_plain *plain = &receive->plain;

	receive->kind.event = UINT64_MAX;
	receive->header_stride = ring->header_stride;
	if (ring->flags & IBVCAP_RING_FLAG_FRAMES)
		return 0;
	if (!packet_plain_init(plain, ring->header_bytes - ring->application_header_bytes))
		return -EINVAL;
	receive->before_payload = PACKET_UDP_BYTES + ring->application_header_bytes;
	receive->meta_byte = meta_word((struct ibvcap_meta){.length = 1, .wire_length = 1});
	receive->meta_full = meta_word((struct ibvcap_meta){.header_length = (uint8_t)plain->header_bytes});
	receive->meta_short = meta_word(
		(struct ibvcap_meta){.header_length = (uint8_t)plain->header_bytes, .flags = IBVCAP_PACKET_FLAG_SHORT});
	return 0;
}

int rx_receive_prime(struct rx_receive *receive)
{
	int r = rx_receive_refill(receive);

	receive->low_slots = receive->ring->posted_slots / LOW_PART + RX_RECEIVE_BATCH;
	receive_note_given(receive);
	return r;
}

int rx_receive_batch(struct rx_receive *receive)
{
	struct backend_queue *queue = receive->queue;
	uint64_t before = queue->use.taken;
	int n_events = queue->ops->poll(queue, receive->events, RX_RECEIVE_BATCH), n, r;

	if (n_events < 0)
		return n_events;
	if (n_events == 0 && queue->use.taken == before) {
		receive_note_short_poll(receive);
		counter_add(&receive->ring->ring->counters[IBVCAP_RX_COUNTER_EMPTY_POLLS], 1);
		return rx_receive_refill(receive); /* no effect unless memory or the device was short before */
	}
	r = publish_events(receive, (uint32_t)n_events);
	if (r < 0)
		return r;
	n = (int)(queue->use.taken - before);
	if (n < RX_RECEIVE_BATCH)
		receive_note_short_poll(receive);
	r = rx_receive_refill(receive);
	return r < 0 ? r : n;
}

int rx_receive_restart(struct rx_receive *receive)
{
	struct backend_queue *queue = receive->queue;
	int r = queue->ops->reset(queue);

	if (r < 0)
		return r;
	counter_add(&receive->ring->ring->counters[IBVCAP_RX_COUNTER_QUEUE_RESETS], 1);
	PROBE_QUEUE_RESET(receive->ring->ring->stream,
	                  counter_get(&receive->ring->ring->counters[IBVCAP_RX_COUNTER_QUEUE_RESETS]));
	rx_ring_rewind(receive->ring);
	r = rx_receive_prime(receive);
	return r < 0 ? r : queue->ops->start(queue);
}
