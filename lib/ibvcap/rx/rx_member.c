// SPDX-License-Identifier: Apache-2.0
/* Gets queues of a group, and gives them back. */
#include "lib/ibvcap/rx/rx.h"

#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

bool rx_member_is_recalled(const struct rx_queue *part)
{
	switch (client_load_connection(&part->state->link)) {
	case IBVCAP_CONNECTION_OPEN:
		return false;
	case IBVCAP_CONNECTION_RECALLED:
		return true;
	case IBVCAP_CONNECTION_ENDED:
		break;
	}
	return client_load_reason(&part->state->link) == IBVCAP_DISCONNECT_RECALLED;
}

/* Reads the message, so that the descriptor is no longer readable because of it. */
void rx_member_give_back(struct ibvcap_rx *rx, uint32_t index)
{
	struct rx_queue *part = rx->parts[index];
	uint8_t message[PROTOCOL_BYTES_MAX];

	(void)!recv(part->waiter.control, message, sizeof(message), MSG_DONTWAIT);
	if (!rx_queue_has_batches(part))
		rx_part_drop(rx, index);
}

bool rx_member_note_release(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch)
{
	uint32_t index = batch->lease >> RX_PART_SHIFT;
	bool recalled = rx_member_is_recalled(rx->parts[index]);

	if (recalled && !rx_queue_has_batches(rx->parts[index]))
		rx_part_drop(rx, index);
	return recalled;
}

int rx_member_release(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch)
{
	int r = rx_queue_release(rx_giver(rx, batch), batch);

	if (r != -EINVAL)
		rx_member_note_release(rx, batch);
	return r;
}

/* The daemon has answered the request: its queue becomes a part of the handle. */
static int take_queue(struct ibvcap_rx *rx)
{
	struct rx_queue *part = rx->ask;
	uint32_t index = 0;
	int r = rx_poll_add(part, part->waiter.control);

	rx->ask = NULL;
	if (r < 0) {
		rx_queue_free(part);
		return r;
	}
	if (part->info.epoch != rx->epoch) {
		rx->shared.counts.epochs++;
		rx->failed = 0;
	}
	rx->epoch = part->info.epoch;
	rx->n_queues = part->info.n_queues;
	if (rx->shared.counts.epochs && !(part->reattach.next_flags & IBVCAP_RX_BATCH_FLAG_TAKEN_OVER))
		part->reattach.next_flags |= IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN;
	while (rx->parts[index]) /* rx_member_ask() asks only if there is a free one */
		index++;
	rx_part_put(rx, index, part);
	return 1;
}

int rx_member_ask(struct ibvcap_rx *rx, uint64_t now_ns)
{
	uint32_t n = rx_part_count(rx);
	int r;

	rx->asked_ns = now_ns;
	if (!rx->is_group || n >= RX_PARTS_MAX - 1 || (!rx->ask && rx->n_queues && n >= rx->n_queues))
		return 0;
	r = rx->ask ? 0 : rx_part_new(rx, IBVCAP_QUEUE_ALL, &rx->ask);
	if (!rx->ask)
		return n ? 0 : r;
	if (n && !rx->ask->reattach.error)
		rx_reattach_put_off_end(rx->ask, now_ns);
	r = rx_reattach(rx->ask, 0);
	if (r == 1)
		return take_queue(rx);
	return n ? 0 : r;
}

/* The daemon's first answer says whether this client may be a member. */
int rx_member_join(struct ibvcap_rx *rx, const struct ibvcap_rx_options *options)
{
	int r = getrandom(&rx->shared.member, sizeof(rx->shared.member), 0) < 0
	                ? error_set(-errno, "no random number: %s", strerror(errno))
	                : rx_part_new(rx, IBVCAP_QUEUE_ALL, &rx->ask);

	if (r < 0 || !rx->ask)
		return r < 0 ? r : error_set(-ENOMEM, "out of memory");
	r = rx_reattach_join(rx->ask, options);
	rx->epoch = rx->ask->reattach.joined_epoch;
	rx->n_queues = rx->ask->reattach.joined_queues;
	return r;
}
