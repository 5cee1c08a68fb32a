// SPDX-License-Identifier: Apache-2.0
/*
 * What a worker that receives does in a round: it polls its queue, answers control's mail, settles the sum of losses,
 * and charges consumers that stall the queue.
 */
#include "daemon/worker/rx_worker.h"

#include "daemon/base/probes.h"
#include "lib/base/min.h"
#include "lib/base/time.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A completion may reach memory a little later than the flow counter counts its packet: wait this long. */
#define SETTLE_NS UINT64_C(100000)
/* After the flows are removed, the last packets come through the device within this time, or that of the backend. */
#define DRAIN_NS_MIN UINT64_C(2000000)
/*
 * A queue that fails is reset at once. If it fails again within RESTART_QUIET_NS, there is a pause before the next
 * reset, twice as long each time: a device that fails at each packet (LOC_PROT_ERR) would else be reset for ever, with
 * some commands to its firmware each time.
 */
#define RESTART_QUIET_NS     UINT64_C(1000000000)
#define RESTART_PAUSE_NS_MIN UINT64_C(1000000)
#define RESTART_PAUSE_NS_MAX UINT64_C(1000000000)
#define WAKE_ROUNDS          16

/* ---- the sum: matched = published + no_buffer + errored + joined, of all queues of the stream --------- */

/* The counters of the stream into this queue's ring, which its consumers read. */
static void rx_worker_show_sum(struct rx_worker *worker)
{
	struct ibvcap_ring *ring = worker->receive.ring->ring;
	uint64_t no_buffer = counter_get(&worker->sum->no_buffer);

	counter_set(&ring->counters[IBVCAP_RX_COUNTER_MATCHED], counter_get(&worker->sum->matched));
	counter_set(&ring->counters[IBVCAP_RX_COUNTER_NO_BUFFER_LOSSLESS],
	            counter_get(&worker->sum->no_buffer_lossless));
	rx_ring_note_losses(worker->receive.ring, no_buffer, worker->reading.utc_ns);
}

/* What the queue has lost, as far as it is known now. A device that counts its drops is read now and then. */
static struct ring_losses rx_worker_losses(const struct rx_worker *worker)
{
	const struct ibvcap_ring *ring = worker->receive.ring->ring;
	uint64_t marks = rx_sum_dropped_of(worker->sum, worker->queue_index) +
	                 (worker->sum->counts_drops ? 0 : worker->receive.n_low);

	return (struct ring_losses){
		.marks = marks + counter_get(&ring->counters[IBVCAP_RX_COUNTER_QUEUE_RESETS]) + worker->failed,
		.no_buffer = counter_get(&worker->sum->no_buffer),
		.outages = counter_get(&ring->outages),
	};
}

static void rx_worker_note(struct rx_worker *worker, enum rx_sum_note note)
{
	const struct rx_receive *receive = &worker->receive;
	uint64_t rows = rx_receive_accounted(receive), lost;

	rx_sum_note(worker->sum, worker->queue_index, &worker->reading, note, rows, receive->queue->use.held);
	lost = rx_sum_settle(worker->sum, &worker->reading);
	if (lost)
		PROBE_LOSS(receive->ring->ring->stream, lost, counter_get(&worker->sum->no_buffer));
	rx_worker_show_sum(worker);
	worker->noted.rows = rows;
	worker->noted.losses = rx_worker_losses(worker);
	worker->noted.at_ns = time_monotonic_ns();
}

/*
 * A record of the last reading is due. All that was lost before now was lost before the row at the head that the record
 * will have: packets that the device holds now have rows by then.
 */
static void rx_worker_owe_record(struct rx_worker *worker)
{
	worker->taken_at_ns = time_monotonic_ns();
	worker->record = RX_RECORD_DUE;
	worker->record_taken = worker->receive.queue->use.posted;
}

