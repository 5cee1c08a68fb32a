// SPDX-License-Identifier: Apache-2.0
/* From descriptors to the device and back: the hot path of sending. */
#include "daemon/worker/channel.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <string.h>

#define REAP_RUNS                16
#define MEASURED_LATENESS_MAX_NS UINT64_C(1000000000000) /* 1000 s */

static inline void look(struct transmit_now *now)
{
	if (now->look)
		now->look(now);
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- completed ------------------------------------------------------------------------------------ */

static void end_first(struct channel *channel, int32_t status)
{
	const struct channel_flight *flight = &channel->flights[channel->first++ & channel->flights_mask];

	sender_complete(flight->sender, status, flight->payload_bytes, flight->frame_bytes);
}

/* Packets that never were for the device end when all before them have: a sender's cursor is in its order. */
void channel_end_posted(struct channel *channel, uint32_t n, int32_t status)
{
	channel->n_posted -= n;
	while (channel->first != channel->next) {
		int32_t own = channel->flights[channel->first & channel->flights_mask].status;

		if (own == 0 && n == 0)
			break;
		n -= own == 0;
		end_first(channel, own == 0 ? status : own);
	}
}

static int32_t status_of(uint8_t status)
{
	switch (status) {
	case BACKEND_OK:
		return 0;
	case BACKEND_FLUSHED:
		return -ECANCELED;
	}
	return -EIO;
}

/* After a run that failed there is more to be had, and nothing may be posted before. */
static int reap(struct channel *channel)
{
	struct backend_sent sent[REAP_RUNS];
	bool failed = false;
	uint32_t n = 0;
	int runs;

	do {
		runs = channel->queue->ops->send_reap(channel->queue, sent, REAP_RUNS);
		for (int i = 0; i < runs; i++) {
			if (sent[i].n > channel->n_posted)
				return -EPROTO;
			if (sent[i].status == BACKEND_OK)
				channel->restarts = 0;
			else
				failed = true;
			channel_end_posted(channel, sent[i].n, status_of(sent[i].status));
			n += sent[i].n;
		}
	} while (runs == REAP_RUNS || (failed && runs > 0));
	return runs < 0 ? runs : (int)n;
}

void channel_publish(struct channel *channel)
{
	for (uint32_t i = 0; i < channel->n_senders; i++) {
		struct sender *sender = channel->senders[i];
		bool moved = sender->completed != sender->published;

		sender_publish(sender, channel->counters);
		if (moved)
			channel->to_wake |= sender_is_due(sender);
	}
}

/* ---- whose turn it is ----------------------------------------------------------------------------- */

/* True: there is something to take. */
static bool look_at_senders(struct channel *channel)
{
	bool any = false;

	for (uint32_t i = 0; i < channel->n_senders; i++) {
		struct sender *sender = channel->senders[i];

		if (!sender->leaving && !sender_look(sender)) {
			counter_add(&channel->counters[IBVCAP_TX_CTR_BAD_SENDERS], 1);
			channel_dismiss_sender(channel, sender);
		}
		any |= !sender->leaving && sender->taken != sender->submitted;
	}
	return any;
}

/* What can't be sent costs as much as the largest packet: a flood of it is worth nobody's while. */
static uint32_t frame_bytes(const struct channel *channel, const struct ibvcap_tx_descriptor *descriptor)
{
	if (descriptor->destination >= channel->n_destinations || descriptor->length > channel->slot_bytes)
		return pacing_frame_bytes(PACKET_HEADERS_MAX + channel->slot_bytes);
	return pacing_frame_bytes(channel->destinations[descriptor->destination].headers.header_bytes +
	                          descriptor->length);
}

/*
 * The sender to take the next packet from, and what it costs; NULL: none has one whose time has come. A quantum pays
 * for any packet, so a round over all senders finds one if there is one.
 */
static struct sender *whose_turn(struct channel *channel, uint64_t utc_ns, uint32_t *cost_bytes)
{
	for (uint32_t i = 0; i <= channel->n_senders && channel->n_senders; i++) {
		struct sender *sender = channel->senders[channel->turn];
		const struct ibvcap_tx_descriptor *next = sender_peek(sender);

		if (next && next->not_before_ns <= utc_ns) {
			*cost_bytes = frame_bytes(channel, next);
			if (*cost_bytes <= sender->deficit_bytes)
				return sender;
		} else {
			sender->deficit_bytes = 0;
			if (next)
				channel->due_utc_ns = min_u64(channel->due_utc_ns, next->not_before_ns);
		}
		if (++channel->turn >= channel->n_senders)
			channel->turn = 0;
		channel->senders[channel->turn]->deficit_bytes += channel->quantum_bytes;
	}
	return NULL;
}

/* ---- taken ---------------------------------------------------------------------------------------- */

static int32_t judge(const struct channel *channel, const struct ibvcap_tx_descriptor *descriptor, uint64_t utc_ns)
{
	if (descriptor->length > channel->slot_bytes)
		return -EMSGSIZE;
	if (descriptor->destination >= channel->n_destinations || descriptor->flags & ~(uint32_t)IBVCAP_TX_DROP_LATE)
		return -EINVAL;
	if (channel->error)
		return channel->error;
	if (channel->destinations[descriptor->destination].error)
		return channel->destinations[descriptor->destination].error;
	if (descriptor->flags & IBVCAP_TX_DROP_LATE && descriptor->not_before_ns &&
	    utc_ns - descriptor->not_before_ns > channel->late_after_ns)
		return -ETIME;
	return 0;
}

/* Packets, sum and maximum follow each other. */
static_assert(IBVCAP_TX_CTR_TIMED_LATENESS_MAX_NS == IBVCAP_TX_CTR_TIMED + 2, "order of counters");
static_assert(IBVCAP_TX_CTR_PACED_LATENESS_MAX_NS == IBVCAP_TX_CTR_PACED + 2, "order of counters");

static void count_lateness(uint64_t *tally, uint64_t ns)
{
	tally[0]++;
	tally[1] += ns;
	if (ns > tally[2])
		tally[2] = ns;
}

static inline void note_due(struct channel *channel, struct sender *sender, uint64_t not_before_ns)
{
	struct channel_due *due = &channel->due[channel->n_ready];

	due->sender = NULL;
	if (not_before_ns == 0 && !channel->paced)
		return;
	*due = (struct channel_due){
		.sender = sender,
		.not_before_ns = not_before_ns,
		.paced_ns = channel->paced ? channel->pacing.due_ns : 0,
	};
	channel->due_to_count = true;
}

/* How late n of those that are ready leave: they are the device's now, and not before. A time of another age is late, and
 * no measure of how well times are kept here: one such would spoil the channel's maximum and mean for everybody. */
static void count_times(struct channel *channel, uint32_t n, struct transmit_now *now)
{
	look(now);
	for (const struct channel_due *due = channel->due; due < channel->due + n; due++) {
		uint64_t *tally;

		if (!due->sender)
			continue;
		tally = due->sender->tally;
		if (due->not_before_ns) {
			uint64_t late_ns = now->utc_ns > due->not_before_ns ? now->utc_ns - due->not_before_ns : 0;

			if (late_ns <= MEASURED_LATENESS_MAX_NS)
				count_lateness(&tally[IBVCAP_TX_CTR_TIMED], late_ns);
			tally[IBVCAP_TX_CTR_LATE] += late_ns > channel->late_after_ns;
		}
		if (due->paced_ns)
			count_lateness(&tally[IBVCAP_TX_CTR_PACED], now->monotonic_ns - due->paced_ns);
		due->sender->dirty = true;
	}
}

/* With checksums in software the payload is copied first: one that changes under the sum would be another's lie. */
static void make_ready(struct channel *channel, uint64_t number, struct sender *sender, const uint8_t *payload,
                       const struct ibvcap_tx_descriptor *descriptor)
{
	const struct packet_template *template = &channel->destinations[descriptor->destination].headers;
	uint32_t row = (uint32_t)number & channel->flights_mask;
	uint8_t *headers = (uint8_t *)channel->headers.address + (size_t)row * CHANNEL_HEADER_BYTES;
	const struct backend_memory *memory = sender->registration;

	if (template->checksums == PACKET_CHECKSUMS_SOFTWARE) {
		uint8_t *copy = (uint8_t *)channel->copies.address + (size_t)row * channel->slot_bytes;

		memcpy(copy, payload, descriptor->length);
		payload = copy;
		memory = channel->copies_memory;
	}
	packet_write_headers(template, headers, payload, descriptor->length, (uint16_t)number);
	note_due(channel, sender, descriptor->not_before_ns);
	channel->ready[channel->n_ready++] = (struct backend_packet){
		.headers = headers,
		.payload = payload,
		.payload_memory = memory,
		.header_bytes = template->header_bytes,
		.payload_bytes = descriptor->length,
	};
}

static void take(struct channel *channel, struct sender *sender, uint32_t cost_bytes, const struct transmit_now *now)
{
	const struct ibvcap_tx_descriptor descriptor = sender->next;
	const uint8_t *payload = sender_take(sender);
	int32_t status = judge(channel, &descriptor, now->utc_ns);

	sender->deficit_bytes -= cost_bytes;
	channel->deficit_bytes -= cost_bytes;
	if (status == -ETIME) {
		sender->tally[IBVCAP_TX_CTR_LATE]++;
		sender->dirty = true;
	}
	channel->flights[channel->next & channel->flights_mask] = (struct channel_flight){
		.sender = sender, .status = status, .payload_bytes = descriptor.length, .frame_bytes = cost_bytes};
	if (status == 0) {
		make_ready(channel, channel->next, sender, payload, &descriptor);
		pacing_charge(&channel->pacing, cost_bytes);
	}
	channel->next++;
}

/* Until the batch, the queue or the channel's share is full: true; or nothing may be taken any more now: false. */
static bool take_batch(struct channel *channel, const struct transmit_now *now)
{
	uint32_t cost_bytes;

	while (channel->n_ready < CHANNEL_BATCH) {
		struct sender *sender;

		if (channel->next - channel->first >= channel->queue_slots)
			return false;
		sender = whose_turn(channel, now->utc_ns, &cost_bytes);
		if (!sender) {
			channel->paced = false;
			return false;
		}
		if (!pacing_allows(&channel->pacing, now->monotonic_ns)) {
			channel->paced = true;
			channel->due_ns = channel->pacing.due_ns;
			return false;
		}
		if (channel->deficit_bytes <= 0)
			return true;
		take(channel, sender, cost_bytes, now);
	}
	return true;
}

/* What the device did not take stays ready for the next round. */
static int post(struct channel *channel, struct transmit_now *now)
{
	int r;

	if (channel->n_ready == 0)
		return 0;
	r = channel->queue->ops->send_post(channel->queue, channel->ready, channel->n_ready);
	if (r < 0)
		return r;
	if ((uint32_t)r > channel->n_ready)
		return -EPROTO;
	counter_add(&channel->counters[IBVCAP_TX_CTR_BATCHES], r > 0);
	if (channel->due_to_count)
		count_times(channel, (uint32_t)r, now);
	channel->n_posted += (uint32_t)r;
	channel->n_ready -= (uint32_t)r;
	if (channel->n_ready == 0) {
		channel->due_to_count = false;
		return 0;
	}
	memmove(channel->ready, channel->ready + r, channel->n_ready * sizeof(channel->ready[0]));
	memmove(channel->due, channel->due + r, channel->n_ready * sizeof(channel->due[0]));
	return 0;
}

int channel_round(struct channel *channel, const struct transmit_now *at)
{
	struct transmit_now now = *at;
	uint64_t before = channel->next;
	bool more = true;
	int reaped = reap(channel);
	int r = reaped;

	/* Others were served since. */
	if (r >= 0 && look_at_senders(channel))
		look(&now);
	channel->due_ns = channel->due_utc_ns = CHANNEL_NEVER;
	channel->deficit_bytes += channel->quantum_bytes;
	while (r >= 0 && more && channel->deficit_bytes > 0) {
		more = take_batch(channel, &now);
		r = post(channel, &now);
		more = more && channel->n_ready == 0;
	}
	/* Who could not use its share does not save it up. */
	if (channel->deficit_bytes > 0)
		channel->deficit_bytes = 0;
	channel_end_posted(channel, 0, 0);
	channel_publish(channel);
	return r < 0 ? r : reaped + (int)(channel->next - before);
}
