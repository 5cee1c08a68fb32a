// SPDX-License-Identifier: Apache-2.0
/*
 * What a worker that receives does in a round: it polls its queue, answers control's mail, notes what it knows of its
 * losses (daemon/losses), and charges consumers that stall the queue.
 */
#include "daemon/worker/rx_worker.h"

#include "lib/base/min.h"
#include "lib/base/time.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <stdlib.h>

/*
 * A queue that fails is reset at once. If it fails again within RESTART_QUIET_NS, there is a pause before the next
 * reset, twice as long each time: a device that fails at each packet (LOC_PROT_ERR) would else be reset for ever, with
 * some commands to its firmware each time.
 */
#define RESTART_QUIET_NS     UINT64_C(1000000000)
#define RESTART_PAUSE_NS_MIN UINT64_C(1000000)
#define RESTART_PAUSE_NS_MAX UINT64_C(1000000000)
#define WAKE_ROUNDS          16

/* ---- losses ---------------------------------------------------------------------------------------- */

static uint64_t rx_worker_dropped(const struct rx_worker *worker)
{
	uint64_t sum = 0;

	for (int i = 0; i < BACKEND_N_DROPS; i++)
		sum += counter_get(&worker->device->n_dropped[i]);
	return sum;
}

/* n: frames of the last poll, or -1 if there was none since the queue failed. */
static struct losses_counts rx_worker_count(const struct rx_worker *worker, int n)
{
	const struct rx_receive *receive = &worker->receive;
	const struct backend_use *use = &receive->queue->use;
	const struct ibvcap_ring *ring = receive->ring->ring;
	bool counts_drops = worker->losses->counts_drops;
	uint64_t dropped = rx_worker_dropped(worker);

	return (struct losses_counts){
		.now_ns = time_monotonic_ns(),
		.accounted = rx_receive_accounted(receive),
		.held = use->held,
		.split = counter_get(&worker->device->n_split),
		.head = receive->ring->head,
		.taken = use->taken,
		.posted = use->posted,
		.marks = dropped + use->ambiguous + (counts_drops ? 0 : receive->n_low) + worker->failed +
	                 counter_get(&ring->counters[IBVCAP_RX_COUNTER_QUEUE_RESETS]),
		.ambiguous = use->ambiguous,
		.n_maybe = !counts_drops && rx_receive_may_have_lost(receive),
		.decided_ns = use->held ? use->decided_ns : UINT64_MAX,
		.dropped = dropped,
		.unjoined = use->unjoined,
		.outages = counter_get(&ring->outages),
		.is_empty = n == 0,
		.took_all = n < RX_RECEIVE_BATCH && (!worker->losses->may_wait || rx_receive_was_empty(receive)),
		.is_ending = worker->stopping,
		.is_resetting = worker->restart_at_ns != 0,
	};
}

__attribute__((noinline)) static void rx_worker_look_at_losses(struct rx_worker *worker, int n)
{
	const struct losses_counts counts = rx_worker_count(worker, n);

	losses_queue_look(worker->losses, &counts);
}

static void rx_worker_take_matched(struct rx_worker *worker, const struct mail *mail)
{
	const struct losses_counts counts = rx_worker_count(worker, 0);
	const struct losses_reading reading = {.matched = mail->matched,
	                                       .at_ns = mail->read_ns,
	                                       .utc_ns = mail->at_ns,
	                                       .before_utc_ns = worker->losses->note.reading.utc_ns};

	losses_queue_read(worker->losses, &reading, &counts);
}

/* ---- mail ---------------------------------------------------------------------------------------- */

static void rx_worker_finish(struct rx_worker *worker, enum mail_type type, int error)
{
	const struct mail last = {.type = type, .error = error};
	struct backend_queue *queue = worker->receive.queue;
	struct losses_counts counts;

	if (queue->ops->give_up)
		queue->ops->give_up(queue);
	worker->failed = type == MAIL_FAILED;
	counts = rx_worker_count(worker, 0);
	losses_queue_end(worker->losses, &counts);
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
		atomic_store_explicit(&worker->losses->stalled_utc_ns, time_utc_ns(), memory_order_relaxed);
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
	if (losses_queue_is_due(worker->losses))
		rx_worker_look_at_losses(worker, n);
	if (n == 0 && worker->stopping && !worker->losses->is_open &&
	    time_monotonic_ns() - worker->stopping_at_ns >= worker->losses->drain_ns)
		rx_worker_finish(worker, MAIL_STOPPED, 0);
	return worker->base.stopped ? 0 : n + rx_worker_take_mails(worker);
}

/* ---- for the thread ------------------------------------------------------------------------------ */

/* No event says that a consumer has acquired the block on which the queue is stalled. */
bool rx_worker_is_busy(const struct worker *base)
{
	const struct rx_worker *worker = (const struct rx_worker *)base;

	return losses_queue_is_waiting(worker->losses) || worker->stopping || mailbox_full(worker->base.outbox) ||
	       worker->restart_at_ns || worker->receive.ring->stalled || worker->receive.queue->use.held;
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
		.verifies = options->verify_checksums,
		.has_passes = options->kernel_times || options->verify_checksums ||
	                      (options->ring->flags & ~(uint32_t)IBVCAP_RING_FLAG_LENT),
	};
	r = rx_receive_init(&w->receive);
	if (r < 0) {
		free(w);
		return r;
	}
	w->losses = options->losses;
	w->device = options->queue->device ? options->queue->device : options->queue;
	w->naps = options->naps;
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
