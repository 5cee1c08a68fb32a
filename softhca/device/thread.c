// SPDX-License-Identifier: Apache-2.0
/*
 * The device thread works in turns (frames from the wire, send queues, events), and lets commands in between two of
 * them.
 */
#include "thread.h"

#include "../wire/own_thread.h"
#include "clock.h"
#include "fault.h"
#include "injection.h"
#include "mcast.h"
#include "netdev.h"
#include "refuse.h"
#include "sq.h"
#include "steer.h"

#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#define SPIN_ROUNDS     16 /* rounds without work before the first nap */
#define FIRST_NAP_US    2
#define STARVED_NAP_US  20  /* long enough for a program to post a few hundred work requests */
#define IDLE_NAPS       200 /* naps before the thread sleeps until the wire wakes it */
#define IDLE_WAIT_US    20000
#define BUSY_WAIT_US    200 /* the same while a queue is being sent from or is in error */
#define NETDEV_CHECK_NS 50000000ull
#define OFFSET_CHECK_NS 1000000ull

void device_read_mtu(struct device *d)
{
	int mtu = netdev_mtu(d->config.netdev);

	if (mtu > 0)
		d->mtu = (uint32_t)mtu;
}

void device_count_discards(struct device *d)
{
	struct wire_stats stats = {};

	d->engine->ops->stats(d->engine, &stats);
	stats.discards += d->rough.n_lost;
	d->counters.discards += stats.discards - d->wire_discards;
	d->wire_discards = stats.discards;
}

static void device_watch_netdev(struct device *d, uint64_t now_ns, uint64_t *next_ns)
{
	if (now_ns < *next_ns)
		return;
	*next_ns = now_ns + NETDEV_CHECK_NS;
	mcast_refresh(d->mcast, now_ns);
	device_read_mtu(d);
	device_count_discards(d);
	ledger_use(&d->ledger);
	ledger_publish(&d->ledger, &d->counters);
}

void device_layer_wire(struct device *d)
{
	d->rough.inner = d->engine;
	d->tapped = rough_is_used(&d->rough) ? &d->rough.base : d->engine;
	d->wire = d->tracing ? &d->tap : d->tapped;
}

/* Works on send queues and on queues in error; `*watch` says whether any queue has to be looked at again soon. */
static int device_work_queues(struct device *d, bool *watch)
{
	bool backwards = d->injected.shuffle;
	struct qp *qp = backwards ? TAILQ_LAST(&d->qps, qps) : TAILQ_FIRST(&d->qps);
	int n = 0;

	*watch = false;
	for (; qp; qp = backwards ? TAILQ_PREV(qp, qps, link) : TAILQ_NEXT(qp, link)) {
		if (qp->sq.state != WQ_RDY)
			continue;
		n += qp->work(qp, d->sq_batch);
		*watch = true;
	}
	*watch |= queues_flush(d);
	return n;
}

/* Frames that the wire has brought and that are not released. While one waits (steer_waits()), for several turns. */
struct burst {
	struct wire *wire; /* NULL: there are none */
	struct wire_frame frames[DEVICE_BURST];
	int n_frames, n_steered;
};

/* One turn of the device thread; a fault may cut it off (fault.h). */
struct turn {
	struct device *device;
	uint64_t now_ns;
	struct burst *burst;
	int n_done;
	bool watch;
};

static void device_release_burst(struct turn *t)
{
	struct burst *b = t->burst;

	/* A fault cut delivery off: the frames that follow never reach the device, and count as discards. */
	t->device->counters.discards += (uint64_t)(b->n_frames - b->n_steered);
	b->wire->ops->release(b->wire);
	b->wire = NULL;
}

static void device_receive_burst(struct turn *t)
{
	struct device *d = t->device;
	struct burst *b = t->burst;

	b->n_frames = d->wire->ops->receive(d->wire, b->frames, DEVICE_BURST);
	b->n_steered = 0;
	b->wire = d->wire;
	if (b->n_frames > 0 && d->next_look_ns != UINT64_MAX)
		injection_look(d);
}

/* False: the next frame waits, and those behind it. */
static bool device_steer_burst(struct turn *t)
{
	struct device *d = t->device;
	struct burst *b = t->burst;

	if (d->halted)
		b->n_frames = b->n_steered = 0;
	for (; b->n_steered < b->n_frames; b->n_steered++) {
		struct wire_frame *frame = &b->frames[b->n_steered];

		if (b->n_steered + 1 < b->n_frames)
			__builtin_prefetch(frame[1].data);
		if (d->n_delay_drop && steer_waits(d, frame, t->now_ns))
			return false;
		t->n_done += (int)d->take(d, frame, t->now_ns);
	}
	return true;
}

