// SPDX-License-Identifier: Apache-2.0
/*
 * Several queues behind one handle: all of a stream, or those that a group gives this member. Each is a handle of its
 * own, with a connection of its own; this file takes turns among them, waits for all of them, and hands a queue back
 * that the group recalls. A member asks for its next queue by a handle that is away: it attaches to a queue as another
 * handle attaches to the next daemon.
 */
#include "lib/ibvcap/rx_set.h"

#include "lib/ibvcap/client.h"
#include "lib/ibvcap/error.h"
#include "lib/ibvcap/min.h"
#include "lib/ibvcap/owner.h"
#include "lib/ibvcap/pause.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define RX_SET_FEWER 2                       /* the part has fewer rows than wanted, and there will be no more */
#define PARTS_MAX    (2 * IBVCAP_QUEUES_MAX) /* a queue may come back while batches of it are out */
#define ASK_NS       UINT64_C(20000000) /* while packets come without a pause, how often a new queue is looked for */
#define TAP_NAP_MS   1                  /* nobody wakes a tap */
#define SLICE_MS     (PAUSE_SLICE_NS / 1000000)
#define PART_SHIFT   8 /* of a batch's lease: below it the lease of the part */

struct rx_set {
	char *path;
	char stream[IBVCAP_STREAM_NAME_MAX];
	struct ibvcap_rx_options options;
	bool is_group;
	bool is_tap;
	uint64_t member;
	uint64_t epoch; /* of a group: of the last queue that came */
	uint32_t n_queues;
	struct ibvcap_rx *parts[PARTS_MAX]; /* a batch's lease has the index; NULL: free */
	uint32_t n_parts;                   /* no part from here on is used */
	uint32_t turn;                      /* the part to be asked first */
	uint32_t failed;                    /* bit k: queue k failed in this epoch, and was given up */
	struct ibvcap_rx *ask;              /* of a group: waits for the next queue; NULL: it has all */
	uint64_t asked_ns;
	struct ibvcap_rx_counts counts; /* of queues that were given up */
	int poll_fd;
};

/* ---- parts ------------------------------------------------------------------------------------------ */

static int watch(const struct rx_set *set, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	if (epoll_ctl(set->poll_fd, EPOLL_CTL_ADD, fd, &event) == 0)
		return 0;
	return error_set(-errno, "stream '%s': cannot add a descriptor to the epoll set: %s", set->stream,
	                 strerror(errno));
}

/* Its packets, its next daemon, and for a group that its queue is recalled. A tap has nothing to be watched. */
static int watch_part(const struct rx_set *set, struct ibvcap_rx *part)
{
	int r = set->is_tap ? 0 : rx_poll_open(part);

	if (set->is_tap || r < 0)
		return r;
	return watch(set, r);
}

/* Before they are closed: a child of fork() may have copies, which would keep them in the set. */
static void unwatch_part(const struct rx_set *set, const struct ibvcap_rx *part)
{
	if (part->reattach.poll_fd >= 0)
		epoll_ctl(set->poll_fd, EPOLL_CTL_DEL, part->reattach.poll_fd, NULL);
	if (set->is_group && part->socket >= 0)
		epoll_ctl(set->poll_fd, EPOLL_CTL_DEL, part->socket, NULL);
}

static int find_free_part(const struct rx_set *set)
{
	for (int i = 0; i < PARTS_MAX; i++)
		if (!set->parts[i])
			return i;
	return -ENOBUFS;
}

static void put_part(struct rx_set *set, int index, struct ibvcap_rx *part)
{
	set->parts[index] = part;
	if (set->n_parts <= (uint32_t)index)
		set->n_parts = (uint32_t)index + 1;
}

static uint32_t count_parts(const struct rx_set *set)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < set->n_parts; i++)
		n += set->parts[i] != NULL;
	return n;
}

static void add_counts(struct ibvcap_rx_counts *sum, const struct ibvcap_rx *part)
{
	struct ibvcap_rx_counts counts;

	rx_handle_count(part, &counts);
	sum->published += counts.published;
	sum->delivered += counts.delivered;
	sum->skipped += counts.skipped;
	sum->lag += counts.lag;
	sum->abandoned += counts.abandoned;
	sum->failures += counts.failures;
	if (counts.epochs > sum->epochs)
		sum->epochs = counts.epochs;
}

/*
 * Other members get the packets that it has not acquired. Its memory is unmapped first, so that its place is free when
 * the connection is closed.
 */
