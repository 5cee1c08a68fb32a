// SPDX-License-Identifier: Apache-2.0
/*
 * An event file: completion channel or asynchronous events. The program reads whole records from
 * its descriptor and may poll it or make it non-blocking.
 */
#ifndef SOFTHCA_UVERBS_EVENT_CHANNEL_H
#define SOFTHCA_UVERBS_EVENT_CHANNEL_H

#include "fdtab.h"

#include <stddef.h>
#include <sys/queue.h>

struct event_record;

struct event_channel {
	struct fd_object fd_object;
	ino_t file_ino; /* of the open device it belongs to; those numbers do not come back */
	pthread_mutex_t lock;
	/* What the socket has no room for: the kernel's queues have no limit (ib_uverbs: event_list). */
	STAILQ_HEAD(event_records, event_record) waiting;
	int write_fd;
	int peek_fd; /* our own hold on the program's end */
	size_t record_bytes;
};

/* 0, the program's descriptor in `*fd`, entered in the table, and a reference in `*channel`; or
 * negative errno. */
int event_channel_open(struct fdtab *t, ino_t file_ino, size_t record_bytes, struct event_channel **channel, int *fd);
/* True if the record was queued. */
bool event_channel_send(struct event_channel *c, const void *record);
/* The program has read: there is room for what waits. */
void event_channel_flush(struct event_channel *c);
/* Takes away unread records whose first eight bytes are `element`; returns how many. */
unsigned int event_channel_purge(struct event_channel *c, uint64_t element);

#endif
