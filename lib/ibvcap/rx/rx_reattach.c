// SPDX-License-Identifier: Apache-2.0
/*
 * From the end of an epoch into the next: the daemon has ended and all it published was delivered. The handle unmaps
 * the old ring first, since the next daemon may need those hugepages. Then it connects, asks and waits for the
 * answer, in this call as long as the caller's timeout allows and in later calls, until reattach_ms have passed.
 */
#include "lib/base/min.h"
#include "lib/base/time.h"
#include "lib/ibvcap/client/client.h"
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/rx/rx_queue.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS_NS          UINT64_C(1000000)
#define REATTACH_MS    30000u
#define ANSWER_MS      5000u
#define PAUSE_NS_FIRST (10 * MS_NS)
#define PAUSE_NS_MAX   (200 * MS_NS)

/* ---- leaving the old epoch ------------------------------------------------------------------------- */

/* IBVCAP_NO_REATTACH: a member of a group still waits this long to attach to each of its queues. */
static uint32_t rx_reattach_ms(const struct rx_reattach *reattach)
{
	switch (reattach->options.reattach_ms) {
	case 0:
		return REATTACH_MS;
	case IBVCAP_NO_REATTACH:
		return ANSWER_MS;
	}
	return reattach->options.reattach_ms;
}

static void rx_reattach_begin(struct rx_reattach *reattach, uint64_t now_ns)
{
	reattach->away = true;
	reattach->deadline_ns = now_ns + rx_reattach_ms(reattach) * MS_NS;
	reattach->try_at_ns = now_ns;
	reattach->pause_ns = PAUSE_NS_FIRST;
}

/* What the stream lost in this epoch, by the ring, which is about to be unmapped. */
static void rx_reattach_keep_losses(struct rx_queue *queue)
{
	struct rx_reattach *reattach = &queue->reattach;
	uint64_t unused;

	if (!ledger_newest(&queue->ring->ledger, &reattach->last))
		reattach->last = (struct ledger_entry){0};
	reattach->last.after.outages = ring_load_outages(queue->ring, &unused, &unused);
	reattach->last_interface = ring_load_interface(queue->ring);
	reattach->last_epoch = queue->info.epoch;
}

/* ---- finding the next daemon ----------------------------------------------------------------------- */

static void rx_reattach_pause(struct rx_queue *queue, uint64_t now_ns)
{
	struct rx_reattach *reattach = &queue->reattach;

	rx_poll_close(queue, &reattach->client.socket);
	reattach->has_lent = false;
	snprintf(reattach->last_try, sizeof(reattach->last_try), "%s", ibvcap_error_text());
	reattach->try_at_ns = now_ns + reattach->pause_ns;
	reattach->pause_ns = reattach->pause_ns * 2 < PAUSE_NS_MAX ? reattach->pause_ns * 2 : PAUSE_NS_MAX;
}

static int rx_reattach_send(struct rx_queue *queue, const struct ibvcap_rx_options *options)
{
	struct protocol_attach request;
	int r = rx_open_fill_request(&request, queue->shared->stream, options);

	if (r < 0)
		return r;
	request.member = queue->shared->member;
	return client_send(&queue->reattach.client, &request.header);
}

/* Connect and ask. Each failure is tried again: the socket may not exist yet, or not have its final mode. */
static void rx_reattach_ask(struct rx_queue *queue, uint64_t now_ns)
{
	struct rx_reattach *reattach = &queue->reattach;
	int r;

	if (client_connect(&reattach->client, queue->shared->path, 1) == 0) {
		reattach->client.deadline_ns = reattach->deadline_ns;
		r = rx_reattach_send(queue, &reattach->options);
		if (r == 0)
			r = rx_poll_add(queue, reattach->client.socket);
		if (r == 0)
			return;
	}
	rx_reattach_pause(queue, now_ns);
}

/*
 * Errors after which the search goes on until its deadline: the daemon has no place, the daemon has ended again, this
 * process has no memory. -EIO too: a daemon whose queues have all failed ends, and systemd starts it again.
 */
static bool rx_reattach_is_passing(int error)
{
	switch (error) {
	case -EAGAIN:
	case -EIO:
	case -ECONNREFUSED:
	case -ETIMEDOUT:
	case -ENOMEM:
	case -ENOBUFS:
	case -EMFILE:
	case -ENFILE:
		return true;
	}
	return false;
}

static int rx_reattach_give_up(struct rx_queue *queue, int error)
{
	rx_poll_close(queue, &queue->reattach.client.socket);
	queue->reattach.error = error;
	return error;
}

/* The same daemon: only its session had ended. A tap goes on where it was, so that its gap is exact. */
static void rx_stay_in_epoch(const struct rx_queue *queue, struct rx_queue *new)
{
	new->attach_sequence = queue->attach_sequence;
	new->attach_head = queue->attach_head;
	new->begin_ns = queue->begin_ns;
	new->passed = queue->passed;
	new->next = queue->next;
	new->skipped = queue->skipped;
	new->gap = queue->gap;
	new->flags_before = queue->flags_before;
}