static void drop_part(struct rx_set *set, uint32_t index)
{
	struct ibvcap_rx *part = set->parts[index];

	add_counts(&set->counts, part);
	set->counts.published -= set->counts.lag;
	set->counts.lag = 0;
	set->parts[index] = NULL;
	while (set->n_parts && !set->parts[set->n_parts - 1])
		set->n_parts--;
	unwatch_part(set, part);
	rx_handle_unmap(part);
	rx_handle_free(part);
}

/* ---- a member's next queue --------------------------------------------------------------------------- */

static int new_part(const struct rx_set *set, uint32_t queue, struct ibvcap_rx **part)
{
	struct ibvcap_rx_options options = set->options;
	int r;

	*part = NULL;
	options.queue = queue;
	r = rx_reattach_new(part, set->path, set->stream, &options, set->member);
	if (r < 0)
		return r;
	r = watch_part(set, *part);
	if (r < 0) {
		rx_handle_free(*part);
		*part = NULL;
	}
	return r;
}

/* The ask was answered: it is a queue of this handle now. */
static int take_queue(struct rx_set *set)
{
	struct ibvcap_rx *part = set->ask;
	int index = find_free_part(set), r = watch(set, part->socket);

	set->ask = NULL;
	if (index < 0 || r < 0) {
		unwatch_part(set, part);
		rx_handle_free(part);
		return index < 0 ? index : r;
	}
	if (part->info.epoch != set->epoch) {
		set->counts.epochs++;
		set->failed = 0;
	}
	set->epoch = part->info.epoch;
	set->n_queues = part->info.n_queues;
	if (set->counts.epochs && !(part->reattach.next_flags & IBVCAP_RX_BATCH_FLAG_TAKEN_OVER))
		part->reattach.next_flags |= IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN;
	put_part(set, index, part);
	return 1;
}

/*
 * 1: a queue came; 0: none; -errno: none will, and there is no other. While the handle has a queue, the daemon is
 * there, and the search for it does not end.
 */
static int step_ask(struct rx_set *set, uint64_t now_ns)
{
	uint32_t n = count_parts(set);
	int r;

	set->asked_ns = now_ns;
	if (!set->is_group || n >= PARTS_MAX - 1 || (!set->ask && set->n_queues && n >= set->n_queues))
		return 0;
	r = set->ask ? 0 : new_part(set, IBVCAP_QUEUE_ALL, &set->ask);
	if (!set->ask)
		return n ? 0 : r;
	if (n && !set->ask->reattach.error)
		rx_reattach_put_off_end(set->ask, now_ns);
	r = rx_reattach(set->ask, 0);
	if (r == 1)
		return take_queue(set);
	return n ? 0 : r;
}

/* ---- one part in turn ---------------------------------------------------------------------------------- */

static bool is_recalled(const struct ibvcap_rx *part)
{
	switch (consumer_load_connection(part->state)) {
	case IBVCAP_CONNECTION_OPEN:
		return false;
	case IBVCAP_CONNECTION_RECALLED:
		return true;
	case IBVCAP_CONNECTION_ENDED:
		break;
	}
	return consumer_load_reason(part->state) == IBVCAP_DISCONNECT_RECALLED;
}

/* Rows; 0: it has none now; -ENOBUFS: all its leases are taken; -errno. */
static int take_from(struct rx_set *set, uint32_t index, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min)
{
	struct ibvcap_rx *part = set->parts[index];
	int r;

	if (!part || part->reattach.away)
		return 0;
	if (!set->is_group || !is_recalled(part)) {
		r = rx_try(part, batch, max, min);
		if (r != -ECONNABORTED || !set->is_group || !is_recalled(part)) /* recalled and ended just now */
			return r;
	}
	if (!rx_handle_has_batches(part))
		drop_part(set, index);
	return 0;
}

/* Rows of the next part that has some. Results as of take_from(). */
static int take_in_turn(struct rx_set *set, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min, uint32_t *index)
{
	const uint32_t n = set->n_parts, first = set->turn < n ? set->turn : 0;
	int full = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = first + i < n ? first + i : first + i - n;
		int r = take_from(set, at, batch, max, min);

		if (r == -ENOBUFS) {
			full = r;
			continue;
		}
		if (r == 0)
			continue;
		set->turn = at + 1;
		*index = at;
		return r;
	}
	return full;
}

/*
 * A part is in the next epoch: search for the queues that are new, and for those that had failed. Of queues that the
 * stream has no more, the search fails. 1 or -errno.
 */
