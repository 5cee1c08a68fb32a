// SPDX-License-Identifier: Apache-2.0
/*
 * The limits of cgroups. And the list of all checks: each check_*.c compares one kind of facts with the configuration
 * and adds findings.
 */
#include "tools/doctor/checks.h"

#include <inttypes.h>

/* Memory that the daemon needs beside the rings in small pages. */
#define MEMORY_MIN_BYTES (UINT64_C(256) << 20)
/* Threads: for each stream or channel a worker, a notifier and a background thread, and a few for the daemon. */
#define PROCESSES_EACH 4
#define PROCESSES_MIN  16

static uint64_t bytes_in_pages_of(const struct doctor_facts *facts, uint32_t page_bytes)
{
	struct doctor_service service;
	uint64_t bytes = 0;

	for (uint32_t i = 0; facts_service(facts, i, &service); i++)
		if (service.page_bytes == page_bytes)
			bytes += service.memory_bytes;
	return bytes;
}

static void check_cgroup_limit(const struct doctor_limits *limits, enum doctor_limit which, uint64_t wanted,
                               const char *why, struct findings *findings)
{
	const char *file = doctor_limit_files[which];
	uint64_t limit = limits->at[which];
	struct finding *finding;

	if (limit == UINT64_MAX)
		return;
	finding = finding_add(findings, "cgroup", "%s", file);
	finding_write(finding->found, "%" PRIu64 ", at %s or above it", limit, limits->cgroup);
	if (limit >= wanted)
		return;
	finding_fail(finding, FINDING_ERROR, why, "%" PRIu64 " or more", wanted);
	if (which == DOCTOR_HUGE_2M || which == DOCTOR_HUGE_1G)
		finding_fix(finding, FIX_ON_HOST, "echo max > /sys/fs/cgroup%s/%s   # and in the cgroups above it",
		            limits->cgroup, file);
	else
		finding_fix(finding, FIX_LASTS | FIX_ON_HOST, "systemctl set-property ibvcapd.service %s=infinity",
		            which == DOCTOR_PROCESSES ? "TasksMax" : "MemoryMax");
}

static void check_limits(const struct doctor_facts *facts, struct findings *findings)
{
	const struct doctor_limits *limits = &facts->limits;
	const struct config *config = facts->config;
	uint64_t users = config ? config->n_streams + config->n_channels : 1;
	struct finding *finding = finding_add(findings, "container", "container");

	finding_write(finding->found, "%s", *limits->container ? limits->container : "none");
	check_cgroup_limit(limits, DOCTOR_MEMORY, bytes_in_pages_of(facts, 4096) + MEMORY_MIN_BYTES,
	                   "the kernel kills a process that uses more", findings);
	check_cgroup_limit(limits, DOCTOR_PROCESSES, users * PROCESSES_EACH + PROCESSES_MIN,
	                   "each stream and channel needs threads", findings);
	check_cgroup_limit(limits, DOCTOR_HUGE_2M, 2 * bytes_in_pages_of(facts, 2u << 20),
	                   "rings lie in these pages, and twice over a restart", findings);
	check_cgroup_limit(limits, DOCTOR_HUGE_1G, 2 * bytes_in_pages_of(facts, 1u << 30),
	                   "rings lie in these pages, and twice over a restart", findings);
}

/* ---- all checks ---------------------------------------------------------------------------------- */

/* In the order in which an administrator would repair things. */
static void (*const checks[])(const struct doctor_facts *facts, struct findings *findings) = {
	check_devices, check_config, check_process, check_limits,  check_memory, check_hugepages,
	check_holders, check_pci,    check_cuda,    check_netdevs, check_cpus,   check_clocks,
};

void doctor_check(const struct doctor_facts *facts, struct findings *findings)
{
	findings->n = 0;
	for (unsigned int i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
		checks[i](facts, findings);
	if (*facts->limits.container)
		findings_name_host(findings);
}