static void rx_worker_take_matched(struct rx_worker *worker, const struct mail *mail)
{
	worker->has_matched = true;
	worker->reading = (struct rx_reading){.matched = mail->matched,
	                                      .at_ns = mail->read_ns,
	                                      .utc_ns = mail->at_ns,
	                                      .before_utc_ns = worker->reading.utc_ns};
	rx_worker_owe_record(worker);
	if (worker->noted.at_ns < mail->read_ns) {
		worker->before = worker->noted.losses;
		rx_sum_note_before(worker->sum, worker->queue_index, &worker->reading, worker->noted.rows);
	}
	/* Under overload no poll may ever be empty, but at most a whole receive queue of packets can still come. */
	rx_worker_note(worker, RX_SUM_OPEN);
}

/* at_ns: of the reading, or RING_SETTLED_ENDED. */
static void rx_worker_record_settled(struct rx_worker *worker, uint64_t at_ns)
{
	struct rx_ring *ring = worker->receive.ring;
	const struct backend_use *use = &worker->receive.queue->use;
	struct ring_settled settled = {
		.at_ns = use->held ? u64_min(at_ns, use->decided_ns) : at_ns,
		.matched = worker->reading.matched,
		.head = ring->head,
		.before = worker->before,
		.after = rx_worker_losses(worker),
	};

	if (!worker->sum->counts_drops)
		settled.after.marks += rx_receive_may_have_lost(&worker->receive);
	rx_sum_bound(worker->sum, &worker->reading, &settled.after.no_buffer, &settled.no_buffer_most);
	/* The fragments that are held may be lost, though no packet matches: no reading makes the record newer. */
	worker->record = use->held ? RX_RECORD_PARTIAL : RX_RECORD_WRITTEN;
	if (worker->record == RX_RECORD_PARTIAL)
		settled.matched = UINT64_MAX;
	rx_ring_note_settled(ring, &settled);
}

/*
 * The sum was settled while fragments were held. When all have a row, or are lost, it is settled again. The device may
 * have lost packets since the poll, and hold others that came before those.
 */
__attribute__((noinline, cold)) static void rx_worker_record_again(struct rx_worker *worker)
{
	if (worker->has_matched || worker->receive.queue->use.held)
		return;
	rx_worker_note(worker, RX_SUM_SETTLED);
	worker->before = worker->noted.losses;
	rx_worker_owe_record(worker);
}

/*
 * Every packet of the reading has come or is lost: so long after it, at a poll that took all; or when the card has used
 * all slots that it had then. Where the kernel has a ring of its own, packets wait there while there is no slot; where
 * fragments are joined, they wait in the card's queue while there are few rows.
 */
static void rx_worker_record_if_settled(struct rx_worker *worker, int n)
{
	const struct rx_receive *receive = &worker->receive;
	bool is_past = !worker->sum->counts_drops && receive->queue->use.taken >= worker->record_taken;
	bool may_wait = worker->sum->counts_drops || worker->sum->joins;

	if (!is_past && (n == RX_RECEIVE_BATCH || (may_wait && !rx_receive_was_empty(receive)) ||
	                 time_monotonic_ns() - worker->taken_at_ns < worker->drain_ns))
		return;
	rx_worker_record_settled(worker, worker->reading.at_ns);
}

/* At an empty poll, long enough after the reading: every packet that it counted has come or is lost. */
static void rx_worker_settle_sum(struct rx_worker *worker)
{
	uint64_t settle_ns = worker->stopping ? worker->drain_ns : SETTLE_NS;

	if (!worker->has_matched || time_monotonic_ns() - worker->taken_at_ns < settle_ns)
		return;
	rx_worker_note(worker, RX_SUM_SETTLED);
	worker->has_matched = false;
}

/* ---- mail ---------------------------------------------------------------------------------------- */

static void rx_worker_finish(struct rx_worker *worker, enum mail_type type, int error)
{
	const struct mail last = {.type = type, .error = error};
	struct backend_queue *queue = worker->receive.queue;

	if (queue->ops->give_up)
		queue->ops->give_up(queue);
	rx_worker_note(worker, RX_SUM_ENDED);
	worker->failed = type == MAIL_FAILED;
	rx_worker_record_settled(worker, RING_SETTLED_ENDED);
	rx_ring_close(worker->receive.ring, type == MAIL_FAILED ? IBVCAP_RING_END_FAILED : IBVCAP_RING_END_STOPPED);
	worker->base.stopped = true;
	mailbox_send_last(worker->base.outbox, &last);
}

