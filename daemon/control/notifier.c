// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/notifier.h"

#include "daemon/ring/rx_ring.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TICK_NS 100000000

struct notifier_entry {
	const struct ibvcap_consumer_page *page; /* hostile */
	int fd;
};

struct notifier {
	struct ibvcap_ring *ring;
	pthread_t thread;
	pthread_mutex_t mutex; /* the list and stop: this thread's and control's, never the worker's */
	bool stop;
	uint32_t n_entries;
	struct notifier_entry entries[RX_RING_CONSUMERS_MAX];
};

static bool wants_byte(const struct ibvcap_consumer_page *page, uint64_t head, bool closed)
{
	uint64_t wake_at = daemon_load_wake_request(page);

	return wake_at != 0 && (wake_at <= head || closed) && daemon_load_wake_pipe(page);
}

/* A full pipe is readable as it is; of one whose reader has gone, control hears. */
static void write_byte(int fd)
{
	ssize_t n = write(fd, "", 1);

	(void)n;
}

/* One pass over the list; false: time to end. */
static bool notify(struct notifier *notifier)
{
	bool closed = consumer_ring_closed(notifier->ring);
	uint64_t head = consumer_load_head(notifier->ring);
	bool stop;

	pthread_mutex_lock(&notifier->mutex);
	for (uint32_t i = 0; i < notifier->n_entries; i++) {
		const struct notifier_entry *entry = &notifier->entries[i];

		if (wants_byte(entry->page, head, closed))
			write_byte(entry->fd);
	}
	stop = notifier->stop;
	pthread_mutex_unlock(&notifier->mutex);
	return !stop;
}

/*
 * The word is read before the list: a request served by the worker after that changes it. A client that
 * has the word mapped can move sleepers off it (FUTEX_REQUEUE), so no sleep is longer than a tick.
 */
static void *notifier_main(void *argument)
{
	struct notifier *notifier = argument;
	struct ibvcap_ring *ring = notifier->ring;
	const struct timespec tick = { .tv_nsec = TICK_NS };
	uint32_t seen = consumer_load_wake_word(ring);

	while (notify(notifier)) {
		syscall(SYS_futex, &ring->wake_word, FUTEX_WAIT, seen, &tick, NULL, 0);
		seen = consumer_load_wake_word(ring);
	}
	return NULL;
}

int notifier_new(struct notifier **notifier, struct ibvcap_ring *ring)
{
	struct notifier *n = calloc(1, sizeof(*n));
	sigset_t all, before;
	int error;

	if (!n)
		return -ENOMEM;
	n->ring = ring;
	pthread_mutex_init(&n->mutex, NULL);
	/* Signals are the control thread's; SIGPIPE of a pipe without reader stays blocked here. */
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
	daemon_bump_wake_word(notifier->ring);
	syscall(SYS_futex, &notifier->ring->wake_word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
	pthread_join(notifier->thread, NULL);
	pthread_mutex_destroy(&notifier->mutex);
	free(notifier);
}

int notifier_add(struct notifier *notifier, const struct ibvcap_consumer_page *page, int fd)
{
	int r = -EAGAIN;

	pthread_mutex_lock(&notifier->mutex);
	if (notifier->n_entries < RX_RING_CONSUMERS_MAX) {
		notifier->entries[notifier->n_entries++] = (struct notifier_entry){ .page = page, .fd = fd };
		r = 0;
	}
	pthread_mutex_unlock(&notifier->mutex);
	return r;
}

void notifier_remove(struct notifier *notifier, const struct ibvcap_consumer_page *page)
{
	pthread_mutex_lock(&notifier->mutex);
	for (uint32_t i = 0; i < notifier->n_entries; i++) {
		if (notifier->entries[i].page != page)
			continue;
		notifier->entries[i] = notifier->entries[--notifier->n_entries];
		break;
	}
	pthread_mutex_unlock(&notifier->mutex);
}