static void rx_begin_epoch(const struct rx_queue *queue, struct rx_queue *new)
{
	struct rx_reattach *reattach = &new->reattach;

	rx_queue_add_counts(queue, &queue->shared->counts);
	reattach->epochs++;
	reattach->next_flags |= IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN;
	if (new->is_tap)
		rx_map_begin_tap(new, &(struct rx_start_position){.where = IBVCAP_START_OLDEST});
}

/* Move the new queue into the handle's, which keeps its address. */
static void rx_take_over(struct rx_queue *queue, struct rx_queue *new)
{
	struct rx_reattach *reattach = &queue->reattach;

	new->reattach = queue->reattach;
	new->reattach.client = (struct client)CLIENT_INIT;
	new->waiter.uses_fd = queue->waiter.uses_fd;
	if (new->info.epoch == queue->info.epoch)
		rx_stay_in_epoch(queue, new);
	else if (queue->info.epoch)
		rx_begin_epoch(queue, new);
	else if (new->taken_over)
		new->reattach.next_flags |= IBVCAP_RX_BATCH_FLAG_TAKEN_OVER;
	new->reattach.away = new->reattach.joined = new->reattach.failed = new->reattach.has_lent = false;
	free(queue->batch_starts);
	*queue = *new;
	free(new);
	reattach->past.least += reattach->last.after.no_buffer;
	reattach->past.unjoined += reattach->last.after.unjoined;
	reattach->past.outages += (reattach->last.after.outages + 1) / 2 * 2;
	reattach->last = (struct ledger_entry){0};
}

static int rx_check_same_epoch(const struct rx_queue *new)
{
	if (consumer_ring_closed(new->ring))
		return error_set(-EAGAIN, "the daemon is about to end");
	/* The daemon chooses where a consumer begins, so packets would be delivered twice. */
	if (!new->is_tap)
		return error_set(-ECONNABORTED,
		                 "stream '%s': the daemon still runs, but has ended this connection; attach again",
		                 new->info.stream);
	return 0;
}

/* The ring has come. 0: the queue is attached to it; -errno. */
static int rx_reattach_open(struct rx_queue *queue, uint64_t now_ns)
{
	struct rx_reattach *reattach = &queue->reattach;
	struct rx_queue *new;
	int r;

	rx_poll_remove(queue, reattach->client.socket);
	r = rx_open_receive(&new, queue->shared, &reattach->client, &reattach->options);
	if (reattach->joined) {
		reattach->joined = false;
		rx_reattach_begin(reattach, now_ns);
	}
	if (r < 0)
		return r;
	r = new->info.epoch == queue->info.epoch ? rx_check_same_epoch(new) : 0;
	if (r == 0)
		r = rx_poll_add(queue, new->waiter.socket);
	if (r < 0)
		rx_queue_free(new);
	else
		rx_take_over(queue, new);
	return r;
}

/* The daemon's first answer to a member of a group. If the connection ends later, the search starts again. */
static int rx_reattach_receive_joined(struct rx_reattach *reattach)
{
	union protocol_message answer;
	int r = client_receive_answer(&reattach->client, &answer, PROTOCOL_JOINED, NULL, 0, "an attach");

	if (r < 0)
		return r;
	reattach->joined = true;
	reattach->joined_epoch = answer.joined.epoch;
	reattach->joined_queues = answer.joined.n_queues;
	reattach->deadline_ns = reattach->client.deadline_ns = UINT64_MAX;
	return 0;
}

static int rx_reattach_lend(struct rx_queue *queue)
{
	struct rx_reattach *reattach = &queue->reattach;
	int r = rx_open_lend(queue->shared, &reattach->client, &reattach->options);

	reattach->has_lent = r == 0;
	return r;
}

/* The answer has come. 1: attached; 0: another one follows, or try again later; -errno: the search has failed. */
static int rx_reattach_take_answer(struct rx_queue *queue, uint64_t now_ns)
{
	struct rx_reattach *reattach = &queue->reattach;
	bool is_joining = reattach->options.group[0] && !reattach->joined;
	bool is_lending = reattach->options.lend && !reattach->has_lent;
	int r = is_joining   ? rx_reattach_receive_joined(reattach)
	        : is_lending ? rx_reattach_lend(queue)
	                     : rx_reattach_open(queue, now_ns);

	if (r == 0)
		return !is_joining && !is_lending;
	reattach->failed |= r == -EIO;
	if (!rx_reattach_is_passing(r))
		return rx_reattach_give_up(queue, r == -ESRCH ? -ENODEV : r);
	rx_reattach_pause(queue, now_ns);
	return 0;
}

static int rx_reattach_sleep(const struct rx_reattach *reattach, uint64_t now_ns, uint64_t until_ns)
{
	struct pollfd poller = {.fd = reattach->client.socket, .events = POLLIN};
	struct timespec time;
	uint64_t ns = until_ns > now_ns ? until_ns - now_ns : 0;

	time = (struct timespec){(time_t)(ns / (1000 * MS_NS)), (long)(ns % (1000 * MS_NS))};
	return ppoll(&poller, 1, &time, NULL) < 0 ? PAUSE_INTERRUPTED : poller.revents != 0;
}

