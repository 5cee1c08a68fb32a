// SPDX-License-Identifier: Apache-2.0
/* A timer that looks at the heartbeats of all threads and tells the service manager that the daemon lives. */
#include "daemon/process/watchdog.h"

#include "daemon/base/log.h"
#include "daemon/state.h"

#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

/* The watchdog looks this often within its time, so a thread has at least half of the time for a round. */
#define LOOKS 4

static int on_watchdog_look(sd_event_source *source, uint64_t time_us, void *context)
{
	struct daemon *daemon = context;
	const struct heartbeat *stopped = heartbeat_find_stopped(&daemon->heartbeats);

	(void)time_us;
	if (!stopped)
		sd_notify(0, "WATCHDOG=1");
	else if (strcmp(stopped->name, daemon->stuck) != 0)
		log_message(LOG_WARNING, &(struct log_about){.event = LOG_EVENT_STUCK},
		            "%s has not moved for %llu ms: if it does not, the service manager ends the daemon and "
		            "starts it again (WatchdogSec=)",
		            stopped->name, (unsigned long long)(daemon->watchdog_us / LOOKS / 1000));
	snprintf(daemon->stuck, sizeof(daemon->stuck), "%s", stopped ? stopped->name : "");
	sd_event_source_set_time_relative(source, daemon->watchdog_us / LOOKS);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

int watchdog_add(struct daemon *daemon)
{
	int r = sd_watchdog_enabled(0, &daemon->watchdog_us);

	if (r <= 0)
		return r;
	r = sd_event_add_time_relative(daemon->event, &daemon->watchdog, CLOCK_MONOTONIC, 0, 1, on_watchdog_look,
	                               daemon);
	return r < 0 ? r : 0;
}

void watchdog_drop(struct daemon *daemon)
{
	daemon->watchdog = sd_event_source_disable_unref(daemon->watchdog);
}
