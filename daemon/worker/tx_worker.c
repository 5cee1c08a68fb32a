// SPDX-License-Identifier: Apache-2.0
/*
 * The thread that sends: it serves its queues in turn, takes control's mail, and sleeps when no packet is there or due.
 */
#include "daemon/worker/tx_worker.h"

#include "daemon/worker/tx_worker_sleep.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#define NAP_NS UINT64_C(1000000)

struct tx_worker {
	struct worker base;
	struct tx_queue **queues;
	uint32_t n_queues;
	int epoll; /* on which it sleeps */
	int doorbell;
	bool stopping;
};

static void tx_clock_read(struct tx_clock_sample *now)
{
	now->monotonic_ns = time_monotonic_ns();
	now->utc_ns = time_utc_ns();
}

static struct tx_clock_sample tx_clock_now(void)
{
	struct tx_clock_sample at = {.look = tx_clock_read};

	tx_clock_read(&at);
	return at;
}

/* n_queues: the worker does not have this queue (any more), and may not read it. */
static uint32_t tx_worker_find_queue(const struct tx_worker *worker, const struct tx_queue *txq)
{
	uint32_t i = 0;

	while (i < worker->n_queues && worker->queues[i] != txq)
		i++;
	return i;
}

static bool tx_worker_has_queue(const struct tx_worker *worker, const struct tx_queue *txq)
{
	return tx_worker_find_queue(worker, txq) < worker->n_queues;
}

/* ---- queues and senders that go -------------------------------------------------------------------- */

static void tx_worker_say(struct tx_worker *worker, const struct mail *mail)
{
	mailbox_send(worker->base.outbox, mail); /* the caller checked that there is room */
}

/*
 * A removal that control asked for is answered in any case. A sender that broke the rules is reported, unless the whole
 * queue goes. If the device's queue could not be reset, the device may still read the sender's memory: the error says
 * so.
 */
static void tx_worker_report_gone(struct tx_worker *worker, struct tx_queue *txq, const struct tx_queue_sender *gone)
{
	struct mail mail = {.tx_queue = txq, .sender = gone->sender};

	tx_worker_sleep_forget(worker->epoll, gone->sender->kick.epoll);
	if (gone->removal_asked) {
		mail.type = MAIL_SENDER_REMOVED;
		mail.error = txq->fatal;
	} else if (gone->sender->bad && !txq->leaving) {
		mail.type = MAIL_SENDER_BAD;
		mail.error = -EBADMSG;
		mail.reason = (uint32_t)gone->sender->bad;
	} else {
		return;
	}
	tx_worker_say(worker, &mail);
}

/* Control may free the queue as soon as it reads the mail. */
static void tx_worker_release_queue(struct tx_worker *worker, struct tx_queue *txq)
{
	struct mail mail = {.error = txq->fatal, .tx_queue = txq};

	if (txq->n_senders || txq->first != txq->next || mailbox_full(worker->base.outbox))
		return;
	tx_worker_sleep_forget(worker->epoll, txq->queue->ops->fd(txq->queue));
	worker->queues[tx_worker_find_queue(worker, txq)] = worker->queues[worker->n_queues - 1];
	worker->n_queues--;
	mail.type = txq->removal_asked ? MAIL_TX_QUEUE_REMOVED : MAIL_TX_QUEUE_FAILED;
	if (txq->removal_asked || txq->fatal)
		tx_worker_say(worker, &mail);
}

/* ---- mail ----------------------------------------------------------------------------------------- */

/* There is no limit: queues of earlier configurations may still be draining beside those of the one in force. */
static int tx_worker_add_queue(struct tx_worker *worker, struct tx_queue *txq)
{
	struct tx_queue **queues = realloc(worker->queues, (worker->n_queues + 1) * sizeof(queues[0]));
	int r = worker->stopping ? -EAGAIN : -ENOMEM;

	if (queues)
		worker->queues = queues;
	if (queues && !worker->stopping)
		r = tx_worker_sleep_watch(worker->epoll, txq->queue->ops->fd(txq->queue));
	txq->heartbeat = &worker->base.heartbeat;
	if (r == 0)
		worker->queues[worker->n_queues++] = txq;
	return r;
}

static int tx_worker_add_sender(struct tx_worker *worker, struct tx_queue *txq, struct sender *sender)
{
	int r;

	if (!tx_worker_has_queue(worker, txq))
		return -ENODEV;
	r = tx_worker_sleep_watch_kicks(worker->epoll, &sender->kick);
	if (r < 0)
		return r;
	r = tx_queue_add_sender(txq, sender);
	if (r < 0)
		tx_worker_sleep_forget(worker->epoll, sender->kick.epoll);
	return r;
}

