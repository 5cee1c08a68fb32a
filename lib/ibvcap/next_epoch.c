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
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define MS_NS          UINT64_C(1000000)
#define REATTACH_MS    30000u
#define PAUSE_NS_FIRST (10 * MS_NS)
#define PAUSE_NS_MAX   (200 * MS_NS)

/* ---- the descriptor: an epoll that has the wake socket, the unanswered request, or the time of the next try ------- */

static void watch(struct rx_next *next, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (next->poll_fd < 0 || fd < 0)
		return;
	epoll_ctl(next->poll_fd, EPOLL_CTL_ADD, fd, &event);
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
	const struct itimerspec when = { .it_value = { (time_t)(at_ns / (1000 * MS_NS)), (long)(at_ns % (1000 * MS_NS)) } };

	if (next->timer_fd >= 0)
		timerfd_settime(next->timer_fd, at_ns ? TFD_TIMER_ABSTIME : 0, &when, NULL);
}

int rx_poll_fd(struct ibvcap_rx *rx)
{
	struct rx_next *next = &rx->next_epoch;

	if (next->poll_fd >= 0)
		return next->poll_fd;
	if (next->options.policy == IBVCAP_POLICY_TAP)
		return -EOPNOTSUPP;
	next->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (next->timer_fd < 0)
		return -errno;
	next->poll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (next->poll_fd < 0) {
		int error = errno;

		close(next->timer_fd);
		next->timer_fd = -1;
		return -error;
	}
	watch(next, next->timer_fd);
	watch(next, rx->wake_socket);
	watch(next, next->client.socket);
	return next->poll_fd;
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

static void leave(struct ibvcap_rx *rx, uint64_t now_ns)
{
	struct rx_next *next = &rx->next_epoch;
	uint32_t ms = next->options.reattach_ms ? next->options.reattach_ms : REATTACH_MS;

	ibvcap_rx_counts(rx, &next->counts);
	rx->fd_armed = false;
	rx_close_epoch(rx);
	next->away = true;
	next->deadline_ns = now_ns + ms * MS_NS;
	next->try_at_ns = now_ns;
	next->pause_ns = PAUSE_NS_FIRST;
}

/* ---- finding the next one ------------------------------------------------------------------------ */

static void pause_after(struct rx_next *next, uint64_t now_ns)
{
	close_watched(next, &next->client.socket);
	next->try_at_ns = now_ns + next->pause_ns;
	next->pause_ns = next->pause_ns * 2 < PAUSE_NS_MAX ? next->pause_ns * 2 : PAUSE_NS_MAX;
	arm_timer(next, next->try_at_ns);
}

/* Connect and ask; whatever goes wrong may be right in a moment: there is no socket yet, or not its rights. */
static void ask(struct rx_next *next, uint64_t now_ns)
{
	struct wire_attach request;

	if (client_connect(&next->client, next->path, 1) == 0) {
		next->client.deadline_ns = next->deadline_ns;
		if (rx_fill_request(&request, next->stream, &next->options) == 0 &&
		    client_send(&next->client, &request.header) == 0) {
			watch(next, next->client.socket);
			return;
		}
	}
	pause_after(next, now_ns);
}

static int give_up(struct rx_next *next, int error)
{
	close_watched(next, &next->client.socket);
	arm_timer(next, 0);
	next->error = error;
	return error;
}

/* The new attachment in the old one's place, what outlives an epoch kept. */
static void take_over(struct ibvcap_rx *rx, struct ibvcap_rx *new)
{
	struct rx_next *next = &rx->next_epoch;

	next->away = false;
	next->client = (struct client)CLIENT_INIT;
	next->gap_unknown = true;
	next->counts.epochs++;
	new->next_epoch = *next;
	free(rx->batch_starts);
	*rx = *new;
	free(new);
	arm_timer(&rx->next_epoch, 0);
	watch(&rx->next_epoch, rx->wake_socket);
}

/* The answer is there. 1: attached; 0: not now; -errno: never. */
static int take_answer(struct ibvcap_rx *rx, uint64_t now_ns)
{
	struct rx_next *next = &rx->next_epoch;
	struct ibvcap_rx *new;
	int fds[WIRE_FD_N];
	uint64_t epoch;
	int r = rx_take_answer(&next->client, &next->options, fds, &epoch);

	/* No place just now, or the daemon went again. */
	if (r == -EAGAIN || r == -ECONNREFUSED || r == -ETIMEDOUT) {
		pause_after(next, now_ns);
		return 0;
	}
	if (r < 0)
		return give_up(next, r == -ESRCH ? -ENODEV : r);
	if (next->poll_fd >= 0)
		epoll_ctl(next->poll_fd, EPOLL_CTL_DEL, next->client.socket, NULL);
	r = rx_open(&new, next->client.socket, fds, epoch);
	next->client.socket = -1;
	if (r < 0)
		return give_up(next, r);
	if (new->is_tap)
		rx_begin_tap(new, &(struct start){ .where = IBVCAP_START_OLDEST });
	take_over(rx, new);
	return 1;
}

static int sleep_until(const struct rx_next *next, uint64_t now_ns, uint64_t until_ns)
{
	struct pollfd poller = { .fd = next->client.socket, .events = POLLIN };
	struct timespec time;
	uint64_t ns = until_ns > now_ns ? until_ns - now_ns : 0;

	time = (struct timespec){ (time_t)(ns / (1000 * MS_NS)), (long)(ns % (1000 * MS_NS)) };
	return ppoll(&poller, 1, &time, NULL) < 0 ? -errno : poller.revents != 0;
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* 1: attached; 0: out of time; -errno. */
static int look_for(struct ibvcap_rx *rx, uint64_t until_ns)
{
	struct rx_next *next = &rx->next_epoch;

	for (;;) {
		uint64_t now = client_now_ns();
		bool asked;
		int r;

		if (now >= next->deadline_ns)
			return give_up(next, error_set(-ESHUTDOWN, "stream '%s': its daemon has ended and none took its "
								   "place in time; start it: systemctl start ibvcapd",
						       next->stream));
		if (next->client.socket < 0 && now >= next->try_at_ns)
			ask(next, now);
		asked = next->client.socket >= 0;
		r = sleep_until(next, now, earliest(until_ns, asked ? next->deadline_ns : next->try_at_ns));
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

	if (next->error)
		return next->error;
	if (!next->away) {
		if (!rx->is_tap && consumer_load_reason(rx->state) == IBVCAP_REASON_STREAM_REMOVED)
			return give_up(next, error_set(-ENODEV, "stream '%s': the administrator removed it", next->stream));
		if (!next->path || next->options.reattach_ms == IBVCAP_NO_REATTACH)
			return -ESHUTDOWN;
		if (has_batches_out(rx))
			return -ENOBUFS;
		leave(rx, client_now_ns());
	}
	arm_timer(next, 0);
	return look_for(rx, until_ns);
}

/* ---- life ---------------------------------------------------------------------------------------- */

int rx_next_init(struct rx_next *next, const char *path, const char *stream, const struct ibvcap_attach_options *options)
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
	if (next->timer_fd >= 0)
		close(next->timer_fd);
	if (next->poll_fd >= 0)
		close(next->poll_fd);
	free(next->path);
}
