// SPDX-License-Identifier: Apache-2.0
/*
 * The device as a whole: it opens the wire, runs the device thread and gives the thread its work in turns (frames
 * from the wire, send queues, events), and lets commands in between two turns.
 */
#include "device.h"

#include "clock.h"
#include "fault.h"
#include "injection.h"
#include "lost_memory.h"
#include "mcast.h"
#include "netdev.h"
#include "sq.h"
#include "steer.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

void device_init(struct device *d, const struct device_config *config, unsigned int index,
                 const struct device_events *events)
{
	d->config = *config;
	d->events = events;
	d->recover = lost_memory_recover;
	d->tap.ops = &trace_tap_ops;
	rough_init(&d->rough);
	d->take = steer;
	d->index = index;
	snprintf(d->name, sizeof(d->name), "%s%u", config->name_prefix ? config->name_prefix : "mlx5_", index);
	pthread_mutex_init(&d->lock, NULL);
	pthread_mutex_init(&d->wire_lock, NULL);
	flow_steering_init(&d->steering, config->duplicates, config->flow_entries);
	/* Only frames of these two engines pass the netdev and its stack. */
	kernel_drop_init(&d->kernel_drop,
	                 config->wire.engine == WIRE_AFPACKET || config->wire.engine == WIRE_AFPACKET_THROUGHPUT
	                         ? config->kernel_drop
	                         : KERNEL_DROP_OFF,
	                 config->netdev);
	TAILQ_INIT(&d->qps);
	TAILQ_INIT(&d->wqs);
	TAILQ_INIT(&d->srqs);
	LIST_INIT(&d->files);
	TAILQ_INIT(&d->armed_later);
	d->next_qpn = DEVICE_FIRST_QPN;
	d->next_cqn = 0x400;
	d->next_pdn = 1;
	d->port_active = netdev_link_up(device_port_netdev(d));
}

void device_lock(struct device *d)
{
	atomic_fetch_add(&d->n_waiting, 1);
	pthread_mutex_lock(&d->lock);
	atomic_fetch_sub(&d->n_waiting, 1);
}

void device_unlock(struct device *d)
{
	pthread_mutex_unlock(&d->lock);
}

static void device_read_mtu(struct device *d)
{
	int mtu = netdev_mtu(d->config.netdev);

	if (mtu > 0)
		d->mtu = (uint32_t)mtu;
}

void device_watch_port(struct device *d)
{
	bool active = netdev_link_up(device_port_netdev(d)), fatal = injection_is_on(d, FAULT_FATAL, NULL);

	device_lock(d);
	if (fatal && !d->halted) {
		d->halted = true;
		d->events->fatal(d);
	}
	/* mlx5_ib_event: every context gets the event, whether it has queues or not. */
	if (active != d->port_active) {
		d->port_active = active;
		d->events->port(d, active);
	}
	device_unlock(d);
}

/* With the lock held, and while the wire is there. */
static void device_count_discards(struct device *d)
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

/* Puts in front of the engine what shall stand there. */
static void device_layer_wire(struct device *d)
{
	d->rough.inner = d->engine;
	d->tapped = rough_is_used(&d->rough) ? &d->rough.base : d->engine;
	d->wire = d->tracing ? &d->tap : d->tapped;
}

