// SPDX-License-Identifier: Apache-2.0
/* Checks and settings of the process before a device is opened: seals, limits, memory, CPUs, privileges. */
#ifndef DAEMON_PROCESS_PREFLIGHT_H
#define DAEMON_PROCESS_PREFLIGHT_H

#include "daemon/base/failure.h"
#include "daemon/config/config.h"
#include "daemon/priv/priv.h"
#include "daemon/service.h"

#include <sched.h>

struct daemon;

/* Zeroed: not known yet. */
struct preflight_cpus {
	cpu_set_t all;  /* of the process when it started */
	cpu_set_t ours; /* of every thread but the workers that have a CPU of their own */
};

/** Does the kernel enforce memory seals, for every page size in use? If not, the daemon refuses to run. */
int preflight_test_seals(const struct config *config, struct failure *failure);

/** Raise the limit of descriptors to the hard limit, and that of locked memory to none if that is allowed. */
void preflight_raise_limits(void);

/**
 * Do the rings of all streams fit into the machine, whatever else is in its memory? Failure: EX_CONFIG with file:line
 * of the largest one.
 */
int preflight_check_rings(const struct config *config, struct failure *failure);

/**
 * May the daemon use the CPUs of the workers? Those of streams and channels that running (NULL: none) has are not
 * looked at. Failure: EX_CONFIG with file:line.
 */
int preflight_check_cpus(const struct config *config, const struct config *running, struct failure *failure);

/**
 * Is there memory for the rings of added, and may it be locked beside that of running? Rings in 4 kB pages are checked
 * against the memory that is available: if they took more, the kernel would kill a process.
 */
int preflight_check_memory(const struct service_memory *added, const struct service_memory *running,
                           struct failure *failure);

/**
 * Memory of senders is locked when they come. True: all of it, beside everything else, is more than RLIMIT_MEMLOCK
 * allows; the log says so, and what follows.
 */
bool preflight_needs_ipc_lock(const struct service_memory *memory);

/**
 * Keep all threads but its worker away from the cpu of a stream: waking a client can occupy a CPU with interrupts
 * off. If streams have all CPUs, every thread may use every CPU. Main thread: the threads that it starts inherit the
 * setting, the threads that run are changed. Threads that a driver started before the privileges went stay as they
 * are: the kernel does not allow a thread with fewer privileges to change them.
 */
void preflight_leave_cpus(struct preflight_cpus *cpus, const struct config *config);

/**
 * Become user (NULL: no change of user), and keep only the capabilities that the backends of the configuration use to
 * start. Main thread, before any other thread starts.
 */
int preflight_keep_privileges(const struct config *config, const struct priv_user *user, struct failure *failure);

/**
 * The devices are open and all memory is locked: give up what the backends do not use any more, and log it.
 * keeps_ipc_lock: senders will lock more memory than the limit allows. Main thread, before any other thread starts.
 */
int preflight_give_up_privileges(const struct daemon *daemon, bool keeps_ipc_lock, struct failure *failure);

/**
 * Kernels before 5.18 refuse every bpf() to a process without CAP_BPF while kernel.unprivileged_bpf_disabled is set,
 * also on what is open.
 */
bool preflight_bpf_stays_restricted(const char *release, int unprivileged_bpf_disabled);

#endif
