// SPDX-License-Identifier: Apache-2.0
/* Runs receive workers in turn, and sleeps when there is nothing to do for any of them. */
#include "daemon/worker/rx_loop.h"

#include "daemon/worker/rx_worker.h"
#include "lib/base/min.h"
#include "lib/base/time.h"

#include <poll.h>
#include <time.h>

#define BUSY_SLEEP_NS UINT64_C(1000000) /* at most, while there is something to look after */
/*
 * Workers that nap: if packets come more often than NAP_GAP_NS, an event for the next one would cost more than what it
 * is for. The thread then sleeps while about a quarter of a queue fills, and for NAP_NS_MAX at most. To wait for an
 * event of several workers costs more.
 */
#define NAP_GAP_NS UINT64_C(40000)
#define NAP_NS_MAX UINT64_C(1000000)
#define NAP_SLEEPS 8 /* that the mean is of: two packets that come together are no rate */

static const struct rx_worker *rx_of(const struct worker *worker)
{
	return (const struct rx_worker *)worker;
}

void rx_loop_add(struct rx_loop *loop, struct worker *worker)
{
	if (loop->n == 0)
		loop->gap_ns = NAP_NS_MAX;
	loop->workers[loop->n++] = worker;
	loop->rows += rx_of(worker)->receive.ring->head;
	rx_worker_begin(worker);
}

struct worker *rx_loop_next_stopped(struct rx_loop *loop)
{
	for (uint32_t i = 0; i < loop->n; i++) {
		struct worker *worker = loop->workers[i];

		if (!worker->stopped)
			continue;
		loop->rows -= u64_min(rx_of(worker)->receive.ring->head, loop->rows);
		loop->workers[i] = loop->workers[--loop->n];
		return worker;
	}
	return NULL;
}

/* ---- rounds -------------------------------------------------------------------------------------- */

/* Returns the work done. */
static int rx_loop_work(struct rx_loop *loop)
{
	int n = 0;

	for (uint32_t i = 0; i < loop->n; i++) {
		int r = loop->workers[i]->stopped ? 0 : rx_worker_do_work(loop->workers[i]);

		if (r < 0)
			rx_worker_fail(loop->workers[i], r);
		else
			n += r;
	}
	return n;
}

static bool rx_loop_has_stopped(const struct rx_loop *loop)
{
	for (uint32_t i = 0; i < loop->n; i++)
		if (loop->workers[i]->stopped)
			return true;
	return false;
}

/* ---- sleeping ------------------------------------------------------------------------------------ */

/* Since the last sleep began: how long from one packet to the next, at most NAP_NS_MAX. rows: of all workers. */
static uint64_t rx_loop_gap_ns(struct rx_loop *loop, uint64_t rows)
{
	uint64_t now_ns = time_monotonic_ns(), since_ns = now_ns - loop->slept_at_ns, n = rows - loop->rows;

	loop->rows = rows;
	loop->slept_at_ns = now_ns;
	return u64_min(n ? since_ns / n : since_ns, NAP_NS_MAX);
}

/* By the mean of the last sleeps, how long to sleep whatever comes. 0: until the next completion. */
static uint64_t rx_loop_nap_ns(struct rx_loop *loop)
{
	uint64_t rows = 0, slots = UINT64_MAX;

	for (uint32_t i = 0; i < loop->n; i++) {
		const struct rx_worker *worker = rx_of(loop->workers[i]);

		if (!worker->naps)
			return 0;
		rows += worker->receive.ring->head;
		slots = u64_min(slots, worker->losses->slots);
	}
	loop->gap_ns = loop->gap_ns - loop->gap_ns / NAP_SLEEPS + rx_loop_gap_ns(loop, rows) / NAP_SLEEPS;
	return loop->gap_ns < NAP_GAP_NS * (1 + loop->n / 4) ? u64_min(slots / 4 * loop->gap_ns, NAP_NS_MAX) : 0;
}

/* Poll, arm, poll again: see doc/verbs-rules.md. False: there was work after all. */
static bool rx_loop_arm(struct rx_loop *loop)
{
	for (uint32_t i = 0; i < loop->n; i++) {
		struct backend_queue *queue = rx_of(loop->workers[i])->receive.queue;
		int r = queue->ops->arm(queue);

		if (r < 0)
			rx_worker_fail(loop->workers[i], r);
	}
	return rx_loop_work(loop) == 0 && !rx_loop_has_stopped(loop);
}

static void rx_loop_wait(const struct rx_loop *loop, int wake_fd)
{
	struct pollfd fds[2 * RX_LOOP_MAX + 1];
	uint64_t ns = 0;

	for (uint32_t i = 0; i < loop->n; i++) {
		struct backend_queue *queue = rx_of(loop->workers[i])->receive.queue;

		fds[2 * i] = (struct pollfd){.fd = queue->ops->fd(queue), .events = POLLIN};
		fds[2 * i + 1] = (struct pollfd){.fd = mailbox_fd(loop->workers[i]->inbox), .events = POLLIN};
		ns = rx_worker_is_busy(loop->workers[i]) ? BUSY_SLEEP_NS : ns;
	}
	fds[2 * loop->n] = (struct pollfd){.fd = wake_fd, .events = POLLIN};
	if (ppoll(fds, 2 * loop->n + 1, ns ? &(struct timespec){.tv_nsec = (long)ns} : NULL, NULL) <= 0)
		return;
	for (uint32_t i = 0; i < loop->n; i++) {
		struct backend_queue *queue = rx_of(loop->workers[i])->receive.queue;

		if (fds[2 * i].revents)
			queue->ops->clear(queue);
		if (fds[2 * i + 1].revents)
			mailbox_clear(loop->workers[i]->inbox);
	}
}

static void rx_loop_sleep(struct rx_loop *loop, int n, int wake_fd)
{
	uint64_t nap_ns = rx_loop_nap_ns(loop);

	if (nap_ns)
		nanosleep(&(struct timespec){.tv_nsec = (long)nap_ns}, NULL);
	else if (n == 0 && rx_loop_arm(loop))
		rx_loop_wait(loop, wake_fd);
}

/* A worker of several finds packets in nearly every round: less than one for each is nothing to stay awake for. */
void rx_loop_round(struct rx_loop *loop, int wake_fd)
{
	struct worker *first = loop->workers[0];
	int n = rx_loop_work(loop);

	if (rx_loop_has_stopped(loop))
		return;
	if (n >= (int)loop->n)
		first->idle_since_ns = 0;
	else if (first->spin_ns != WORKER_SPIN_FOREVER && worker_is_to_sleep(first, time_monotonic_ns()))
		rx_loop_sleep(loop, n, wake_fd);
}

/* ---- a thread for one ---------------------------------------------------------------------------- */

static void rx_loop_run(struct worker *worker)
{
	struct rx_loop loop = {.n = 0};

	rx_loop_add(&loop, worker);
	while (!rx_loop_next_stopped(&loop))
		rx_loop_round(&loop, -1);
}

int rx_loop_start(struct worker *worker)
{
	worker->run = rx_loop_run;
	return worker_start(worker);
}
