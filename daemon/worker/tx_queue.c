// SPDX-License-Identifier: Apache-2.0
#include "daemon/worker/tx_queue.h"

#include "daemon/base/round.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/ring_tx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_PAGE 4096u
/* Some µs of the wire, so that nobody waits for long; and a few packets at least, so that a doorbell is for several. */
#define QUANTUM_BYTES 32768u
/* What is with the device when a channel ends gets so long; then the queue is reset. */
#define DRAIN_NS UINT64_C(1000000000)
/* A queue that fails again and again without a single packet sent in between is given up. */
#define RESTARTS_MAX 16
/* Who waits for a time in UTC looks again so often: the clock may have been set. */
#define CLOCK_STEP_NS UINT64_C(100000000)
#define NAP_NS        UINT64_C(1000000)
/* Packets of one that leaves, in a round: its arena may be large, and others wait. */
#define FLUSH_MAX 4096

/* ---- life: control's ------------------------------------------------------------------------------ */

/* Rows of a flight each, registered. */
static int make_rows(struct tx_queue *txq, struct shm *rows, struct backend_memory **memory, const char *what,
                     uint32_t row_bytes, struct failure *failure)
{
	size_t bytes = (size_t)(txq->inflight_mask + 1) * row_bytes;
	int r = shm_create(rows, "ibvcap-send", bytes, SMALL_PAGE);

	if (r < 0)
		return failure_set(failure, EX_OSERR, -r,
		                   "channel '%s': cannot get %zu bytes for the %s of %u packets (send_queue_slots): %s",
		                   txq->name, bytes, what, txq->queue_slots, strerror(-r));
	return txq->backend->ops->register_memory(txq->backend, rows->address, rows->bytes, memory, failure);
}

static int make_queue(struct tx_queue *txq, const struct tx_queue_options *options, struct failure *failure)
{
	const struct backend_send_options send = {
		.headers = txq->headers_memory,
		.slots = options->queue_slots,
		.checksums = options->checksums == PACKET_CHECKSUMS_DEVICE,
		.completion_events = options->completion_events,
		.rate_bps = options->device_pacing ? options->rate_bps : 0,
		.burst_bytes = options->burst_bytes,
	};
	const struct backend_ops *ops = txq->backend->ops;
	int r = ops->create_send_queue(txq->backend, &send, &txq->queue, failure);

	if (r < 0)
		return r;
	r = ops->start(txq->queue);
	return r < 0 ? failure_set(failure, EX_UNAVAILABLE, -r, "channel '%s': its send queue does not start: %s",
	                           txq->name, strerror(-r))
	             : 0;
}

static int make_tables(struct tx_queue *txq, struct failure *failure)
{
	txq->inflight = calloc(txq->inflight_mask + 1, sizeof(*txq->inflight));
	txq->destinations = calloc(txq->n_destinations, sizeof(*txq->destinations));
	if (!txq->inflight || !txq->destinations)
		return failure_set(failure, EX_OSERR, ENOMEM, "channel '%s': out of memory", txq->name);
	for (uint32_t i = 0; i < txq->n_destinations; i++)
		txq->destinations[i].error = -EHOSTUNREACH;
	return 0;
}

static void init(struct tx_queue *txq, const struct tx_queue_options *options)
{
	uint32_t frame_max = pacing_frame_bytes(PACKET_HEADERS_MAX + options->slot_bytes);

	*txq = (struct tx_queue){
		.backend = options->backend,
		.headers = SHM_INIT,
		.copies = SHM_INIT,
		.queue_slots = options->queue_slots,
		.inflight_mask = round_up_to_power_of_two(options->queue_slots) - 1,
		.slot_bytes = options->slot_bytes,
		.n_destinations = options->n_destinations,
		.late_after_ns = options->late_after_ns,
		.checksums = options->checksums,
		.quantum_bytes = frame_max > QUANTUM_BYTES ? frame_max : QUANTUM_BYTES,
		.due_ns = TX_QUEUE_NEVER,
		.due_utc_ns = TX_QUEUE_NEVER,
	};
	snprintf(txq->name, sizeof(txq->name), "%s", options->name);
	pacing_init(&txq->pacing, options->device_pacing ? 0 : options->rate_bps, options->burst_bytes);
}

