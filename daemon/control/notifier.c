// SPDX-License-Identifier: Apache-2.0
/*
 * The notifier's thread and its list of clients. The mutex guards the list; it is released during a wake-up, so control
 * can change the list at any time, and an entry that is being woken is freed by the thread when the wake-up ends.
 */
#include "daemon/control/notifier.h"

#include "daemon/base/thread.h"
#include "daemon/base/time.h"
#include "daemon/control/user.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* One client. */
struct notifier_entry {
	struct ibvcap_client_link *link;
	const struct ibvcap_wake_request *wake;   /* the client may write anything into it */
	const struct ibvcap_sender_state *sender; /* NULL: it is a consumer */
	const void *page;                         /* that has wake; NULL: the entry is free */
	int fd;
	struct user *user;
	void *owner;
	uint64_t served; /* the last request that was: a client that is slow to withdraw it is not woken by each ring */
	bool is_over_budget; /* not woken any more */
	bool is_named;       /* by notifier_next_over_budget() */
	bool busy;           /* a wake-up is under way: not to be freed */
	bool removed;        /* no other wake-up begins */
};

struct notifier {
	const struct rx_ring *ring; /* of the consumers; NULL: the clients are senders */
	int doorbell;
	int budget_fd;
	struct heartbeat heartbeat;
	pthread_t thread;
	pthread_mutex_t mutex;       /* all below: of the thread and control, never of the worker */
	pthread_cond_t woke_removed; /* the wake-up of an entry that is removed has ended */
	uint32_t n_references;
	bool stop;
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
	if (entry->user)
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

	if (!entry->page || entry->removed || entry->is_over_budget)
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

/* One pass over all clients; the mutex is held, except during a wake-up. False: the thread is to end. */
static bool notify_all(struct notifier *notifier)
{
	for (uint32_t i = 0; i < notifier->n_entries; i++) {
		struct notifier_entry *entry = &notifier->entries[i];
		uint64_t wake_at = due_request(notifier, entry);

		if (wake_at == 0)
			continue;
		if (entry->user && cpu_budget_excess_ns(&entry->user->wakes, time_monotonic_ns())) {
			entry->is_over_budget = true;
			eventfd_write(notifier->budget_fd, 1);
		} else {
			wake_unlocked(notifier, entry, wake_at);
		}
	}
	heartbeat_beat(&notifier->heartbeat);
	return !notifier->stop;
}

/* The doorbell is read before the pass: a ring during the pass causes another one. */
static void *notifier_main(void *argument)
{
	struct notifier *notifier = argument;
	eventfd_t rings;
	bool go_on;

	do {
		eventfd_read(notifier->doorbell, &rings);
		pthread_mutex_lock(&notifier->mutex);
		go_on = notify_all(notifier);
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
	if (notifier->budget_fd >= 0)
		close(notifier->budget_fd);
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
	notifier->budget_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = notifier->budget_fd < 0 ? -errno : thread_start(&notifier->thread, "notifier", -1, notifier_main, notifier);
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
		user_ref(entry->user);
	}
	pthread_mutex_unlock(&notifier->mutex);
	return entry ? 0 : -EAGAIN;
}

int notifier_add(struct notifier *notifier, const struct ring_consumer *consumer, int fd, struct user *user,
                 void *owner)
{
	return notifier_add_entry(notifier, &(struct notifier_entry){.link = &consumer->state->link,
	                                                             .wake = &consumer->page->wake,
	                                                             .page = consumer->page,
	                                                             .fd = fd,
	                                                             .user = user,
	                                                             .owner = owner});
}

int notifier_add_sender(struct notifier *notifier, const struct sender *sender, struct user *user, void *owner)
{
	return notifier_add_entry(notifier, &(struct notifier_entry){.link = &sender->state->link,
	                                                             .wake = &sender->page->wake,
	                                                             .sender = sender->state,
	                                                             .page = sender->page,
	                                                             .fd = sender->socket,
	                                                             .user = user,
	                                                             .owner = owner});
}

int notifier_budget_fd(const struct notifier *notifier)
{
	return notifier->budget_fd;
}

void *notifier_next_over_budget(struct notifier *notifier)
{
	void *owner = NULL;
	eventfd_t count;

	eventfd_read(notifier->budget_fd, &count);
	pthread_mutex_lock(&notifier->mutex);
	for (uint32_t i = 0; i < notifier->n_entries && !owner; i++) {
		struct notifier_entry *entry = &notifier->entries[i];

		if (!entry->page || entry->removed || !entry->is_over_budget || entry->is_named)
			continue;
		entry->is_named = true;
		owner = entry->owner;
	}
	pthread_mutex_unlock(&notifier->mutex);
	return owner;
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
