// SPDX-License-Identifier: Apache-2.0
/*
 * How a sender waits for completed packets: it spins for a moment, then sleeps on the futex word of its state segment,
 * or leaves a request for a byte on its socket and returns. See ring_tx.h.
 */
#include "lib/base/min.h"
#include "lib/base/time.h"
#include "lib/ibvcap/client.h"
#include "lib/ibvcap/error.h"
#include "lib/ibvcap/owner.h"
#include "lib/ibvcap/pause.h"
#include "lib/ibvcap/ring_tx.h"
#include "lib/ibvcap/tx.h"

#include <poll.h>

uint64_t tx_wait_load_completed(struct ibvcap_tx *tx)
{
	uint64_t completed = sender_load_completed(tx->state);

	if (completed > tx->completed && completed <= tx->submitted)
		tx->completed = completed;
	return tx->completed;
}

static int tx_wait_explain(const struct ibvcap_tx *tx, int error, const char *what)
{
	return error_set(error, "channel '%s': %s: close the handle and open it again", tx->info.channel, what);
}

int tx_wait_check_connected(const struct ibvcap_tx *tx)
{
	/* The daemon stores the reason before it hangs up, so the reason wins. */
	if (client_load_connection(&tx->state->link) == IBVCAP_CONNECTION_OPEN)
		return tx->daemon_gone ? tx_wait_explain(tx, -ESHUTDOWN, "its daemon is gone") : 0;
	switch (client_load_reason(&tx->state->link)) {
	case IBVCAP_DISCONNECT_SHUTDOWN:
		return tx_wait_explain(tx, -ESHUTDOWN, "its daemon ends");
	case IBVCAP_DISCONNECT_REMOVED:
		return tx_wait_explain(tx, -ENODEV, "the administrator removed it");
	case IBVCAP_DISCONNECT_CHANNEL_FAILED:
		return tx_wait_explain(tx, -EIO, "its send queue failed");
	}
	return tx_wait_explain(tx, -ECONNABORTED, "the daemon disconnected this sender, and its log says why");
}

/*
 * 1, 0 or an error. The connection is checked first, so all that was completed before its end is seen. Looks at the
 * control socket at most once a slice.
 */
static int tx_wait_look(struct ibvcap_tx *tx, uint64_t target, uint64_t now_ns)
{
	struct pollfd poller = {.fd = tx->control, .events = POLLRDHUP};
	int r;

	if (!tx->daemon_gone && now_ns - tx->checked_ns >= PAUSE_SLICE_NS) {
		tx->checked_ns = now_ns;
		tx->daemon_gone = poll(&poller, 1, 0) > 0 && poller.revents;
	}
	r = tx_wait_check_connected(tx);
	return tx_wait_load_completed(tx) >= target ? 1 : r;
}

static bool tx_wait_spin(struct ibvcap_tx *tx, uint64_t target)
{
	for (unsigned i = 0; i < PAUSE_SPINS; i++) {
		if (tx_wait_load_completed(tx) >= target)
			return true;
		pause_briefly();
	}
	return false;
}

/* Sleep at most ns. 0 or -EINTR. */
static int tx_wait_sleep(struct ibvcap_tx *tx, uint64_t target, uint64_t ns)
{
	uint32_t seen = client_load_wake_word(&tx->state->link);
	int r = 0;

	client_request_wake(&tx->page->wake, target, false);
	if (sender_load_completed_seq_cst(tx->state) < target && tx_wait_check_connected(tx) == 0)
		r = pause_on_word(&tx->state->link.wake_word, seen, ns);
	client_cancel_wake(&tx->page->wake);
	return r;
}

/* Ask for a byte on the socket. The request comes before the look, so one of the two sides sees the other. */
static int tx_wait_arm(struct ibvcap_tx *tx, uint64_t target)
{
	if (!tx->uses_fd)
		return 0;
	client_request_wake(&tx->page->wake, target, true);
	tx->fd_armed = true;
	return sender_load_completed_seq_cst(tx->state) >= target ? 1 : tx_wait_look(tx, target, time_monotonic_ns());
}

void tx_wait_disarm(struct ibvcap_tx *tx)
{
	if (!tx->fd_armed)
		return;
	tx->fd_armed = false;
	client_cancel_wake(&tx->page->wake);
	tx->daemon_gone |= !pause_drain(tx->socket);
}

int tx_wait(struct ibvcap_tx *tx, uint64_t target, int timeout_ms)
{
	uint64_t now = time_monotonic_ns();
	uint64_t deadline = timeout_ms < 0 ? UINT64_MAX : now + (uint64_t)timeout_ms * 1000000;
	int r = tx_wait_look(tx, target, now);

	if (r != 0)
		return r;
	if (timeout_ms == 0)
		return tx_wait_arm(tx, target);
	if (tx_wait_spin(tx, target))
		return 1;
	while ((now = time_monotonic_ns()) < deadline) {
		r = tx_wait_look(tx, target, now);
		if (r != 0)
			return r;
		r = tx_wait_sleep(tx, target, u64_min(deadline - now, PAUSE_SLICE_NS));
		if (r < 0)
			return r;
	}
	r = tx_wait_look(tx, target, now);
	return r == 0 ? tx_wait_arm(tx, target) : r;
}

int ibvcap_tx_fd(struct ibvcap_tx *tx)
{
	int r = owner_check(tx->owner, tx->info.channel);

	if (r < 0)
		return r;
	tx->uses_fd = true;
	return tx->socket;
}
