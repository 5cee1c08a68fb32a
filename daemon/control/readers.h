// SPDX-License-Identifier: Apache-2.0
/*
 * Who may have what memory mapped: processes that were given a ring's segments, and live still.
 * The list lies in a memfd that the service manager keeps, so that a run that wants hugepages can name who holds those of
 * the last one, however that ended: another user's mappings are not ours to look at. Control thread only.
 */
#ifndef DAEMON_CONTROL_READERS_H
#define DAEMON_CONTROL_READERS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct reader;

struct readers {
	int fd; /* to be kept for the next run; -1: none */
	struct reader *table;
};

#define READERS_INIT     \
	{                \
		.fd = -1 \
	}

/**
 * A list of its own, with those of the last run's (its descriptor; -1: none, or not one) who live still: until they say
 * something else, they hold what they had. 0 or -errno.
 */
int readers_init(struct readers *readers, int last_fd);
void readers_deinit(struct readers *readers);

/* How it came that a process reads no more. */
enum reader_end {
	READER_PUT_OUT, /* by us, or with its ring: it may hold what it has */
	READER_HUNG_UP, /* itself: most have let go by then, but what a process closes says nothing of what it maps */
	READER_DIED,    /* and holds nothing */
};

/**
 * It was given a ring of that stream. One that it held of that stream before is taken to be let go: that is how a reader
 * goes on. Returns its place in the list; 0: none, it is not listed. readers NULL: none.
 */
uint32_t readers_add(struct readers *readers, pid_t pid, uid_t uid, const char *stream);

/** It does not read any more. Place 0: nothing. */
void readers_leave(struct readers *readers, uint32_t place, enum reader_end end);

/**
 * "process 12 (recv) of user 1000, stream 'lidar'; ..." of those who may hold memory that nothing is written to any more,
 * some of them where they are many, those who hung up last. Empty: nobody is known of. Where the kernel lets us look,
 * who has nothing mapped is not named.
 */
const char *readers_describe_holders(const struct readers *readers, char *text, size_t bytes);

#endif
