// SPDX-License-Identifier: Apache-2.0
/*
 * Who has what memory mapped: processes that were given a ring's segments, and did not let go of them by hanging up.
 * The list lies in a memfd that the service manager keeps, so that a run that wants hugepages can name who holds those of
 * the last one, however that ended: another user's mappings are not ours to look at. Control thread only.
 */
#ifndef DAEMON_CONTROL_READERS_H
#define DAEMON_CONTROL_READERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct reader;

struct readers {
	int fd; /* to be kept for the next run; -1: none */
	struct reader *table;
};

#define READERS_INIT { .fd = -1 }

/**
 * A list of its own, with those of the last run's (its descriptor; -1: none, or not one) who live still: until they say
 * something else, they hold what they had. 0 or -errno.
 */
int readers_init(struct readers *readers, int last_fd);
void readers_deinit(struct readers *readers);

/**
 * It was given a ring of that stream. What it held of that stream before is taken to be let go: that is how a reader goes
 * on. Returns its place in the list; 0: none, it is not listed. readers NULL: none.
 */
uint32_t readers_add(struct readers *readers, pid_t pid, uid_t uid, const char *stream);

/** It does not read any more. is_gone: by its own will or its death, and so holds nothing; else it may. 0: nothing. */
void readers_leave(struct readers *readers, uint32_t place, bool is_gone);

/**
 * "process 12 (recv) of user 1000, stream 'lidar'; ..." of those who may hold memory that nothing is written to any more,
 * some of them where they are many. Empty: nobody is known of. Where the kernel lets us look, who has nothing mapped is
 * not named.
 */
const char *readers_describe_holders(const struct readers *readers, char *text, size_t bytes);

#endif