static int follow_queues(struct rx_set *set, const struct ibvcap_rx *first)
{
	uint32_t n_queues = u32_min(first->info.n_queues, IBVCAP_QUEUES_MAX);

	if (first->info.epoch == set->epoch)
		return 1;
	set->epoch = first->info.epoch;
	set->failed = 0;
	for (uint32_t i = 0; i < n_queues; i++) {
		struct ibvcap_rx *part;
		int r;

		if (set->parts[i])
			continue;
		r = new_part(set, i, &part);
		if (r < 0)
			return r;
		part->reattach.next_flags |= IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN;
		put_part(set, (int)i, part);
	}
	set->n_queues = n_queues;
	return 1;
}

/* The others go on. 1: the queue was given up; 0: not before its batches are released. */
static int give_up_failed(struct rx_set *set, uint32_t index)
{
	const struct ibvcap_rx *part = set->parts[index];

	if (rx_handle_has_batches(part))
		return 0;
	set->failed |= rx_handle_failed_queues(part);
	drop_part(set, index);
	return 1;
}

/* The epoch of the part has ended. 1: it is in the next one, or was given up; 0: not yet; -errno. */
static int step_ended(struct rx_set *set, uint32_t index)
{
	struct ibvcap_rx *part = set->parts[index];
	int r;

	if (rx_handle_failed_queues(part) && (set->is_group || count_parts(set) > 1))
		return give_up_failed(set, index);
	if (set->is_group && !part->reattach.away && !rx_handle_is_removed(part)) {
		if (set->options.reattach_ms == IBVCAP_NO_REATTACH)
			return -ESHUTDOWN;
		if (rx_handle_has_batches(part))
			return -ENOBUFS;
		drop_part(set, index); /* the next daemon shares the queues out anew */
		return 1;
	}
	r = rx_reattach(part, 0);
	if (r == -EINVAL && index > 0) {
		drop_part(set, index);
		return 1;
	}
	return r == 1 ? follow_queues(set, part) : r;
}

/* Empties the socket, so that the descriptor is not readable for what is known. */
static void step_recalled(struct rx_set *set, uint32_t index)
{
	struct ibvcap_rx *part = set->parts[index];
	uint8_t message[PROTOCOL_BYTES_MAX];

	(void)!recv(part->socket, message, sizeof(message), MSG_DONTWAIT);
	if (!rx_handle_has_batches(part))
		drop_part(set, index);
}

/*
 * Make the part wake the descriptor when it has so many rows. 1: look at the parts again; 0: it has nothing; -errno.
 */
static int prepare_part(struct rx_set *set, uint32_t index, uint32_t max, uint32_t min)
{
	struct ibvcap_rx *part = set->parts[index];
	int r;

	if (part->reattach.away)
		return step_ended(set, index);
	if (set->is_group && is_recalled(part)) {
		step_recalled(set, index);
		return 0;
	}
	r = rx_wait_prepare(part, part->next + rx_least(part, max, min));
	if (r == -ECONNABORTED && set->is_group && is_recalled(part)) { /* just now */
		step_recalled(set, index);
		return 0;
	}
	if (r == RX_WAIT_END)
		return consumer_load_head(part->ring) > part->next ? RX_SET_FEWER : step_ended(set, index);
	return r == RX_WAIT_HEAD ? 1 : r == RX_WAIT_TIME ? 0 : r;
}

/* The stream is removed when all its queues are: the others may have packets yet. Results as of prepare_part(). */
static int prepare_all(struct rx_set *set, uint32_t max, uint32_t min, uint64_t now_ns)
{
	uint32_t n_removed = 0;
	int found = 0, r;

	for (uint32_t i = 0; i < set->n_parts; i++) {
		r = set->parts[i] ? prepare_part(set, i, max, min) : 0;
		n_removed += r == -ENODEV;
		if (r < 0 && r != -ENOBUFS && r != -ENODEV)
			return r;
		if (r > found || (r == -ENOBUFS && found == 0))
			found = r;
	}
	if (n_removed && n_removed == count_parts(set))
		return -ENODEV;
	r = step_ask(set, now_ns);
	return r == 0 ? found : r;
}

/* ---- acquiring ------------------------------------------------------------------------------------------ */

/* While packets come without a pause. */
static int look_for_queue(struct rx_set *set)
{
	struct timespec now;
	uint64_t now_ns;

	if (!set->ask)
		return 0;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	now_ns = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
	return now_ns > set->asked_ns && now_ns - set->asked_ns >= ASK_NS ? step_ask(set, now_ns) : 0;
}

