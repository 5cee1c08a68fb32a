// SPDX-License-Identifier: Apache-2.0
/*
 * CPU time that the daemon spends in system calls for one user's clients. Such a call takes a few microseconds, but a
 * client can make a call on its own socket take milliseconds: by having thousands of epoll instances watch its end, for
 * example. So each call is charged with its CPU time beyond CPU_BUDGET_FREE_NS, and only the passing of time repays the
 * charge, 1 ns in CPU_BUDGET_REPAY ns. The budget is exceeded while the debt is more than CPU_BUDGET_NS and the largest
 * charge in it. So a user gets CPU_BUDGET_NS and one call more, once, then 1/CPU_BUDGET_REPAY of the time.
 *
 * Calls of honest clients take less than CPU_BUDGET_FREE_NS. But an interrupt or the hypervisor may take the CPU during
 * a call, which then looks expensive. The largest charge does not count, so that one long pause of the machine costs
 * nobody anything. In a virtual machine whose CPUs are shared, a wake-up takes 0.2 ms on average, so honest clients use
 * the budget up, too. So nobody is disconnected for it: what it pays for is only done later.
 */
#ifndef DAEMON_CONTROL_CPU_BUDGET_H
#define DAEMON_CONTROL_CPU_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CPU_BUDGET_FREE_NS UINT64_C(100000)
#define CPU_BUDGET_NS      UINT64_C(40000000)
#define CPU_BUDGET_REPAY   UINT64_C(50)

/* All zero: no debt. */
struct cpu_budget {
	_Atomic uint64_t repaid_ns;  /* CLOCK_MONOTONIC: when the debt will be repaid */
	_Atomic uint64_t largest_ns; /* the largest charge in the debt */
};

/** Charge one system call that took cpu_ns of CPU time. now_ns: CLOCK_MONOTONIC. Any thread. */
void cpu_budget_charge(struct cpu_budget *budget, uint64_t cpu_ns, uint64_t now_ns);

/** In how many ns the budget will not be exceeded any more; 0: it is not. Any thread. */
uint64_t cpu_budget_excess_ns(const struct cpu_budget *budget, uint64_t now_ns);

/** Is a debt left? Any thread. */
bool cpu_budget_has_debt(const struct cpu_budget *budget, uint64_t now_ns);

#endif
