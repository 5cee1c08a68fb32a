// SPDX-License-Identifier: Apache-2.0
/*
 * An event file: a completion channel, or the file of asynchronous events. The program reads whole records from its
 * descriptor and may poll it or make it non-blocking.
 */
#ifndef SOFTHCA_UVERBS_EVENT_CHANNEL_H
#define SOFTHCA_UVERBS_EVENT_CHANNEL_H

#include "fdtab.h"

#include <stddef.h>
#include <sys/queue.h>

struct event_channel {
	struct fd_object fd_object;
	ino_t file_ino; /* inode of the open device it belongs to; inode numbers of memfds are not used twice */
	pthread_mutex_t lock;
	/* Records that the socket has no room for. The kernel's queues have no limit (ib_uverbs: event_list). */
	STAILQ_HEAD(event_records, event_record) waiting;
	STAILQ_ENTRY(event_channel) link; /* of the files of asynchronous events of one open device */
	int write_fd;
	int peek_fd; /* our own duplicate of the program's end */
	size_t record_bytes;
};

/* 0; the program's descriptor is in `*fd` and in the table, and `*channel` is a reference. Or negative errno. */
int event_channel_open(struct fdtab *t, ino_t file_ino, size_t record_bytes, struct event_channel **channel, int *fd);
/* Returns whether the record was queued. */
bool event_channel_send(struct event_channel *c, const void *record);
/* To be called when the program has read: sends records that wait for room. */
void event_channel_flush(struct event_channel *c);
/* Removes unread records whose first eight bytes are `element`. Returns their number. */
unsigned int event_channel_purge(struct event_channel *c, uint64_t element);

#endif
