// SPDX-License-Identifier: Apache-2.0
/*
 * Runs a program in this process' place: a subcommand that links what the others do not need is a program of its own.
 */
#include "tools/ibvcap/ibvcap.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

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

int run_program(const char *program, const char *package, char **argv)
{
	/* Where the build has it, and where the installation has it. */
	static const char *const places[] = {"", IBVCAP_LIBEXEC_PATH};
	char directory[PATH_MAX], path[PATH_MAX + 128];

	if (!find_own_directory(directory)) {
		fprintf(stderr, "%s: /proc/self/exe: %s\n", argv[0], strerror(errno));
		return EX_OSERR;
	}
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s%s%s", directory, places[i], program);
		execv(path, argv);
		if (errno != ENOENT)
			break;
	}
	fprintf(stderr, "%s: %s cannot be run: %s; install the package %s\n", argv[0], path, strerror(errno), package);
	return EX_OSFILE;
}