static void device_look_for_faults(struct device *d)
{
	injection_look(d);
	device_layer_wire(d);
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

/* One turn of the device thread; a fault may cut it off (fault.h). */
struct turn {
	struct device *device;
	uint64_t now_ns;
	bool burst; /* frames were received and not released */
	int n_frames, n_steered;
	int n_done;
	bool watch;
};

static void device_release_burst(struct turn *t)
{
	/* A fault cut delivery off: the frames that follow never reach the device, and count as discards. */
	t->device->counters.discards += (uint64_t)(t->n_frames - t->n_steered);
	t->burst = false;
	t->device->wire->ops->release(t->device->wire);
}

static void device_work(void *arg)
{
	struct turn *t = arg;
	struct wire_frame frames[DEVICE_BURST];
	struct device *d = t->device;
	int n;

	if (t->now_ns >= d->next_look_ns)
		device_look_for_faults(d);
	if (d->tracing)
		trace_posted(d);
	/* Completions of one queue stay in order (IBTA 10.8.3); those of others may come in any. */
	if (d->injected.shuffle && !d->halted)
		t->n_done += device_work_queues(d, &t->watch);
	n = d->wire->ops->receive(d->wire, frames, DEVICE_BURST);
	if (n > 0 && d->next_look_ns != UINT64_MAX)
		injection_look(d);
	t->burst = true;
	t->n_frames = n;
	d->starves = false;
	if (d->halted)
		n = t->n_frames = 0;
	for (; t->n_steered < n; t->n_steered++) {
		if (t->n_steered + 1 < n)
			__builtin_prefetch(frames[t->n_steered + 1].data);
		t->n_done += (int)d->take(d, &frames[t->n_steered], t->now_ns);
	}
	device_release_burst(t);
	d->starves &= n == DEVICE_BURST;
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
	unsigned int empty_rounds = 0;
	uint64_t next_link_ns = 0, next_offset_ns = 0;

	prctl(PR_SET_TIMERSLACK, 1000UL);
	prctl(PR_SET_NAME, "softhca-hca");
	while (!atomic_load_explicit(&d->stop, memory_order_relaxed)) {
		uint64_t now_ns = clock_raw_ns();
		struct turn t = {.device = d, .now_ns = now_ns};
		struct wire *wire;

		pthread_mutex_lock(&d->lock);
		if (now_ns >= next_offset_ns) {
			d->realtime_offset_ns = clock_realtime_offset_ns();
			next_offset_ns = now_ns + OFFSET_CHECK_NS;
		}
		device_watch_netdev(d, now_ns, &next_link_ns);
		if (!fault_guard(d, device_work, &t) && t.burst)
			device_release_burst(&t);
		t.watch |= !TAILQ_EMPTY(&d->armed_later);
		if (t.n_done)
			ledger_publish(&d->ledger, &d->counters);
		wire = d->wire;
		pthread_mutex_unlock(&d->lock);
		/* A mutex is not fair: without this the thread would take it again before a waiting command gets it. */
		for (int i = 0; atomic_load(&d->n_waiting) && i < 1000; i++)
			sched_yield();
		if (t.n_done)
			clock_tick(d->config.clock);
		empty_rounds = t.n_done ? 0 : empty_rounds + 1;
		if (!t.n_done)
			device_nap(d, wire, empty_rounds, t.watch);
		else if (d->starves) /* the program may share this thread's core, and has to post */
			device_sleep_us(STARVED_NAP_US);
	}
	return NULL;
}

/* 0 or negative errno; -EINVAL: there is no such core. */
static int device_start_thread(struct device *d)
{
	sigset_t all, old;
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
	/* The program's signals must not be handled by this thread, except the faults that the thread itself causes. */
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (!r)
		r = -pthread_create(&d->thread, &attr, device_thread, d);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return r;
}

static int device_open_wire(struct device *d)
{
	struct wire_config config = d->config.wire;
	int r;

	config.netdev = d->config.netdev;
	r = wire_open(&d->engine, &config);
	if (r)
		return r;
	device_layer_wire(d);
	device_read_mtu(d);
	d->wire_discards = 0;
	ledger_open(&d->ledger, d->config.counters, d->config.netdev);
	d->sq_batch = sq_batch_new();
	d->mcast = mcast_new(d->config.netdev);
	if (!d->mcast || !d->sq_batch) {
		r = -ENOMEM;
		goto fail;
	}
	atomic_store(&d->stop, false);
	r = device_start_thread(d);
	if (!r)
		return 0;
fail:
	sq_batch_free(d->sq_batch);
	mcast_free(d->mcast);
	d->engine->ops->close(d->engine);
	d->wire = d->engine = NULL;
	return r;
}

int device_get_wire(struct device *d)
{
	int r = 0;

	pthread_mutex_lock(&d->wire_lock);
	if (!d->n_wire_users)
		r = device_open_wire(d);
	if (!r)
		d->n_wire_users++;
	pthread_mutex_unlock(&d->wire_lock);
	return r;
}

void device_put_wire(struct device *d)
{
	struct wire *wire;

	pthread_mutex_lock(&d->wire_lock);
	wire = d->engine;
	if (!--d->n_wire_users) {
		atomic_store(&d->stop, true);
		pthread_join(d->thread, NULL);
		kernel_drop_close(&d->kernel_drop);
		free(d->sent_copy);
		d->sent_copy = NULL;
		device_lock(d);
		device_count_discards(d);
		ledger_publish(&d->ledger, &d->counters);
		device_unlock(d);
		d->wire = d->engine =
			NULL; /* before it is closed: a child that is forked meanwhile uses this pointer */
		rough_clear(&d->rough);
		wire->ops->close(wire);
		sq_batch_free(d->sq_batch);
		mcast_free(d->mcast);
		d->mcast = NULL;
	}
	pthread_mutex_unlock(&d->wire_lock);
}

static void device_set_trace(struct device *d, struct device_trace *x)
{
	struct device_trace *old;

	pthread_mutex_lock(&d->wire_lock);
	device_lock(d);
	old = d->tracing;
	d->tracing = x;
	if (x)
		trace_forget_past(d);
	if (d->engine)
		device_layer_wire(d);
	device_unlock(d);
	pthread_mutex_unlock(&d->wire_lock);
	free(old);
}

int device_start_trace(struct device *d)
{
	struct device_trace *x = trace_new(d->config.trace);

	if (x)
		device_set_trace(d, x);
	return x ? 0 : -ENOMEM;
}

void device_stop_trace(struct device *d)
{
	device_set_trace(d, NULL);
}

void device_read_counters(struct device *d, struct device_counters *c)
{
	struct device_counters own;

	pthread_mutex_lock(&d->wire_lock);
	device_lock(d);
	if (d->engine)
		device_count_discards(d);
	ledger_publish(&d->ledger, &d->counters);
	own = d->counters;
	device_unlock(d);
	ledger_read(&d->ledger, d->config.counters, d->config.netdev, c);
	if (!d->ledger.shared)
		ledger_add(c, &own);
	pthread_mutex_unlock(&d->wire_lock);
}
