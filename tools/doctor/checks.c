// SPDX-License-Identifier: Apache-2.0
/* The list of all checks. Each check_*.c compares one kind of facts with the configuration and adds findings. */
#include "tools/doctor/checks.h"

void doctor_check(const struct doctor_facts *facts, struct findings *findings)
{
	findings->n = 0;
	check_devices(facts, findings);
	check_config(facts, findings);
	check_process(facts, findings);
	check_limits(facts, findings);
	check_memory(facts, findings);
	check_hugepages(facts, findings);
	check_holders(facts, findings);
	check_pci(facts, findings);
	check_netdevs(facts, findings);
	check_cpus(facts, findings);
	check_clocks(facts, findings);
	check_kernel(facts, findings);
	if (*facts->limits.container)
		findings_name_host(findings);
}
