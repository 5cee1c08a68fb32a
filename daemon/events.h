// SPDX-License-Identifier: Apache-2.0
/* The daemon's state, and what happens to it while it runs: signals, time, notices, workers that end. */
#ifndef DAEMON_EVENTS_H
#define DAEMON_EVENTS_H

#include "daemon/control/control.h"
#include "daemon/process/fdstore.h"
#include "daemon/port/interface.h"
#include "daemon/process/preflight.h"
#include "daemon/stream/stream.h"
#include "daemon/channel/channel.h"

#include <systemd/sd-event.h>

struct daemon {
	struct config *config; /* in force; older ones behind it as long as a stream that drains looks at them */
	struct failure *failure;
	sd_event *event;
	sd_event_source *term;
	sd_event_source *interrupt;
	sd_event_source *hang_up;
	sd_event_source *second;
	sd_event_source *reaper; /* frees removed streams whose workers have ended */
	sd_event_source *mailer; /* mails again what found a transmit worker's mailbox full */
	struct listener listener;
	struct fdstore fdstore;
	struct preflight_cpus cpus;
	TAILQ_HEAD(, interface) interfaces;
	TAILQ_HEAD(, interface_tx) interface_txs; /* one an interface that has channels */
	struct channel_list channels;
	struct neighbours *neighbours; /* of the channels; NULL: there is none yet */
	struct stream_list streams;    /* those that drain, too */
	struct reload *reload;         /* what the next one is made of is being read; NULL: nothing is (reload.h) */
	struct change *change;         /* the configuration to be; NULL: none is on its way (apply.h) */
	struct background *reader;     /* reads configurations */
	struct background *memory;     /* makes the memory of a change */
	bool reload_again;             /* asked for meanwhile */
	struct control *control;
	sd_event_source *watchdog;    /* watchdog.h */
	struct heartbeats heartbeats; /* of all threads that the watchdog looks at */
	uint64_t watchdog_us;
	char status[80];        /* as the service manager was told last */
	char stuck[96];         /* the thread that had stopped as of the last look; "": none */
	uint64_t wait_until_ns; /* of starting: for hugepages that the last run's readers have */
	bool stopping;
	int result;
};

/** Watch signals and time. 0 or -errno; what was added is dropped by events_drop(). */
int events_add(struct daemon *daemon);
/** Any state. */
void events_drop(struct daemon *daemon);

/** Watch what the device says of itself, unless it is watched already. 0 or -errno. */
int events_watch_device(struct daemon *daemon, struct interface *interface);

/** For control_options.worker_ended; context is the daemon. */
void events_worker_ended(void *context, const struct control_stream *ring, int error);

/** A worker has ended: is that all that stopping waits for? */
void events_look_for_end(struct daemon *daemon);

/** Tell the service manager that all is up, and what. */
void events_tell_ready(struct daemon *daemon);

/** Soon mail again what transmit workers do not know yet. */
void events_mail_again(struct daemon *daemon);

/** Soon free removed streams whose workers have ended, and configurations that nobody looks at any more. */
void events_reap(struct daemon *daemon);

/** Tell control and transmit workers which interfaces have a link. */
void events_refresh_states(struct daemon *daemon);

#endif
