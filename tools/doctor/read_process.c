// SPDX-License-Identifier: Apache-2.0
/* The process whose rights count, a daemon if one runs, and the limits of its cgroups. */
#include "tools/doctor/read.h"

#include "lib/base/files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <unistd.h>

#define SERVICES_CGROUP "/system.slice"

/* Does its command line name this configuration file? */
static bool runs_with_config(const char *root, pid_t pid, const char *config_file)
{
	char path[PATH_MAX], words[DOCTOR_TEXT_BYTES * 2] = "";
	const char *file = CONFIG_DEFAULT_FILE;
	size_t n = 0;
	FILE *line;

	files_join(path, "%s/proc/%d/cmdline", root, (int)pid);
	line = fopen(path, "re");
	if (line) {
		n = fread(words, 1, sizeof(words) - 2, line); /* two zero bytes follow the last word */
		fclose(line);
	}
	for (const char *word = words; word < words + n; word += strlen(word) + 1) {
		if (strncmp(word, "--config=", strlen("--config=")) == 0)
			file = word + strlen("--config=");
		else if (strcmp(word, "--config") == 0 || strcmp(word, "-c") == 0)
			file = word + strlen(word) + 1;
	}
	return config_file && strcmp(file, config_file) == 0;
}

static void join_process_path(char path[PATH_MAX], const char *root, const struct doctor_process *process,
                              const char *file)
{
	if (process->kind == DOCTOR_DAEMON)
		files_join(path, "%s/proc/%d/%s", root, (int)process->pid, file);
	else
		files_join(path, "%s/proc/self/%s", root, file);
}

void read_process(const char *root, const char *config_file, struct doctor_process *process)
{
	char path[PATH_MAX], text[DOCTOR_NAME_BYTES];

	if (process->kind == DOCTOR_DAEMON)
		process->has_config = runs_with_config(root, process->pid, config_file);
	else
		process->pid = getpid();
	join_process_path(path, root, process, "status");
	files_read_labelled(path, "CapEff:", text, sizeof(text));
	process->effective_capabilities = strtoull(text, NULL, 16);
	join_process_path(path, root, process, "limits");
	files_read_labelled(path, "Max locked memory", text, sizeof(text));
	process->memlock_bytes =
		strstr(text, "unlimited") == text + strspn(text, " ") ? UINT64_MAX : strtoull(text, NULL, 10);
}

/* ---- the service, as systemd would start it -------------------------------------------------------- */

/* Turn "cap_net_raw cap_ipc_lock" into a mask. */
static uint64_t parse_capabilities(const char *names)
{
	char copy[DOCTOR_TEXT_BYTES * 2], *save = NULL;
	cap_value_t value;
	uint64_t mask = 0;

	files_copy_name(copy, sizeof(copy), names);
	for (char *name = strtok_r(copy, " ", &save); name; name = strtok_r(NULL, " ", &save))
		if (cap_from_name(name, &value) == 0 && value < 64)
			mask |= UINT64_C(1) << value;
	return mask;
}

/* Find NAME=value in a line of its own, and copy the value. */
static bool find_unit_property(const char *properties, const char *name, char *value, size_t bytes)
{
	size_t n = strlen(name);

	*value = '\0';
	for (const char *line = properties; line && *line; line = strchr(line, '\n'), line += line != NULL) {
		if (strncmp(line, name, n) != 0 || line[n] != '=')
			continue;
		files_copy_name(value, bytes, line + n + 1);
		value[strcspn(value, "\n")] = '\0';
		return true;
	}
	return false;
}

void parse_service(const char *properties, struct doctor_process *process)
{
	char value[DOCTOR_TEXT_BYTES * 2];
	bool as_root;

	if (process->kind == DOCTOR_DAEMON || !find_unit_property(properties, "LoadState", value, sizeof(value)) ||
	    strcmp(value, "loaded") != 0)
		return;
	process->kind = DOCTOR_SERVICE;
	find_unit_property(properties, "LimitMEMLOCK", value, sizeof(value));
	process->memlock_bytes = strcmp(value, "infinity") == 0 ? UINT64_MAX : strtoull(value, NULL, 10);
	find_unit_property(properties, "User", value, sizeof(value));
	as_root = !*value || strcmp(value, "root") == 0 || strcmp(value, "0") == 0;
	find_unit_property(properties, "CapabilityBoundingSet", value, sizeof(value));
	process->effective_capabilities = parse_capabilities(value);
	if (as_root)
		return;
	find_unit_property(properties, "AmbientCapabilities", value, sizeof(value));
	process->effective_capabilities &= parse_capabilities(value);
}

void ask_service(struct doctor_process *process)
{
	char properties[4 * DOCTOR_TEXT_BYTES];
	size_t n;
	FILE *output;

	if (process->kind == DOCTOR_DAEMON)
		return;
	output = popen("systemctl show ibvcapd.service -p LoadState -p User -p LimitMEMLOCK -p CapabilityBoundingSet "
	               "-p AmbientCapabilities 2>/dev/null",
	               "re");
	if (!output)
		return;
	n = fread(properties, 1, sizeof(properties) - 1, output);
	properties[n] = '\0';
	pclose(output);
	parse_service(properties, process);
}

/* ---- cgroups --------------------------------------------------------------------------------------- */

const char *const doctor_limit_files[DOCTOR_LIMITS] = {
	[DOCTOR_MEMORY] = "memory.max",
	[DOCTOR_PROCESSES] = "pids.max",
	[DOCTOR_HUGE_2M] = "hugetlb.2MB.max",
	[DOCTOR_HUGE_1G] = "hugetlb.1GB.max",
};

void read_limits(const char *root, const struct doctor_process *process, struct doctor_limits *limits)
{
	char path[PATH_MAX], cgroup[sizeof(limits->cgroup)];
	char *slash;

	*limits = (struct doctor_limits){.at = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};
	files_read_line(limits->container, DOCTOR_NAME_BYTES, "%s/run/systemd/container", root);
	if (!*limits->container && files_exist("%s/.dockerenv", root))
		files_copy_name(limits->container, DOCTOR_NAME_BYTES, "docker");
	if (!*limits->container && files_exist("%s/run/.containerenv", root))
		files_copy_name(limits->container, DOCTOR_NAME_BYTES, "podman");
	join_process_path(path, root, process, "cgroup");
	files_read_labelled(path, "0::", limits->cgroup, sizeof(limits->cgroup));
	/* systemd would start the service in this cgroup, not in that of the doctor. */
	if (process->kind == DOCTOR_SERVICE)
		files_copy_name(limits->cgroup, sizeof(limits->cgroup), SERVICES_CGROUP);
	files_copy_name(cgroup, sizeof(cgroup), limits->cgroup);
	/* A limit holds for all cgroups below it. */
	do {
		files_join(path, "%s/sys/fs/cgroup%s", root, cgroup);
		for (unsigned int i = 0; i < DOCTOR_LIMITS; i++) {
			uint64_t limit = files_read_limit(path, doctor_limit_files[i]);

			limits->at[i] = limit < limits->at[i] ? limit : limits->at[i];
		}
		slash = strrchr(cgroup, '/');
		if (slash)
			*slash = '\0';
	} while (slash);
}
