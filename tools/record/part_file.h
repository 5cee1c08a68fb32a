// SPDX-License-Identifier: Apache-2.0
/*
 * FILE.part, a file of a recording while it is written, and FILE.part.SUFFIX, the files that belong to it. All of them
 * get their names together, when all are complete. One recorder at a time has them. A write that fails leaves nothing
 * in the file.
 */
#ifndef TOOLS_RECORD_PART_FILE_H
#define TOOLS_RECORD_PART_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Alignment that O_DIRECT needs, of addresses and offsets. */
#define DISK_PAGE_BYTES 4096u

struct part_file {
	int folder; /* of a regular file: keeps its name right if the folder is renamed; -1: not a regular file */
	int fd;     /* -1: closed */
	int direct; /* the same file with O_DIRECT; -1: none */
	bool is_beside;
	bool is_in_memory;     /* on tmpfs */
	uint32_t end_bytes;    /* kept free behind the file */
	uint64_t bytes;        /* size of the file */
	uint64_t allocated;    /* bytes of the file and of the room that was allocated ahead */
	uint64_t direct_bytes; /* of bytes: written past the kernel's cache */
	char name[NAME_MAX + 1];
	char part[NAME_MAX + 1]; /* its name while it is written */
};

#define PART_FILE_CLOSED ((struct part_file){.folder = -1, .fd = -1, .direct = -1})

/**
 * Open FILE.part, empty, and lock it until it is closed. The files that a killed recorder has left there get names that
 * end in .old, .old2 and so on. path: of FILE; if it is a link, it becomes the path of the file that the link names. A
 * device or a pipe is opened as it is, "-" is standard output. 0; -EALREADY: is_new, and FILE is there; -EBUSY: another
 * recorder writes it, and a message was printed; -EPERM: a link of another user is in the path, for example, and a
 * message was printed; -errno.
 */
int part_file_open(struct part_file *file, char path[PATH_MAX], bool is_new);

/** Open an empty file that belongs to a file that is open. suffix: RECORDING_…. 0; -errno. */
int part_file_open_beside(struct part_file *file, const struct part_file *main, const char *suffix);

/** Long writes go past the kernel's cache from now on, where address and offset permit it. */
void part_file_begin_direct(struct part_file *file);

/** Is it standard output, a pipe or a device, where files have no names and follow one another? */
bool part_file_is_special(const char *path);

enum part_file_way {
	PART_FILE_CACHED,
	PART_FILE_TO_DISK, /* past the cache, or through the cache and from there to the disk at once */
};

/** Append. 0; -errno: nothing of it is in the file. */
int part_file_write(struct part_file *file, const void *at, size_t n, enum part_file_way way);

/** Replace the content of the whole file by a short text. 0; -errno. After -ENOSPC the file is as it was. */
int part_file_replace(struct part_file *file, const void *at, size_t n);

/** End the file here, and free the space that was allocated behind it. 0; -errno. */
int part_file_cut(struct part_file *file, uint64_t bytes);

/** The file is complete: free the space that was allocated ahead. to_disk: wait until the disk has it. 0; -errno. */
int part_file_finish(struct part_file *file, bool to_disk);

/**
 * Give the files that are open their names: the first is the one that the others belong to, and the last the one that
 * makes readers look for the others. At no time does a file with its name have another file's files beside it. sync:
 * wait until the disk has the names. 0; -errno.
 */
int part_file_name_all(struct part_file files[], unsigned n, bool sync);

void part_file_close(struct part_file *file);

/** Close it and delete it. */
void part_file_discard(struct part_file *file);

static inline bool part_file_is_regular(const struct part_file *file)
{
	return file->folder >= 0;
}

#endif
