// SPDX-License-Identifier: Apache-2.0
/* Senders wait for completed packets. */
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/client/owner.h"
#include "lib/ibvcap/ring_tx.h"
#include "lib/ibvcap/tx/tx.h"

#include <errno.h>

static uint64_t tx_wait_note_completed(struct ibvcap_tx *tx, uint64_t completed)
{
	if (completed > tx->completed && completed <= tx->submitted)
		tx->completed = completed;
	return tx->completed;
}

uint64_t tx_wait_load_completed(struct ibvcap_tx *tx)
{
	return tx_wait_note_completed(tx, sender_load_completed(tx->state));
}

static int tx_wait_explain(const struct ibvcap_tx *tx, int error, const char *what)
{
	return error_set(error, "channel '%s': %s: close the handle and open it again", tx->info.channel, what);
}

int tx_wait_check_connected(const struct ibvcap_tx *tx)
{
	/* The daemon stores the reason before it hangs up, so the reason wins. */
	if (client_load_connection(&tx->state->link) == IBVCAP_CONNECTION_OPEN)
		return tx->waiter.daemon_gone ? tx_wait_explain(tx, -ESHUTDOWN, "its daemon is gone") : 0;
	switch (client_load_reason(&tx->state->link)) {
	case IBVCAP_DISCONNECT_SHUTDOWN:
		return tx_wait_explain(tx, -ESHUTDOWN, "its daemon ends, or opens its interface again");
	case IBVCAP_DISCONNECT_REMOVED:
		return tx_wait_explain(tx, -ENODEV, "the administrator removed it");
	case IBVCAP_DISCONNECT_CHANNEL_FAILED:
		return tx_wait_explain(tx, -EIO, "its send queue failed");
	}
	return tx_wait_explain(tx, -ECONNABORTED, "the daemon disconnected this sender, and its log says why");
}

static uint64_t tx_wait_load(struct waiter *waiter)
{
	struct ibvcap_tx *tx = (struct ibvcap_tx *)waiter;

	return tx_wait_note_completed(tx, sender_load_completed_seq_cst(tx->state));
}

/* The connection is checked first, so all that was completed before its end is seen. */
static int tx_wait_look(struct waiter *waiter, uint64_t target)
{
	struct ibvcap_tx *tx = (struct ibvcap_tx *)waiter;
	int r = tx_wait_check_connected(tx);

	return tx_wait_load_completed(tx) >= target ? WAIT_REACHED : r;
}

const struct waiter_ops tx_waiter_ops = {.load = tx_wait_load, .look = tx_wait_look};

int ibvcap_tx_fd(struct ibvcap_tx *tx)
{
	int r = owner_check(tx->owner, tx->info.channel);

	if (r < 0)
		return r;
	tx->waiter.uses_fd = true;
	return tx->waiter.socket;
}
