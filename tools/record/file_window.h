// SPDX-License-Identifier: Apache-2.0
/*
 * Names of the files of a recording, and the rolling window of those that are kept: the oldest are deleted when there
 * are too many, when they take too much room, or when the disk is full. Declares file_names.c, own_file.c.
 */
#ifndef TOOLS_RECORD_FILE_WINDOW_H
#define TOOLS_RECORD_FILE_WINDOW_H

#include "lib/base/failure.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

/* ---- which files are recordings of the same streams: only these are deleted ---------------------- */

/** The suffixes of the files that belong to a file: index, JSON, meta, headers. NULL ends the list. */
extern const char *const own_file_suffixes[];

/** The streams of a recorder, as its files name them. */
struct own_streams {
	char **names;
	unsigned n;
	bool is_raw;
};

/**
 * Has a recorder of these streams, and of no others, begun the file? flow: of the one stream names[0] with flow
 * numbers, the number of the only flow that the file has; -1: it has all flows.
 */
bool own_file_is(const char *path, const struct own_streams *streams, int flow);

/** Delete the files that a recorder has written beside a file of that name. Those of other programs stay. */
void own_file_remove_beside(int folder, const char *name);

/** Has one of the files packets? An index or a description alone has none. part: the name in the folder. */
bool left_part_has_packets(int folder, const char *part);

/**
 * Rename them, to names that end in .old, .old2 and so on. The caller has the lock. path: of FILE, for the message.
 * 0; -errno.
 */
int left_part_put_aside(int folder, const char *part, const char *path);

/* ---- the window ---------------------------------------------------------------------------------- */

struct kept_file {
	STAILQ_ENTRY(kept_file) entry;
	uint64_t bytes;   /* with the files beside it */
	uint64_t time_ns; /* of its last change */
	dev_t device;     /* this and inode: another file of that name is not deleted */
	ino_t inode;
	bool is_left; /* an earlier run has left it: another recorder may write it now */
	char path[];
};

/* A file that is not complete. No other file gets its name. */
struct open_file {
	TAILQ_ENTRY(open_file) entry;
	uint64_t bytes; /* once it is full: they count for the quota */
	/* Once it is full: deletes it, as the oldest file of the window. NULL before. */
	void (*discard)(struct open_file *open);
	char path[PATH_MAX]; /* empty: it is not open */
};

struct file_window {
	const char *pattern; /* -w */
	bool numbered;       /* several files: a number and the time go into each name */
	bool by_flow;        /* a flow goes into each name, ahead of the number */
	struct own_streams streams;
	uint32_t files; /* limits; 0: none */
	uint64_t quota;
	uint32_t disk_limit;
	STAILQ_HEAD(, kept_file) kept; /* the oldest first */
	uint32_t n_kept;
	uint64_t kept_bytes;
	TAILQ_HEAD(, open_file) open; /* likewise */
	uint64_t full_bytes;          /* size of the open files that are full */
	uint64_t n_deleted;
	uint32_t number;  /* the next file's number */
	bool may_replace; /* the name that was made last may be that of an existing file, which is replaced */
};

/**
 * Can a file of that name be made? 0; -errno: its folder is not there, or this user may not write to it; -EPERM and a
 * text: as safe_path_find() refuses it.
 */
int file_window_check(const char *pattern, struct failure *failure);

/**
 * Begin; finds the files that an earlier run with the same pattern and the same streams has left, and that no other
 * recorder is writing. 0; -errno.
 */
int file_window_init(struct file_window *window);
void file_window_deinit(struct file_window *window);

/**
 * Name of the next file, which begins at time_ns. flow: goes into the name too, NULL: none. 0; -ENAMETOOLONG.
 * Without numbers: -w as it is, and from the second file on with one. With '%': by strftime(3) in UTC.
 * No file but the first of a recording without numbers has the name of a file that is there already.
 */
int file_window_name(struct file_window *window, uint64_t time_ns, const char *flow, char path[PATH_MAX]);

/** A file of that name is open from now on. */
void file_window_open(struct file_window *window, struct open_file *open, const char *path);
/** The file is full. It will be complete some time later. */
void file_window_fill(struct file_window *window, struct open_file *open, uint64_t bytes,
                      void (*discard)(struct open_file *open));
/** The file is not open any more. */
void file_window_close(struct file_window *window, struct open_file *open);

/** A file is complete: keep it, and delete the oldest that are too many. 0; -ENOMEM. */
int file_window_add(struct file_window *window, const char *path);

/** Make room for a file that has bytes so far: by the quota and the disk limit. False: the disk limit is not met. */
bool file_window_make_room(struct file_window *window, int fd, uint64_t bytes);

/** The disk is full: delete the oldest file. False: there is none, or nobody said that files may be deleted. */
bool file_window_give_way(struct file_window *window);

/** Can room on the disk mend the error? */
static inline bool file_window_is_full(int error)
{
	return error == -ENOSPC || error == -EDQUOT;
}

/** May files be deleted? */
static inline bool file_window_has_limit(const struct file_window *window)
{
	return window->files || window->quota || window->disk_limit;
}

#define FILE_NAMES_GLOB_BYTES (2 * PATH_MAX + 8)

/* The parts of a file's name. */
struct file_name {
	uint32_t number; /* 0: none */
	unsigned stream; /* index in the window, if its files have one flow each */
	int flow;
};

/** Behind the last '/'. */
const char *file_names_base(const char *path);

/** Could the recorder have given a file this name, complete or with ".part"? */
bool file_names_parse(const struct file_window *window, const char *path, struct file_name *name);

/** A pattern for glob(3) that all of its names fit, and others. False: they may be in several folders. */
bool file_names_glob(const char *pattern, char glob[FILE_NAMES_GLOB_BYTES]);

#endif
