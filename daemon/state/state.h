// SPDX-License-Identifier: Apache-2.0
/* The daemon's state: every object of the process hangs on it. Control thread only. */
#ifndef DAEMON_STATE_STATE_H
#define DAEMON_STATE_STATE_H

#include "daemon/base/heartbeat.h"
#include "daemon/control/control.h"
#include "daemon/process/fdstore.h"
#include "daemon/process/manager.h"
#include "daemon/process/preflight.h"
#include "daemon/state/service.h"

#include <systemd/sd-event.h>

struct backend_notice;
struct identifications;
struct interface;

struct daemon {
	struct config *config;   /* in force; older ones behind it while a service that drains uses them */
	struct failure *failure; /* of daemon_run() */
	int result;              /* of daemon_run() */
	bool stopping;
	uint64_t wait_until_ns; /* during the start: the end of the wait for hugepages of the last run */
	struct listener listener;
	struct manager *manager; /* NULL: no service manager */
	struct fdstore fdstore;
	struct preflight_cpus cpus;

	TAILQ_HEAD(, interface) interfaces;
	struct service_list services;            /* streams and channels; those that drain, too */
	struct neighbours *neighbours;           /* the next hops of channels; NULL: there was no channel yet */
	struct identifications *identifications; /* of IP fragments that channels send; likewise */
	struct control *control;
	char status[128]; /* the last line for systemctl status */

	TAILQ_HEAD(, reopening) reopenings;      /* interfaces whose services are closed (reload/reopen.h) */
	struct reload *reload;                   /* a configuration that is being read; NULL: none */
	struct reconfiguration *reconfiguration; /* the one that is on its way; NULL: none */
	bool reload_again;                       /* SIGHUP came meanwhile */
	struct background *reader;               /* reads configurations */
	struct background *memory;               /* makes the memory of a reconfiguration */
	bool is_left; /* at the end: a thread hangs in the kernel, and the memory that it uses is not freed */
	struct background *kernel; /* asks the kernel about interfaces (port/interface.h) */

	sd_event *event;
	void (*take_notice)(struct interface *interface, const struct backend_notice *notice);
	sd_event_source *term;
	sd_event_source *interrupt;
	sd_event_source *hang_up;
	sd_event_source *second;
	sd_event_source *clock_set; /* a program set CLOCK_REALTIME */
	sd_event_source *reaper;    /* frees removed services that have ended (service.h) */
	sd_event_source *mailer;    /* mails again what found a worker's mailbox full (service.h) */
	struct link_watch *links;
	sd_event_source *watchdog;
	uint64_t watchdog_us;
	struct heartbeats heartbeats; /* one for each thread that the watchdog looks at */
	char stuck[96];               /* the thread that had stopped at the last look; "": none */
};

#endif
