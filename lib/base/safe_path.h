// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the place of a file that a program is about to write. The path is opened component by component, so that
 * another user's link, or a link that takes the place of a folder meanwhile, cannot send the program to another file. A
 * symbolic link is followed if it and its folder belong to the program's user or to root, and no other user may write
 * to the folder, unless it is sticky. All other links are refused.
 */
#ifndef LIB_BASE_SAFE_PATH_H
#define LIB_BASE_SAFE_PATH_H

#include "lib/base/failure.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

struct safe_path {
	int folder;             /* O_PATH */
	bool exists;            /* a file has the name now */
	bool is_own_descriptor; /* the name is one in /proc/self/fd, of a pipe or a device */
	struct stat status;     /* of the file, if it exists */
	char name[NAME_MAX + 1];
	char path[PATH_MAX]; /* as it was given; of the file that it names, if the last component is a link */
};

/**
 * Open the folder of path. Close place->folder after use. 0; -EPERM: refused, and failure has the text, which has no
 * text after another error; -EISDIR: path names a folder; -errno.
 */
int safe_path_find(struct safe_path *place, const char *path, struct failure *failure);

/**
 * Why a file of this path cannot be made or read: that there is no such directory, by its name, or strerror() of error,
 * a positive errno. text is for the former. Returns a text.
 */
const char *safe_path_explain(const char *path, int error, char text[PATH_MAX]);

/** Does a pipe, a device or a socket have the name? */
static inline bool safe_path_is_special(const struct safe_path *place)
{
	return place->exists && !S_ISREG(place->status.st_mode);
}

/** Open the file that exists for writing, unless another has taken its place. The descriptor; -errno. */
int safe_path_open(const struct safe_path *place);

/**
 * As fopen(path, "we"). A file that exists is refused if it may be another user's: in a folder that all may write to,
 * it has to belong to the program's user or to root; with a second hard link, nobody else may write to the folder.
 * NULL: failure has exit code and text.
 */
FILE *safe_path_fopen(const char *path, struct failure *failure);

#endif
