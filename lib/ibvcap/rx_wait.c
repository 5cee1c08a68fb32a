// SPDX-License-Identifier: Apache-2.0
/*
 * How a consumer waits for packets: it spins for a moment, then sleeps on the futex word of its state page, or leaves a
 * request for a byte on its wake socket and returns. See "wake-up" in ring.h.
 */
#include "lib/base/min.h"
#include "lib/base/time.h"
#include "lib/ibvcap/client.h"
#include "lib/ibvcap/error.h"
#include "lib/ibvcap/pause.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/rx.h"

#define TAP_NAP_NS UINT64_C(1000000)

int rx_wait_check_connected(const struct ibvcap_rx *rx)
{
	/* What is recalled is the handle's until it is given up: its leases hold. */
	if (rx->is_tap || client_load_connection(&rx->state->link) != IBVCAP_CONNECTION_ENDED)
		return 0;
	/* The end of the epoch is no error yet: what was published is still to be delivered. */
	switch (client_load_reason(&rx->state->link)) {
	case IBVCAP_DISCONNECT_SHUTDOWN:
	case IBVCAP_DISCONNECT_REMOVED:
		return 0;
	}
	return error_set(-ECONNABORTED,
	                 "stream '%s': the daemon disconnected this consumer: close the handle and open it again; "
	                 "ibvcap_rx_info() and the daemon's log say why",
	                 rx->info.stream);
}

/* RX_WAIT_TIME: neither packets nor an end yet. Looks at the control socket at most once a slice. */
static int rx_wait_look(struct ibvcap_rx *rx, uint64_t target, uint64_t now_ns)
{
	bool closed = consumer_ring_closed(rx->ring);
	int r;

	if (!closed && !rx->daemon_gone && now_ns - rx->checked_ns >= PAUSE_SLICE_NS) {
		rx->checked_ns = now_ns;
		rx->daemon_gone = rx_handle_is_hung_up(rx);
	}
	r = rx_wait_check_connected(rx);
	if (r < 0)
		return r;
	/* Loaded after closed: head is final then, and may have reached the target. */
	if (consumer_load_head(rx->ring) >= target)
		return RX_WAIT_HEAD;
	return closed || rx->daemon_gone ? RX_WAIT_END : RX_WAIT_TIME;
}

static bool rx_wait_spin(const struct ibvcap_rx *rx, uint64_t target)
{
	for (unsigned i = 0; i < PAUSE_SPINS; i++) {
		if (consumer_load_head(rx->ring) >= target)
			return true;
		pause_briefly();
	}
	return false;
}

/* Sleep at most ns. The daemon does not know taps, so nobody wakes one. 0 or -EINTR. */
static int rx_wait_sleep(struct ibvcap_rx *rx, uint64_t target, uint64_t ns)
{
	const struct timespec nap = {.tv_nsec = (long)u64_min(ns, TAP_NAP_NS)};
	uint32_t seen;
	int r = 0;

	if (rx->is_tap)
		return nanosleep(&nap, NULL) < 0 ? PAUSE_INTERRUPTED : 0;
	seen = client_load_wake_word(&rx->state->link);
	client_request_wake(&rx->page->wake, target, false);
	if (consumer_load_head_seq_cst(rx->ring) < target && !consumer_ring_closed(rx->ring))
		r = pause_on_word(&rx->state->link.wake_word, seen, ns);
	client_cancel_wake(&rx->page->wake);
	return r;
}

/* Ask for a byte on the wake socket. The request comes before the look, so one of the two sides sees the other. */
static int rx_wait_arm(struct ibvcap_rx *rx, uint64_t target)
{
	if (rx->reattach.poll_fd < 0)
		return RX_WAIT_TIME;
	client_request_wake(&rx->page->wake, target, true);
	rx->fd_armed = true;
	if (consumer_load_head_seq_cst(rx->ring) >= target)
		return RX_WAIT_HEAD;
	return rx_wait_look(rx, target, time_monotonic_ns());
}

void rx_wait_disarm(struct ibvcap_rx *rx)
{
	if (!rx->fd_armed)
		return;
	rx->fd_armed = false;
	if (rx->fd_fires)
		rx_poll_set_timer(&rx->reattach, 0);
	rx->fd_fires = false;
	client_cancel_wake(&rx->page->wake);
	rx->daemon_gone |= !pause_drain(rx->wake_socket);
}

int rx_wait(struct ibvcap_rx *rx, uint64_t target, int timeout_ms)
{
	uint64_t now = time_monotonic_ns();
	uint64_t deadline = timeout_ms < 0 ? UINT64_MAX : now + (uint64_t)timeout_ms * 1000000;
	int r = rx_wait_look(rx, target, now);

	if (r != RX_WAIT_TIME)
		return r;
	if (timeout_ms == 0)
		return rx_wait_arm(rx, rx->next + 1);
	if (rx_wait_spin(rx, target))
		return RX_WAIT_HEAD;
	while ((now = time_monotonic_ns()) < deadline) {
		r = rx_wait_look(rx, target, now);
		if (r != RX_WAIT_TIME)
			return r;
		r = rx_wait_sleep(rx, target, u64_min(deadline - now, PAUSE_SLICE_NS));
		if (r < 0)
			return r;
	}
	r = rx_wait_look(rx, target, now);
	return r == RX_WAIT_TIME ? rx_wait_arm(rx, rx->next + 1) : r;
}

int rx_wait_prepare(struct ibvcap_rx *rx, uint64_t target)
{
	int r = rx_wait_look(rx, target, time_monotonic_ns());

	return r == RX_WAIT_TIME ? rx_wait_arm(rx, target) : r;
}
