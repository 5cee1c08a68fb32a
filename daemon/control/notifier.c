// SPDX-License-Identifier: Apache-2.0
/*
 * The notifier's thread and its list of clients. The mutex guards the list; it is released during a wake-up, so control
 * can change the list at any time, and an entry that is being woken is freed by the thread when the wake-up ends.
 */
#include "daemon/control/notifier.h"

#include "daemon/base/thread.h"
#include "daemon/control/user.h"
#include "lib/base/time.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

/* One client. */
struct notifier_entry {
	struct ibvcap_client_link *link;
	const struct ibvcap_wake_request *wake;   /* the client may write anything into it */
	const struct ibvcap_sender_state *sender; /* NULL: it is a consumer */
	const void *page;                         /* that has wake; NULL: the entry is free */
	int fd;
	struct user *user;
	uint64_t served; /* the last request that was: a client that is slow to withdraw it is not woken by each ring */
	bool busy;       /* a wake-up is under way: not to be freed */
	bool removed;    /* no other wake-up begins */
};

struct notifier {
	const struct rx_ring *ring; /* that the consumers read; NULL: the clients are senders */
	int doorbell;
	struct heartbeat heartbeat;
	pthread_t thread;
	pthread_mutex_t mutex;       /* all below: of the thread and control, never of the worker */
	pthread_cond_t woke_removed; /* the wake-up of an entry that is removed has ended */
	uint32_t n_references;
	bool stop;
	uint32_t first;     /* where the next pass begins, so that a user's budget serves all of its clients */
	uint32_t n_entries; /* no entry from here on is used */
	uint32_t max_entries;
	struct notifier_entry entries[];
};

/* ---- waking -------------------------------------------------------------------------------------- */

static void notifier_free_entry(struct notifier_entry *entry)
{
	user_unref(entry->user);
	*entry = (struct notifier_entry){0};
}

/* A slow wake-up costs nobody anything while all clients are one user's. */
static bool has_client_of_another(const struct notifier *notifier, const struct user *user)
{
	for (uint32_t i = 0; i < notifier->n_entries; i++)
		if (notifier->entries[i].page && notifier->entries[i].user != user)
			return true;
	return false;
}

/* The mutex is held by the caller, and released during the wake-up. */
static void wake_unlocked(struct notifier *notifier, struct notifier_entry *entry, uint64_t wake_at)
{
	uint64_t cpu_ns;

	entry->served = wake_at;
	entry->busy = true;
	pthread_mutex_unlock(&notifier->mutex);
	cpu_ns = time_of_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	client_wake(entry->link, entry->wake, entry->fd);
	cpu_ns = time_of_clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	pthread_mutex_lock(&notifier->mutex);
	entry->busy = false;
	if (entry->user && has_client_of_another(notifier, entry->user))
		cpu_budget_charge(&entry->user->wakes, cpu_ns, time_monotonic_ns());
	if (entry->removed) {
		notifier_free_entry(entry);
		pthread_cond_broadcast(&notifier->woke_removed);
	}
}

/*
 * The wake-up that the client asks for, if it is due; else 0. No later request is for less: see consumer_wants_wake()
 * in rx_ring.c.
 */
static uint64_t due_request(const struct notifier *notifier, const struct notifier_entry *entry)
{
	uint64_t wake_at;
	bool closed;

	if (!entry->page || entry->removed)
		return 0;
	if (entry->sender) {
		wake_at = sender_due_request(entry->sender, entry->wake);
	} else {
		closed = consumer_ring_closed(notifier->ring->ring); /* read first: head is final then */
		wake_at = daemon_load_wake_request(entry->wake);
		if (!closed && wake_at > consumer_load_head(notifier->ring->ring))
			wake_at = 0;
	}
	return wake_at > entry->served ? wake_at : 0;
}

/*
 * One pass over all clients; the mutex is held, except during a wake-up. Returns in how many ns the next client may be
 * woken that is due and whose user is over its budget; 0: there is none.
 */
static uint64_t notify_all(struct notifier *notifier)
{
	uint32_t n = notifier->n_entries;
	uint64_t late_ns = 0;

	notifier->first++;
	for (uint32_t i = 0; i < n; i++) {
		struct notifier_entry *entry = &notifier->entries[(notifier->first + i) % n];
		uint64_t wake_at = due_request(notifier, entry), excess_ns = 0;

		if (wake_at && entry->user)
			excess_ns = cpu_budget_excess_ns(&entry->user->wakes, time_monotonic_ns());
		if (excess_ns) {
			late_ns = late_ns && late_ns < excess_ns ? late_ns : excess_ns;
			atomic_store_explicit(&entry->user->is_woken_late, true, memory_order_relaxed);
		} else if (wake_at) {
			wake_unlocked(notifier, entry, wake_at);
		}
	}
	heartbeat_beat(&notifier->heartbeat);
	return late_ns;
}

/* Waits for the doorbell, at most ns; 0: without a limit. */
static void await_ring(int doorbell, uint64_t ns)
{
	const struct timespec timeout = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
	struct pollfd ring = {.fd = doorbell, .events = POLLIN};
	eventfd_t rings;

	if (ns == 0 || ppoll(&ring, 1, &timeout, NULL) > 0)
		eventfd_read(doorbell, &rings);
}

/* The doorbell is read before the pass: a ring during the pass causes another one. */
static void *notifier_main(void *argument)
{
	struct notifier *notifier = argument;
	uint64_t late_ns = 0;
	bool go_on;

	do {
		await_ring(notifier->doorbell, late_ns);
		pthread_mutex_lock(&notifier->mutex);
		late_ns = notify_all(notifier);
		go_on = !notifier->stop;
		pthread_mutex_unlock(&notifier->mutex);
	} while (go_on);
	return NULL;
}

