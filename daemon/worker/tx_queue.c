// SPDX-License-Identifier: Apache-2.0
/*
 * Life of a transmit queue: its memory and its device queue, the senders that come and go, and when the worker may
 * sleep.
 */
#include "daemon/worker/tx_queue.h"

#include "daemon/packet/packet_plain.h"
#include "lib/base/min.h"
#include "lib/base/size.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/ring_tx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A few µs of the wire, so that other senders wait for a short time; but several packets, which share one doorbell. */
#define QUANTUM_BYTES 32768u
/* While a packet waits for a time in UTC, the worker looks at the clock this often, because the clock may be set. */
#define CLOCK_STEP_NS UINT64_C(100000000)
/* The worker looks this often for events that wake nobody. */
#define NAP_NS UINT64_C(1000000)
/* Packets of a leaving sender that one round flushes: its arena may be large, and other senders wait. */
#define FLUSH_MAX 4096

/* ---- life: called by control ----------------------------------------------------------------------- */

/* Longest payload of a frame that is copied; 0: none is. */
static uint32_t tx_queue_copy_bytes(const struct tx_queue_options *options)
{
	bool copies = options->checksums == PACKET_CHECKSUMS_SOFTWARE ||
	              (options->cut_bytes && options->checksums != PACKET_CHECKSUMS_ZERO);

	if (!copies)
		return 0;
	return options->cut_bytes ? u32_min(options->slot_bytes, options->cut_bytes - PACKET_IPV4_BYTES)
	                          : options->slot_bytes;
}

/* A packet that cannot be sent costs as much as the largest one, so nobody gains by submitting many of them. */
static uint32_t tx_queue_frames_bytes(const struct tx_queue_options *options)
{
	if (options->cut_bytes)
		return options->slot_bytes + TX_QUEUE_FRAGMENTS_MAX * pacing_frame_bytes(PACKET_FRAGMENT_HEADERS_MAX);
	return pacing_frame_bytes(PACKET_HEADERS_MAX + options->slot_bytes);
}

uint64_t tx_queue_bytes(const struct tx_queue_options *options)
{
	uint64_t rows = round_up_to_power_of_two(options->queue_slots);

	return round_up_to_pages(rows * TX_QUEUE_HEADER_BYTES, SMALL_PAGE_BYTES) +
	       round_up_to_pages(rows * tx_queue_copy_bytes(options), SMALL_PAGE_BYTES);
}

/* Registered memory with one row for each frame in flight. */
static int tx_queue_make_rows(struct tx_queue *txq, struct shm *rows, struct backend_memory **memory, const char *what,
                              uint32_t row_bytes, struct failure *failure)
{
	size_t bytes = (size_t)(txq->inflight_mask + 1) * row_bytes;
	int r = shm_create(rows, "ibvcap-send", bytes, SMALL_PAGE_BYTES);

	if (r < 0)
		return failure_set(failure, EX_OSERR, -r,
		                   "channel '%s': cannot get %zu bytes for the %s of %u packets (send_queue_slots): %s",
		                   txq->name, bytes, what, txq->queue_slots, strerror(-r));
	return txq->backend->ops->register_memory(txq->backend, rows->address, rows->bytes, memory, failure);
}

static int tx_queue_make_device_queue(struct tx_queue *txq, const struct tx_queue_options *options,
                                      struct failure *failure)
{
	const struct backend_send_options send = {
		.headers = txq->headers_memory,
		.slots = options->queue_slots,
		.checksums = options->checksums == PACKET_CHECKSUMS_DEVICE,
		.completion_events = options->completion_events,
		.rate_bps = options->device_pacing ? options->rate_bps : 0,
		.burst_bytes = options->burst_bytes,
		.priority = options->priority,
		.send_time = txq->pacing.rate_bps ? BACKEND_SEND_TIME_WORKER : options->send_time,
	};
	int r = txq->backend->ops->create_send_queue(txq->backend, &send, &txq->queue, failure);

