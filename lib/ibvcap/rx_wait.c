// SPDX-License-Identifier: Apache-2.0
/* Sleeping until there is more: on a word of one's own or, by poll(), on a socket. See ring.h, "wake-up". */
#include "lib/ibvcap/client.h"
#include "lib/ibvcap/pause.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/rx.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TAP_NAP_NS UINT64_C(1000000)

int rx_check_connected(const struct ibvcap_rx *rx)
{
	if (rx->is_tap || consumer_load_status(rx->state) == IBVCAP_CONNECTION_OPEN)
		return 0;
	/* The end of the epoch is no reproach: what was published is still to be delivered. */
	switch (consumer_load_reason(rx->state)) {
	case IBVCAP_DISCONNECT_SHUTDOWN:
	case IBVCAP_DISCONNECT_REMOVED:
		return 0;
	}
	return -ECONNABORTED;
}

/* A hang-up of the control socket, asked for once a slice. */
static bool is_daemon_gone(struct ibvcap_rx *rx, uint64_t now_ns)
{
	struct pollfd poller = {.fd = rx->socket, .events = POLLRDHUP};

	if (!rx->daemon_gone && now_ns - rx->looked_ns >= PAUSE_SLICE_NS) {
		rx->looked_ns = now_ns;
		rx->daemon_gone = poll(&poller, 1, 0) > 0 && poller.revents;
	}
	return rx->daemon_gone;
}

/* RX_WAIT_TIME: neither yet. */
static int look(struct ibvcap_rx *rx, uint64_t target, uint64_t now_ns)
{
	bool ended = consumer_ring_closed(rx->ring) || is_daemon_gone(rx, now_ns);
	int r = rx_check_connected(rx);

	if (r < 0)
		return r;
	/* After closed: head is final, and may have come to target meanwhile. */
	if (consumer_load_head(rx->ring) >= target)
		return RX_WAIT_HEAD;
	return ended ? RX_WAIT_END : RX_WAIT_TIME;
}

static bool spin(const struct ibvcap_rx *rx, uint64_t target)
{
	for (unsigned i = 0; i < PAUSE_SPINS; i++) {
		if (consumer_load_head(rx->ring) >= target)
			return true;
		pause_briefly();
	}
	return false;
}

/* Nobody wakes a tap. 0 or -EINTR. */
static int nap(uint64_t ns)
{
	const struct timespec time = {.tv_nsec = (long)(ns < TAP_NAP_NS ? ns : TAP_NAP_NS)};

	return nanosleep(&time, NULL) < 0 ? -EINTR : 0;
}

/* At most ns of sleep. 0 or -EINTR. */
static int sleep_on_word(struct ibvcap_rx *rx, uint64_t target, uint64_t ns)
{
	const struct timespec timeout = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
	uint32_t seen = consumer_load_wake_word(rx->state);
	int r = 0;

	consumer_request_wake(rx->page, target, false);
	if (consumer_load_head_seq_cst(rx->ring) < target && !consumer_ring_closed(rx->ring) &&
	    syscall(SYS_futex, &rx->state->wake_word, FUTEX_WAIT, seen, &timeout, NULL, 0) < 0 && errno == EINTR)
		r = -EINTR;
	consumer_cancel_wake(rx->page);
	return r;
}

/* The request first, then the look: what comes between is seen by one side or the other. */
static int arm(struct ibvcap_rx *rx)
{
	consumer_request_wake(rx->page, rx->next + 1, true);
	rx->fd_armed = true;
	return consumer_load_head_seq_cst(rx->ring) > rx->next ? RX_WAIT_HEAD : look(rx, rx->next + 1, client_now_ns());
}

/* Nothing came in time: who polls the descriptor is told when there is more. */
static int give_up(struct ibvcap_rx *rx)
{
	return rx->next_epoch.poll_fd >= 0 ? arm(rx) : RX_WAIT_TIME;
}

void rx_disarm(struct ibvcap_rx *rx)
{
	char bytes[64];
	ssize_t n;

	if (!rx->fd_armed)
		return;
	rx->fd_armed = false;
	consumer_cancel_wake(rx->page);
	do {
		n = read(rx->wake_socket, bytes, sizeof(bytes));
	} while (n == (ssize_t)sizeof(bytes) || (n < 0 && errno == EINTR));
	if (n == 0)
		rx->daemon_gone = true;
}

int rx_wait(struct ibvcap_rx *rx, uint64_t target, int timeout_ms)
{
	uint64_t now = client_now_ns();
	uint64_t deadline = timeout_ms < 0 ? UINT64_MAX : now + (uint64_t)timeout_ms * 1000000;
	int r = look(rx, target, now);

	if (r != RX_WAIT_TIME)
		return r;
	if (timeout_ms == 0)
		return give_up(rx);
	if (spin(rx, target))
		return RX_WAIT_HEAD;
	while ((now = client_now_ns()) < deadline) {
		r = look(rx, target, now);
		if (r != RX_WAIT_TIME)
			return r;
		r = rx->is_tap ? nap(deadline - now)
		               : sleep_on_word(rx, target,
		                               deadline - now < PAUSE_SLICE_NS ? deadline - now : PAUSE_SLICE_NS);
		if (r < 0)
			return r;
	}
	r = look(rx, target, now);
	return r == RX_WAIT_TIME ? give_up(rx) : r;
}

int ibvcap_rx_fd(struct ibvcap_rx *rx)
{
	return rx_poll_fd(rx);
}
