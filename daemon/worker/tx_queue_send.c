// SPDX-License-Identifier: Apache-2.0
/*
 * One round of a transmit queue: the hot path of sending. Completions come in, the senders' cursors are read, packets
 * are taken in turn, get their headers and go to the device. A device queue that failed is reset here too.
 */
#include "daemon/worker/tx_queue.h"

#include "daemon/base/probes.h"
#include "lib/base/min.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <string.h>

#define REAP_RUNS                16
#define MEASURED_LATENESS_MAX_NS UINT64_C(1000000000000) /* 1000 s */
/* A leaving queue waits this long for the packets that the device has; then it is reset. */
#define DRAIN_NS UINT64_C(1000000000)
/* A queue that is reset again and again without a completed packet in between is given up. */
#define RESTARTS_MAX 16

static inline void tx_clock_look(struct tx_clock_sample *now)
{
	if (now->look)
		now->look(now);
}

/* ---- packets that complete ------------------------------------------------------------------------ */

/*
 * The next n posted frames ended with this status. A packet that was never for the device ends when all packets before
 * it have, because a sender's cursor moves in the order of its packets.
 */
static void tx_queue_end_posted(struct tx_queue *txq, uint32_t n, int32_t status)
{
	txq->n_posted -= n;
	for (; txq->first != txq->next; txq->first++) {
		const struct tx_inflight *first = &txq->inflight[txq->first & txq->inflight_mask];
		bool is_posted = first->status >= 0;

		if (is_posted && n == 0)
			break;
		n -= is_posted;
		if (__builtin_expect(first->status > 0, 0))
			tx_queue_end_fragment(txq, first, status);
		else
			sender_complete(first->sender, is_posted ? status : first->status, first->payload_bytes,
			                first->frame_bytes);
	}
}

/* The counters of packets, of the sum and of the maximum follow each other in this order. */
static_assert(IBVCAP_TX_COUNTER_TIMED_LATENESS_MAX_NS == IBVCAP_TX_COUNTER_TIMED + 2, "order of counters");
static_assert(IBVCAP_TX_COUNTER_PACED_LATENESS_MAX_NS == IBVCAP_TX_COUNTER_PACED + 2, "order of counters");

static void count_lateness(uint64_t *tally, uint64_t ns)
{
	tally[0]++;
	tally[1] += ns;
	if (ns > tally[2])
		tally[2] = ns;
}

/*
 * A lateness of more than 1000 s counts as late but not in mean and maximum: it says nothing about how well times are
 * kept, and one such packet would spoil both for all senders of the channel.
 */
static void tx_queue_count_timed(const struct tx_queue *txq, struct sender *sender, uint64_t late_ns)
{
	if (late_ns <= MEASURED_LATENESS_MAX_NS)
		count_lateness(&sender->tally[IBVCAP_TX_COUNTER_TIMED], late_ns);
	if (late_ns > txq->late_after_ns) {
		sender->tally[IBVCAP_TX_COUNTER_LATE]++;
		PROBE_LATE_SEND(txq->name, late_ns);
	}
	sender->dirty = true;
}

/* A packet that the device had ahead of its time left, so late: the next one that ends, with its last fragment. */
static void tx_queue_count_left(const struct tx_queue *txq, uint32_t late_ns)
{
	const struct tx_inflight *first = &txq->inflight[txq->first & txq->inflight_mask];

	if (first->status != TX_INFLIGHT_FRAGMENT)
		tx_queue_count_timed(txq, first->sender, late_ns);
}

static int32_t errno_of_backend_status(uint8_t status)
{
	switch (status) {
	case BACKEND_OK:
		return 0;
	case BACKEND_FLUSHED:
		return -ECANCELED;
	case BACKEND_LATE:
		return -ETIME;
	}
	return -EIO;
}

/* After a failed run the device has more completions, which must be reaped before anything is posted. */
static int tx_queue_reap(struct tx_queue *txq)
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
			if (sent[i].is_measured)
				tx_queue_count_left(txq, sent[i].late_ns);
			tx_queue_end_posted(txq, sent[i].n, errno_of_backend_status(sent[i].status));
			n += sent[i].n;
		}
	} while (runs == REAP_RUNS || (failed && runs > 0));
	return runs < 0 ? runs : (int)n;
}