static int rx_reattach_explain_failed(const struct rx_queue *queue)
{
	return error_set(-EIO,
	                 "stream '%s': queue %u has failed, and no other daemon has started since; the daemon's log "
	                 "says why: systemctl restart ibvcapd",
	                 queue->shared->stream, queue->info.queue);
}

static int rx_reattach_explain(const struct rx_queue *queue)
{
	const struct rx_reattach *reattach = &queue->reattach;
	const char *silent = "a process accepts connections there, but does not answer: systemctl status ibvcapd";

	if (reattach->failed)
		return rx_reattach_explain_failed(queue);
	return error_set(-ESHUTDOWN,
	                 "stream '%s': its daemon has ended and no other has started within %u ms; start it: "
	                 "systemctl start ibvcapd (last attempt: %s)",
	                 queue->shared->stream, rx_reattach_ms(reattach),
	                 reattach->client.socket >= 0 ? silent : reattach->last_try);
}

/* The time of the next step if the daemon sends nothing. */
static uint64_t rx_reattach_next_step_ns(const struct rx_reattach *reattach)
{
	return reattach->client.socket >= 0 ? reattach->deadline_ns
	                                    : u64_min(reattach->try_at_ns, reattach->deadline_ns);
}

/* 1: attached; 0: not until until_ns; -errno. */
static int rx_reattach_search(struct rx_queue *queue, uint64_t until_ns)
{
	struct rx_reattach *reattach = &queue->reattach;

	for (;;) {
		uint64_t now = time_monotonic_ns();
		int r;

		if (now >= reattach->deadline_ns)
			return rx_reattach_give_up(queue, rx_reattach_explain(queue));
		if (reattach->client.socket < 0 && now >= reattach->try_at_ns)
			rx_reattach_ask(queue, now);
		r = rx_reattach_sleep(reattach, now, u64_min(until_ns, rx_reattach_next_step_ns(reattach)));
		if (r < 0)
			return r;
		if (r > 0)
			r = rx_reattach_take_answer(queue, now);
		if (r != 0)
			return r;
		if (time_monotonic_ns() >= until_ns)
			return 0;
	}
}

int rx_reattach(struct rx_queue *queue, uint64_t until_ns)
{
	struct rx_reattach *reattach = &queue->reattach;
	int r;

	if (reattach->error)
		return error_set(reattach->error, "stream '%s': the handle has ended: %s", queue->shared->stream,
		                 strerror(-reattach->error));
	if (!reattach->away) {
		if (rx_queue_is_removed(queue))
			return rx_reattach_give_up(
				queue,
				error_set(-ENODEV, "stream '%s': the administrator removed it", queue->shared->stream));
		if (reattach->options.reattach_ms == IBVCAP_NO_REATTACH)
			return rx_queue_failed(queue)
			               ? rx_reattach_explain_failed(queue)
			               : error_set(-ESHUTDOWN,
			                           "stream '%s': its daemon has ended, or opens its interface again",
			                           queue->shared->stream);
		if (rx_queue_has_batches(queue))
			return -ENOBUFS;
		queue->waiter.fd_armed = false;
		reattach->failed = rx_queue_failed(queue);
		rx_reattach_keep_losses(queue);
		rx_queue_close_epoch(queue); /* unmaps the ring, which may take a while */
		rx_reattach_begin(reattach, time_monotonic_ns());
	}
	r = rx_reattach_search(queue, until_ns);
	/* The timer limits the wait for an answer too: a socket that outlives its daemon accepts, but never answers. */
	rx_poll_set_timer(queue, reattach->away && !reattach->error ? rx_reattach_next_step_ns(reattach) : 0);
	return r;
}

/* ---- a queue that begins away ------------------------------------------------------------------------- */

int rx_reattach_new(struct rx_queue **queue, struct rx_shared *shared, const struct ibvcap_rx_options *options)
{
	int r = rx_queue_new_empty(queue, shared, options);

	if (r < 0)
		return r;
	(*queue)->info.queue = options->queue;
	rx_reattach_begin(&(*queue)->reattach, time_monotonic_ns());
	return 0;
}

int rx_reattach_join(struct rx_queue *queue, const struct ibvcap_rx_options *options)
{
	struct rx_reattach *reattach = &queue->reattach;
	int r = client_connect(&reattach->client, queue->shared->path, options->timeout_ms);

	if (r == 0)
		r = rx_reattach_send(queue, options);
	if (r == 0)
		r = rx_reattach_receive_joined(reattach);
	return r < 0 ? r : rx_poll_add(queue, reattach->client.socket);
}

void rx_reattach_put_off_end(struct rx_queue *queue, uint64_t now_ns)
{
	if (!queue->reattach.joined)
		queue->reattach.deadline_ns = now_ns + rx_reattach_ms(&queue->reattach) * MS_NS;
}
