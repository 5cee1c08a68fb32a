// SPDX-License-Identifier: Apache-2.0
/* What calls cost a user's budget of CPU time, and when the debt is repaid. */
#include "daemon/control/cpu_budget.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define SECOND_NS UINT64_C(1000000000)
#define MS_NS     UINT64_C(1000000)

Test(cpu_budget, expensive_calls_use_it_up_and_time_repays_it)
{
	struct cpu_budget budget = {0};
	uint64_t now_ns = 100 * SECOND_NS;
	unsigned n = 0;

	while (!cpu_budget_excess_ns(&budget, now_ns) && n < 1000) {
		cpu_budget_charge(&budget, 5 * MS_NS, now_ns);
		n++;
	}
	/* One more than fit: the largest does not count. */
	cr_expect(eq(u32, n, CPU_BUDGET_NS / (5 * MS_NS - CPU_BUDGET_FREE_NS) + 2));
	cr_expect(gt(u64, cpu_budget_excess_ns(&budget, now_ns + SECOND_NS / 1000), 0));
	cr_expect(eq(u64, cpu_budget_excess_ns(&budget, now_ns + 5 * SECOND_NS), 0), "5 ms are repaid");
}

/* In one call of a thousand the hypervisor or an interrupt takes the CPU for 1 ms, which the clock counts. */
Test(cpu_budget, honest_calls_of_a_busy_machine_do_not_use_the_budget_up)
{
	struct cpu_budget budget = {0};
	uint64_t now_ns = 100 * SECOND_NS;

	for (unsigned i = 0; i < 1000000; i++) {
		cpu_budget_charge(&budget, i % 1000 == 0 ? MS_NS : 20000, now_ns);
		cr_assert(eq(u64, cpu_budget_excess_ns(&budget, now_ns), 0));
		now_ns += 100000;
	}
}

/* A user with two clients: calls for one are expensive, those for the other are cheap and made all the time. */
Test(cpu_budget, cheap_calls_repay_nothing)
{
	struct cpu_budget budget = {0};
	uint64_t now_ns = 100 * SECOND_NS;
	unsigned n = 0;

	for (; !cpu_budget_excess_ns(&budget, now_ns) && n < 100; n++) {
		cpu_budget_charge(&budget, 30 * MS_NS, now_ns);
		now_ns += 30 * MS_NS;
		for (unsigned i = 0; i < 230; i++) {
			cpu_budget_charge(&budget, 5000, now_ns);
			now_ns += 20000;
		}
	}
	cr_expect(eq(u32, n, 3));
}

Test(cpu_budget, one_call_that_seems_to_take_seconds_is_no_reason)
{
	struct cpu_budget budget = {0};

	cpu_budget_charge(&budget, 3 * SECOND_NS, 100 * SECOND_NS);
	cr_expect(eq(u64, cpu_budget_excess_ns(&budget, 100 * SECOND_NS), 0));
	cpu_budget_charge(&budget, 50 * MS_NS, 101 * SECOND_NS);
	cr_expect(eq(u64, cpu_budget_excess_ns(&budget, 101 * SECOND_NS), 0), "20 ms of the first are repaid");
	cpu_budget_charge(&budget, 50 * MS_NS, 101 * SECOND_NS);
	cr_expect(gt(u64, cpu_budget_excess_ns(&budget, 101 * SECOND_NS), 0));
}

Test(cpu_budget, the_excess_says_when_it_is_over)
{
	struct cpu_budget budget = {0};
	uint64_t now_ns = 100 * SECOND_NS, excess_ns;

	for (int i = 0; i < 20; i++)
		cpu_budget_charge(&budget, 5 * MS_NS, now_ns);
	excess_ns = cpu_budget_excess_ns(&budget, now_ns);
	cr_assert(gt(u64, excess_ns, 1));
	cr_expect(eq(u64, cpu_budget_excess_ns(&budget, now_ns + excess_ns - 1), 1));
	cr_expect(eq(u64, cpu_budget_excess_ns(&budget, now_ns + excess_ns), 0));
	cr_expect(cpu_budget_has_debt(&budget, now_ns + excess_ns));
	cr_expect(not(cpu_budget_has_debt(&budget, now_ns + 6 * SECOND_NS)));
}
