// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/notifier.h"

#include "daemon/base/time.h"
#include "daemon/control/wake_cost.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define SEGMENTS_MAX 3

/* Who is to be woken, and while that goes on, outside of the mutex: not freed. */
struct notifier_entry {
	void *state;
	const void *page; /* hostile; NULL: the entry is free */
	int fd;
	struct wake_user *user;
	uint64_t served; /* the last request that was: who is slow to withdraw it is not woken by each ring */
	bool deferred;   /* to the slow lane, whatever its user's cost is by then */
	bool busy;       /* a wake is under way */
	bool removed;    /* no other begins */
	bool is_ours;    /* to be freed, with these: */
	struct shm segments[SEGMENTS_MAX];
};

enum lane { QUICK, SLOW, LANES };

struct notifier {
	const struct rx_ring *ring; /* NULL: senders are notified */
	int doorbell;
	pthread_t threads[LANES];
	pthread_mutex_t mutex; /* all below: the two threads' and control's, never the worker's */
	pthread_cond_t slow_due;
	bool is_slow_due;
	bool is_asked[LANES]; /* to go round, and it has not yet */
	bool stop;
	uint32_t n_entries; /* none from here on is used */
	uint32_t max_entries;
	struct wake_users users;
	struct notifier_entry entries[];
};

/* ---- waking -------------------------------------------------------------------------------------- */

/*
 * Nothing here may wait for a client. A socket and no pipe: a reader whose memory does not come (userfaultfd, FUSE)
 * stops while it holds the pipe's lock, and with it who writes. A full one is readable as it is; of one whose
 * reader has gone, control hears.
 */
