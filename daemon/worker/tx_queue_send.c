// SPDX-License-Identifier: Apache-2.0
/* From descriptors to the device and back: the hot path of sending. */
#include "daemon/worker/tx_queue.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <string.h>

#define REAP_RUNS                16
#define MEASURED_LATENESS_MAX_NS UINT64_C(1000000000000) /* 1000 s */

static inline void look(struct tx_clock_sample *now)
{
	if (now->look)
		now->look(now);
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- completed ------------------------------------------------------------------------------------ */

static void end_first(struct tx_queue *txq, int32_t status)
{
	const struct tx_inflight *flight = &txq->inflight[txq->first++ & txq->inflight_mask];

	sender_complete(flight->sender, status, flight->payload_bytes, flight->frame_bytes);
}

/* Packets that never were for the device end when all before them have: a sender's cursor is in its order. */
void tx_queue_end_posted(struct tx_queue *txq, uint32_t n, int32_t status)
{
	txq->n_posted -= n;
	while (txq->first != txq->next) {
		int32_t own = txq->inflight[txq->first & txq->inflight_mask].status;

		if (own == 0 && n == 0)
			break;
		n -= own == 0;
		end_first(txq, own == 0 ? status : own);
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
static int reap(struct tx_queue *txq)
{
	struct backend_sent sent[REAP_RUNS];
	bool failed = false;
	uint32_t n = 0;
	int runs;

	do {
		runs = txq->queue->ops->send_reap(txq->queue, sent, REAP_RUNS);
		for (int i = 0; i < runs; i++) {
			if (sent[i].n > txq->n_posted)
				return -EPROTO;
			if (sent[i].status == BACKEND_OK)
				txq->restarts = 0;
			else
				failed = true;
			tx_queue_end_posted(txq, sent[i].n, status_of(sent[i].status));
			n += sent[i].n;
		}
	} while (runs == REAP_RUNS || (failed && runs > 0));
	return runs < 0 ? runs : (int)n;
}

void tx_queue_publish(struct tx_queue *txq)
{
	for (uint32_t i = 0; i < txq->n_senders; i++) {
		struct sender *sender = txq->senders[i];
		bool moved = sender->completed != sender->published;

		sender_publish(sender, txq->counters);
		if (moved)
			txq->to_wake |= sender_is_due(sender);
	}
}

/* ---- whose turn it is ----------------------------------------------------------------------------- */

/* True: there is something to take. */
static bool look_at_senders(struct tx_queue *txq)
{
	bool any = false;

	for (uint32_t i = 0; i < txq->n_senders; i++) {
		struct sender *sender = txq->senders[i];

		if (!sender->leaving && !sender_look(sender)) {
			counter_add(&txq->counters[IBVCAP_TX_COUNTER_BAD_SENDERS], 1);
			tx_queue_dismiss_sender(txq, sender);
		}
		any |= !sender->leaving && sender->taken != sender->submitted;
	}
	return any;
}

/* What can't be sent costs as much as the largest packet: a flood of it is worth nobody's while. */
static uint32_t frame_bytes(const struct tx_queue *txq, const struct ibvcap_tx_descriptor *descriptor)
{
	if (descriptor->destination >= txq->n_destinations || descriptor->length > txq->slot_bytes)
		return pacing_frame_bytes(PACKET_HEADERS_MAX + txq->slot_bytes);
	return pacing_frame_bytes(txq->destinations[descriptor->destination].headers.header_bytes + descriptor->length);
}

/*
 * The sender to take the next packet from, and what it costs; NULL: none has one whose time has come. A quantum pays
 * for any packet, so a round over all senders finds one if there is one.
 */
static struct sender *whose_turn(struct tx_queue *txq, uint64_t utc_ns, uint32_t *cost_bytes)
{
	for (uint32_t i = 0; i <= txq->n_senders && txq->n_senders; i++) {
		struct sender *sender = txq->senders[txq->turn];
		const struct ibvcap_tx_descriptor *next = sender_peek(sender);

		if (next && next->not_before_ns <= utc_ns) {
			*cost_bytes = frame_bytes(txq, next);
			if (*cost_bytes <= sender->deficit_bytes)
				return sender;
		} else {
			sender->deficit_bytes = 0;
			if (next)
				txq->due_utc_ns = min_u64(txq->due_utc_ns, next->not_before_ns);
		}
		if (++txq->turn >= txq->n_senders)
			txq->turn = 0;
		txq->senders[txq->turn]->deficit_bytes += txq->quantum_bytes;
	}
	return NULL;
}

/* ---- taken ---------------------------------------------------------------------------------------- */

static int32_t judge(const struct tx_queue *txq, const struct ibvcap_tx_descriptor *descriptor, uint64_t utc_ns)
{
	if (descriptor->length > txq->slot_bytes)
		return -EMSGSIZE;
	if (descriptor->destination >= txq->n_destinations || descriptor->flags & ~(uint32_t)IBVCAP_TX_FLAG_DROP_LATE)
		return -EINVAL;
	if (txq->error)
		return txq->error;
	if (txq->destinations[descriptor->destination].error)
		return txq->destinations[descriptor->destination].error;
	if (descriptor->flags & IBVCAP_TX_FLAG_DROP_LATE && descriptor->not_before_ns &&
	    utc_ns - descriptor->not_before_ns > txq->late_after_ns)
		return -ETIME;
	return 0;
}

/* Packets, sum and maximum follow each other. */
static_assert(IBVCAP_TX_COUNTER_TIMED_LATENESS_MAX_NS == IBVCAP_TX_COUNTER_TIMED + 2, "order of counters");
static_assert(IBVCAP_TX_COUNTER_PACED_LATENESS_MAX_NS == IBVCAP_TX_COUNTER_PACED + 2, "order of counters");

static void count_lateness(uint64_t *tally, uint64_t ns)
{
	tally[0]++;
	tally[1] += ns;
	if (ns > tally[2])
		tally[2] = ns;
}

static inline void note_due(struct tx_queue *txq, struct sender *sender, uint64_t not_before_ns)
{
	struct tx_deadline *due = &txq->due[txq->n_ready];

	due->sender = NULL;
	if (not_before_ns == 0 && !txq->paced)
		return;
	*due = (struct tx_deadline){
		.sender = sender,
		.not_before_ns = not_before_ns,
		.paced_ns = txq->paced ? txq->pacing.due_ns : 0,
	};
	txq->due_to_count = true;
}

/* How late n of those that are ready leave: they are the device's now, and not before. A time of another age is late, and
 * no measure of how well times are kept here: one such would spoil the channel's maximum and mean for everybody. */
static void count_times(struct tx_queue *txq, uint32_t n, struct tx_clock_sample *now)
{
	look(now);
	for (const struct tx_deadline *due = txq->due; due < txq->due + n; due++) {
		uint64_t *tally;

		if (!due->sender)
			continue;
		tally = due->sender->tally;
		if (due->not_before_ns) {
			uint64_t late_ns = now->utc_ns > due->not_before_ns ? now->utc_ns - due->not_before_ns : 0;

			if (late_ns <= MEASURED_LATENESS_MAX_NS)
				count_lateness(&tally[IBVCAP_TX_COUNTER_TIMED], late_ns);
			tally[IBVCAP_TX_COUNTER_LATE] += late_ns > txq->late_after_ns;
		}
		if (due->paced_ns)
			count_lateness(&tally[IBVCAP_TX_COUNTER_PACED], now->monotonic_ns - due->paced_ns);
		due->sender->dirty = true;
	}
}

/* With checksums in software the payload is copied first: one that changes under the sum would be another's lie. */
static void make_ready(struct tx_queue *txq, uint64_t number, struct sender *sender, const uint8_t *payload,
                       const struct ibvcap_tx_descriptor *descriptor)
{
	const struct packet_template *template = &txq->destinations[descriptor->destination].headers;
	uint32_t row = (uint32_t)number & txq->inflight_mask;
	uint8_t *headers = (uint8_t *)txq->headers.address + (size_t)row * TX_QUEUE_HEADER_BYTES;
	const struct backend_memory *memory = sender->registration;

	if (template->checksums == PACKET_CHECKSUMS_SOFTWARE) {
		uint8_t *copy = (uint8_t *)txq->copies.address + (size_t)row * txq->slot_bytes;

		memcpy(copy, payload, descriptor->length);
		payload = copy;
		memory = txq->copies_memory;
	}
	packet_write_headers(template, headers, payload, descriptor->length, (uint16_t)number);
	note_due(txq, sender, descriptor->not_before_ns);
	txq->ready[txq->n_ready++] = (struct backend_packet){
		.headers = headers,
		.payload = payload,
		.payload_memory = memory,
		.header_bytes = template->header_bytes,
		.payload_bytes = descriptor->length,
	};
}

static void take(struct tx_queue *txq, struct sender *sender, uint32_t cost_bytes, const struct tx_clock_sample *now)
{
	const struct ibvcap_tx_descriptor descriptor = sender->next;
	const uint8_t *payload = sender_take(sender);
	int32_t status = judge(txq, &descriptor, now->utc_ns);

	sender->deficit_bytes -= cost_bytes;
	txq->deficit_bytes -= cost_bytes;
	if (status == -ETIME) {
		sender->tally[IBVCAP_TX_COUNTER_LATE]++;
		sender->dirty = true;
	}
	txq->inflight[txq->next & txq->inflight_mask] = (struct tx_inflight){
		.sender = sender, .status = status, .payload_bytes = descriptor.length, .frame_bytes = cost_bytes};
	if (status == 0) {
		make_ready(txq, txq->next, sender, payload, &descriptor);
		pacing_charge(&txq->pacing, cost_bytes);
	}
	txq->next++;
}

/* Until the batch, the queue or the channel's share is full: true; or nothing may be taken any more now: false. */
static bool take_batch(struct tx_queue *txq, const struct tx_clock_sample *now)
{
	uint32_t cost_bytes;

	while (txq->n_ready < TX_QUEUE_BATCH) {
		struct sender *sender;

		if (txq->next - txq->first >= txq->queue_slots)
			return false;
		sender = whose_turn(txq, now->utc_ns, &cost_bytes);
		if (!sender) {
			txq->paced = false;
			return false;
		}
		if (!pacing_allows(&txq->pacing, now->monotonic_ns)) {
			txq->paced = true;
			txq->due_ns = txq->pacing.due_ns;
			return false;
		}
		if (txq->deficit_bytes <= 0)
			return true;
		take(txq, sender, cost_bytes, now);
	}
	return true;
}

/* What the device did not take stays ready for the next round. */
static int post(struct tx_queue *txq, struct tx_clock_sample *now)
{
	int r;

	if (txq->n_ready == 0)
		return 0;
	r = txq->queue->ops->send_post(txq->queue, txq->ready, txq->n_ready);
	if (r < 0)
		return r;
	if ((uint32_t)r > txq->n_ready)
		return -EPROTO;
	counter_add(&txq->counters[IBVCAP_TX_COUNTER_BATCHES], r > 0);
	if (txq->due_to_count)
		count_times(txq, (uint32_t)r, now);
	txq->n_posted += (uint32_t)r;
	txq->n_ready -= (uint32_t)r;
	if (txq->n_ready == 0) {
		txq->due_to_count = false;
		return 0;
	}
	memmove(txq->ready, txq->ready + r, txq->n_ready * sizeof(txq->ready[0]));
	memmove(txq->due, txq->due + r, txq->n_ready * sizeof(txq->due[0]));
	return 0;
}

int tx_queue_round(struct tx_queue *txq, const struct tx_clock_sample *at)
{
	struct tx_clock_sample now = *at;
	uint64_t before = txq->next;
	bool more = true;
	int reaped = reap(txq);
	int r = reaped;

	/* Others were served since. */
	if (r >= 0 && look_at_senders(txq))
		look(&now);
	txq->due_ns = txq->due_utc_ns = TX_QUEUE_NEVER;
	txq->deficit_bytes += txq->quantum_bytes;
	while (r >= 0 && more && txq->deficit_bytes > 0) {
		more = take_batch(txq, &now);
		r = post(txq, &now);
		more = more && txq->n_ready == 0;
	}
	/* Who could not use its share does not save it up. */
	if (txq->deficit_bytes > 0)
		txq->deficit_bytes = 0;
	tx_queue_end_posted(txq, 0, 0);
	tx_queue_publish(txq);
	return r < 0 ? r : reaped + (int)(txq->next - before);
}
