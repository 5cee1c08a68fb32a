// SPDX-License-Identifier: Apache-2.0
/* Collects all facts: reads hugepages and CPUs, tries the configuration, and calls the read_*.c for the rest. */
#include "tools/doctor/read.h"

#include "daemon/flow/flow.h"
#include "lib/base/files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define VENDOR_MELLANOX "0x15b3"
/* Exit statuses of the shell. */
#define NOT_EXECUTABLE 126
#define NOT_FOUND      127

void doctor_read_config(const char *file, struct doctor_facts *facts)
{
	facts->config_file = file;
	if (config_load(file, &facts->config, &facts->config_failure) < 0 ||
	    flow_check(facts->config, &facts->config_failure) == 0)
		return;
	config_free(facts->config);
	facts->config = NULL;
}

/* ---- hugepages ------------------------------------------------------------------------------------- */

static uint64_t read_memory_kib(const char *root)
{
	char path[PATH_MAX], text[DOCTOR_NAME_BYTES];

	files_join(path, "%s/proc/meminfo", root);
	files_read_labelled(path, "MemTotal:", text, sizeof(text));
	return strtoull(text, NULL, 10);
}

static int compare_pools(const void *a, const void *b)
{
	const struct doctor_pool *left = a, *right = b;

	if (left->page_kib != right->page_kib)
		return left->page_kib < right->page_kib ? -1 : 1;
	return (left->node > right->node) - (left->node < right->node);
}

/* ---- CPUs ---------------------------------------------------------------------------------------- */

static void read_idle_states(const char *cpu, struct doctor_cpus *cpus)
{
	struct files_list states;
	unsigned int exit_us;

	files_list(&states, "%s/cpuidle", cpu);
	while (files_next(&states)) {
		if (strncmp(states.name, "state", strlen("state")) != 0)
			continue;
		cpus->has_idle = true;
		exit_us = (unsigned int)files_read_number(states.path, "latency");
		if (files_read_number(states.path, "disable") || exit_us <= cpus->idle_exit_us)
			continue;
		cpus->idle_exit_us = exit_us;
		files_read_line(cpus->idle_state, sizeof(cpus->idle_state), "%s/name", states.path);
	}
}

static void read_cpus(const char *root, struct doctor_cpus *cpus)
{
	char path[PATH_MAX], governor[DOCTOR_NAME_BYTES];
	struct files_list list;
	unsigned int number;
	int32_t limit_us;
	FILE *file;
	int end;

	files_join(path, "%s/sys/devices/system/cpu", root);
	files_list(&list, "%s", path);
	while (files_next(&list)) {
		end = 0;
		if (sscanf(list.name, "cpu%u%n", &number, &end) != 1 || list.name[end] || number >= CPU_SETSIZE)
			continue;
		read_idle_states(list.path, cpus);
		files_read_line(governor, sizeof(governor), "%s/cpufreq/scaling_governor", list.path);
		cpus->has_governor |= *governor != '\0';
		if (!*governor || strcmp(governor, "performance") == 0)
			continue;
		CPU_SET(number, &cpus->governed);
		files_copy_name(cpus->governor, sizeof(cpus->governor), governor);
	}
	files_read_cpus(&cpus->online, "%s/online", path);
	files_read_cpus(&cpus->isolated, "%s/isolated", path);
	/* Four bytes: the smallest latency that any program that holds the file open asks for. */
	files_join(path, "%s/dev/cpu_dma_latency", root);
	file = fopen(path, "re");
	if (file && fread(&limit_us, sizeof(limit_us), 1, file) == 1 && limit_us >= 0) {
		cpus->has_latency_limit = true;
		cpus->latency_limit_us = (unsigned int)limit_us;
	}
	if (file)
		fclose(file);
}

/* ---- the rest -------------------------------------------------------------------------------------- */