static void tx_worker_remove_sender(struct tx_worker *worker, const struct mail *mail)
{
	struct mail reply = {.type = MAIL_SENDER_REMOVED, .tx_queue = mail->tx_queue, .sender = mail->sender};
	bool has = tx_worker_has_queue(worker, mail->tx_queue);
	struct tx_queue_sender *member = has ? tx_queue_find_sender(mail->tx_queue, mail->sender) : NULL;

	if (member) {
		member->removal_asked = true;
		tx_queue_dismiss_sender(mail->tx_queue, member);
		return;
	}
	if (has)
		reply.error = mail->tx_queue->fatal;
	tx_worker_say(worker, &reply);
}

static void tx_worker_take_queue_mail(struct tx_worker *worker, const struct mail *mail,
                                      const struct tx_clock_sample *at)
{
	struct tx_queue *txq = mail->tx_queue;

	if (!tx_worker_has_queue(worker, txq)) {
		/* The queue has failed since control sent the mail, and control has mail about that. */
		if (mail->type == MAIL_REMOVE_TX_QUEUE)
			tx_worker_say(worker, &(struct mail){.type = MAIL_TX_QUEUE_REMOVED, .tx_queue = txq});
	} else if (mail->type == MAIL_REMOVE_TX_QUEUE) {
		txq->removal_asked = true;
		tx_queue_dismiss(txq, at->monotonic_ns);
	} else if (mail->type == MAIL_TX_QUEUE_ERROR) {
		txq->error = mail->error;
	} else {
		tx_queue_set_destination(txq, mail->index, &mail->destination);
	}
}

static void tx_worker_take_mail(struct tx_worker *worker, const struct mail *mail, const struct tx_clock_sample *at)
{
	struct mail reply = {.tx_queue = mail->tx_queue, .sender = mail->sender};

	switch (mail->type) {
	case MAIL_ADD_TX_QUEUE:
		reply.type = MAIL_TX_QUEUE_ADDED;
		reply.error = tx_worker_add_queue(worker, mail->tx_queue);
		tx_worker_say(worker, &reply);
		break;
	case MAIL_ADD_SENDER:
		reply.type = MAIL_SENDER_ADDED;
		reply.error = tx_worker_add_sender(worker, mail->tx_queue, mail->sender);
		tx_worker_say(worker, &reply);
		break;
	case MAIL_REMOVE_SENDER:
		tx_worker_remove_sender(worker, mail);
		break;
	case MAIL_REMOVE_TX_QUEUE:
	case MAIL_TX_QUEUE_ERROR:
	case MAIL_DESTINATION:
		tx_worker_take_queue_mail(worker, mail, at);
		break;
	case MAIL_STOP:
		worker->stopping = true;
		for (uint32_t i = 0; i < worker->n_queues; i++)
			tx_queue_dismiss(worker->queues[i], at->monotonic_ns);
		break;
	default:
		break;
	}
}

static int tx_worker_take_mails(struct tx_worker *worker, const struct tx_clock_sample *at)
{
	struct mail mail;
	int n = 0;

	for (; !mailbox_full(worker->base.outbox) && mailbox_receive(worker->base.inbox, &mail); n++)
		tx_worker_take_mail(worker, &mail, at);
	return n;
}

/* ---- one round ------------------------------------------------------------------------------------ */

static int tx_worker_serve(struct tx_worker *worker, struct tx_queue *txq, const struct tx_clock_sample *at)
{
	int n = tx_queue_serve(txq, at);
	struct tx_queue_sender gone;

	while (txq->n_leaving && !mailbox_full(worker->base.outbox) && tx_queue_take_gone(txq, &gone))
		tx_worker_report_gone(worker, txq, &gone);
	if (txq->to_wake) {
		txq->to_wake = false;
		counter_add(&txq->counters[IBVCAP_TX_COUNTER_WAKES], 1);
		eventfd_write(worker->doorbell, 1);
	}
	if (txq->leaving)
		tx_worker_release_queue(worker, txq);
	return n;
}

int tx_worker_do_work(struct worker *base, const struct tx_clock_sample *at)
{
	struct tx_worker *worker = (struct tx_worker *)base;
	int n = 0;

	heartbeat_beat(&worker->base.heartbeat);
	/* Backwards: the last queue, which was served already, takes the place of a queue that is released. */
	for (uint32_t i = worker->n_queues; i-- > 0;)
		n += tx_worker_serve(worker, worker->queues[i], at);
	n += tx_worker_take_mails(worker, at);
	if (worker->stopping && worker->n_queues == 0 && !worker->base.stopped)
		worker->base.stopped =
			mailbox_send_last(worker->base.outbox, &(struct mail){.type = MAIL_STOPPED}) == 0;
	return n;
}

/* ---- idling --------------------------------------------------------------------------------------- */