	if (r < 0)
		return r;
	r = txq->queue->ops->start(txq->queue);
	return r < 0 ? failure_set(failure, EX_UNAVAILABLE, -r, "channel '%s': its send queue does not start: %s",
	                           txq->name, strerror(-r))
	             : 0;
}

static int tx_queue_make_tables(struct tx_queue *txq, struct failure *failure)
{
	txq->inflight = calloc(txq->inflight_mask + 1, sizeof(*txq->inflight));
	txq->destinations = calloc(txq->n_destinations, sizeof(*txq->destinations));
	if (!txq->inflight || !txq->destinations)
		return failure_set(failure, EX_OSERR, ENOMEM, "channel '%s': out of memory", txq->name);
	for (uint32_t i = 0; i < txq->n_destinations; i++)
		txq->destinations[i].error = -EHOSTUNREACH;
	return 0;
}

static void tx_queue_init(struct tx_queue *txq, const struct tx_queue_options *options)
{
	uint32_t frames_bytes = tx_queue_frames_bytes(options);

	*txq = (struct tx_queue){
		.backend = options->backend,
		.headers = SHM_INIT,
		.copies = SHM_INIT,
		.queue_slots = options->queue_slots,
		.inflight_mask = round_up_to_power_of_two(options->queue_slots) - 1,
		.slot_bytes = options->slot_bytes,
		.cut_bytes = options->cut_bytes,
		.copy_bytes = tx_queue_copy_bytes(options),
		.frames_bytes = frames_bytes,
		.whole_bytes = options->slot_bytes,
		.plain_bytes = (int32_t)options->slot_bytes,
		.n_destinations = options->n_destinations,
		.late_after_ns = options->late_after_ns,
		.checksums = options->checksums,
		.quantum_bytes = frames_bytes > QUANTUM_BYTES ? frames_bytes : QUANTUM_BYTES,
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
	tx_queue_init(new, options);
	r = tx_queue_make_tables(new, failure);
	if (r == 0)
		r = tx_queue_make_rows(new, &new->headers, &new->headers_memory, "headers", TX_QUEUE_HEADER_BYTES,
		                       failure);
	if (r == 0 && new->copy_bytes)
		r = tx_queue_make_rows(new, &new->copies, &new->copies_memory,
		                       "payload copies (udp_checksum = \"software\", or fragment)", new->copy_bytes,
		                       failure);
	if (r == 0)
		r = tx_queue_make_device_queue(new, options, failure);
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
		txq->queue->ops->destroy_queue(txq->queue);
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

/* ---- destinations and senders: called by the worker ------------------------------------------------ */

/* A device queue fills in the checksums of all its packets or of none; checksums in software need memory for copies. */
void tx_queue_set_destination(struct tx_queue *txq, uint32_t index, const struct tx_queue_destination *destination)
{
	enum packet_checksums checksums = destination->headers.checksums;

	if (index >= txq->n_destinations)
		return;
	txq->destinations[index] = *destination;
	if (destination->error == 0 && checksums != txq->checksums &&
	    (txq->checksums != PACKET_CHECKSUMS_SOFTWARE || checksums == PACKET_CHECKSUMS_DEVICE))
		txq->destinations[index].error = -EINVAL;
	tx_queue_find_whole_bytes(txq);
}

int tx_queue_add_sender(struct tx_queue *txq, struct sender *sender)
{
	if (txq->n_senders == TX_QUEUE_SENDERS_MAX || txq->leaving)
		return -EAGAIN;
	txq->senders[txq->n_senders++] = (struct tx_queue_sender){.sender = sender};
	return 0;
}

struct tx_queue_sender *tx_queue_find_sender(struct tx_queue *txq, const struct sender *sender)
{
	for (uint32_t i = 0; i < txq->n_senders; i++) {
		if (txq->senders[i].sender == sender)
			return &txq->senders[i];
	}
	return NULL;
}

/* The packets that it submitted last are read, so that they are counted and flushed too, unless it broke the rules. */
void tx_queue_dismiss_sender(struct tx_queue *txq, struct tx_queue_sender *member)
{
	if (member->leaving)
		return;
	if (!member->sender->bad)
		sender_read_submitted(member->sender);
	member->leaving = true;
	txq->n_leaving++;
}

void tx_queue_dismiss(struct tx_queue *txq, uint64_t now_ns)
{
	if (txq->leaving)
		return;
	txq->leaving = true;
	txq->leaving_at_ns = now_ns;
	for (uint32_t i = 0; i < txq->n_senders; i++)
		tx_queue_dismiss_sender(txq, &txq->senders[i]);
}

bool tx_queue_take_gone(struct tx_queue *txq, struct tx_queue_sender *gone)
{
	for (uint32_t i = 0; i < txq->n_senders && txq->n_leaving; i++) {
		struct sender *sender = txq->senders[i].sender;

		if (!txq->senders[i].leaving || sender->completed != sender->taken)
			continue;
		bool is_flushed = sender_flush(sender, FLUSH_MAX);

		sender_publish(sender, txq->counters);
		txq->to_wake |= sender_wants_wake(sender);
		if (!is_flushed)
			continue;
		*gone = txq->senders[i];
		txq->senders[i] = txq->senders[--txq->n_senders];
		txq->n_leaving--;
		if (txq->turn >= txq->n_senders)
			txq->turn = 0;
		return true;
	}
	return false;
}

/* ---- idling --------------------------------------------------------------------------------------- */

static void sender_want_kick(struct sender *sender, bool wanted)
{
	if (sender->need_kick == wanted)
		return;
	sender->need_kick = wanted;
	daemon_store_need_kick(sender->state, wanted);
}

/* While a packet waits for the rate, the worker looks at all senders anyway and needs no kicks. */
void tx_queue_arm(struct tx_queue *txq)
{
	for (uint32_t i = 0; i < txq->n_senders && txq->due_ns == TX_QUEUE_NEVER; i++)
		sender_want_kick(txq->senders[i].sender,
		                 txq->senders[i].sender->taken == txq->senders[i].sender->submitted);
	/* A failure shows again at the next reap, which resets the queue. */
	if (txq->n_posted && !txq->fatal)
		txq->queue->ops->arm(txq->queue);
}

void tx_queue_disarm(struct tx_queue *txq)
{
	for (uint32_t i = 0; i < txq->n_senders; i++)
		sender_want_kick(txq->senders[i].sender, false);
}

struct tx_queue_sender *tx_queue_kicked(struct tx_queue *txq, int kick_epoll)
{
	for (uint32_t i = 0; i < txq->n_senders; i++) {
		if (txq->senders[i].sender->kick.epoll != kick_epoll)
			continue;
		sender_count_kick(txq->senders[i].sender);
		return &txq->senders[i];
	}
	return NULL;
}

static uint64_t ns_until(uint64_t due_ns, uint64_t now_ns)
{
	return due_ns == TX_QUEUE_NEVER ? TX_QUEUE_NEVER : due_ns > now_ns ? due_ns - now_ns : 0;
}

uint64_t tx_queue_idle_ns(const struct tx_queue *txq, const struct tx_clock_sample *now)
{
	uint64_t rate = ns_until(txq->due_ns, now->monotonic_ns);
	uint64_t time = ns_until(txq->due_utc_ns, now->utc_ns + txq->ahead_ns);
	uint64_t idle;

	/* A packet that is posted ahead of its time needs no spinning. */
	if (txq->ahead_ns && time != TX_QUEUE_NEVER)
		time += TX_QUEUE_SPIN_NS;
	idle = rate < time ? rate : time;
	if (time != TX_QUEUE_NEVER && idle > CLOCK_STEP_NS)
		idle = CLOCK_STEP_NS;
	/* No event says that a drain has ended, or that the device accepts packets again. */
	if ((txq->leaving || txq->n_leaving || txq->n_ready) && idle > NAP_NS)
		idle = NAP_NS;
	return idle;
}
