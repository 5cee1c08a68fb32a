// SPDX-License-Identifier: Apache-2.0
/* What the files of this room share: the server and its clients. Control thread only. */
#ifndef DAEMON_CONTROL_SERVER_H
#define DAEMON_CONTROL_SERVER_H

#include "daemon/control/rx_endpoint.h"
#include "daemon/control/rx_session.h"
#include "daemon/control/tx_endpoint.h"
#include "daemon/control/tx_session.h"
#include "daemon/control/control.h"
#include "daemon/control/retained_memory.h"
#include "daemon/control/session.h"
#include "daemon/control/status.h"
#include "daemon/control/user.h"

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
	struct session
		*reconfiguring; /* asked for the reconfiguration that is on its way; NULL: no client did, or it left */
	int (*on_request)(struct session *session,
	                  const union protocol_message *message); /* 0, or -errno: disconnect */
	struct users users;
	struct retained_watch retained; /* of those that have left */
	uint64_t n_refused;             /* clients beyond max_clients, or their user's limits */
	uint64_t n_malformed;           /* malformed or too many messages */
	sd_event_source *listening;
	sd_event_source *tick;
	sd_event_source *let_go;
};

#endif