/* No event says that control has read the outbox or that a drain has ended. */
static uint64_t tx_worker_idle_ns(const struct tx_worker *worker, const struct tx_clock_sample *at)
{
	uint64_t idle = mailbox_full(worker->base.outbox) || worker->stopping ? NAP_NS : TX_QUEUE_NEVER;

	for (uint32_t i = 0; i < worker->n_queues; i++) {
		uint64_t queue_idle = tx_queue_idle_ns(worker->queues[i], at);

		if (queue_idle < idle)
			idle = queue_idle;
	}
	return idle;
}

/* A sender that is leaving may kick as long as the device has packets of it. */
static void tx_worker_count_kick(struct tx_worker *worker, int kick_epoll)
{
	const struct tx_queue_sender *member = NULL;

	for (uint32_t i = 0; i < worker->n_queues && !member; i++)
		member = tx_queue_kicked(worker->queues[i], kick_epoll);
	if (member && member->leaving)
		tx_worker_sleep_forget(worker->epoll, kick_epoll);
}

/* The descriptor is readable: read it empty. A sender's kick needs no reading: the event was its edge. */
static void tx_worker_clear(struct tx_worker *worker, int fd)
{
	if (fd == mailbox_fd(worker->base.inbox)) {
		mailbox_clear(worker->base.inbox);
		return;
	}
	for (uint32_t i = 0; i < worker->n_queues; i++) {
		struct backend_queue *queue = worker->queues[i]->queue;

		if (queue->ops->fd(queue) == fd) {
			queue->ops->clear(queue);
			return;
		}
	}
	tx_worker_count_kick(worker, fd);
}

/* Kicks and completion events are armed first, then comes one more round: later work makes a descriptor readable. */
static void tx_worker_sleep_for_work(struct tx_worker *worker)
{
	struct tx_worker_woken woken;
	struct tx_clock_sample at;
	uint64_t idle;

	for (uint32_t i = 0; i < worker->n_queues; i++)
		tx_queue_arm(worker->queues[i]);
	at = tx_clock_now();
	if (tx_worker_do_work(&worker->base, &at) == 0 && !worker->base.stopped) {
		idle = tx_worker_idle_ns(worker, &at);
		if (idle > TX_QUEUE_SPIN_NS) {
			tx_worker_sleep_wait(worker->epoll, idle == TX_QUEUE_NEVER ? idle : idle - TX_QUEUE_SPIN_NS,
			                     &woken);
			for (uint32_t i = 0; i < woken.n; i++)
				tx_worker_clear(worker, woken.fds[i]);
		}
	}
	for (uint32_t i = 0; i < worker->n_queues; i++)
		tx_queue_disarm(worker->queues[i]);
}

static void tx_worker_run(struct worker *base)
{
	struct tx_worker *worker = (struct tx_worker *)base;

	prctl(PR_SET_TIMERSLACK, 1000ul); /* ns; the default, 50 µs, would be half of TX_QUEUE_SPIN_NS */
	while (!base->stopped) {
		const struct tx_clock_sample at = tx_clock_now();

		if (tx_worker_do_work(base, &at) > 0)
			base->idle_since_ns = 0;
		else if (base->spin_ns != WORKER_SPIN_FOREVER && tx_worker_idle_ns(worker, &at) > TX_QUEUE_SPIN_NS &&
		         worker_is_to_sleep(base, at.monotonic_ns))
			tx_worker_sleep_for_work(worker);
	}
}

/* ---- life ----------------------------------------------------------------------------------------- */

int tx_worker_new(struct worker **worker, const struct worker_options *options)
{
	struct tx_worker *new = calloc(1, sizeof(*new));
	int r;

	if (!new)
		return -ENOMEM;
	new->epoll = new->doorbell = -1;
	r = worker_init(&new->base, options, tx_worker_run);
	if (r == 0) {
		new->doorbell = eventfd(0, EFD_CLOEXEC);
		new->epoll = new->doorbell < 0 ? -1 : epoll_create1(EPOLL_CLOEXEC);
		r = new->epoll < 0 ? -errno : 0;
	}
	if (r == 0)
		r = tx_worker_sleep_watch(new->epoll, mailbox_fd(new->base.inbox));
	if (r < 0)
		tx_worker_free(&new->base);
	else
		*worker = &new->base;
	return r;
}

void tx_worker_free(struct worker *base)
{
	struct tx_worker *worker = (struct tx_worker *)base;

	if (!worker)
		return;
	worker_deinit(base);
	fd_close(&worker->epoll);
	fd_close(&worker->doorbell);
	free(worker->queues);
	free(worker);
}

int tx_worker_doorbell(const struct worker *worker)
{
	return ((const struct tx_worker *)worker)->doorbell;
}

int tx_worker_epoll(const struct worker *worker)
{
	return ((const struct tx_worker *)worker)->epoll;
}
