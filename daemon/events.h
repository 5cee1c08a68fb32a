// SPDX-License-Identifier: Apache-2.0
/* The daemon's state, and what happens to it while it runs: signals, time, notices, workers that end. */
#ifndef DAEMON_EVENTS_H
#define DAEMON_EVENTS_H

#include "daemon/control/control.h"
#include "daemon/fdstore.h"
#include "daemon/interface.h"
#include "daemon/stream.h"

#include <systemd/sd-event.h>

struct daemon {
	const struct config *config;
	struct fault *fault;
	sd_event *event;
	sd_event_source *term;
	sd_event_source *interrupt;
	sd_event_source *hang_up;
	sd_event_source *second;
	sd_event_source **notices; /* an interface */
	struct listener listener;
	struct fdstore fdstore;
	struct interface *interfaces;
	uint32_t n_interfaces;
	struct stream *streams;
	uint32_t n_streams;
	struct control_ring *rings; /* a stream */
	struct control_interface *ports; /* an interface */
	struct control *control;
	uint64_t epoch;
	uint32_t n_workers; /* whose threads run */
	bool stopping;
	int result;
};

/** Watch signals, time and devices. 0 or -errno; what was added is dropped by events_drop(). */
int events_add(struct daemon *daemon);
/** Any state. */
void events_drop(struct daemon *daemon);

/** For control_options.worker_ended; context is the daemon. */
void events_worker_ended(void *context, uint32_t ring, int error);

/** Tell control which streams have a link. */
void events_refresh_states(struct daemon *daemon);

#endif
