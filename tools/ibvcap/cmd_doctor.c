// SPDX-License-Identifier: Apache-2.0
/*
 * ibvcap doctor: run the program ibvcap-doctor in this process' place. It is a program of its own because it links the
 * daemon's configuration and libibverbs, which the other subcommands do not need.
 */
#include "tools/ibvcap/ibvcap.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define PROGRAM "ibvcap-doctor"

/* The directory of this program, with the slash behind it. */
static bool find_own_directory(char directory[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", directory, PATH_MAX - 1);

	if (n < 0)
		return false;
	directory[n] = '\0';
	*(strrchr(directory, '/') + 1) = '\0';
	return true;
}

int cmd_doctor(int argc, char **argv)
{
	/* Where the build has it, and where the installation has it. */
	static const char *const places[] = {PROGRAM, IBVCAP_DOCTOR_PATH};
	char directory[PATH_MAX], path[PATH_MAX + sizeof(IBVCAP_DOCTOR_PATH)];

	(void)argc;
	if (!find_own_directory(directory)) {
		fprintf(stderr, "ibvcap doctor: /proc/self/exe: %s\n", strerror(errno));
		return EX_OSERR;
	}
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s%s", directory, places[i]);
		execv(path, argv);
		if (errno != ENOENT)
			break;
	}
	fprintf(stderr, "ibvcap doctor: %s cannot be run: %s; install the package ibvcap-tools again\n", path,
	        strerror(errno));
	return EX_OSFILE;
}