static void device_work(void *arg)
{
	struct turn *t = arg;
	struct device *d = t->device;

	if (t->now_ns >= d->next_look_ns) {
		injection_look(d);
		device_layer_wire(d);
	}
	if (d->tracing)
		trace_posted(d);
	/* Completions of one queue stay in order (IBTA 10.8.3). Between queues there is no order. */
	if (d->injected.shuffle && !d->halted)
		t->n_done += device_work_queues(d, &t->watch);
	if (!t->burst->wire)
		device_receive_burst(t);
	d->starves = false;
	if (device_steer_burst(t))
		device_release_burst(t);
	d->starves &= t->burst->n_frames == DEVICE_BURST;
	if (!t->device->halted)
		t->n_done += device_work_queues(t->device, &t->watch);
	cq_events(t->device);
	if (d->config.warnings)
		warning_look(d);
	if (d->tracing)
		trace_completed(d);
}

static void device_sleep_us(unsigned int us)
{
	struct timespec ts = {.tv_nsec = (long)us * 1000};

	nanosleep(&ts, NULL);
}

static void device_nap(const struct device *d, struct wire *wire, unsigned int empty_rounds, bool watch)
{
	unsigned int us = FIRST_NAP_US + (empty_rounds - SPIN_ROUNDS) * 2;

	/* Not sched_yield(): if a program polls on the same core, the scheduler gives it a whole time slice. A timer
	 * wakes this thread much sooner. */
	if (empty_rounds < SPIN_ROUNDS)
		return;
	if (us > d->config.nap_us)
		us = d->config.nap_us;
	if (empty_rounds > IDLE_NAPS) {
		/* While this thread sleeps on the socket, each frame costs its sender a wake-up. So it does that
		 * only after many naps. */
		wire->ops->wait(wire, watch ? BUSY_WAIT_US : IDLE_WAIT_US);
		return;
	}
	device_sleep_us(us);
}

static void *device_thread(void *arg)
{
	struct device *d = arg;
	struct burst burst = {.wire = NULL};
	unsigned int empty_rounds = 0;
	uint64_t next_link_ns = 0, next_offset_ns = 0;

	prctl(PR_SET_TIMERSLACK, 1000UL);
	prctl(PR_SET_NAME, "softhca-hca");
	while (!atomic_load_explicit(&d->stop, memory_order_relaxed)) {
		bool starves;
		uint64_t now_ns = clock_raw_ns();
		struct turn t = {.device = d, .now_ns = now_ns, .burst = &burst};
		struct wire *wire;

		pthread_mutex_lock(&d->lock);
		if (now_ns >= next_offset_ns) {
			d->realtime_offset_ns = clock_realtime_offset_ns();
			next_offset_ns = now_ns + OFFSET_CHECK_NS;
		}
		device_watch_netdev(d, now_ns, &next_link_ns);
		if (!fault_guard(d, device_work, &t) && burst.wire)
			device_release_burst(&t);
		t.watch |= !TAILQ_EMPTY(&d->armed_later) || burst.wire;
		if (t.n_done)
			ledger_publish(&d->ledger, &d->counters);
		wire = d->wire;
		starves = d->starves;
		pthread_mutex_unlock(&d->lock);
		/* A mutex is not fair: without this the thread would take it again before a waiting command gets it. */
		for (int i = 0; atomic_load(&d->n_waiting) && i < 1000; i++)
			sched_yield();
		if (t.n_done)
			clock_tick(d->config.clock);
		empty_rounds = t.n_done ? 0 : empty_rounds + 1;
		if (!t.n_done)
			device_nap(d, wire, empty_rounds, t.watch);
		else if (starves) /* the program may share this thread's core, and has to post */
			device_sleep_us(STARVED_NAP_US);
	}
	return NULL;
}

int device_start_thread(struct device *d)
{
	pthread_attr_t attr;
	cpu_set_t cpus;
	int r = -pthread_attr_init(&attr);

	if (r)
		return r;
	CPU_ZERO(&cpus);
	if (d->config.cpu >= 0) {
		CPU_SET((unsigned int)d->config.cpu, &cpus);
		r = -pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus);
	}
	if (!r)
		r = own_thread_start(&d->thread, &attr, device_thread, d);
	if (r == -EINVAL)
		r = refuse(EINVAL, "device thread", "it cannot run on the chosen core", "SOFTHCA_CPU");
	pthread_attr_destroy(&attr);
	return r;
}
