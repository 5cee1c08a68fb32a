// SPDX-License-Identifier: Apache-2.0
/* FILE.part: a file of a recording while it is written. One recorder at a time has it. */
#ifndef TOOLS_RECORD_PART_FILE_H
#define TOOLS_RECORD_PART_FILE_H

#include <stdbool.h>
#include <stdio.h>

/**
 * Open the .part of a file, empty, and lock it until *fd is closed. What a killed recorder has left there gets ".old"
 * behind its name. 0; -EBUSY: another recorder writes it, and a message was printed; -errno.
 */
int part_file_open(const char *path, int *fd);

/** Open a .part that is open once more, past the kernel's cache. The descriptor; -1: the file system cannot do it. */
int part_file_open_direct(const char *path);

/** Is it on tmpfs, where to allocate room ahead means to do the work for each page twice? */
bool part_file_is_in_memory(int fd);

/** Open the file that belongs to the file of that name, empty. suffix: RECORDING_…. NULL: errno says why. */
FILE *part_file_open_beside(const char *path, const char *suffix);

/** The file is complete: give it its name, and close it. 0; -errno. */
int part_file_finish(const char *path, int fd);

#endif