int tx_queue_new(struct tx_queue **txq, const struct tx_queue_options *options, struct failure *failure)
{
	struct tx_queue *new = malloc(sizeof(*new));
	int r;

	if (!new)
		return failure_set(failure, EX_OSERR, ENOMEM, "channel '%s': out of memory", options->name);
	init(new, options);
	r = make_tables(new, failure);
	if (r == 0)
		r = make_rows(new, &new->headers, &new->headers_memory, "headers", TX_QUEUE_HEADER_BYTES, failure);
	if (r == 0 && options->checksums == PACKET_CHECKSUMS_SOFTWARE)
		r = make_rows(new, &new->copies, &new->copies_memory, "payload copies (udp_checksum = \"software\")",
		              options->slot_bytes, failure);
	if (r == 0)
		r = make_queue(new, options, failure);
	if (r < 0) {
		tx_queue_free(new);
		return r;
	}
	*txq = new;
	return 0;
}

void tx_queue_close(struct tx_queue *txq)
{
	if (txq->queue)
		txq->backend->ops->destroy_queue(txq->queue);
	txq->queue = NULL;
}

void tx_queue_free(struct tx_queue *txq)
{
	const struct backend_ops *ops;

	if (!txq)
		return;
	ops = txq->backend->ops;
	tx_queue_close(txq);
	if (txq->copies_memory)
		ops->unregister_memory(txq->copies_memory);
	if (txq->headers_memory)
		ops->unregister_memory(txq->headers_memory);
	shm_deinit(&txq->copies);
	shm_deinit(&txq->headers);
	free(txq->destinations);
	free(txq->inflight);
	free(txq);
}

/* ---- senders come and go: the worker's ------------------------------------------------------------ */

int tx_queue_add_sender(struct tx_queue *txq, struct sender *sender)
{
	if (txq->n_senders == TX_QUEUE_SENDERS_MAX || txq->leaving)
		return -EAGAIN;
	txq->senders[txq->n_senders++] = sender;
	return 0;
}

bool tx_queue_has_sender(const struct tx_queue *txq, const struct sender *sender)
{
	for (uint32_t i = 0; i < txq->n_senders; i++) {
		if (txq->senders[i] == sender)
			return true;
	}
	return false;
}

/* The device fills in all of a queue's checksums, or none; and without memory for copies there is nothing to sum. */
void tx_queue_set_destination(struct tx_queue *txq, uint32_t index, const struct tx_queue_destination *destination)
{
	enum packet_checksums checksums = destination->headers.checksums;

	if (index >= txq->n_destinations)
		return;
	txq->destinations[index] = *destination;
	if (destination->error == 0 && checksums != txq->checksums &&
	    (txq->checksums != PACKET_CHECKSUMS_SOFTWARE || checksums == PACKET_CHECKSUMS_DEVICE))
		txq->destinations[index].error = -EINVAL;
}

/* What it submitted last is counted, and flushed with the rest; unless it lied. */
void tx_queue_dismiss_sender(struct tx_queue *txq, struct sender *sender)
{
	if (sender->leaving)
		return;
	if (!sender->bad)
		sender_look(sender);
	sender->leaving = true;
	txq->n_leaving++;
}

void tx_queue_dismiss(struct tx_queue *txq, uint64_t now_ns)
{
	if (txq->leaving)
		return;
	txq->leaving = true;
	txq->leaving_at_ns = now_ns;
	for (uint32_t i = 0; i < txq->n_senders; i++)
		tx_queue_dismiss_sender(txq, txq->senders[i]);
}

static void forget(struct tx_queue *txq, uint32_t i)
{
	txq->senders[i] = txq->senders[--txq->n_senders];
	txq->n_leaving--;
	if (txq->turn >= txq->n_senders)
		txq->turn = 0;
}

struct sender *tx_queue_take_gone(struct tx_queue *txq)
{
	for (uint32_t i = 0; i < txq->n_senders && txq->n_leaving; i++) {
		struct sender *sender = txq->senders[i];

		if (!sender->leaving || sender->completed != sender->taken)
			continue;
		bool is_gone = sender_flush(sender, FLUSH_MAX);

		sender_publish(sender, txq->counters);
		txq->to_wake |= sender_is_due(sender);
		if (!is_gone)
			continue;
		forget(txq, i);
		return sender;
	}
	return NULL;
}

