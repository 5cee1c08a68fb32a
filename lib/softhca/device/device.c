// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include "clock.h"
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

#define SPIN_ROUNDS 16      /* empty rounds before the first nap */
#define FIRST_NAP_US 2
#define STARVED_NAP_US 20 /* enough to post a few hundred work requests */
#define IDLE_NAPS 200       /* then sleep until the wire wakes us */
#define IDLE_WAIT_US 20000
#define BUSY_WAIT_US 200    /* the same while a send or error queue must be looked at */
#define LINK_CHECK_NS 50000000ull
#define OFFSET_CHECK_NS 1000000ull

int device_init(struct device *d, const struct device_config *config, unsigned int index,
		const struct device_events *events)
{
	d->config = *config;
	d->events = events;
	d->index = index;
	snprintf(d->name, sizeof(d->name), "mlx5_%u", index);
	pthread_mutex_init(&d->lock, NULL);
	pthread_mutex_init(&d->wire_lock, NULL);
	flow_steering_init(&d->steering, config->duplicates);
	/* What comes by other wires does not pass the netdev. */
	kernel_drop_init(&d->kernel_drop,
			 config->wire.engine == WIRE_AFPACKET ||
					 config->wire.engine == WIRE_AFPACKET_THROUGHPUT
				 ? config->kernel_drop
				 : KERNEL_DROP_OFF,
			 config->netdev);
	TAILQ_INIT(&d->qps);
	TAILQ_INIT(&d->wqs);
	LIST_INIT(&d->files);
	TAILQ_INIT(&d->armed_later);
	d->next_qpn = 0x40;
	d->next_cqn = 0x400;
	d->next_pdn = 1;
	return 0;
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

static void look_at_mtu(struct device *d)
{
	int mtu = netdev_mtu(d->config.netdev);

	if (mtu > 0)
		d->mtu = (uint32_t)mtu;
}

static void watch_link(struct device *d, uint64_t now_ns, uint64_t *next_ns)
{
	bool active;

	if (now_ns < *next_ns)
		return;
	*next_ns = now_ns + LINK_CHECK_NS;
	mcast_refresh(d->mcast, now_ns);
	look_at_mtu(d);
	active = netdev_link_up(d->config.netdev);
	if (active != d->port_active) {
		d->port_active = active;
		d->events->port(d, active);
	}
}

/* Send queues and queues in error; `*watch` says that some queue needs looking at. */
static int work_queues(struct device *d, bool *watch)
{
	struct qp *qp;
	int n = 0;

	*watch = false;
	TAILQ_FOREACH (qp, &d->qps, link) {
		if (qp->sq.state != WQ_RDY || !qp->sq.n_bb)
			continue;
		n += sq_work(qp, d->sq_batch);
		*watch = true;
	}
	*watch |= queues_flush(d);
	return n;
}

static int receive_burst(struct device *d, uint64_t now_ns)
{
	struct wire_frame frames[DEVICE_BURST];
	int n = d->wire->ops->receive(d->wire, frames, DEVICE_BURST);
	uint32_t received = 0;

	d->starves = false;
	for (int i = 0; i < n; i++) {
		if (i + 1 < n)
			__builtin_prefetch(frames[i + 1].data);
		received += steer(d, &frames[i], now_ns);
	}
	d->wire->ops->release(d->wire);
	d->starves &= n == DEVICE_BURST;
	return (int)received;
}

static void sleep_us(unsigned int us)
{
	struct timespec ts = {.tv_nsec = (long)us * 1000};

	nanosleep(&ts, NULL);
}

static void nap(struct device *d, unsigned int empty_rounds, bool watch)
{
	unsigned int us = FIRST_NAP_US + (empty_rounds - SPIN_ROUNDS) * 2;

	/* Not sched_yield(): beside a program that polls on the same core, that takes a whole
	 * slice of the scheduler's, and a timer wakes us much sooner. */
	if (empty_rounds < SPIN_ROUNDS)
		return;
	if (us > d->config.nap_us)
		us = d->config.nap_us;
	if (empty_rounds > IDLE_NAPS) {
		/* Asleep on the socket, a frame costs its sender a wake-up; hence only now. */
		d->wire->ops->wait(d->wire, watch ? BUSY_WAIT_US : IDLE_WAIT_US);
		return;
	}
	sleep_us(us);
}

static void set_up_thread(const struct device *d)
{
	cpu_set_t cpus;

	prctl(PR_SET_TIMERSLACK, 1000UL);
	prctl(PR_SET_NAME, "softhca-hca");
	if (d->config.cpu < 0)
		return;
	CPU_ZERO(&cpus);
	CPU_SET((unsigned int)d->config.cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
}

static void *device_thread(void *arg)
{
	struct device *d = arg;
	unsigned int empty_rounds = 0;
	uint64_t next_link_ns = 0, next_offset_ns = 0;

	set_up_thread(d);
	while (!atomic_load_explicit(&d->stop, memory_order_relaxed)) {
		uint64_t now_ns = clock_raw_ns();
		bool watch;
		int n;

		pthread_mutex_lock(&d->lock);
		if (now_ns >= next_offset_ns) {
			d->realtime_offset_ns = clock_realtime_offset_ns();
			next_offset_ns = now_ns + OFFSET_CHECK_NS;
		}
		watch_link(d, now_ns, &next_link_ns);
		n = receive_burst(d, now_ns);
		n += work_queues(d, &watch);
		cq_events(d);
		watch |= !TAILQ_EMPTY(&d->armed_later);
		pthread_mutex_unlock(&d->lock);
		/* A mutex is not fair: let a waiting command in. */
		for (int i = 0; atomic_load(&d->n_waiting) && i < 1000; i++)
			sched_yield();
		if (n)
			clock_tick(d->config.clock);
		empty_rounds = n ? 0 : empty_rounds + 1;
		if (!n)
			nap(d, empty_rounds, watch);
		else if (d->starves) /* the program may sit on our core */
			sleep_us(STARVED_NAP_US);
	}
	return NULL;
}

static int start(struct device *d)
{
	struct wire_config config = d->config.wire;
	sigset_t all, old;
	int r;

	config.netdev = d->config.netdev;
	r = wire_open(&d->wire, &config);
	if (r)
		return r;
	look_at_mtu(d);
	d->sq_batch = sq_batch_new();
	d->mcast = mcast_new(d->config.netdev);
	if (!d->mcast || !d->sq_batch) {
		r = -ENOMEM;
		goto fail;
	}
	d->port_active = netdev_link_up(d->config.netdev);
	atomic_store(&d->stop, false);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = -pthread_create(&d->thread, NULL, device_thread, d);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!r)
		return 0;
fail:
	sq_batch_free(d->sq_batch);
	mcast_free(d->mcast);
	d->wire->ops->close(d->wire);
	d->wire = NULL;
	return r;
}

int device_get_wire(struct device *d)
{
	int r = 0;

	pthread_mutex_lock(&d->wire_lock);
	if (!d->n_wire_users)
		r = start(d);
	if (!r)
		d->n_wire_users++;
	pthread_mutex_unlock(&d->wire_lock);
	return r;
}

void device_put_wire(struct device *d)
{
	struct wire_stats stats;

	pthread_mutex_lock(&d->wire_lock);
	if (!--d->n_wire_users) {
		atomic_store(&d->stop, true);
		pthread_join(d->thread, NULL);
		kernel_drop_close(&d->kernel_drop);
		free(d->sent_copy);
		d->sent_copy = NULL;
		d->wire->ops->stats(d->wire, &stats);
		d->counters.discards += stats.discards;
		d->wire->ops->close(d->wire);
		d->wire = NULL;
		sq_batch_free(d->sq_batch);
		mcast_free(d->mcast);
		d->mcast = NULL;
	}
	pthread_mutex_unlock(&d->wire_lock);
}

void device_read_counters(struct device *d, struct device_counters *c)
{
	struct wire_stats stats = {};

	pthread_mutex_lock(&d->wire_lock);
	if (d->wire)
		d->wire->ops->stats(d->wire, &stats);
	device_lock(d);
	*c = d->counters;
	device_unlock(d);
	pthread_mutex_unlock(&d->wire_lock);
	c->discards += stats.discards;
}