/* 0 or -EINTR. */
static int sleep_on_all(const struct rx_set *set, uint64_t ns)
{
	struct pollfd poller = {.fd = set->poll_fd, .events = POLLIN};
	uint64_t ms = u64_min((ns + 999999) / 1000000, set->is_tap ? TAP_NAP_MS : SLICE_MS);

	return poll(&poller, 1, (int)ms) < 0 && errno == EINTR ? -EINTR : 0;
}

static bool spin_on_all(const struct rx_set *set, uint32_t max, uint32_t min)
{
	for (unsigned spin = 0; spin < PAUSE_SPINS; spin++) {
		for (uint32_t i = 0; i < set->n_parts; i++) {
			const struct ibvcap_rx *part = set->parts[i];

			if (part && part->ring &&
			    consumer_load_head(part->ring) >= part->next + rx_least(part, max, min))
				return true;
		}
		pause_briefly();
	}
	return false;
}

static int acquire_from_any(struct rx_set *set, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min,
                            int timeout_ms, uint32_t *index)
{
	uint64_t now_ns, deadline_ns = timeout_ms < 0 ? UINT64_MAX : 0;
	bool has_spun = timeout_ms == 0, fewer = false, is_last;
	int r = look_for_queue(set);

	while (r >= 0) {
		r = take_in_turn(set, batch, max, fewer ? 1 : min, index);
		if (r != 0)
			return r;
		now_ns = client_now_ns();
		if (deadline_ns == 0)
			deadline_ns = now_ns + (uint64_t)timeout_ms * 1000000;
		is_last = now_ns >= deadline_ns;
		if (!has_spun) {
			has_spun = true;
			if (spin_on_all(set, max, min))
				continue;
		}
		r = prepare_all(set, max, is_last ? 1 : min, now_ns);
		fewer = is_last || r == RX_SET_FEWER;
		if (r == 0 && is_last)
			return 0;
		if (r == 0)
			r = sleep_on_all(set, deadline_ns - now_ns);
	}
	return r;
}

/* The stream has one queue: as a handle of that queue does. */
static int acquire_from_one(struct rx_set *set, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min,
                            int timeout_ms)
{
	int r = rx_acquire(set->parts[0], batch, max, min, timeout_ms), followed = 0;

	if (!set->parts[0]->reattach.away)
		followed = follow_queues(set, set->parts[0]);
	return r == 0 && followed < 0 ? followed : r;
}

int rx_set_acquire(struct rx_set *set, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min, int timeout_ms)
{
	uint32_t index = 0;
	int r;

	if (!set->is_group && set->n_parts == 1 && set->n_queues == 1)
		return acquire_from_one(set, batch, max, min, timeout_ms);
	r = acquire_from_any(set, batch, max, min, timeout_ms, &index);

	if (r > 0)
		batch->lease |= index << PART_SHIFT;
	return r;
}

/* ---- batches ----------------------------------------------------------------------------------------------- */

struct ibvcap_rx *rx_set_part(const struct rx_set *set, const struct ibvcap_rx_batch *batch,
                              struct ibvcap_rx_batch *of_part)
{
	uint32_t index = batch->lease >> PART_SHIFT;

	/* A batch of an older program has fewer fields. */
	*of_part = (struct ibvcap_rx_batch){0};
	memcpy(of_part, batch, batch->size < sizeof(*of_part) ? batch->size : sizeof(*of_part));
	of_part->lease = batch->lease & ((1u << PART_SHIFT) - 1);
	return index < PARTS_MAX ? set->parts[index] : NULL;
}

bool rx_set_note_release(struct rx_set *set, const struct ibvcap_rx_batch *batch)
{
	uint32_t index = batch->lease >> PART_SHIFT;
	bool recalled = set->is_group && is_recalled(set->parts[index]);

	if (recalled && !rx_handle_has_batches(set->parts[index]))
		drop_part(set, index);
	return recalled;
}

/* ---- what it says about itself -------------------------------------------------------------------------------- */

struct ibvcap_rx *rx_set_first(const struct rx_set *set)
{
	for (uint32_t i = 0; i < set->n_parts; i++)
		if (set->parts[i] && !set->parts[i]->reattach.away)
			return set->parts[i];
	return NULL;
}

const char *rx_set_name(const struct rx_set *set)
{
	return set->stream;
}

int rx_set_fd(const struct rx_set *set)
{
	return set->is_tap ? -EOPNOTSUPP : set->poll_fd;
}

