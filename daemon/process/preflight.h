// SPDX-License-Identifier: Apache-2.0
/* Checks and settings of the process before a device is opened: seals, limits, CPUs, privileges. */
#ifndef DAEMON_PROCESS_PREFLIGHT_H
#define DAEMON_PROCESS_PREFLIGHT_H

#include "daemon/config/config.h"
#include "daemon/priv/priv.h"
#include "lib/base/failure.h"

#include <sched.h>

/* Zeroed: not known yet. */
struct preflight_cpus {
	cpu_set_t all;  /* CPUs of the process when it started */
	cpu_set_t ours; /* of every thread but the workers that have a CPU of their own */
};

/** Does the kernel enforce memory seals, for every page size in use? If not, the daemon refuses to run. */
int preflight_test_seals(const struct config *config, struct failure *failure);

/** Raise the limit of descriptors to the hard limit, and that of locked memory to none if that is allowed. */
void preflight_raise_limits(void);

/**
 * May the daemon use the CPUs of the workers? Those of streams and channels that running (NULL: none) has are not
 * looked at. Failure: EX_CONFIG, a line with file:line for each; without one, its text is "".
 */
int preflight_check_cpus(const struct config *config, const struct config *running, struct failure *failure);

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
 * The devices are open and all memory is locked: keep the capabilities in used, and log which ones go. Kernels that do
 * not ask for CAP_BPF on maps and links that are open lose it too. Main thread, before any other thread starts.
 */
int preflight_give_up_privileges(uint64_t used, struct failure *failure);

/**
 * Kernels before 5.18 refuse every bpf() to a process without CAP_BPF while kernel.unprivileged_bpf_disabled is set,
 * also on maps and programs that are open.
 */
bool preflight_bpf_stays_restricted(const char *release, int unprivileged_bpf_disabled);

#endif
