// SPDX-License-Identifier: Apache-2.0
/* The frequency governors and sleep states of CPUs, and which CPUs are online and isolated. */
#include "tools/doctor/read.h"

#include "tools/doctor/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
