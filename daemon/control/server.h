// SPDX-License-Identifier: Apache-2.0
/* struct control, which the files of this room share. Control thread only. */
#ifndef DAEMON_CONTROL_SERVER_H
#define DAEMON_CONTROL_SERVER_H

#include "daemon/control/rx_endpoint.h"
#include "daemon/control/rx_session.h"
#include "daemon/control/tx_endpoint.h"
#include "daemon/control/tx_session.h"
#include "daemon/control/control.h"
#include "daemon/control/dropped_sockets.h"
#include "daemon/control/retained_memory.h"
#include "daemon/control/session.h"
#include "daemon/control/status.h"
#include "daemon/control/user.h"

#include <sys/queue.h>

struct control {
	struct control_options options;
	TAILQ_HEAD(, rx_stream) rx_streams;
	TAILQ_HEAD(, tx_worker_endpoint) tx_workers; /* one for each transmit worker */
	TAILQ_HEAD(, tx_endpoint) tx_endpoints;
	TAILQ_HEAD(, control_interface) interfaces;
	struct status_refresh refresh;
	LIST_HEAD(, session) sessions;
	struct session
		*reconfiguring; /* asked for the reconfiguration that is on its way; NULL: no client did, or it left */
	TAILQ_HEAD(, rx_lend) lends; /* clients whose memory has come, for a stream that is to be opened */
	struct rx_lend *lending;     /* whose stream is being opened; NULL: none, or its client has left */
	int (*on_request)(struct session *session,
	                  const union protocol_message *message); /* 0, or -errno: disconnect */
	struct users users;
	struct dropped_sockets dropped;
	struct retained_watch retained; /* memory that clients keep after they left */
	uint64_t n_refused;             /* clients beyond max_clients */
	uint64_t n_malformed;           /* clients that broke a rule of the socket, or a limit of their user */
	sd_event_source *listening;
	sd_event_source *tick;
	sd_event_source *look; /* at what workers have noted of losses */
	uint64_t look_us;      /* until the next one, when it was armed */
	sd_event_source *memory_gone;
};

#endif
