// SPDX-License-Identifier: Apache-2.0
/*
 * Interfaces whose streams and channels are closed, or closing; reopen.h opens them. They are in the configuration in
 * force, and no service has them. An interface that is not there at the start, because it comes later or its name is
 * wrong, is among them: the start does not fail for it, since a service that is tried again for ever captures nothing
 * for the other streams, either. Control thread.
 */
#ifndef DAEMON_RELOAD_REOPENINGS_H
#define DAEMON_RELOAD_REOPENINGS_H

#include "daemon/state/state.h"

#include <net/if.h>

struct reopening {
	TAILQ_ENTRY(reopening) link;
	char interface[IFNAMSIZ];
	uint64_t closed_ns;                 /* CLOCK_MONOTONIC */
	uint64_t try_at_ns;                 /* likewise */
	bool was_open;                      /* false: the interface was not there at the start */
	bool is_opening;                    /* by daemon->reconfiguration */
	bool is_told;                       /* the log has why they cannot be opened */
	bool is_told_down;                  /* the log has that the interface has come, and is down */
	bool is_seen;                       /* it was there at the last try */
	char why[CONTROL_CLOSED_WHY_BYTES]; /* they are closed */
};

struct reopening *reopenings_find(const struct daemon *daemon, const char *interface);
/** NULL: out of memory. */
struct reopening *reopenings_add(struct daemon *daemon, const char *interface);
void reopenings_forget(struct daemon *daemon, struct reopening *reopening);

/** Say why they are closed, for a status. */
void reopenings_explain(struct reopening *reopening, const char *format, ...) __attribute__((format(printf, 2, 3)));

/**
 * At the start: find the interfaces of the configuration that are not there. The log says so once of each; their
 * services are opened by reopen_interfaces(). 0 or -ENOMEM with the failure.
 */
int reopenings_await_missing(struct daemon *daemon, struct failure *failure);

/** Add what those that wait may lock later. */
void reopenings_add_locked_memory(const struct daemon *daemon, struct service_memory *memory);

/** Are the services of this interface closed, and opened by reopen_interfaces()? */
bool reopenings_have(const struct daemon *daemon, const char *interface);

/** closed_why of control. daemon: struct daemon. */
const char *reopenings_why(void *daemon, const char *interface, bool is_lent);

#endif
