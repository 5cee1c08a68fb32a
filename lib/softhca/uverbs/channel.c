// SPDX-License-Identifier: Apache-2.0
#include "channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_RECORD 64
#define OUR_FDS_FROM 200 /* keep the low numbers for the program */

static void close_raw(int fd)
{
	if (fd >= 0)
		syscall(SYS_close, fd); /* close() is ours */
}

static void channel_release(struct fd_object *o)
{
	struct channel *c = (struct channel *)o;

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

int channel_open(struct fdtab *t, size_t record_bytes, struct channel **channel, int *fd)
{
	struct channel *c = calloc(1, sizeof(*c));
	int pair[2], r;

	if (!c)
		return -ENOMEM;
	/* A packet socket keeps records whole, and lets us look from the reader's side. */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		r = -errno;
		free(c);
		return r;
	}
	c->fd_object.kind = FD_CHANNEL;
	c->fd_object.refs = 2; /* the table's, the caller's */
	c->fd_object.release = channel_release;
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

bool channel_send(struct channel *c, const void *record)
{
	return send(c->write_fd, record, c->record_bytes, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

unsigned int channel_purge(struct channel *c, uint64_t element)
{
	unsigned int n_purged = 0, n_kept = 0;
	uint8_t(*kept)[MAX_RECORD] = NULL;

	for (;;) {
		uint8_t record[MAX_RECORD];
		uint64_t first;

		if (recv(c->peek_fd, record, sizeof(record), MSG_DONTWAIT) <= 0)
			break;
		memcpy(&first, record, sizeof(first));
		if (first == element) {
			n_purged++;
			continue;
		}
		void *more = realloc(kept, (n_kept + 1) * sizeof(*kept));
		if (!more)
			break;
		kept = more;
		memcpy(kept[n_kept++], record, sizeof(record));
	}
	for (unsigned int i = 0; i < n_kept; i++)
		channel_send(c, kept[i]);
	free(kept);
	return n_purged;
}
