// SPDX-License-Identifier: Apache-2.0
/*
 * A debt of CPU time, kept as the moment at which it will be repaid: debt = (that moment - now) / CPU_BUDGET_REPAY.
 * Several threads may charge a budget at once. They may then disagree on the largest charge by one call, which does no
 * harm.
 */
#include "daemon/control/cpu_budget.h"

void cpu_budget_charge(struct cpu_budget *budget, uint64_t cpu_ns, uint64_t now_ns)
{
	uint64_t charged_ns = cpu_ns > CPU_BUDGET_FREE_NS ? cpu_ns - CPU_BUDGET_FREE_NS : 0;
	uint64_t before_ns, after_ns;

	if (charged_ns == 0)
		return;
	before_ns = atomic_load_explicit(&budget->repaid_ns, memory_order_relaxed);
	if (before_ns <= now_ns || charged_ns > atomic_load_explicit(&budget->largest_ns, memory_order_relaxed))
		atomic_store_explicit(&budget->largest_ns, charged_ns, memory_order_relaxed);
	do
		after_ns = (before_ns > now_ns ? before_ns : now_ns) + charged_ns * CPU_BUDGET_REPAY;
	while (!atomic_compare_exchange_weak_explicit(&budget->repaid_ns, &before_ns, after_ns, memory_order_relaxed,
	                                              memory_order_relaxed));
}

uint64_t cpu_budget_excess_ns(const struct cpu_budget *budget, uint64_t now_ns)
{
	uint64_t repaid_ns = atomic_load_explicit(&budget->repaid_ns, memory_order_relaxed);
	uint64_t largest_ns = atomic_load_explicit(&budget->largest_ns, memory_order_relaxed);
	uint64_t allowed_ns = now_ns + (CPU_BUDGET_NS + largest_ns) * CPU_BUDGET_REPAY;

	return repaid_ns > allowed_ns ? repaid_ns - allowed_ns : 0;
}

bool cpu_budget_has_debt(const struct cpu_budget *budget, uint64_t now_ns)
{
	return atomic_load_explicit(&budget->repaid_ns, memory_order_relaxed) > now_ns;
}
