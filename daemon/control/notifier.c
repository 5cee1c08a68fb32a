// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/notifier.h"

#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

struct notifier_entry {
	const struct ring_consumer *consumer; /* its page is hostile */
	int fd;
};

struct notifier {
	const struct rx_ring *ring;
	pthread_t thread;
	pthread_mutex_t mutex; /* the list and stop: this thread's and control's, never the worker's */
	bool stop;
	uint32_t n_entries;
	struct notifier_entry entries[RX_RING_CONSUMERS_MAX];
};

/*
 * Nothing here may wait for a client. A socket and no pipe: a reader whose memory does not come (userfaultfd, FUSE)
 * stops while it holds the pipe's lock, and with it who writes. A full one is readable as it is; of one whose
 * reader has gone, control hears.
 */
static void wake(const struct notifier_entry *entry)
{
	if (daemon_load_wake_socket(entry->consumer->page))
		(void)send(entry->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	else
		rx_ring_wake_consumer(entry->consumer);
}

/* One pass over the list; false: time to end. */
static bool notify(struct notifier *notifier)
{
	bool closed = consumer_ring_closed(notifier->ring->ring);
	uint64_t head = consumer_load_head(notifier->ring->ring);
	bool stop;

	pthread_mutex_lock(&notifier->mutex);
	for (uint32_t i = 0; i < notifier->n_entries; i++) {
		uint64_t wake_at = daemon_load_wake_request(notifier->entries[i].consumer->page);

		if (wake_at != 0 && (wake_at <= head || closed))
			wake(&notifier->entries[i]);
	}
	stop = notifier->stop;
	pthread_mutex_unlock(&notifier->mutex);
	return !stop;
}

/* What rings after the doorbell was read is still there to be read at the next turn. */
static void *notifier_main(void *argument)
{
	struct notifier *notifier = argument;
	eventfd_t rings;

	while (notify(notifier))
		eventfd_read(notifier->ring->doorbell, &rings);
	return NULL;
}

int notifier_new(struct notifier **notifier, const struct rx_ring *ring)
{
	struct notifier *n = calloc(1, sizeof(*n));
	sigset_t all, before;
	int error;

	if (!n)
		return -ENOMEM;
	n->ring = ring;
	pthread_mutex_init(&n->mutex, NULL);
	/* Signals are the control thread's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&n->thread, NULL, notifier_main, n);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error) {
		pthread_mutex_destroy(&n->mutex);
		free(n);
		return -error;
	}
	pthread_setname_np(n->thread, "notifier");
	*notifier = n;
	return 0;
}

void notifier_free(struct notifier *notifier)
{
	if (!notifier)
		return;
	pthread_mutex_lock(&notifier->mutex);
	notifier->stop = true;
	pthread_mutex_unlock(&notifier->mutex);
	rx_ring_ring_doorbell(notifier->ring);
	pthread_join(notifier->thread, NULL);
	pthread_mutex_destroy(&notifier->mutex);
	free(notifier);
}

int notifier_add(struct notifier *notifier, const struct ring_consumer *consumer, int fd)
{
	int r = -EAGAIN;

	pthread_mutex_lock(&notifier->mutex);
	if (notifier->n_entries < RX_RING_CONSUMERS_MAX) {
		notifier->entries[notifier->n_entries++] = (struct notifier_entry){ .consumer = consumer, .fd = fd };
		r = 0;
	}
	pthread_mutex_unlock(&notifier->mutex);
	return r;
}

void notifier_remove(struct notifier *notifier, const struct ibvcap_consumer_page *page)
{
	pthread_mutex_lock(&notifier->mutex);
	for (uint32_t i = 0; i < notifier->n_entries; i++) {
		if (notifier->entries[i].consumer->page != page)
			continue;
		notifier->entries[i] = notifier->entries[--notifier->n_entries];
		break;
	}
	pthread_mutex_unlock(&notifier->mutex);
}
