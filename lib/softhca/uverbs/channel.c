// SPDX-License-Identifier: Apache-2.0
#include "channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_RECORD   64
#define OUR_FDS_FROM 200 /* keep the low numbers for the program */

struct channel_record {
	STAILQ_ENTRY(channel_record) link;
	uint8_t bytes[MAX_RECORD];
};

static void close_raw(int fd)
{
	if (fd >= 0)
		syscall(SYS_close, fd); /* close() is ours */
}

static void channel_release(struct fd_object *o)
{
	struct channel *c = (struct channel *)o;
	struct channel_record *r;

	while ((r = STAILQ_FIRST(&c->waiting))) {
		STAILQ_REMOVE_HEAD(&c->waiting, link);
		free(r);
	}
	pthread_mutex_destroy(&c->lock);
	close_raw(c->write_fd);
	close_raw(c->peek_fd);
	free(c);
}

static int out_of_the_way(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, OUR_FDS_FROM);

	if (high < 0)
		return fd;
	close_raw(fd);
	return high;
}

int channel_open(struct fdtab *t, ino_t file_ino, size_t record_bytes, struct channel **channel, int *fd)
{
	struct channel *c = calloc(1, sizeof(*c));
	int pair[2], r;

	if (!c)
		return -ENOMEM;
	/*
	 * A packet socket keeps records whole, and lets us look from the reader's side. By the bare call, as close_raw()
	 * is: ThreadSanitizer, which saw one and not the other, would take who is given the number next for a racer.
	 */
	if (syscall(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		r = -errno;
		free(c);
		return r;
	}
	c->fd_object.kind = FD_CHANNEL;
	c->fd_object.refs = 2; /* the table's, the caller's */
	c->fd_object.release = channel_release;
	c->file_ino = file_ino;
	pthread_mutex_init(&c->lock, NULL);
	STAILQ_INIT(&c->waiting);
	c->record_bytes = record_bytes;
	c->write_fd = out_of_the_way(pair[1]);
	c->peek_fd = fcntl(pair[0], F_DUPFD_CLOEXEC, OUR_FDS_FROM);
	r = c->peek_fd < 0 ? -errno : fdtab_set(t, pair[0], &c->fd_object);
	if (r) {
		close_raw(pair[0]);
		channel_release(&c->fd_object);
		return r;
	}
	*channel = c;
	*fd = pair[0];
	return 0;
}

static bool put(struct channel *c, const void *record)
{
	return send(c->write_fd, record, c->record_bytes, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

/* With the lock held. */
static void flush(struct channel *c)
{
	struct channel_record *r;

	while ((r = STAILQ_FIRST(&c->waiting)) && put(c, r->bytes)) {
		STAILQ_REMOVE_HEAD(&c->waiting, link);
		free(r);
	}
}

void channel_flush(struct channel *c)
{
	pthread_mutex_lock(&c->lock);
	flush(c);
	pthread_mutex_unlock(&c->lock);
}

bool channel_send(struct channel *c, const void *record)
{
	struct channel_record *r = NULL;
	bool sent;

	pthread_mutex_lock(&c->lock);
	flush(c);
	sent = STAILQ_EMPTY(&c->waiting) && put(c, record);
	if (!sent)
		r = malloc(sizeof(*r));
	if (r) {
		memcpy(r->bytes, record, c->record_bytes);
		STAILQ_INSERT_TAIL(&c->waiting, r, link);
	}
	pthread_mutex_unlock(&c->lock);
	return sent || r;
}

/* Everything unread, back from the socket and before what waits. With the lock held. */
static void take_back(struct channel *c)
{
	struct channel_records unread = STAILQ_HEAD_INITIALIZER(unread);
	struct channel_record *r;

	while ((r = malloc(sizeof(*r))) && recv(c->peek_fd, r->bytes, sizeof(r->bytes), MSG_DONTWAIT) > 0)
		STAILQ_INSERT_TAIL(&unread, r, link);
	free(r);
	STAILQ_CONCAT(&unread, &c->waiting);
	STAILQ_CONCAT(&c->waiting, &unread);
}

unsigned int channel_purge(struct channel *c, uint64_t element)
{
	struct channel_records kept = STAILQ_HEAD_INITIALIZER(kept);
	struct channel_record *r;
	unsigned int n_purged = 0;
	uint64_t first;

	pthread_mutex_lock(&c->lock);
	take_back(c);
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
	flush(c);
	pthread_mutex_unlock(&c->lock);
	return n_purged;
}