/* Show the senders how their packets ended. */
static void tx_queue_publish(struct tx_queue *txq)
{
	for (uint32_t i = 0; i < txq->n_senders; i++) {
		struct sender *sender = txq->senders[i].sender;
		bool moved = sender->completed != sender->published;

		sender_publish(sender, txq->counters);
		if (moved)
			txq->to_wake |= sender_wants_wake(sender);
	}
}

/* ---- whose turn it is ----------------------------------------------------------------------------- */

/* True: a sender has packets to take. */
static bool tx_queue_read_senders(struct tx_queue *txq)
{
	bool any = false;

	for (uint32_t i = 0; i < txq->n_senders; i++) {
		struct tx_queue_sender *member = &txq->senders[i];

		if (!member->leaving && (member->sender->bad || !sender_read_submitted(member->sender))) {
			counter_add(&txq->counters[IBVCAP_TX_COUNTER_BAD_SENDERS], 1);
			tx_queue_dismiss_sender(txq, member);
		}
		any |= !member->leaving && member->sender->taken != member->sender->submitted;
	}
	return any;
}

static uint32_t tx_queue_frame_bytes(const struct tx_queue *txq, const struct ibvcap_tx_descriptor *descriptor)
{
	if (descriptor->destination >= txq->n_destinations || descriptor->length > txq->whole_bytes)
		return tx_queue_long_frame_bytes(txq, descriptor);
	return pacing_frame_bytes(txq->destinations[descriptor->destination].headers.header_bytes + descriptor->length);
}

/*
 * The sender to take the next packet from, and the packet's cost. NULL: no sender has a packet whose time has come. A
 * quantum is enough for any packet, so one pass over all senders finds a packet if there is one.
 */
static struct tx_queue_sender *tx_queue_pick_sender(struct tx_queue *txq, uint64_t utc_ns, uint32_t *cost_bytes)
{
	for (uint32_t i = 0; i <= txq->n_senders && txq->n_senders; i++) {
		struct tx_queue_sender *member = &txq->senders[txq->turn];
		const struct ibvcap_tx_descriptor *next = member->leaving ? NULL : sender_peek(member->sender);

		if (next && next->not_before_ns <= utc_ns) {
			*cost_bytes = tx_queue_frame_bytes(txq, next);
			if (*cost_bytes <= member->deficit_bytes)
				return member;
		} else {
			member->deficit_bytes = 0;
			if (next)
				txq->due_utc_ns = u64_min(txq->due_utc_ns, next->not_before_ns);
		}
		if (++txq->turn >= txq->n_senders)
			txq->turn = 0;
		txq->senders[txq->turn].deficit_bytes += txq->quantum_bytes;
	}
	return NULL;
}

/* ---- taking a packet ------------------------------------------------------------------------------- */

/* 0: the packet is for the device; else it ends with this error. */
static inline __attribute__((always_inline)) int32_t
tx_queue_check_packet(const struct tx_queue *txq, const struct ibvcap_tx_descriptor *descriptor, uint64_t utc_ns)
{
	if (descriptor->destination >= txq->n_destinations || descriptor->flags & ~(uint32_t)IBVCAP_TX_FLAG_DROP_LATE)
		return -EINVAL;
	if (txq->error)
		return txq->error;
	if (txq->destinations[descriptor->destination].error)
		return txq->destinations[descriptor->destination].error;
	if (descriptor->flags & IBVCAP_TX_FLAG_DROP_LATE && descriptor->not_before_ns &&
	    utc_ns > descriptor->not_before_ns && utc_ns - descriptor->not_before_ns > txq->late_after_ns)
		return -ETIME;
	return 0;
}

static inline void tx_queue_note_deadline(struct tx_queue *txq, struct sender *sender, uint64_t not_before_ns)
{
	struct tx_deadline *deadline = &txq->deadlines[txq->n_ready];

	deadline->sender = NULL;
	/* How late a packet leaves that is posted ahead of its time is known when it ends. */
	if ((not_before_ns == 0 || txq->ahead_ns) && !txq->paced)
		return;
	*deadline = (struct tx_deadline){
		.sender = sender,
		.not_before_ns = not_before_ns,
		.paced_ns = txq->paced ? txq->pacing.due_ns : 0,
	};
	txq->has_deadlines = true;
}

