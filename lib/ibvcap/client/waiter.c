// SPDX-License-Identifier: Apache-2.0
/* Waits for a counter of the daemon: see waiter.h. */
#include "lib/ibvcap/client/waiter.h"

#include "lib/base/min.h"
#include "lib/base/time.h"
#include "lib/ibvcap/ring.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TAP_NAP_NS UINT64_C(1000000)

bool waiter_is_hung_up(const struct waiter *waiter)
{
	struct pollfd poller = {.fd = waiter->control, .events = POLLRDHUP};

	return poll(&poller, 1, 0) > 0 && poller.revents;
}

/* Looks at the control socket at most once a slice, and before the counter: if the daemon is gone, it is final. */
static int waiter_look_at(struct waiter *waiter, uint64_t target, uint64_t now_ns)
{
	if (!waiter->daemon_gone && now_ns - waiter->checked_ns >= PAUSE_SLICE_NS) {
		waiter->checked_ns = now_ns;
		waiter->daemon_gone = waiter_is_hung_up(waiter);
	}
	return waiter->ops->look(waiter, target);
}

static bool waiter_spin(struct waiter *waiter, uint64_t target)
{
	for (unsigned i = 0; i < PAUSE_SPINS; i++) {
		if (waiter->ops->load(waiter) >= target)
			return true;
		pause_briefly();
	}
	return false;
}

/* Sleep at most ns while the word is still seen. 0 or -EINTR. */
static int sleep_on_word(const _Atomic uint32_t *word, uint32_t seen, uint64_t ns)
{
	const struct timespec timeout = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};

	return syscall(SYS_futex, word, FUTEX_WAIT, seen, &timeout, NULL, 0) < 0 && errno == EINTR ? PAUSE_INTERRUPTED
	                                                                                           : 0;
}

/* Sleep at most ns. The daemon does not know taps, so nobody wakes one. 0 or -EINTR. */
static int waiter_sleep(struct waiter *waiter, uint64_t target, uint64_t ns)
{
	const struct timespec nap = {.tv_nsec = (long)u64_min(ns, TAP_NAP_NS)};
	uint32_t seen;
	int r = 0;

	if (!waiter->wake)
		return nanosleep(&nap, NULL) < 0 ? PAUSE_INTERRUPTED : 0;
	seen = client_load_wake_word(waiter->link);
	client_request_wake(waiter->wake, target, false);
	if (waiter->ops->load(waiter) < target && waiter->ops->look(waiter, target) == WAIT_TIME)
		r = sleep_on_word(&waiter->link->wake_word, seen, ns);
	client_cancel_wake(waiter->wake);
	return r;
}

/* The results of waiter_wait(). */
static int waiter_wait_until(struct waiter *waiter, uint64_t target, int timeout_ms)
{
	uint64_t now = time_monotonic_ns();
	uint64_t deadline = timeout_ms < 0 ? UINT64_MAX : now + (uint64_t)timeout_ms * 1000000;
	int r = waiter_look_at(waiter, target, now);

	if (r != WAIT_TIME || timeout_ms == 0)
		return r;
	if (waiter_spin(waiter, target))
		return WAIT_REACHED;
	while ((now = time_monotonic_ns()) < deadline) {
		r = waiter_look_at(waiter, target, now);
		if (r != WAIT_TIME)
			return r;
		r = waiter_sleep(waiter, target, u64_min(deadline - now, PAUSE_SLICE_NS));
		if (r < 0)
			return r;
	}
	return waiter_look_at(waiter, target, now);
}

/* The request comes before the look, so one of the two sides sees the other. */
static int waiter_arm(struct waiter *waiter, uint64_t target)
{
	if (!waiter->uses_fd)
		return WAIT_TIME;
	client_request_wake(waiter->wake, target, true);
	waiter->fd_armed = true;
	return waiter->ops->load(waiter) >= target ? WAIT_REACHED : waiter_look_at(waiter, target, time_monotonic_ns());
}

int waiter_wait(struct waiter *waiter, uint64_t target, int timeout_ms, uint64_t byte_at)
{
	int r = waiter_wait_until(waiter, target, timeout_ms);

	return r == WAIT_TIME ? waiter_arm(waiter, byte_at) : r;
}

/* False: the daemon has closed its end. */
static bool read_bytes(int socket)
{
	char bytes[64];
	ssize_t n;

	do {
		n = read(socket, bytes, sizeof(bytes));
	} while (n == (ssize_t)sizeof(bytes) || (n < 0 && errno == EINTR));
	return n != 0;
}

void waiter_disarm(struct waiter *waiter)
{
	if (!waiter->fd_armed)
		return;
	waiter->fd_armed = false;
	client_cancel_wake(waiter->wake);
	waiter->daemon_gone |= !read_bytes(waiter->socket);
}
