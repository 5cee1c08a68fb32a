// SPDX-License-Identifier: Apache-2.0
/* What the files of this room share: the server and its clients. Control thread only. */
#ifndef DAEMON_CONTROL_SERVER_H
#define DAEMON_CONTROL_SERVER_H

#include "daemon/control/rx_endpoint.h"
#include "daemon/control/tx_endpoint.h"
#include "daemon/control/control.h"
#include "daemon/control/retained_memory.h"
#include "daemon/control/session.h"
#include "daemon/control/status.h"
#include "daemon/control/users.h"

#include <sys/queue.h>

struct control {
	struct control_options options;
	TAILQ_HEAD(, rx_endpoint) rx_endpoints;      /* one a ring */
	TAILQ_HEAD(, tx_worker_endpoint) tx_workers; /* one a transmit worker */
	TAILQ_HEAD(, tx_endpoint) tx_endpoints;
	TAILQ_HEAD(, control_interface) interfaces;
	struct status_refresh refresh;
	LIST_HEAD(, session) sessions;
	uint32_t n_sessions;
	struct session *changing; /* asked for the change that is on its way; NULL: nobody here, or it hung up */
	struct users users;
	struct retained_watch retained; /* of those that have left */
	uint64_t n_refused;             /* clients beyond max_clients, or their user's limits */
	uint64_t n_malformed;           /* malformed or too many messages */
	sd_event_source *listening;
	sd_event_source *tick;
	sd_event_source *let_go;
};

/** CLOCK_MONOTONIC of the loop's present round, microseconds. */
uint64_t control_now_us(const struct control *control);

/** One-shot timer that is armed by control_arm(). 0 or -errno. */
int control_add_timer(struct control *control, sd_event_source **timer, sd_event_time_handler_t handler, void *context);
void control_arm(sd_event_source *timer, uint64_t after_us);

/**
 * Should an event that clients can cause at will be logged? The first, then at every doubling: bounded
 * whatever they do.
 */
bool control_should_log(uint64_t n_events);

#endif
