// SPDX-License-Identifier: Apache-2.0
/* Open files of the connection manager. */
#include "cm_connection.h"

#include "../wire/own_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

void cm_init(struct cm *cm, struct fdtab *fdtab, struct device *devices, unsigned int n_devices)
{
	pthread_mutex_init(&cm->lock, NULL);
	cm->fdtab = fdtab;
	cm->devices = devices;
	cm->n_devices = n_devices;
	cm->ids = NULL;
	cm->n_ids = 0;
	cm->open_devices = 0;
	cm->runs = false;
	cm->wake_fd = -1;
	pthread_mutex_init(&cm->arrived_lock, NULL);
	cm->n_arrived = cm->n_taken = 0;
}

/* As the kernel does when it closes the files of a process. */
void cm_leave(struct cm *cm)
{
	pthread_mutex_lock(&cm->lock);
	for (uint32_t i = 0; i < cm->n_ids; i++)
		if (cm->ids[i])
			cm_destroy(cm->ids[i]);
	pthread_mutex_unlock(&cm->lock);
}

static void cm_file_release(struct fd_object *o)
{
	struct cm_file *f = (struct cm_file *)o;

	pthread_mutex_lock(&f->cm->lock);
	for (uint32_t i = 0; i < f->cm->n_ids; i++)
		if (f->cm->ids[i] && f->cm->ids[i]->file == f)
			cm_destroy(f->cm->ids[i]);
	pthread_mutex_unlock(&f->cm->lock);
	own_fd_close(f->token_fd);
	own_fd_close(f->peek_fd);
	free(f);
}

int cm_open(struct cm *cm, int flags)
{
	int type = SOCK_SEQPACKET | (flags & O_CLOEXEC ? SOCK_CLOEXEC : 0) | (flags & O_NONBLOCK ? SOCK_NONBLOCK : 0);
	struct cm_file *f = calloc(1, sizeof(*f));
	int pair[2], r;

	if (!f)
		return -ENOMEM;
	/* A socket and not an eventfd: it has an inode of its own, by which the table knows it. */
	if (syscall(SYS_socketpair, AF_UNIX, type, 0, pair)) {
		r = -errno;
		free(f);
		return r;
	}
	f->fd_object.kind = FD_CM;
	f->fd_object.refs = 1;
	f->fd_object.release = cm_file_release;
	f->cm = cm;
	STAILQ_INIT(&f->events);
	f->token_fd = own_fd(pair[1]);
	f->peek_fd = own_fd_copy(pair[0]);
	r = f->token_fd < 0 || f->peek_fd < 0 ? -EMFILE : fdtab_set(cm->fdtab, pair[0], &f->fd_object);
	if (!r)
		return pair[0];
	own_fd_close(pair[0]);
	cm_file_release(&f->fd_object);
	return r;
}