/* Measure how late the first n ready packets leave; the device has just accepted them. */
static void tx_queue_count_lateness(struct tx_queue *txq, uint32_t n, struct tx_clock_sample *now)
{
	tx_clock_look(now);
	for (const struct tx_deadline *due = txq->deadlines; due < txq->deadlines + n; due++) {
		if (!due->sender)
			continue;
		if (due->not_before_ns)
			tx_queue_count_timed(txq, due->sender,
			                     now->utc_ns > due->not_before_ns ? now->utc_ns - due->not_before_ns : 0);
		if (due->paced_ns)
			count_lateness(&due->sender->tally[IBVCAP_TX_COUNTER_PACED], now->monotonic_ns - due->paced_ns);
		due->sender->dirty = true;
	}
}

/* With checksums in software the payload is copied first, because the client could change it while it is summed. */
static void tx_queue_make_ready(struct tx_queue *txq, uint64_t number, struct sender *sender, const uint8_t *payload,
                                const struct ibvcap_tx_descriptor *descriptor)
{
	const struct packet_template *template = &txq->destinations[descriptor->destination].headers;
	uint32_t row = (uint32_t)number & txq->inflight_mask;
	uint8_t *headers = (uint8_t *)txq->headers.address + (size_t)row * TX_QUEUE_HEADER_BYTES;
	const struct backend_memory *memory = sender->registration;

	if (template->checksums == PACKET_CHECKSUMS_SOFTWARE) {
		uint8_t *copy = (uint8_t *)txq->copies.address + (size_t)row * txq->copy_bytes;

		memcpy(copy, payload, descriptor->length);
		payload = copy;
		memory = txq->copies_memory;
	}
	packet_write_headers(template, headers, payload, descriptor->length, (uint16_t)number);
	tx_queue_note_deadline(txq, sender, descriptor->not_before_ns);
	txq->ready[txq->n_ready++] = (struct backend_packet){
		.headers = headers,
		.payload = payload,
		.not_before_ns = descriptor->not_before_ns,
		.payload_memory = memory,
		.header_bytes = template->header_bytes,
		.payload_bytes = descriptor->length,
	};
}

/* Both the sender and the queue pay for the packet that sender_peek() returned. Returns its payload. */
static inline const uint8_t *tx_queue_take(struct tx_queue *txq, struct tx_queue_sender *member, uint32_t cost_bytes)
{
	const uint8_t *payload = sender_take(member->sender);

	member->deficit_bytes -= cost_bytes;
	txq->deficit_bytes -= cost_bytes;
	return payload;
}

static void tx_queue_take_packet(struct tx_queue *txq, struct tx_queue_sender *member, uint32_t cost_bytes,
                                 const struct tx_clock_sample *now)
{
	struct sender *sender = member->sender;
	const struct ibvcap_tx_descriptor descriptor = sender->next;
	const uint8_t *payload = tx_queue_take(txq, member, cost_bytes);
	int32_t status = tx_queue_check_packet(txq, &descriptor, now->utc_ns);

	if (status == -ETIME)
		PROBE_LATE_SEND(txq->name, now->utc_ns - descriptor.not_before_ns);
	txq->inflight[txq->next & txq->inflight_mask] = (struct tx_inflight){
		.sender = sender, .status = status, .payload_bytes = descriptor.length, .frame_bytes = cost_bytes};
	if (status == 0) {
		tx_queue_make_ready(txq, txq->next, sender, payload, &descriptor);
		pacing_charge(&txq->pacing, cost_bytes);
	}
	txq->next++;
}

/* What is to be done with a packet that is longer than plain_bytes. */
enum tx_long {
	TX_LONG_TAKEN,
	TX_LONG_IS_PLAIN, /* it is to be taken as shorter packets are */
	TX_LONG_AFTER,    /* in the next batch, once this one is posted */
	TX_LONG_NO_ROOM,  /* once others have completed */
};

static void tx_queue_take_too_long(struct tx_queue *txq, struct tx_queue_sender *member, uint32_t cost_bytes)
{
	tx_queue_take(txq, member, cost_bytes);
	txq->inflight[txq->next++ & txq->inflight_mask] =
		(struct tx_inflight){.sender = member->sender, .status = -EMSGSIZE};
}