/* ---- life ---------------------------------------------------------------------------------------- */

/* The thread does not run, or has ended, and nobody waits. */
static void notifier_destroy(struct notifier *notifier)
{
	for (uint32_t i = 0; i < notifier->n_entries; i++)
		notifier_free_entry(&notifier->entries[i]);
	pthread_cond_destroy(&notifier->woke_removed);
	pthread_mutex_destroy(&notifier->mutex);
	free(notifier);
}

struct notifier *notifier_ref(struct notifier *notifier)
{
	pthread_mutex_lock(&notifier->mutex);
	notifier->n_references++;
	pthread_mutex_unlock(&notifier->mutex);
	return notifier;
}

void notifier_unref(struct notifier *notifier)
{
	bool is_last;

	pthread_mutex_lock(&notifier->mutex);
	is_last = --notifier->n_references == 0;
	pthread_mutex_unlock(&notifier->mutex);
	if (is_last)
		notifier_destroy(notifier);
}

int notifier_new(struct notifier **out, const struct rx_ring *ring, int doorbell, uint32_t max)
{
	uint32_t max_entries = max + 1; /* one that was removed may be busy still */
	struct notifier *notifier = calloc(1, sizeof(*notifier) + max_entries * sizeof(notifier->entries[0]));
	int r;

	if (!notifier)
		return -ENOMEM;
	notifier->ring = ring;
	notifier->doorbell = notifier->heartbeat.wake_fd = doorbell;
	notifier->max_entries = max_entries;
	notifier->n_references = 1;
	pthread_mutex_init(&notifier->mutex, NULL);
	pthread_cond_init(&notifier->woke_removed, NULL);
	r = thread_start(&notifier->thread, "notifier", -1, notifier_main, notifier);
	if (r < 0) {
		notifier_destroy(notifier);
		return r;
	}
	*out = notifier;
	return 0;
}

void notifier_free(struct notifier *notifier)
{
	if (!notifier)
		return;
	heartbeat_unwatch(&notifier->heartbeat);
	pthread_mutex_lock(&notifier->mutex);
	notifier->stop = true;
	pthread_mutex_unlock(&notifier->mutex);
	eventfd_write(notifier->doorbell, 1);
	pthread_join(notifier->thread, NULL);
	notifier_unref(notifier);
}

struct heartbeat *notifier_heartbeat(struct notifier *notifier)
{
	return &notifier->heartbeat;
}

int notifier_make_socket(int *ours, int *theirs)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return -errno;
	*ours = ends[0];
	*theirs = ends[1];
	shutdown(*theirs, SHUT_WR);
	return 0;
}

/* ---- the list ------------------------------------------------------------------------------------ */

static struct notifier_entry *notifier_find(struct notifier *notifier, const void *page)
{
	for (uint32_t i = 0; i < notifier->n_entries; i++)
		if (notifier->entries[i].page == page)
			return &notifier->entries[i];
	return NULL;
}

static int notifier_add_entry(struct notifier *notifier, const struct notifier_entry *new)
{
	struct notifier_entry *entry;

	pthread_mutex_lock(&notifier->mutex);
	entry = notifier_find(notifier, NULL);
	if (!entry && notifier->n_entries < notifier->max_entries)
		entry = &notifier->entries[notifier->n_entries++];
	if (entry) {
		*entry = *new;
		if (entry->user && payer_is_root(&entry->user->payer))
			entry->user = NULL;
		user_ref(entry->user);
	}
	pthread_mutex_unlock(&notifier->mutex);
	return entry ? 0 : -EAGAIN;
}

int notifier_add(struct notifier *notifier, const struct ring_consumer *consumer, int fd, struct user *user)
{
	return notifier_add_entry(notifier, &(struct notifier_entry){.link = &consumer->state->link,
	                                                             .wake = &consumer->page->wake,
	                                                             .page = consumer->page,
	                                                             .fd = fd,
	                                                             .user = user});
}

int notifier_add_sender(struct notifier *notifier, const struct sender *sender, struct user *user)
{
	return notifier_add_entry(notifier, &(struct notifier_entry){.link = &sender->state->link,
	                                                             .wake = &sender->page->wake,
	                                                             .sender = sender->state,
	                                                             .page = sender->page,
	                                                             .fd = sender->socket,
	                                                             .user = user});
}

/* The mutex is held. Returns the entry if a wake-up of it is under way, after which the thread frees it; else NULL. */
static struct notifier_entry *notifier_remove_entry(struct notifier *notifier, const void *page)
{
	struct notifier_entry *entry = page ? notifier_find(notifier, page) : NULL;

	if (!entry)
		return NULL;
	entry->removed = true;
	if (entry->busy)
		return entry;
	notifier_free_entry(entry);
	return NULL;
}

void notifier_remove(struct notifier *notifier, const void *page)
{
	pthread_mutex_lock(&notifier->mutex);
	notifier_remove_entry(notifier, page);
	pthread_mutex_unlock(&notifier->mutex);
}

void notifier_remove_and_wait(struct notifier *notifier, const void *page)
{
	pthread_mutex_lock(&notifier->mutex);
	while (notifier_remove_entry(notifier, page))
		pthread_cond_wait(&notifier->woke_removed, &notifier->mutex);
	pthread_mutex_unlock(&notifier->mutex);
}