/* The outbox has room for an answer. */
static void rx_worker_take_mail(struct rx_worker *worker, const struct mail *mail)
{
	struct rx_ring *ring = worker->receive.ring;
	struct mail reply = {.consumer = mail->consumer};

	switch (mail->type) {
	case MAIL_ADD_CONSUMER:
		reply.type = MAIL_CONSUMER_ADDED;
		reply.error = rx_ring_add_consumer(ring, mail->consumer);
		break;
	case MAIL_REMOVE_CONSUMER:
		reply.type = MAIL_CONSUMER_REMOVED;
		rx_ring_remove_consumer(ring, mail->consumer);
		break;
	case MAIL_MATCHED:
		rx_worker_take_matched(worker, mail);
		return;
	case MAIL_CLOCK:
		rx_receive_set_clock(&worker->receive, &mail->clock);
		return;
	case MAIL_STOP:
		worker->stopping = true;
		worker->stopping_at_ns = time_monotonic_ns();
		if (mail->error) /* packets still come, so that there may never be an empty poll */
			rx_worker_finish(worker, MAIL_STOPPED, 0);
		return;
	default:
		return;
	}
	mailbox_send(worker->base.outbox, &reply);
}

static int rx_worker_take_mails(struct rx_worker *worker)
{
	struct mail mail;
	int n = 0;

	for (; !mailbox_full(worker->base.outbox) && mailbox_receive(worker->base.inbox, &mail); n++)
		rx_worker_take_mail(worker, &mail);
	return n;
}

/*
 * Charge consumers that stall the queue, and report consumers that were evicted or demoted. Not inlined, like what
 * follows on a failure: each round would save two registers more for it.
 */
__attribute__((noinline)) static void rx_worker_check_consumers(struct rx_worker *worker)
{
	struct rx_ring *ring = worker->receive.ring;
	struct mailbox *outbox = worker->base.outbox;
	struct ring_consumer *consumer;

	if (ring->stalled)
		atomic_store_explicit(&worker->sum->parts[worker->queue_index].stalled_utc_ns, time_utc_ns(),
		                      memory_order_relaxed);
	if (ring->stalled | ring->charging)
		rx_ring_charge_stalls(ring, time_monotonic_ns());
	while (!mailbox_full(outbox) && (consumer = rx_ring_next_evicted(ring)))
		mailbox_send(outbox, &(struct mail){.type = MAIL_CONSUMER_BAD,
		                                    .error = -EBADMSG,
		                                    .reason = (uint32_t)consumer->bad,
		                                    .consumer = consumer});
	while (!mailbox_full(outbox) && (consumer = rx_ring_next_demoted(ring)))
		mailbox_send(outbox, &(struct mail){.type = MAIL_CONSUMER_DEMOTED, .consumer = consumer});
}

/* ---- a failed queue ------------------------------------------------------------------------------ */

__attribute__((noinline, cold)) static int rx_worker_restart_queue(struct rx_worker *worker)
{
	int r;

	worker->restart_at_ns = 0;
	worker->restarted_at_ns = time_monotonic_ns();
	/* These are commands: a device that hangs must not end what the daemon captures from others. */
	heartbeat_suspend(&worker->base.heartbeat);
	r = rx_receive_restart(&worker->receive);
	heartbeat_resume(&worker->base.heartbeat);
	return r;
}

__attribute__((noinline, cold)) static int rx_worker_take_failure(struct rx_worker *worker)
{
	uint64_t now_ns = time_monotonic_ns(), pause_ns = 0;

	if (worker->restarted_at_ns && now_ns - worker->restarted_at_ns < RESTART_QUIET_NS)
		pause_ns = worker->restart_pause_ns ? u64_min(2 * worker->restart_pause_ns, RESTART_PAUSE_NS_MAX)
		                                    : RESTART_PAUSE_NS_MIN;
	worker->restart_pause_ns = pause_ns;
	if (pause_ns == 0)
		return rx_worker_restart_queue(worker);
	worker->restart_at_ns = now_ns + pause_ns;
	return 0;
}

/* ---- one round ----------------------------------------------------------------------------------- */

