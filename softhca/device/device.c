// SPDX-License-Identifier: Apache-2.0
/* The device as a whole: its lock, its wire, which exists while it has users, its trace and its counters. */
#include "device.h"

#include "injection.h"
#include "lost_memory.h"
#include "mcast.h"
#include "netdev.h"
#include "sq.h"
#include "steer.h"
#include "thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

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
