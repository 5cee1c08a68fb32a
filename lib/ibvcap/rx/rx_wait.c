// SPDX-License-Identifier: Apache-2.0
/* Receivers wait for the head of their ring, or for its end. */
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/rx/rx_queue.h"

int rx_wait_check_connected(const struct rx_queue *queue)
{
	/* What is recalled is the handle's until it is given up: its leases hold. */
	if (queue->is_tap || client_load_connection(&queue->state->link) != IBVCAP_CONNECTION_ENDED)
		return 0;
	/* The end of the epoch is no error yet: what was published is still to be delivered. */
	switch (client_load_reason(&queue->state->link)) {
	case IBVCAP_DISCONNECT_SHUTDOWN:
	case IBVCAP_DISCONNECT_REMOVED:
		return 0;
	}
	return error_set(-ECONNABORTED,
	                 "stream '%s': the daemon disconnected this consumer: close the handle and open it again; "
	                 "ibvcap_rx_info() and the daemon's log say why",
	                 queue->info.stream);
}

static uint64_t rx_wait_load(struct waiter *waiter)
{
	return consumer_load_head_seq_cst(((struct rx_queue *)waiter)->ring);
}

/* Loads head last: if the ring is closed or the daemon gone, head is final, and may have reached the target. */
static int rx_wait_look(struct waiter *waiter, uint64_t target)
{
	const struct rx_queue *queue = (struct rx_queue *)waiter;
	bool closed = consumer_ring_closed(queue->ring);
	int r = rx_wait_check_connected(queue);

	if (r < 0)
		return r;
	if (consumer_load_head(queue->ring) >= target)
		return WAIT_REACHED;
	return closed || waiter->daemon_gone ? WAIT_END : WAIT_TIME;
}

const struct waiter_ops rx_waiter_ops = {.load = rx_wait_load, .look = rx_wait_look};

void rx_wait_disarm(struct rx_queue *queue)
{
	if (!queue->waiter.fd_armed)
		return;
	if (queue->fd_fires)
		rx_poll_set_timer(queue, 0);
	queue->fd_fires = false;
	waiter_disarm(&queue->waiter);
}
