// SPDX-License-Identifier: Apache-2.0
/* Gives the files that a killed recorder has left other names, and never one that is there. */
#include "tools/record/left_part.h"

#include "tools/recording/recording_words.h"
#include "tools/record/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define OLD     ".old"
#define OLD_MAX 10000u

static bool name_exists(int folder, const char *name, off_t *bytes)
{
	struct stat status;

	if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	*bytes = status.st_size;
	return true;
}

/* The name of FILE.part (i is 0) or of a file beside it, with `what` behind ".part". False: no such file is left. */
static bool name_of_set(const char *part, const char *what, unsigned i, char name[PATH_MAX])
{
	if (i && !own_file_suffixes[i - 1])
		return false;
	snprintf(name, PATH_MAX, "%s%s%s", part, what, i ? own_file_suffixes[i - 1] : "");
	return true;
}

bool left_part_has_packets(int folder, const char *part)
{
	char name[PATH_MAX];
	off_t bytes;

	for (unsigned i = 0; name_of_set(part, "", i, name); i++)
		if (name_exists(folder, name, &bytes) && bytes && !own_file_is_note(name))
			return true;
	return false;
}

static bool is_set_free(int folder, const char *part, const char *what)
{
	char name[PATH_MAX];
	off_t bytes;

	for (unsigned i = 0; name_of_set(part, what, i, name); i++)
		if (strlen(name) > NAME_MAX || name_exists(folder, name, &bytes))
			return false;
	return true;
}

/* Not every file system can refuse to replace a file. */
static int rename_to_free(int folder, const char *from, const char *to)
{
	if (renameat2(folder, from, folder, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno == EINVAL && renameat(folder, from, folder, to) == 0)
		return 0;
	return errno == ENOENT ? 0 : -errno;
}

int left_part_put_aside(int folder, const char *part, const char *path)
{
	char what[16] = OLD, from[PATH_MAX], to[PATH_MAX];
	unsigned number = 1;
	int r = 0;

	while (!is_set_free(folder, part, what)) {
		if (++number > OLD_MAX)
			return -EEXIST;
		snprintf(what, sizeof(what), OLD "%u", number);
	}
	for (unsigned i = 0; r == 0 && name_of_set(part, "", i, from); i++) {
		name_of_set(part, what, i, to);
		r = rename_to_free(folder, from, to);
	}
	if (r == 0)
		fprintf(stderr,
		        "ibvcap record: %s" RECORDING_PART
		        " is what a recorder that was killed has left: now %s" RECORDING_PART "%s\n",
		        path, path, what);
	return r;
}
