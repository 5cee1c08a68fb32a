// SPDX-License-Identifier: Apache-2.0
/* Reads /proc/PID/net/igmp and igmp6, which any user may read of any process. */
#include "tools/groups/joined_groups.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* A line an interface, "2\teth0      :     1      V3", and below it one a group: its address as the kernel's integer.
 */
static void read_igmp(FILE *file, joined_group_fn visit, void *context)
{
	struct joined_group group = {.family = AF_INET};
	unsigned int address;
	char line[256];

	while (fgets(line, sizeof(line), file)) {
		if (line[0] != '\t') {
			sscanf(line, "%*u %15[^ :]%*[ :]%*u V%u", group.interface, &group.igmp_version);
		} else if (sscanf(line, "%x", &address) == 1) {
			memcpy(group.address, &address, sizeof(address));
			visit(&group, context);
		}
	}
}

/* "2    eth0            ff0200000000000000000000000000fb     1 …" */
static void read_igmp6(FILE *file, joined_group_fn visit, void *context)
{
	struct joined_group group = {.family = AF_INET6};
	char line[256], digits[33];

	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%*u %15s %32[0-9a-f]", group.interface, digits) != 2 || strlen(digits) != 32)
			continue;
		for (unsigned int i = 0; i < 16; i++)
			sscanf(digits + 2 * i, "%2hhx", &group.address[i]);
		visit(&group, context);
	}
}

bool joined_groups_for_each(const char *root, pid_t pid, joined_group_fn visit, void *context)
{
	static const struct {
		const char *file;
		void (*read)(FILE *file, joined_group_fn visit, void *context);
	} kinds[] = {{"igmp", read_igmp}, {"igmp6", read_igmp6}};
	char path[PATH_MAX], process[16] = "self";
	bool is_readable = false;

	if (pid)
		snprintf(process, sizeof(process), "%d", (int)pid);
	for (unsigned int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/proc/%s/net/%s", root, process, kinds[i].file);
		FILE *file = fopen(path, "re");

		if (!file)
			continue;
		is_readable = true;
		kinds[i].read(file, visit, context);
		fclose(file);
	}
	return is_readable;
}
