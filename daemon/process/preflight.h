// SPDX-License-Identifier: Apache-2.0
/* What is settled about the process and the machine before a device is touched. */
#ifndef DAEMON_PROCESS_PREFLIGHT_H
#define DAEMON_PROCESS_PREFLIGHT_H

#include "daemon/base/failure.h"
#include "daemon/config/config.h"
#include "daemon/priv/priv.h"
#include "daemon/service.h"

#include <sched.h>

/** 0: not known yet. */
struct preflight_cpus {
	cpu_set_t all;  /* that were the process's as it started */
	cpu_set_t ours; /* of every thread but workers with a CPU of their own */
};

/** Does sealed memory hold, for every page size in use? The daemon refuses to run where it does not. */
int preflight_test_seals(const struct config *config, struct failure *failure);

/** As many descriptors as the hard limit allows, and locked memory without limit where that is allowed. */
void preflight_raise_limits(void);

/**
 * Is there memory for the rings of added, and may it be locked beside that of running? Rings in 4 kB pages are checked
 * against the memory that is available: if they took more, the kernel would kill a process.
 */
int preflight_check_memory(const struct service_memory *added, const struct service_memory *running,
                           struct failure *failure);

/**
 * Memory of senders is locked when they come. True: all of it, beside everything else, is more than RLIMIT_MEMLOCK allows;
 * the log says so, and what follows.
 */
bool preflight_needs_ipc_lock(const struct service_memory *memory);

/**
 * No thread but its worker runs on a stream's cpu: waking a client can keep a CPU busy with interrupts off. Where
 * streams have all of them, all are for everybody. Main thread; those it starts inherit it, those that run are changed.
 * A driver's threads from before privileges went stay as they are: the kernel lets nobody with less change them.
 */
void preflight_leave_cpus(struct preflight_cpus *cpus, const struct config *config);

/**
 * Become user (NULL: stay), and keep the capabilities that capturing needs and nothing else. Main thread, before any other
 * starts.
 */
int preflight_keep_privileges(const struct priv_user *user, struct failure *failure);

/** All memory is locked: the capability for that goes, too, where it is there, and the log says so. Main thread. */
int preflight_drop_ipc_lock(struct failure *failure);

#endif