void rx_set_describe(const struct rx_set *set, struct ibvcap_rx_info *info)
{
	uint32_t n = 0, disconnected = 0, failed = set->failed;
	uint64_t back = 0;

	*info = (struct ibvcap_rx_info){.size = sizeof(*info), .epoch = set->epoch, .n_queues = set->n_queues};
	memcpy(info->stream, set->stream, sizeof(info->stream));
	for (uint32_t i = set->n_parts; i-- > 0;) {
		if (!set->parts[i])
			continue;
		rx_handle_describe(set->parts[i], info);
		back += info->attach_back;
		disconnected |= info->disconnected;
		failed |= info->failed_queues;
		n++;
	}
	info->queue = IBVCAP_QUEUE_ALL;
	info->n_attached = n;
	info->attach_back = back;
	info->disconnected = disconnected;
	info->failed_queues = failed;
}

void rx_set_count(const struct rx_set *set, struct ibvcap_rx_counts *counts)
{
	*counts = set->counts;
	counts->size = sizeof(*counts);
	for (uint32_t i = 0; i < set->n_parts; i++)
		if (set->parts[i])
			add_counts(counts, set->parts[i]);
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

/* The first answer says whether this client may be a member. A queue may come later. */
static int join_group(struct rx_set *set, const struct ibvcap_rx_options *options)
{
	int r = getrandom(&set->member, sizeof(set->member), 0) < 0
	                ? error_set(-errno, "no random number: %s", strerror(errno))
	                : new_part(set, IBVCAP_QUEUE_ALL, &set->ask);

	if (r < 0 || !set->ask)
		return r < 0 ? r : -ENOMEM;
	r = rx_reattach_join(set->ask, options);
	set->epoch = set->ask->reattach.joined_epoch;
	set->n_queues = set->ask->reattach.joined_queues;
	return r;
}

static int open_queue(struct rx_set *set, uint32_t queue, const struct ibvcap_rx_options *options)
{
	struct ibvcap_rx_options one = *options;
	struct ibvcap_rx *part;
	int r;

	one.queue = queue;
	r = rx_open(set->path, set->stream, &one, &part);
	if (r < 0)
		return r;
	put_part(set, (int)queue, part);
	set->epoch = part->info.epoch;
	set->n_queues = u32_min(part->info.n_queues, IBVCAP_QUEUES_MAX);
	return watch_part(set, part);
}

/* Without those that have failed. The first one that has not says how many there are. */
static int open_all(struct rx_set *set, const struct ibvcap_rx_options *options)
{
	uint32_t n = IBVCAP_QUEUES_MAX;
	int r = 0;

	for (uint32_t i = 0; i < n && r == 0; i++) {
		r = open_queue(set, i, options);
		if (r == 0)
			n = set->n_queues;
		if (r != -EIO)
			continue;
		set->failed |= UINT32_C(1) << i;
		set->counts.failures++;
		r = 0;
	}
	return r == -EINVAL && set->failed
	               ? error_set(-EIO, "stream '%s': all of its queues have failed: systemctl restart ibvcapd",
	                           set->stream)
	               : r;
}

int rx_set_new(struct rx_set **out, const char *path, const char *stream, const struct ibvcap_rx_options *options)
{
	struct rx_set *set = calloc(1, sizeof(*set));
	int r;

	if (!set)
		return error_set(-ENOMEM, "out of memory");
	set->options = *options;
	set->options.start = IBVCAP_START_OLDEST; /* of queues that come later: a group begins with the first */
	set->is_group = options->group[0];
	set->is_tap = options->policy == IBVCAP_POLICY_TAP;
	set->counts.size = sizeof(set->counts);
	strncpy(set->stream, stream, sizeof(set->stream) - 1);
	set->path = strdup(client_path(path));
	set->poll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!set->path || set->poll_fd < 0)
		r = error_set(set->path ? -errno : -ENOMEM, "stream '%s': cannot create a descriptor for poll(): %s",
		              stream, strerror(set->path ? errno : ENOMEM));
	else
		r = set->is_group ? join_group(set, options) : open_all(set, options);
	if (r < 0)
		rx_set_free(set);
	else
		*out = set;
	return r;
}

void rx_set_free(struct rx_set *set)
{
	if (!set)
		return;
	/* First: a child of fork() has the same epoll set, and takes nothing out of it. */
	if (set->poll_fd >= 0)
		close(set->poll_fd);
	for (uint32_t i = 0; i < set->n_parts; i++)
		rx_handle_free(set->parts[i]);
	rx_handle_free(set->ask);
	free(set->path);
	free(set);
}
