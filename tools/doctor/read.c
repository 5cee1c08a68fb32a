// SPDX-License-Identifier: Apache-2.0
/* Collects all facts: reads hugepages, CPUs, PCI vendors and kernel features, and calls the read_*.c for the rest. */
#include "tools/doctor/read.h"

#include "daemon/base/size.h"
#include "daemon/flow/flow.h"
#include "lib/ibvcap/shm.h"
#include "tools/doctor/files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#define VENDOR_MELLANOX "0x15b3"

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

static void read_hugepage_pool(const char *directory, const char *name, void *context)
{
	struct doctor_facts *facts = context;
	struct doctor_pool *pool = &facts->pools[facts->n_pools];
	const char *node = strstr(directory, "/node/node");
	char path[PATH_MAX];

	if (facts->n_pools == DOCTOR_POOLS_MAX || !node ||
	    sscanf(name, "hugepages-%" SCNu64 "kB", &pool->page_kib) != 1)
		return;
	files_join(path, "%s/%s", directory, name);
	pool->node = (unsigned int)strtoul(node + strlen("/node/node"), NULL, 10);
	pool->total_pages = files_read_number(path, "nr_hugepages");
	pool->free_pages = files_read_number(path, "free_hugepages");
	facts->n_pools++;
}

static void read_numa_node(const char *directory, const char *name, void *context)
{
	struct doctor_facts *facts = context;
	char path[PATH_MAX];
	unsigned int node;

	if (sscanf(name, "node%u", &node) != 1)
		return;
	files_join(path, "%s/%s/hugepages", directory, name);
	files_for_each(path, read_hugepage_pool, facts);
	if (node < DOCTOR_NODES_MAX)
		files_read_cpus(&facts->cpus.nodes[node], "%s/%s/cpulist", directory, name);
}

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

/* ---- the rest -------------------------------------------------------------------------------------- */

static void read_pci_vendor(const char *directory, const char *name, void *context)
{
	char vendor[DOCTOR_NAME_BYTES];

	files_read_line(vendor, sizeof(vendor), "%s/%s/vendor", directory, name);
	if (strcmp(vendor, VENDOR_MELLANOX) == 0)
		*(bool *)context = true;
}

void doctor_read(const char *root, struct doctor_facts *facts)
{
	char path[PATH_MAX];

	files_join(path, "%s/sys/devices/system/node", root);
	files_for_each(path, read_numa_node, facts);
	qsort(facts->pools, facts->n_pools, sizeof(facts->pools[0]), compare_pools);
	facts->memory_kib = read_memory_kib(root);
	read_process(root, facts->config_file, &facts->process);
	read_limits(root, &facts->process, &facts->limits);
	read_holders(root, facts);
	read_cpus(root, &facts->cpus);
	read_devices(root, facts);
	files_join(path, "%s/sys/bus/pci/devices", root);
	files_for_each(path, read_pci_vendor, &facts->mellanox_pci);
	read_interfaces(root, facts);
	files_join(path, "%s/proc/sys/net/core", root);
	facts->kernel.knows_jit = files_exist("%s/bpf_jit_enable", path);
	facts->kernel.has_jit = files_read_number(path, "bpf_jit_enable") != 0;
	facts->kernel.has_btf = files_exist("%s/sys/kernel/btf/vmlinux", root);
}

static void ask_system_clock(struct doctor_clock *clock)
{
	struct timex now = {.modes = 0};

	if (adjtimex(&now) < 0)
		return;
	clock->is_known = true;
	clock->is_synchronised = !(now.status & STA_UNSYNC);
	clock->max_error_us = (uint64_t)now.maxerror;
	clock->tai_offset_s = now.tai;
}

static void ask_kernel_version(struct doctor_kernel *kernel)
{
	struct utsname name;
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);

	kernel->af_xdp_error = fd < 0 ? errno : 0;
	if (fd >= 0)
		close(fd);
	if (uname(&name) < 0)
		return;
	sscanf(name.release, "%u.%u", &kernel->major, &kernel->minor);
	snprintf(kernel->machine, sizeof(kernel->machine), "%s", name.machine);
}

static void test_pages(uint32_t page_bytes, struct doctor_kernel *kernel)
{
	struct doctor_page_test *test = &kernel->page_tests[kernel->n_page_tests];

	for (unsigned int i = 0; i < kernel->n_page_tests; i++)
		if (kernel->page_tests[i].page_bytes == page_bytes)
			return;
	if (kernel->n_page_tests == DOCTOR_PAGE_SIZES_MAX)
		return;
	test->page_bytes = page_bytes;
	test->error = -shm_self_test(page_bytes, &test->call);
	kernel->n_page_tests++;
}

void doctor_ask(struct doctor_facts *facts)
{
	ask_service(facts->config_file, &facts->process);
	if (facts->process.kind == DOCTOR_SERVICE)
		read_limits("", &facts->process, &facts->limits);
	ask_system_clock(&facts->clock);
	ask_kernel_version(&facts->kernel);
	ask_addresses(facts);
	/* As preflight_test_seals() does when the daemon starts. */
	test_pages(SMALL_PAGE_BYTES, &facts->kernel);
	for (uint32_t i = 0; facts->config && i < facts->config->n_streams; i++)
		test_pages(facts->config->streams[i].page_bytes, &facts->kernel);
	for (uint32_t i = 0; facts->config && i < facts->config->n_channels; i++)
		test_pages(facts->config->channels[i].page_bytes, &facts->kernel);
	for (unsigned int i = 0; i < facts->n_interfaces; i++)
		ask_interface(&facts->interfaces[i]);
}

/* ---- CPUs ---------------------------------------------------------------------------------------- */

static void read_idle_state(const char *directory, const char *name, void *context)
{
	struct doctor_cpus *cpus = context;
	unsigned int exit_us;
	char path[PATH_MAX];

	if (strncmp(name, "state", strlen("state")) != 0)
		return;
	files_join(path, "%s/%s", directory, name);
	cpus->has_idle = true;
	exit_us = (unsigned int)files_read_number(path, "latency");
	if (files_read_number(path, "disable") || exit_us <= cpus->idle_exit_us)
		return;
	cpus->idle_exit_us = exit_us;
	files_read_line(cpus->idle_state, sizeof(cpus->idle_state), "%s/name", path);
}

static void read_one_cpu(const char *directory, const char *name, void *context)
{
	struct doctor_cpus *cpus = context;
	char path[PATH_MAX], governor[DOCTOR_NAME_BYTES];
	unsigned int number;
	int end = 0;

	if (sscanf(name, "cpu%u%n", &number, &end) != 1 || name[end] || number >= CPU_SETSIZE)
		return;
	files_join(path, "%s/%s/cpuidle", directory, name);
	files_for_each(path, read_idle_state, cpus);
	files_read_line(governor, sizeof(governor), "%s/%s/cpufreq/scaling_governor", directory, name);
	cpus->has_governor |= *governor != '\0';
	if (!*governor || strcmp(governor, "performance") == 0)
		return;
	CPU_SET(number, &cpus->governed);
	files_copy_name(cpus->governor, sizeof(cpus->governor), governor);
}

void read_cpus(const char *root, struct doctor_cpus *cpus)
{
	int32_t limit_us;
	char path[PATH_MAX];
	FILE *file;

	files_join(path, "%s/sys/devices/system/cpu", root);
	files_for_each(path, read_one_cpu, cpus);
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
