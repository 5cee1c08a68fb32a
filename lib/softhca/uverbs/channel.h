// SPDX-License-Identifier: Apache-2.0
/*
 * An event file: completion channel or asynchronous events. The program reads whole records from
 * its descriptor and may poll it or make it non-blocking.
 */
#ifndef SOFTHCA_UVERBS_CHANNEL_H
#define SOFTHCA_UVERBS_CHANNEL_H

#include "fdtab.h"

#include <stddef.h>

struct channel {
	struct fd_object fd_object;
	int write_fd;
	int peek_fd; /* our own hold on the program's end */
	size_t record_bytes;
};

/* 0, the program's descriptor in `*fd`, entered in the table, and a reference in `*channel`; or
 * negative errno. */
int channel_open(struct fdtab *t, size_t record_bytes, struct channel **channel, int *fd);
/* True if the record was queued. */
bool channel_send(struct channel *c, const void *record);
/* Takes away unread records whose first eight bytes are `element`; returns how many. */
unsigned int channel_purge(struct channel *c, uint64_t element);

#endif
