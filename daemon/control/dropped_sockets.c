// SPDX-License-Identifier: Apache-2.0
/* The thread that ends with a copy of the table of descriptors, and its two meetings with the control thread. */
#include "daemon/control/dropped_sockets.h"

#include "daemon/base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

struct ending_thread {
	struct dropped_sockets sockets;
	sem_t copied; /* the thread has its copy, or cannot have one */
	sem_t closed; /* the control thread has closed its own descriptors */
	bool has_copy;
};

static void close_sockets(const struct dropped_sockets *sockets)
{
	for (unsigned i = 0; i < sockets->n; i++)
		close(sockets->fds[i]);
}

/* Without a copy it closes the sockets itself, and may sleep: then nobody else waits for it. */
static void *end_with_copy(void *argument)
{
	struct ending_thread *ending = argument;
	bool has_copy = unshare(CLONE_FILES) == 0;

	ending->has_copy = has_copy;
	sem_post(&ending->copied);
	if (has_copy)
		sem_wait(&ending->closed);
	else
		close_sockets(&ending->sockets);
	sem_destroy(&ending->copied);
	sem_destroy(&ending->closed);
	free(ending);
	return NULL;
}

void dropped_sockets_close(struct dropped_sockets *sockets)
{
	struct ending_thread *ending = sockets->n ? calloc(1, sizeof(*ending)) : NULL;
	pthread_t thread;

	if (!ending) /* the next tick tries again */
		return;
	ending->sockets = *sockets;
	sem_init(&ending->copied, 0, 0);
	sem_init(&ending->closed, 0, 0);
	if (thread_start(&thread, NULL, -1, end_with_copy, ending) < 0) {
		free(ending);
		return;
	}
	pthread_detach(thread);
	sem_wait(&ending->copied);
	if (ending->has_copy) {
		close_sockets(sockets);
		sem_post(&ending->closed);
	}
	sockets->n = 0;
}

void dropped_sockets_add(struct dropped_sockets *sockets, int fd)
{
	if (sockets->n == DROPPED_SOCKETS_MAX)
		dropped_sockets_close(sockets);
	if (sockets->n < DROPPED_SOCKETS_MAX)
		sockets->fds[sockets->n++] = fd;
	else
		close(fd); /* no memory, no thread: in this one */
}