int rx_worker_do_work(struct worker *base)
{
	struct rx_worker *worker = (struct rx_worker *)base;
	struct rx_ring *ring = worker->receive.ring;
	uint64_t round = heartbeat_beat(&worker->base.heartbeat);
	int n;

	if (!worker->restart_at_ns) {
		n = rx_receive_batch(&worker->receive);
		if (n < 0 && n != -EPROTO)
			n = rx_worker_take_failure(worker);
	} else { /* packets that come meanwhile are matched and have no buffer */
		n = time_monotonic_ns() < worker->restart_at_ns ? 0 : rx_worker_restart_queue(worker);
	}
	if (n < 0)
		return n;
	/*
	 * The worker reads the wake-up requests when there is nothing else to do, because a read of a consumer's page
	 * takes some 10 instructions and a cache miss. Under load no poll may ever be empty: so also every 16 rounds.
	 */
	if (n == 0 || round % WAKE_ROUNDS == 0)
		counter_add(&ring->ring->counters[IBVCAP_RX_COUNTER_WAKES], rx_ring_wake(ring));
	if (ring->stalled | ring->charging | ring->n_bad | ring->n_unreported)
		rx_worker_check_consumers(worker);
	if (n == 0) {
		rx_worker_settle_sum(worker);
		if (worker->stopping && !worker->has_matched &&
		    time_monotonic_ns() - worker->stopping_at_ns >= worker->drain_ns)
			rx_worker_finish(worker, MAIL_STOPPED, 0);
	}
	if (worker->record != RX_RECORD_WRITTEN && !worker->base.stopped) {
		if (worker->record == RX_RECORD_PARTIAL)
			rx_worker_record_again(worker);
		else if (!worker->restart_at_ns)
			rx_worker_record_if_settled(worker, n);
	}
	return worker->base.stopped ? 0 : n + rx_worker_take_mails(worker);
}

/* ---- for the thread ------------------------------------------------------------------------------ */

/* No event says that a consumer has acquired the block on which the queue is stalled. */
bool rx_worker_is_busy(const struct worker *base)
{
	const struct rx_worker *worker = (const struct rx_worker *)base;

	return worker->has_matched || worker->record == RX_RECORD_DUE || worker->stopping ||
	       mailbox_full(worker->base.outbox) || worker->restart_at_ns || worker->receive.ring->stalled ||
	       worker->receive.queue->use.held;
}

void rx_worker_begin(struct worker *base)
{
	/* The clock is in the mail, and the thread may run so late that packets are there already. */
	rx_worker_take_mails((struct rx_worker *)base);
}

void rx_worker_fail(struct worker *base, int error)
{
	rx_worker_finish((struct rx_worker *)base, MAIL_FAILED, error);
}

/* ---- life ---------------------------------------------------------------------------------------- */

int rx_worker_new(struct worker **worker, const struct rx_worker_options *options)
{
	struct rx_worker *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	w->receive = (struct rx_receive){
		.queue = options->queue,
		.ring = options->ring,
		.device_timestamps = options->device_timestamps,
		.kernel_times = options->kernel_times,
		.has_passes = options->kernel_times || options->ring->flags,
	};
	r = rx_receive_init(&w->receive);
	if (r < 0) {
		free(w);
		return r;
	}
	w->sum = options->sum;
	w->queue_index = options->queue_index;
	w->naps = options->naps;
	w->sum->parts[w->queue_index] = (struct rx_sum_part){
		.ring = options->ring->ring,
		.queue = options->queue->device ? options->queue->device : options->queue,
		.queue_slots = options->receive_queue_slots,
	};
	w->drain_ns = options->settle_ns > DRAIN_NS_MIN ? options->settle_ns : DRAIN_NS_MIN;
	r = worker_init(&w->base, &options->worker, NULL);
	if (r < 0)
		rx_worker_free(&w->base);
	else
		*worker = &w->base;
	return r;
}

int rx_worker_prime(struct worker *worker)
{
	return rx_receive_prime(&((struct rx_worker *)worker)->receive);
}

void rx_worker_free(struct worker *worker)
{
	if (worker)
		worker_deinit(worker);
	free(worker);
}