/* ---- a queue that failed -------------------------------------------------------------------------- */

/* What was with the device may have been sent or not. What was ready, but never posted, is posted next. */
static int restart(struct tx_queue *txq)
{
	const struct backend_ops *ops = txq->queue->ops;
	int r = ops->reset(txq->queue);

	if (r < 0)
		return r;
	counter_add(&txq->counters[IBVCAP_TX_COUNTER_QUEUE_RESETS], 1);
	tx_queue_end_posted(txq, txq->n_posted, -ECANCELED);
	tx_queue_publish(txq);
	return ops->start(txq->queue);
}

/* All that is taken ends, and all senders are dismissed: tx_queue_take_gone() has them. */
static void fail(struct tx_queue *txq, int error, uint64_t now_ns)
{
	txq->fatal = error;
	txq->n_posted += txq->n_ready;
	txq->n_ready = 0;
	tx_queue_end_posted(txq, txq->n_posted, -ECANCELED);
	tx_queue_publish(txq);
	tx_queue_dismiss(txq, now_ns);
}

/* A device that keeps what it has for too long is made to let go of it. */
static bool is_drain_over(const struct tx_queue *txq, const struct tx_clock_sample *now)
{
	return txq->leaving && txq->n_posted && now->monotonic_ns - txq->leaving_at_ns >= DRAIN_NS;
}

int tx_queue_serve(struct tx_queue *txq, const struct tx_clock_sample *now)
{
	int n = txq->fatal ? 0 : tx_queue_round(txq, now);

	if (n >= 0 && is_drain_over(txq, now))
		n = -ETIMEDOUT;
	if (n >= 0)
		return n;
	if (txq->restarts++ < RESTARTS_MAX)
		n = restart(txq);
	if (n < 0)
		fail(txq, n, now->monotonic_ns);
	return 1;
}

/* ---- idling --------------------------------------------------------------------------------------- */

static void want_kick(struct sender *sender, bool wanted)
{
	if (sender->need_kick == wanted)
		return;
	sender->need_kick = wanted;
	daemon_store_need_kick(sender->state, wanted);
}

/* A sender of which something waits for its time, the rate or room is looked at anyway. */
void tx_queue_arm(struct tx_queue *txq)
{
	for (uint32_t i = 0; i < txq->n_senders && txq->due_ns == TX_QUEUE_NEVER; i++)
		want_kick(txq->senders[i], txq->senders[i]->taken == txq->senders[i]->submitted);
	/* What fails here fails again at the next reap, which mends it. */
	if (txq->n_posted && !txq->fatal)
		txq->queue->ops->arm(txq->queue);
}

void tx_queue_disarm(struct tx_queue *txq)
{
	for (uint32_t i = 0; i < txq->n_senders; i++)
		want_kick(txq->senders[i], false);
}

bool tx_queue_kicked(struct tx_queue *txq, int socket)
{
	for (uint32_t i = 0; i < txq->n_senders; i++) {
		if (txq->senders[i]->socket != socket)
			continue;
		sender_kicked(txq->senders[i]);
		return true;
	}
	return false;
}

static uint64_t until(uint64_t due_ns, uint64_t now_ns)
{
	return due_ns == TX_QUEUE_NEVER ? TX_QUEUE_NEVER : due_ns > now_ns ? due_ns - now_ns : 0;
}

uint64_t tx_queue_idle_ns(const struct tx_queue *txq, const struct tx_clock_sample *now)
{
	uint64_t rate = until(txq->due_ns, now->monotonic_ns);
	uint64_t time = until(txq->due_utc_ns, now->utc_ns);
	uint64_t idle = rate < time ? rate : time;

	if (time != TX_QUEUE_NEVER && idle > CLOCK_STEP_NS)
		idle = CLOCK_STEP_NS;
	/* Nobody tells when a drain ends, or when the device takes again what it did not. */
	if ((txq->leaving || txq->n_leaving || txq->n_ready) && idle > NAP_NS)
		idle = NAP_NS;
	return idle;
}
