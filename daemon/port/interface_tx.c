// SPDX-License-Identifier: Apache-2.0
/* Makes, starts, stops and frees the transmit worker of an interface, and counts the channels that use it. */
#include "daemon/port/interface_tx.h"

#include "daemon/port/interface.h"
#include "daemon/state/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int interface_tx_new(struct daemon *daemon, struct interface *interface, const struct config_channel *config,
                            interface_tx_said *said, struct failure *failure)
{
	struct interface_tx *tx = calloc(1, sizeof(*tx));
	char name[16];
	int r = -ENOMEM;

	snprintf(name, sizeof(name), "tx-%.12s", interface->name);
	if (tx) {
		const struct worker_options options = {.name = name,
		                                       .spin_ns = config_spin_ns(config->poll, config->spin_us),
		                                       .cpu = config->cpu,
		                                       .node = interface->numa_node};

		r = tx_worker_new(&tx->worker, &options);
	}
	if (r < 0) {
		free(tx);
		return failure_set(failure, EX_OSERR, -r, "interface %s: its transmit worker cannot be made: %s",
		                   interface->name, strerror(-r));
	}
	tx->daemon = daemon;
	tx->spin_ns = config_spin_ns(config->poll, config->spin_us);
	tx->cpu = config->cpu;
	tx->interface = interface;
	tx->control.said = said;
	interface->tx = tx;
	return 0;
}

int interface_tx_take(struct daemon *daemon, struct interface *interface, const struct config_channel *config,
                      interface_tx_said *said, struct interface_tx **out, struct failure *failure)
{
	struct interface_tx *tx = interface->tx;
	int r = 0;

	if (!tx)
		r = interface_tx_new(daemon, interface, config, said, failure);
	else if (tx->spin_ns != config_spin_ns(config->poll, config->spin_us) || tx->cpu != config->cpu)
		r = failure_set(failure, EX_CONFIG, EBUSY,
		                "%s:%d: channel '%s': poll, spin_us and cpu are those of the transmit worker that "
		                "interface %s has, as long as it has a channel: take its channels out, reload, and "
		                "put this one in",
		                config->file, config->line, config->name, interface->name);
	if (r < 0)
		return r;
	interface->tx->n_channels++;
	*out = interface->tx;
	return 0;
}

static int interface_tx_start(struct interface_tx *tx, struct failure *failure)
{
	int r = worker_start(tx->worker);

	if (r < 0)
		return failure_set(failure, EX_OSERR, -r,
		                   "interface %s: no thread for its transmit worker (cpu = %d): %s",
		                   tx->interface->name, tx->cpu, strerror(-r));
	tx->runs = true;
	heartbeat_watch(&tx->daemon->heartbeats, &tx->worker->heartbeat, "interface '%s': its transmit worker",
	                tx->interface->name);
	return 0;
}

int interface_tx_serve(struct interface_tx *tx, struct failure *failure)
{
	int r;

	if (!tx->runs) {
		r = interface_tx_start(tx, failure);
		if (r < 0)
			return r;
	}
	if (tx->in_control)
		return 0;
	tx->control = (struct control_tx_worker){
		.interface = tx->interface->name,
		.inbox = tx->worker->inbox,
		.outbox = tx->worker->outbox,
		.doorbell = tx_worker_doorbell(tx->worker),
		.epoll = tx_worker_epoll(tx->worker),
		.said = tx->control.said,
		.context = tx,
	};
	r = control_add_tx_worker(tx->daemon->control, &tx->control);
	tx->in_control = r == 0;
	return r == 0 ? 0
	              : failure_set(failure, EX_OSERR, -r, "interface %s: its channels cannot be served: %s",
	                            tx->interface->name, strerror(-r));
}

void interface_tx_stop(struct interface_tx *tx)
{
	const struct mail stop = {.type = MAIL_STOP};

	if (!tx->runs || tx->stopping)
		return;
	tx->stopping = true;
	mailbox_send_last(tx->worker->inbox, &stop);
}

void interface_tx_join(struct interface_tx *tx)
{
	if (!tx->runs)
		return;
	worker_join(tx->worker);
	tx->runs = false;
}

void interface_tx_release(struct interface_tx *tx)
{
	if (--tx->n_channels > 0)
		return;
	interface_tx_stop(tx);
	interface_tx_join(tx);
	if (tx->in_control && tx->daemon->control)
		control_remove_tx_worker(&tx->control);
	tx->interface->tx = NULL;
	tx_worker_free(tx->worker);
	free(tx);
}
