// SPDX-License-Identifier: Apache-2.0
#include "daemon/transmitter.h"

#include "daemon/tx_channels.h"
#include "daemon/worker/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t spin_ns(const struct config_channel *config)
{
	switch (config->poll) {
	case CONFIG_POLL_BUSY:
		return TX_WORKER_SPIN_FOREVER;
	case CONFIG_POLL_ADAPTIVE:
		return (uint64_t)config->spin_us * 1000;
	case CONFIG_POLL_EVENT:
		break;
	}
	return 0;
}

static int transmitter_new(struct daemon *daemon, struct interface *interface, const struct config_channel *config,
                           struct transmitter **out, struct failure *failure)
{
	struct transmitter *transmitter = calloc(1, sizeof(*transmitter));
	char name[16];
	int r = -ENOMEM;

	snprintf(name, sizeof(name), "tx-%.12s", interface->name);
	if (transmitter) {
		const struct tx_worker_options options = {.name = name, .spin_ns = spin_ns(config), .cpu = config->cpu};

		r = tx_worker_new(&transmitter->transmit, &options);
	}
	if (r < 0) {
		free(transmitter);
		return failure_set(failure, EX_OSERR, -r, "interface %s: its transmit worker cannot be made: %s",
		                   interface->name, strerror(-r));
	}
	transmitter->daemon = daemon;
	transmitter->spin_ns = spin_ns(config);
	transmitter->cpu = config->cpu;
	transmitter->interface = interface;
	TAILQ_INSERT_TAIL(&daemon->transmitters, transmitter, link);
	*out = transmitter;
	return 0;
}

int transmitter_take(struct daemon *daemon, struct interface *interface, const struct config_channel *config,
                     struct transmitter **out, struct failure *failure)
{
	struct transmitter *transmitter;
	int r = 0;

	TAILQ_FOREACH (transmitter, &daemon->transmitters, link)
		if (transmitter->interface == interface)
			break;
	if (!transmitter)
		r = transmitter_new(daemon, interface, config, &transmitter, failure);
	else if (transmitter->spin_ns != spin_ns(config) || transmitter->cpu != config->cpu)
		r = failure_set(
			failure, EX_CONFIG, EBUSY,
			"%s:%d: channel '%s': poll, spin_us and cpu are those of the transmit worker that "
			"interface %s has, as long as it has a channel: take its channels out, reload, and put this "
			"one in",
			config->file, config->line, config->name, interface->name);
	if (r < 0)
		return r;
	transmitter->n_channels++;
	*out = transmitter;
	return 0;
}

static int start(struct transmitter *transmitter, struct failure *failure)
{
	int r = tx_worker_start(transmitter->transmit);

	if (r == -EINVAL)
		return failure_set(failure, EX_CONFIG, EINVAL,
		                   "interface %s: cpu = %d of its channels: " THREAD_CPU_ADVICE,
		                   transmitter->interface->name, transmitter->cpu);
	if (r < 0)
		return failure_set(failure, EX_OSERR, -r, "interface %s: no thread for its transmit worker: %s",
		                   transmitter->interface->name, strerror(-r));
	transmitter->runs = true;
	return 0;
}

int transmitter_serve(struct transmitter *transmitter, struct failure *failure)
{
	int r;

	if (!transmitter->runs) {
		r = start(transmitter, failure);
		if (r < 0)
			return r;
	}
	if (transmitter->in_control)
		return 0;
	transmitter->control = (struct control_tx_worker){
		.inbox = tx_worker_inbox(transmitter->transmit),
		.outbox = tx_worker_outbox(transmitter->transmit),
		.doorbell = tx_worker_doorbell(transmitter->transmit),
		.said = tx_channels_said,
		.context = transmitter,
	};
	r = control_add_tx_worker(transmitter->daemon->control, &transmitter->control);
	transmitter->in_control = r == 0;
	return r == 0 ? 0
	              : failure_set(failure, EX_OSERR, -r, "interface %s: its channels cannot be served: %s",
	                            transmitter->interface->name, strerror(-r));
}

void transmitter_stop(struct transmitter *transmitter)
{
	const struct mail stop = {.type = MAIL_STOP};

	if (!transmitter->runs || transmitter->stopping)
		return;
	transmitter->stopping = true;
	mailbox_send_last(tx_worker_inbox(transmitter->transmit), &stop);
}

void transmitter_join(struct transmitter *transmitter)
{
	if (!transmitter->runs)
		return;
	tx_worker_join(transmitter->transmit);
	transmitter->runs = false;
}

void transmitter_release(struct transmitter *transmitter)
{
	if (--transmitter->n_channels > 0)
		return;
	transmitter_stop(transmitter);
	transmitter_join(transmitter);
	if (transmitter->in_control && transmitter->daemon->control)
		control_remove_tx_worker(transmitter->daemon->control, &transmitter->control);
	TAILQ_REMOVE(&transmitter->daemon->transmitters, transmitter, link);
	tx_worker_free(transmitter->transmit);
	free(transmitter);
}
