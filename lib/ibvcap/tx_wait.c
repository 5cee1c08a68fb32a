// SPDX-License-Identifier: Apache-2.0
/* A sender's sleep: on a word of its own or, by poll(), on its socket. See ring_tx.h. */
#include "lib/ibvcap/client.h"
#include "lib/ibvcap/pause.h"
#include "lib/ibvcap/ring_tx.h"
#include "lib/ibvcap/tx.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int tx_check_connected(const struct ibvcap_tx *tx)
{
	/* Who is put out is told why, and hung up on: why comes first. */
	if (sender_load_status(tx->state) == IBVCAP_CONNECTION_OPEN)
		return tx->daemon_gone ? -ESHUTDOWN : 0;
	switch (sender_load_reason(tx->state)) {
	case IBVCAP_DISCONNECT_SHUTDOWN:
		return -ESHUTDOWN;
	case IBVCAP_DISCONNECT_REMOVED:
		return -ENODEV;
	case IBVCAP_DISCONNECT_CHANNEL_FAILED:
		return -EIO;
	}
	return -ECONNABORTED;
}

/* A hang-up of the control socket, asked for once a slice. */
static void look_for_daemon(struct ibvcap_tx *tx, uint64_t now_ns)
{
	struct pollfd poller = {.fd = tx->control, .events = POLLRDHUP};

	if (tx->daemon_gone || now_ns - tx->looked_ns < PAUSE_SLICE_NS)
		return;
	tx->looked_ns = now_ns;
	tx->daemon_gone = poll(&poller, 1, 0) > 0 && poller.revents;
}

/* 1, 0 or an error. The end is looked for first: what was completed by then is seen. */
static int look(struct ibvcap_tx *tx, uint64_t target, uint64_t now_ns)
{
	int r;

	look_for_daemon(tx, now_ns);
	r = tx_check_connected(tx);
	return tx_load_completed(tx) >= target ? 1 : r;
}

static bool spin(struct ibvcap_tx *tx, uint64_t target)
{
	for (unsigned i = 0; i < PAUSE_SPINS; i++) {
		if (tx_load_completed(tx) >= target)
			return true;
		pause_briefly();
	}
	return false;
}

/* At most ns of sleep. 0 or -EINTR. */
static int sleep_on_word(struct ibvcap_tx *tx, uint64_t target, uint64_t ns)
{
	const struct timespec timeout = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
	uint32_t seen = sender_load_wake_word(tx->state);
	int r = 0;

	sender_request_wake(tx->page, target, false);
	if (sender_load_completed_seq_cst(tx->state) < target && tx_check_connected(tx) == 0 &&
	    syscall(SYS_futex, &tx->state->wake_word, FUTEX_WAIT, seen, &timeout, NULL, 0) < 0 && errno == EINTR)
		r = -EINTR;
	sender_cancel_wake(tx->page);
	return r;
}

/* The request first, then the look: what comes between is seen by one side or the other. */
static int give_up(struct ibvcap_tx *tx, uint64_t target)
{
	if (!tx->uses_fd)
		return 0;
	sender_request_wake(tx->page, target, true);
	tx->fd_armed = true;
	return sender_load_completed_seq_cst(tx->state) >= target ? 1 : look(tx, target, client_now_ns());
}

void tx_disarm(struct ibvcap_tx *tx)
{
	char bytes[64];
	ssize_t n;

	if (!tx->fd_armed)
		return;
	tx->fd_armed = false;
	sender_cancel_wake(tx->page);
	do {
		n = read(tx->socket, bytes, sizeof(bytes));
	} while (n == (ssize_t)sizeof(bytes) || (n < 0 && errno == EINTR));
	if (n == 0)
		tx->daemon_gone = true;
}

int tx_wait(struct ibvcap_tx *tx, uint64_t target, int timeout_ms)
{
	uint64_t now = client_now_ns();
	uint64_t deadline = timeout_ms < 0 ? UINT64_MAX : now + (uint64_t)timeout_ms * 1000000;
	int r = look(tx, target, now);

	if (r != 0)
		return r;
	if (timeout_ms == 0)
		return give_up(tx, target);
	if (spin(tx, target))
		return 1;
	while ((now = client_now_ns()) < deadline) {
		r = look(tx, target, now);
		if (r != 0)
			return r;
		r = sleep_on_word(tx, target, deadline - now < PAUSE_SLICE_NS ? deadline - now : PAUSE_SLICE_NS);
		if (r < 0)
			return r;
	}
	r = look(tx, target, now);
	return r == 0 ? give_up(tx, target) : r;
}

int ibvcap_tx_fd(struct ibvcap_tx *tx)
{
	tx->uses_fd = true;
	return tx->socket;
}