static void wake_consumer(const struct notifier_entry *entry)
{
	if (daemon_load_wake_socket(entry->page))
		(void)send(entry->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	else
		rx_ring_wake_consumer(entry->state);
}

/* closed first: head is final then. */
static uint64_t consumer_due_request(const struct ibvcap_ring *ring, const struct ibvcap_consumer_page *page)
{
	bool closed = consumer_ring_closed(ring);
	uint64_t wake_at = daemon_load_wake_request(page);

	return closed || wake_at <= consumer_load_head(ring) ? wake_at : 0;
}

static void free_entry(struct notifier_entry *entry)
{
	for (unsigned i = 0; i < SEGMENTS_MAX && entry->is_ours; i++)
		shm_deinit(&entry->segments[i]);
	if (entry->is_ours && entry->fd >= 0)
		close(entry->fd);
	if (entry->user)
		entry->user->n_entries--;
	*entry = (struct notifier_entry){0};
}

/* The mutex is held, but for the time that the client makes it take. */
static void wake_unlocked(struct notifier *notifier, struct notifier_entry *entry, uint64_t wake_at, uint64_t *cpu_ns)
{
	uint64_t before_ns = *cpu_ns;

	entry->served = wake_at;
	entry->deferred = false;
	entry->busy = true;
	pthread_mutex_unlock(&notifier->mutex);
	if (notifier->ring)
		wake_consumer(entry);
	else
		sender_wake(entry->state, entry->page, entry->fd);
	*cpu_ns = time_of_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	pthread_mutex_lock(&notifier->mutex);
	entry->busy = false;
	wake_cost_add(entry->user, *cpu_ns - before_ns, time_monotonic_ns());
	if (entry->removed)
		free_entry(entry);
}

/* What it asks for, if that is due; else 0. No later request is for less: see is_due() in rx_ring.c. */
static uint64_t due_request(const struct notifier *notifier, const struct notifier_entry *entry)
{
	uint64_t wake_at;

	if (!entry->page || entry->removed)
		return 0;
	if (notifier->ring)
		wake_at = consumer_due_request(notifier->ring->ring, entry->page);
	else
		wake_at = sender_due_request(entry->state, entry->page);
	return wake_at > entry->served ? wake_at : 0;
}

/* One that is being woken can only be by the slow lane: it is its to do that again. */
static bool is_for_slow_lane(const struct notifier_entry *entry)
{
	return entry->busy || wake_cost_is_high(entry->user, time_monotonic_ns());
}

/* One pass over the lane's own; the mutex is held, now and then. False: time to end. */
static bool notify(struct notifier *notifier, enum lane lane, uint64_t *cpu_ns)
{
	for (uint32_t i = 0; i < notifier->n_entries; i++) {
		struct notifier_entry *entry = &notifier->entries[i];
		uint64_t wake_at = due_request(notifier, entry);

		if (wake_at == 0)
			continue;
		if (lane == QUICK && is_for_slow_lane(entry))
			entry->deferred = notifier->is_slow_due = true;
		else if (lane == QUICK || entry->deferred)
			wake_unlocked(notifier, entry, wake_at, cpu_ns);
	}
	if (lane == QUICK && notifier->is_slow_due)
		pthread_cond_signal(&notifier->slow_due);
	notifier->is_asked[lane] = false;
	return !notifier->stop;
}

/* ---- two threads --------------------------------------------------------------------------------- */

/* One pass a ring: what rings after the doorbell was read is still there to be read at the next turn. */
static void *quick_main(void *argument)
{
	struct notifier *notifier = argument;
	uint64_t cpu_ns = time_of_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	eventfd_t rings;
	bool go_on;

	do {
		eventfd_read(notifier->doorbell, &rings);
		pthread_mutex_lock(&notifier->mutex);
		go_on = notify(notifier, QUICK, &cpu_ns);
		pthread_mutex_unlock(&notifier->mutex);
	} while (go_on);
	return NULL;
}

static void *slow_main(void *argument)
{
	struct notifier *notifier = argument;
	uint64_t cpu_ns = time_of_clock_ns(CLOCK_THREAD_CPUTIME_ID);

	pthread_mutex_lock(&notifier->mutex);
	while (!notifier->stop) {
		if (!notifier->is_slow_due)
			pthread_cond_wait(&notifier->slow_due, &notifier->mutex);
		notifier->is_slow_due = false;
		notify(notifier, SLOW, &cpu_ns);
	}
	pthread_mutex_unlock(&notifier->mutex);
	return NULL;
}

static void stop(struct notifier *notifier, unsigned n_threads)
{
	pthread_mutex_lock(&notifier->mutex);
	notifier->stop = true;
	pthread_cond_signal(&notifier->slow_due);
	pthread_mutex_unlock(&notifier->mutex);
	eventfd_write(notifier->doorbell, 1);
	while (n_threads > 0)
		pthread_join(notifier->threads[--n_threads], NULL);
	pthread_cond_destroy(&notifier->slow_due);
	pthread_mutex_destroy(&notifier->mutex);
	wake_users_deinit(&notifier->users);
	free(notifier);
}

/* ring NULL: of senders. */
static int new_notifier(struct notifier **notifier, const struct rx_ring *ring, int doorbell, uint32_t max)
{
	static void *(*const mains[LANES])(void *) = {quick_main, slow_main};
	uint32_t max_entries = max + LANES; /* beside those removed, and busy */
	struct notifier *n = calloc(1, sizeof(*n) + max_entries * sizeof(n->entries[0]));
	unsigned n_threads = 0;
	sigset_t all, before;
	int error = 0;

	if (!n)
		return -ENOMEM;
	if (wake_users_init(&n->users, max_entries) < 0) {
		free(n);
		return -ENOMEM;
	}
	n->ring = ring;
	n->doorbell = doorbell;
	n->max_entries = max_entries;
	pthread_mutex_init(&n->mutex, NULL);
	pthread_cond_init(&n->slow_due, NULL);
	/* Signals are the control thread's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (!error && n_threads < LANES) {
		error = pthread_create(&n->threads[n_threads], NULL, mains[n_threads], n);
		if (!error)
			pthread_setname_np(n->threads[n_threads++], "notifier");
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error) {
		stop(n, n_threads);
		return -error;
	}
	*notifier = n;
	return 0;
}

int notifier_new(struct notifier **notifier, const struct rx_ring *ring)
{
	return new_notifier(notifier, ring, ring->doorbell, RX_RING_CONSUMERS_MAX);
}

int notifier_new_of_senders(struct notifier **notifier, int doorbell, uint32_t max)
{
	return new_notifier(notifier, NULL, doorbell, max);
}

void notifier_free(struct notifier *notifier)
{
	if (notifier)
		stop(notifier, LANES);
}

bool notifier_is_alive(struct notifier *notifier)
{
	bool alive;

	pthread_mutex_lock(&notifier->mutex);
	alive = !notifier->is_asked[QUICK] && !notifier->is_asked[SLOW];
	if (alive) {
		notifier->is_asked[QUICK] = notifier->is_asked[SLOW] = notifier->is_slow_due = true;
		pthread_cond_signal(&notifier->slow_due);
	}
	pthread_mutex_unlock(&notifier->mutex);
	if (alive)
		eventfd_write(notifier->doorbell, 1);
	return alive;
}

/* ---- the list ------------------------------------------------------------------------------------ */

static struct notifier_entry *find(struct notifier *notifier, const void *page)
{
	for (uint32_t i = 0; i < notifier->n_entries; i++)
		if (notifier->entries[i].page == page)
			return &notifier->entries[i];
	return NULL;
}

static int add(struct notifier *notifier, void *state, const void *page, int fd, uid_t uid)
{
	struct notifier_entry *entry;

	pthread_mutex_lock(&notifier->mutex);
	entry = find(notifier, NULL);
	if (!entry && notifier->n_entries < notifier->max_entries)
		entry = &notifier->entries[notifier->n_entries++];
	if (entry)
		*entry = (struct notifier_entry){
			.state = state, .page = page, .fd = fd, .user = wake_users_take(&notifier->users, uid)};
	pthread_mutex_unlock(&notifier->mutex);
	return entry ? 0 : -EAGAIN;
}

int notifier_add(struct notifier *notifier, const struct ring_consumer *consumer, int fd, uid_t uid)
{
	return add(notifier, consumer->state, consumer->page, fd, uid);
}

int notifier_add_sender(struct notifier *notifier, const struct sender *sender, uid_t uid)
{
	return add(notifier, sender->state, sender->page, sender->socket, uid);
}

static struct notifier_entry *remove_entry(struct notifier *notifier, const void *page)
{
	struct notifier_entry *entry = page ? find(notifier, page) : NULL;

	if (!entry)
		return NULL;
	entry->removed = true;
	if (entry->busy)
		return entry;
	free_entry(entry);
	return NULL;
}

void notifier_remove(struct notifier *notifier, const void *page)
{
	pthread_mutex_lock(&notifier->mutex);
	remove_entry(notifier, page);
	pthread_mutex_unlock(&notifier->mutex);
}

/* Segments and descriptor are taken over. */
static void dispose(struct notifier *notifier, const void *page, struct notifier_entry *own)
{
	struct notifier_entry *entry;

	own->is_ours = true;
	pthread_mutex_lock(&notifier->mutex);
	entry = remove_entry(notifier, page);
	if (entry) { /* a wake is under way: freed by who does it */
		entry->is_ours = true;
		memcpy(entry->segments, own->segments, sizeof(entry->segments));
	}
	pthread_mutex_unlock(&notifier->mutex);
	if (!entry)
		free_entry(own);
}

void notifier_dispose(struct notifier *notifier, struct ring_consumer *consumer, int fd)
{
	struct notifier_entry own = {.fd = fd, .segments = {consumer->state_shm, consumer->page_shm, SHM_INIT}};

	dispose(notifier, consumer->page, &own);
	consumer->state_shm = consumer->page_shm = (struct shm)SHM_INIT;
}

void notifier_dispose_sender(struct notifier *notifier, struct sender *sender)
{
	struct notifier_entry own = {.fd = sender->socket,
	                             .segments = {sender->arena, sender->page_shm, sender->state_shm}};

	dispose(notifier, sender->page, &own);
	sender->arena = sender->page_shm = sender->state_shm = (struct shm)SHM_INIT;
	sender->socket = -1;
}