static void read_nodes(const char *root, struct doctor_facts *facts)
{
	struct files_list nodes, sizes;
	unsigned int node;

	files_list(&nodes, "%s/sys/devices/system/node", root);
	while (files_next(&nodes)) {
		if (sscanf(nodes.name, "node%u", &node) != 1)
			continue;
		files_list(&sizes, "%s/hugepages", nodes.path);
		while (files_next(&sizes)) {
			struct doctor_pool *pool = &facts->pools[facts->n_pools];

			if (facts->n_pools == DOCTOR_POOLS_MAX ||
			    sscanf(sizes.name, "hugepages-%" SCNu64 "kB", &pool->page_kib) != 1)
				continue;
			facts->n_pools++;
			pool->node = node;
			pool->total_pages = files_read_number(sizes.path, "nr_hugepages");
			pool->free_pages = files_read_number(sizes.path, "free_hugepages");
		}
		if (node < DOCTOR_NODES_MAX)
			files_read_cpus(&facts->cpus.nodes[node], "%s/cpulist", nodes.path);
	}
	qsort(facts->pools, facts->n_pools, sizeof(facts->pools[0]), compare_pools);
}

void doctor_read(const char *root, struct doctor_facts *facts)
{
	char vendor[DOCTOR_NAME_BYTES];
	struct files_list pci;

	read_nodes(root, facts);
	facts->memory_kib = read_memory_kib(root);
	read_process(root, facts->config_file, &facts->process);
	read_limits(root, &facts->process, &facts->limits);
	read_holders(root, facts);
	read_cpus(root, &facts->cpus);
	read_devices(root, facts);
	files_list(&pci, "%s/sys/bus/pci/devices", root);
	while (files_next(&pci)) {
		files_read_line(vendor, sizeof(vendor), "%s/vendor", pci.path);
		facts->mellanox_pci |= strcmp(vendor, VENDOR_MELLANOX) == 0;
	}
	read_interfaces(root, facts);
}

/* As the service's start would, with the program beside this one in the build directory, or the installed one. */
static void try_config(struct doctor_facts *facts)
{
	static const char command[] = "doctor=$(readlink /proc/$PPID/exe); "
				      "PATH=${doctor%/*}/../daemon:" IBVCAP_SBIN ":$PATH "
				      "ibvcapd --check-config ${IBVCAP_USER:+--user \"$IBVCAP_USER\"} "
				      "--config \"$IBVCAP_CONFIG\" 2>&1 >/dev/null";
	struct doctor_trial *trial = &facts->trial;
	char line[DOCTOR_TEXT_BYTES];
	FILE *output;
	size_t used;
	int code;

	if (!facts->config || facts->process.has_config || facts->network == DOCTOR_NETWORK_HIDDEN ||
	    setenv("IBVCAP_CONFIG", facts->config_file, 1) < 0 ||
	    setenv("IBVCAP_USER", facts->user ? facts->user : "", 1) < 0)
		return;
	output = popen(command, "re");
	if (!output)
		return;
	while (fgets(line, sizeof(line), output)) {
		used = strlen(trial->said);
		snprintf(trial->said + used, sizeof(trial->said) - used, "%s%.*s", used ? "; " : "",
		         (int)strcspn(line, "\n"), line);
	}
	code = WEXITSTATUS(pclose(output));
	trial->is_refused = code != EX_OK;
	if (code == NOT_EXECUTABLE || code == NOT_FOUND)
		*trial = (struct doctor_trial){.is_refused = false};
}

void doctor_ask(struct doctor_facts *facts)
{
	ask_service(&facts->process);
	if (facts->process.kind == DOCTOR_SERVICE)
		read_limits("", &facts->process, &facts->limits);
	system_clock_read(&facts->clock);
	ask_keeper(&facts->keeper);
	try_config(facts);
	for (unsigned int i = 0; i < facts->n_interfaces; i++)
		ask_interface(&facts->interfaces[i]);
}
