// SPDX-License-Identifier: Apache-2.0
/*
 * Event files: a packet socket holds the records that the program has not read, and a list those that the socket has
 * no room for.
 */
#include "event_channel.h"

#include "../wire/own_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_RECORD 64

struct event_record {
	STAILQ_ENTRY(event_record) link;
	uint8_t bytes[MAX_RECORD];
};

static void event_channel_release(struct fd_object *o)
{
	struct event_channel *c = (struct event_channel *)o;
	struct event_record *r;

	while ((r = STAILQ_FIRST(&c->waiting))) {
		STAILQ_REMOVE_HEAD(&c->waiting, link);
		free(r);
	}
	pthread_mutex_destroy(&c->lock);
	own_fd_close(c->write_fd);
	own_fd_close(c->peek_fd);
	free(c);
}

int event_channel_open(struct fdtab *t, ino_t file_ino, size_t record_bytes, struct event_channel **channel, int *fd)
{
	struct event_channel *c = calloc(1, sizeof(*c));
	int pair[2], r;

	if (!c)
		return -ENOMEM;
	/* A packet socket keeps records whole, and the peek end lets us take unread records back. The call is made
	 * directly, as in own_fd_close(): if ThreadSanitizer saw the open and not the close, it would
	 * report a race with the next user of that number. */
	if (syscall(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		r = -errno;
		free(c);
		return r;
	}
	c->fd_object.kind = FD_CHANNEL;
	c->fd_object.refs = 2; /* the table's and the caller's */
	c->fd_object.release = event_channel_release;
	c->file_ino = file_ino;
	pthread_mutex_init(&c->lock, NULL);
	STAILQ_INIT(&c->waiting);
	c->record_bytes = record_bytes;
	c->write_fd = own_fd(pair[1]);
	c->peek_fd = own_fd_copy(pair[0]);
	r = c->write_fd < 0 || c->peek_fd < 0 ? -EMFILE : fdtab_set(t, pair[0], &c->fd_object);
	if (r) {
		own_fd_close(pair[0]);
		event_channel_release(&c->fd_object);
		return r;
	}
	*channel = c;
	*fd = pair[0];
	return 0;
}

static bool event_channel_put(struct event_channel *c, const void *record)
{
	return send(c->write_fd, record, c->record_bytes, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

/* With the lock held. */
static void event_channel_flush_locked(struct event_channel *c)
{
	struct event_record *r;

	while ((r = STAILQ_FIRST(&c->waiting)) && event_channel_put(c, r->bytes)) {
		STAILQ_REMOVE_HEAD(&c->waiting, link);
		free(r);
	}
}

void event_channel_flush(struct event_channel *c)
{
	pthread_mutex_lock(&c->lock);
	event_channel_flush_locked(c);
	pthread_mutex_unlock(&c->lock);
}

bool event_channel_send(struct event_channel *c, const void *record)
{
	struct event_record *r = NULL;
	bool sent;

	pthread_mutex_lock(&c->lock);
	event_channel_flush_locked(c);
	sent = STAILQ_EMPTY(&c->waiting) && event_channel_put(c, record);
	if (!sent)
		r = malloc(sizeof(*r));
	if (r) {
		memcpy(r->bytes, record, c->record_bytes);
		STAILQ_INSERT_TAIL(&c->waiting, r, link);
	}
	pthread_mutex_unlock(&c->lock);
	return sent || r;
}

/* Takes all unread records back from the socket and puts them in front of those that wait. With the lock held. */
static void event_channel_take_back(struct event_channel *c)
{
	struct event_records unread = STAILQ_HEAD_INITIALIZER(unread);
	struct event_record *r;

	while ((r = malloc(sizeof(*r))) && recv(c->peek_fd, r->bytes, sizeof(r->bytes), MSG_DONTWAIT) > 0)
		STAILQ_INSERT_TAIL(&unread, r, link);
	free(r);
	STAILQ_CONCAT(&unread, &c->waiting);
	STAILQ_CONCAT(&c->waiting, &unread);
}

unsigned int event_channel_purge(struct event_channel *c, uint64_t element)
{
	struct event_records kept = STAILQ_HEAD_INITIALIZER(kept);
	struct event_record *r;
	unsigned int n_purged = 0;
	uint64_t first;

	pthread_mutex_lock(&c->lock);
	event_channel_take_back(c);
	while ((r = STAILQ_FIRST(&c->waiting))) {
		STAILQ_REMOVE_HEAD(&c->waiting, link);
		memcpy(&first, r->bytes, sizeof(first));
		if (first == element) {
			n_purged++;
			free(r);
		} else {
			STAILQ_INSERT_TAIL(&kept, r, link);
		}
	}
	STAILQ_CONCAT(&c->waiting, &kept);
	event_channel_flush_locked(c);
	pthread_mutex_unlock(&c->lock);
	return n_purged;
}