static void tx_queue_take_fragments(struct tx_queue *txq, struct tx_queue_sender *member, uint32_t cost_bytes,
                                    const struct packet_cut *cut)
{
	struct sender *sender = member->sender;
	const struct ibvcap_tx_descriptor descriptor = sender->next;
	const uint8_t *payload = tx_queue_take(txq, member, cost_bytes);

	tx_queue_make_fragments(txq, sender, payload, &descriptor, cut, cost_bytes);
	/* The packet leaves with its last fragment. */
	txq->n_ready--;
	tx_queue_note_deadline(txq, sender, descriptor.not_before_ns);
	txq->n_ready++;
	pacing_charge(&txq->pacing, cost_bytes);
}

static __attribute__((noinline, cold)) enum tx_long
tx_queue_take_long(struct tx_queue *txq, struct tx_queue_sender *member, uint32_t cost_bytes, uint64_t utc_ns)
{
	const struct ibvcap_tx_descriptor *next = &member->sender->next;
	bool has_fragments = txq->plain_bytes < 0;
	struct packet_cut cut = {.n = 1};

	if (next->length > txq->slot_bytes) {
		tx_queue_take_too_long(txq, member, cost_bytes);
		return TX_LONG_TAKEN;
	}
	if (tx_queue_check_packet(txq, next, utc_ns) < 0)
		return TX_LONG_IS_PLAIN;
	if (next->length > txq->whole_bytes)
		tx_queue_cut(txq, next, &cut);
	if (cut.n == 0 || cut.n > TX_QUEUE_FRAGMENTS_MAX || cut.n > txq->queue_slots) {
		tx_queue_take_too_long(txq, member, cost_bytes);
		return TX_LONG_TAKEN;
	}
	if (txq->n_ready > 0 && has_fragments != (cut.n > 1))
		return TX_LONG_AFTER;
	if (cut.n == 1)
		return TX_LONG_IS_PLAIN;
	if (txq->n_ready + cut.n > TX_QUEUE_BATCH)
		return TX_LONG_AFTER;
	if (txq->next - txq->first + cut.n > txq->queue_slots)
		return TX_LONG_NO_ROOM;
	tx_queue_take_fragments(txq, member, cost_bytes, &cut);
	return TX_LONG_TAKEN;
}

/* Take packets. True: the batch is full or the queue's share is used up. False: no more can be taken in this round. */
static bool tx_queue_take_batch(struct tx_queue *txq, const struct tx_clock_sample *now)
{
	uint32_t cost_bytes;

	while (txq->n_ready < TX_QUEUE_BATCH) {
		struct tx_queue_sender *member;

		if (txq->next - txq->first >= txq->queue_slots)
			return false;
		member = tx_queue_pick_sender(txq, now->utc_ns + txq->ahead_ns, &cost_bytes);
		if (!member) {
			txq->paced = false;
			return false;
		}
		if (!pacing_may_leave(&txq->pacing, now->monotonic_ns)) {
			txq->paced = true;
			txq->due_ns = txq->pacing.due_ns;
			return false;
		}
		if (txq->deficit_bytes <= 0)
			return true;
		if (__builtin_expect(member->sender->next.length > txq->plain_bytes, 0)) {
			enum tx_long what = tx_queue_take_long(txq, member, cost_bytes, now->utc_ns);

			if (what == TX_LONG_TAKEN)
				continue;
			if (what != TX_LONG_IS_PLAIN)
				return what == TX_LONG_AFTER;
		}
		tx_queue_take_packet(txq, member, cost_bytes, now);
	}
	return true;
}

/* Packets that the device does not accept stay ready for the next round. */
static int tx_queue_post(struct tx_queue *txq, struct tx_clock_sample *now)
{
	const struct backend_ops *ops = txq->queue->ops;
	int r;

	if (txq->n_ready == 0)
		return 0;
	r = (txq->plain_bytes < 0 ? ops->send_post_summed : ops->send_post)(txq->queue, txq->ready, txq->n_ready);
	if (r < 0)
		return r;
	if ((uint32_t)r > txq->n_ready)
		return -EPROTO;
	counter_add(&txq->counters[IBVCAP_TX_COUNTER_BATCHES], r > 0);
	if (txq->has_deadlines)
		tx_queue_count_lateness(txq, (uint32_t)r, now);
	txq->n_posted += (uint32_t)r;
	txq->n_ready -= (uint32_t)r;
	if (txq->n_ready == 0) {
		txq->has_deadlines = false;
		txq->plain_bytes = (int32_t)txq->whole_bytes;
		return 0;
	}
	memmove(txq->ready, txq->ready + r, txq->n_ready * sizeof(txq->ready[0]));
	memmove(txq->deadlines, txq->deadlines + r, txq->n_ready * sizeof(txq->deadlines[0]));
	return 0;
}

