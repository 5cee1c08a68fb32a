// SPDX-License-Identifier: Apache-2.0
/*
 * From the end of an epoch into the next: the daemon has ended or died, all it published was delivered. What was
 * mapped is given back first, since the next daemon may want those hugepages; then it is looked for, asked, and its
 * answer waited for, as long as the caller's time allows and again at the next call, until reattach_ms have passed.
 */
#include "lib/ibvcap/client.h"
#include "lib/ibvcap/error.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/rx.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define MS_NS          UINT64_C(1000000)
#define REATTACH_MS    30000u
#define PAUSE_NS_FIRST (10 * MS_NS)
#define PAUSE_NS_MAX   (200 * MS_NS)

/* ---- the descriptor: an epoll that has the wake socket, the unanswered request, or the time of the next try -------
 */

static int watch(const struct rx_next *next, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	if (next->poll_fd < 0 || fd < 0)
		return 0;
	if (epoll_ctl(next->poll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return error_set(-errno, "stream '%s': its descriptor cannot be watched: %s", next->stream,
		                 strerror(errno));
	return 0;
}

/* A child that inherited it would keep it in the set: closing is not enough. */
static void close_watched(struct rx_next *next, int *fd)
{
	if (*fd < 0)
		return;
	if (next->poll_fd >= 0)
		epoll_ctl(next->poll_fd, EPOLL_CTL_DEL, *fd, NULL);
	close(*fd);
	*fd = -1;
}

static void arm_timer(struct rx_next *next, uint64_t at_ns)
{
	const struct itimerspec when = {.it_value = {(time_t)(at_ns / (1000 * MS_NS)), (long)(at_ns % (1000 * MS_NS))}};

	if (next->timer_fd >= 0)
		timerfd_settime(next->timer_fd, at_ns ? TFD_TIMER_ABSTIME : 0, &when, NULL);
}

static void close_poll_fd(struct rx_next *next)
{
	if (next->timer_fd >= 0)
		close(next->timer_fd);
	if (next->poll_fd >= 0)
		close(next->poll_fd);
	next->timer_fd = next->poll_fd = -1;
}

int rx_poll_fd(struct ibvcap_rx *rx)
{
	struct rx_next *next = &rx->next_epoch;
	int r = 0;

	if (next->poll_fd >= 0)
		return next->poll_fd;
	if (next->options.policy == IBVCAP_POLICY_TAP)
		return -EOPNOTSUPP;
	next->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	next->poll_fd = next->timer_fd < 0 ? -1 : epoll_create1(EPOLL_CLOEXEC);
	if (next->poll_fd < 0)
		r = error_set(-errno, "stream '%s': no descriptor to poll can be had: %s", next->stream,
		              strerror(errno));
	if (r == 0)
		r = watch(next, next->timer_fd);
	if (r == 0)
		r = watch(next, rx->wake_socket);
	if (r == 0)
		r = watch(next, next->client.socket);
	if (r < 0)
		close_poll_fd(next);
	return r < 0 ? r : next->poll_fd;
}

/* ---- leaving the old one ------------------------------------------------------------------------- */

void rx_close_epoch(struct ibvcap_rx *rx)
{
	shm_deinit(&rx->payload);
	shm_deinit(&rx->headers);
	shm_deinit(&rx->ring_shm);
	shm_deinit(&rx->state_shm);
	shm_deinit(&rx->page_shm);
	close_watched(&rx->next_epoch, &rx->wake_socket);
	if (rx->socket >= 0)
		close(rx->socket);
	rx->socket = -1;
	rx->ring = NULL;
	rx->state = NULL;
	rx->page = NULL;
}

static bool has_batches_out(const struct ibvcap_rx *rx)
{
	for (uint32_t i = 0; i < rx->lease_blocks; i++)
		if (rx->leases[i].n_batches)
			return true;
	return false;
}

static uint32_t reattach_ms(const struct rx_next *next)
{
	return next->options.reattach_ms ? next->options.reattach_ms : REATTACH_MS;
}

static void leave(struct ibvcap_rx *rx, uint64_t now_ns)
{
	struct rx_next *next = &rx->next_epoch;

	rx->fd_armed = false;
	rx_close_epoch(rx);
	next->away = true;
	next->deadline_ns = now_ns + reattach_ms(next) * MS_NS;
	next->try_at_ns = now_ns;
	next->pause_ns = PAUSE_NS_FIRST;
}

/* ---- finding the next one ------------------------------------------------------------------------ */

static void pause_after(struct rx_next *next, uint64_t now_ns)
{
	close_watched(next, &next->client.socket);
	snprintf(next->last_try, sizeof(next->last_try), "%s", ibvcap_error_text());
	next->try_at_ns = now_ns + next->pause_ns;
	next->pause_ns = next->pause_ns * 2 < PAUSE_NS_MAX ? next->pause_ns * 2 : PAUSE_NS_MAX;
}

/* Connect and ask; whatever goes wrong may be right in a moment: there is no socket yet, or not its rights. */
static void ask(struct rx_next *next, uint64_t now_ns)
{
	struct protocol_attach request;
	int r;

	if (client_connect(&next->client, next->path, 1) == 0) {
		next->client.deadline_ns = next->deadline_ns;
		r = rx_fill_request(&request, next->stream, &next->options);
		if (r == 0)
			r = client_send(&next->client, &request.header);
		if (r == 0)
			r = watch(next, next->client.socket);
		if (r == 0)
			return;
	}
	pause_after(next, now_ns);
}

/* No place just now, the daemon went again, or what we want of the system it has not: until the deadline it may. */
static bool is_passing(int error)
{
	switch (error) {
	case -EAGAIN:
	case -ECONNREFUSED:
	case -ETIMEDOUT:
	case -ENOMEM:
	case -ENOBUFS:
	case -EMFILE:
	case -ENFILE:
		return true;
	}
	return false;
}

static int give_up(struct rx_next *next, int error)
{
	close_watched(next, &next->client.socket);
	next->error = error;
	return error;
}

/* The daemon is the one we left: only its session ended. A tap goes on where it was, so that its gap is exact. */
static void stay_in_epoch(const struct ibvcap_rx *rx, struct ibvcap_rx *new)
{
	new->attach_sequence = rx->attach_sequence;
	new->attach_head = rx->attach_head;
	new->next = rx->next;
	new->skipped = rx->skipped;
	new->gap = rx->gap;
}

static void begin_epoch(const struct ibvcap_rx *rx, struct ibvcap_rx *new)
{
	struct rx_next *next = &new->next_epoch;

	ibvcap_rx_counts(rx, &next->counts);
	next->counts.epochs++;
	next->gap_unknown = true;
	if (new->is_tap)
		rx_begin_tap(new, &(struct rx_start_position){.where = IBVCAP_START_OLDEST});
}

/* The new attachment in the old one's place, what outlives an epoch kept. */
static void take_over(struct ibvcap_rx *rx, struct ibvcap_rx *new)
{
	new->next_epoch = rx->next_epoch;
	new->next_epoch.client = (struct client)CLIENT_INIT;
	if (new->info.epoch == rx->info.epoch)
		stay_in_epoch(rx, new);
	else
		begin_epoch(rx, new);
	new->next_epoch.away = false;
	free(rx->batch_starts);
	*rx = *new;
	free(new);
}

static int check_same(const struct ibvcap_rx *new)
{
	if (consumer_ring_closed(new->ring))
		return error_set(-EAGAIN, "the daemon is about to end");
	/* Where a consumer begins is in the daemon's hands: what this one was given already would come again. */
	if (!new->is_tap)
		return error_set(-ECONNABORTED,
		                 "stream '%s': the daemon goes on, but has ended this attachment; attach again",
		                 new->info.stream);
	return 0;
}

/* Takes the descriptors and the socket over, whatever happens. 0; -errno. */
static int open_next(struct ibvcap_rx *rx, struct ibvcap_rx **new, const int fds[PROTOCOL_FD_N], uint64_t epoch)
{
	struct rx_next *next = &rx->next_epoch;
	int r;

	if (next->poll_fd >= 0)
		epoll_ctl(next->poll_fd, EPOLL_CTL_DEL, next->client.socket, NULL);
	r = rx_open(new, next->client.socket, fds, epoch);
	next->client.socket = -1;
	if (r < 0)
		return r;
	r = epoch == rx->info.epoch ? check_same(*new) : 0;
	if (r == 0)
		r = watch(next, (*new)->wake_socket);
	if (r < 0)
		ibvcap_rx_close(*new);
	return r;
}

/* The answer is there. 1: attached; 0: not now; -errno: never. */
static int take_answer(struct ibvcap_rx *rx, uint64_t now_ns)
{
	struct rx_next *next = &rx->next_epoch;
	struct ibvcap_rx *new;
	int fds[PROTOCOL_FD_N];
	uint64_t epoch;
	int r = rx_take_answer(&next->client, &next->options, fds, &epoch);

	if (r == 0)
		r = open_next(rx, &new, fds, epoch);
	if (r == 0) {
		take_over(rx, new);
		return 1;
	}
	if (!is_passing(r))
		return give_up(next, r == -ESRCH ? -ENODEV : r);
	pause_after(next, now_ns);
	return 0;
}

static int sleep_until(const struct rx_next *next, uint64_t now_ns, uint64_t until_ns)
{
	struct pollfd poller = {.fd = next->client.socket, .events = POLLIN};
	struct timespec time;
	uint64_t ns = until_ns > now_ns ? until_ns - now_ns : 0;

	time = (struct timespec){(time_t)(ns / (1000 * MS_NS)), (long)(ns % (1000 * MS_NS))};
	return ppoll(&poller, 1, &time, NULL) < 0 ? -errno : poller.revents != 0;
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int explain_none(const struct rx_next *next)
{
	const char *silent = "who listens there accepts and does not answer: systemctl status ibvcapd";

	return error_set(-ESHUTDOWN,
	                 "stream '%s': its daemon has ended and none took its place within %u ms; start it: "
	                 "systemctl start ibvcapd (last try: %s)",
	                 next->stream, reattach_ms(next), next->client.socket >= 0 ? silent : next->last_try);
}

/* When there is something to do, though nothing comes from the daemon. */
static uint64_t next_step_ns(const struct rx_next *next)
{
	return next->client.socket >= 0 ? next->deadline_ns : earliest(next->try_at_ns, next->deadline_ns);
}

/* 1: attached; 0: out of time; -errno. */
static int look_for(struct ibvcap_rx *rx, uint64_t until_ns)
{
	struct rx_next *next = &rx->next_epoch;

	for (;;) {
		uint64_t now = client_now_ns();
		int r;

		if (now >= next->deadline_ns)
			return give_up(next, explain_none(next));
		if (next->client.socket < 0 && now >= next->try_at_ns)
			ask(next, now);
		r = sleep_until(next, now, earliest(until_ns, next_step_ns(next)));
		if (r < 0)
			return r;
		if (r > 0)
			r = take_answer(rx, now);
		if (r != 0)
			return r;
		if (client_now_ns() >= until_ns)
			return 0;
	}
}

int rx_go_on(struct ibvcap_rx *rx, uint64_t until_ns)
{
	struct rx_next *next = &rx->next_epoch;
	int r;

	if (next->error)
		return next->error;
	if (!next->away) {
		if (!rx->is_tap && consumer_load_reason(rx->state) == IBVCAP_DISCONNECT_REMOVED)
			return give_up(next,
			               error_set(-ENODEV, "stream '%s': the administrator removed it", next->stream));
		if (!next->path || next->options.reattach_ms == IBVCAP_NO_REATTACH)
			return -ESHUTDOWN;
		if (has_batches_out(rx))
			return -ENOBUFS;
		leave(rx, client_now_ns());
	}
	r = look_for(rx, until_ns);
	/* Also while an answer is awaited: a listener that outlives its daemon accepts, and never gives one. */
	arm_timer(next, next->away && !next->error ? next_step_ns(next) : 0);
	return r;
}

/* ---- life ---------------------------------------------------------------------------------------- */

int rx_next_init(struct rx_next *next, const char *path, const char *stream, const struct ibvcap_rx_options *options)
{
	next->path = strdup(path);
	if (!next->path)
		return error_set(-ENOMEM, "out of memory");
	strncpy(next->stream, stream, sizeof(next->stream) - 1);
	next->options = *options;
	/* What came between its start and our attach is not lost, then. */
	next->options.start = IBVCAP_START_OLDEST;
	return 0;
}

void rx_next_deinit(struct rx_next *next)
{
	close_watched(next, &next->client.socket);
	close_poll_fd(next);
	free(next->path);
}
