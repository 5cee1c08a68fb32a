// SPDX-License-Identifier: Apache-2.0
/* A folder that a test makes for itself, and removes with all that is in it. */
#ifndef TESTS_UNIT_TOOLS_OWN_FOLDER_H
#define TESTS_UNIT_TOOLS_OWN_FOLDER_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/** Make it, by a name for mkdtemp(), and work in it. */
static inline void own_folder_enter(char *folder)
{
	cr_assert(mkdtemp(folder));
	cr_assert_eq(chdir(folder), 0);
}

static inline void own_folder_remove(const char *folder)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", folder);
	cr_expect_eq(system(command), 0);
}

static inline void own_folder_leave(const char *folder)
{
	cr_assert_eq(chdir(".."), 0);
	own_folder_remove(folder);
}

/** The size of a file; -1: there is none. */
static inline off_t size_of(const char *name)
{
	struct stat status;

	return stat(name, &status) == 0 ? status.st_size : -1;
}

#endif
