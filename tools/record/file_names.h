// SPDX-License-Identifier: Apache-2.0
/* The names of the files of a recording. */
#ifndef TOOLS_RECORD_FILE_NAMES_H
#define TOOLS_RECORD_FILE_NAMES_H

#include "tools/record/file_window.h"

#define FILE_NAMES_GLOB_BYTES (2 * PATH_MAX + 8)

/* What a name says. */
struct file_name {
	uint32_t number; /* 0: none */
	unsigned stream; /* of the window's: if its files have one flow each */
	int flow;
};

/** Behind the last '/'. */
const char *file_names_base(const char *path);

/** Could the recorder have given a file this name, complete or with ".part"? */
bool file_names_parse(const struct file_window *window, const char *path, struct file_name *name);

/** A pattern for glob(3) that all of its names fit, and others. False: they may be in several folders. */
bool file_names_glob(const char *pattern, char glob[FILE_NAMES_GLOB_BYTES]);

#endif