/* Returns the packets reaped and taken, or -errno: the device queue failed and is to be reset. */
static int tx_queue_round(struct tx_queue *txq, const struct tx_clock_sample *at)
{
	struct tx_clock_sample now = *at;
	uint64_t before = txq->next;
	bool more = true;
	int reaped = tx_queue_reap(txq);
	int r = reaped;

	txq->ahead_ns = txq->queue->send_ahead_ns;
	/* The worker has served other queues since the clock was sampled. */
	if (r >= 0 && tx_queue_read_senders(txq))
		tx_clock_look(&now);
	txq->due_ns = txq->due_utc_ns = TX_QUEUE_NEVER;
	txq->deficit_bytes += txq->quantum_bytes;
	while (r >= 0 && more && txq->deficit_bytes > 0) {
		more = tx_queue_take_batch(txq, &now);
		r = tx_queue_post(txq, &now);
		more = more && txq->n_ready == 0;
	}
	/* A queue that could not use its share does not keep it for the next round. */
	if (txq->deficit_bytes > 0)
		txq->deficit_bytes = 0;
	tx_queue_end_posted(txq, 0, 0);
	tx_queue_publish(txq);
	return r < 0 ? r : reaped + (int)(txq->next - before);
}

/* ---- a device queue that failed -------------------------------------------------------------------- */

/* Nobody knows whether the packets that the device had were sent. Ready packets are posted next. */
static int tx_queue_restart(struct tx_queue *txq)
{
	const struct backend_ops *ops = txq->queue->ops;
	int r = ops->reset(txq->queue);

	if (r < 0)
		return r;
	counter_add(&txq->counters[IBVCAP_TX_COUNTER_QUEUE_RESETS], 1);
	PROBE_QUEUE_RESET(txq->name, counter_get(&txq->counters[IBVCAP_TX_COUNTER_QUEUE_RESETS]));
	tx_queue_end_posted(txq, txq->n_posted, -ECANCELED);
	tx_queue_publish(txq);
	return ops->start(txq->queue);
}

/* The device gets no more of the ready packets: they end with those that it has. */
static void tx_queue_withdraw_ready(struct tx_queue *txq)
{
	txq->n_posted += txq->n_ready;
	txq->n_ready = 0;
	txq->plain_bytes = (int32_t)txq->whole_bytes;
}

/* End all taken packets and dismiss all senders: tx_queue_take_gone() returns them. */
static void tx_queue_give_up(struct tx_queue *txq, int error, uint64_t now_ns)
{
	txq->fatal = error;
	tx_queue_withdraw_ready(txq);
	tx_queue_end_posted(txq, txq->n_posted, -ECANCELED);
	tx_queue_publish(txq);
	tx_queue_dismiss(txq, now_ns);
}

int tx_queue_serve(struct tx_queue *txq, const struct tx_clock_sample *now)
{
	int n = txq->fatal ? 0 : tx_queue_round(txq, now);

	if (n >= 0 && txq->leaving && txq->n_posted + txq->n_ready &&
	    now->monotonic_ns - txq->leaving_at_ns >= DRAIN_NS) {
		tx_queue_withdraw_ready(txq);
		n = -ETIMEDOUT;
	}
	if (n >= 0)
		return n;
	if (txq->restarts++ < RESTARTS_MAX) {
		/* These are commands: a device that hangs must not end what the daemon does with others. */
		heartbeat_suspend(txq->heartbeat);
		n = tx_queue_restart(txq);
		heartbeat_resume(txq->heartbeat);
	}
	if (n < 0)
		tx_queue_give_up(txq, n, now->monotonic_ns);
	return 1;
}
