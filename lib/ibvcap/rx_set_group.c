// SPDX-License-Identifier: Apache-2.0
/* Gets queues of a group, and gives them back. */
#include "lib/ibvcap/rx_set.h"

#include "lib/ibvcap/error.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

bool rx_set_is_recalled(const struct ibvcap_rx *part)
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
void rx_set_give_back(struct rx_set *set, uint32_t index)
{
	struct ibvcap_rx *part = set->parts[index];
	uint8_t message[PROTOCOL_BYTES_MAX];

	(void)!recv(part->waiter.control, message, sizeof(message), MSG_DONTWAIT);
	if (!rx_handle_has_batches(part))
		rx_set_drop_part(set, index);
}

/* The daemon has answered the request: its handle becomes a part of the set. */
static int take_queue(struct rx_set *set)
{
	struct ibvcap_rx *part = set->ask;
	int index = rx_set_find_place(set), r = rx_poll_watch(set->poll_fd, part->waiter.control, set->stream);

	set->ask = NULL;
	if (index < 0 || r < 0) {
		rx_set_unwatch_part(set, part);
		rx_handle_free(part);
		return index < 0 ? index : r;
	}
	if (part->info.epoch != set->epoch) {
		set->counts.epochs++;
		set->failed = 0;
	}
	set->epoch = part->info.epoch;
	set->n_queues = part->info.n_queues;
	if (set->counts.epochs && !(part->reattach.next_flags & IBVCAP_RX_BATCH_FLAG_TAKEN_OVER))
		part->reattach.next_flags |= IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN;
	rx_set_put_part(set, index, part);
	return 1;
}

int rx_set_ask(struct rx_set *set, uint64_t now_ns)
{
	uint32_t n = rx_set_count_parts(set);
	int r;

	set->asked_ns = now_ns;
	if (!set->is_group || n >= RX_SET_PARTS_MAX - 1 || (!set->ask && set->n_queues && n >= set->n_queues))
		return 0;
	r = set->ask ? 0 : rx_set_new_part(set, IBVCAP_QUEUE_ALL, &set->ask);
	if (!set->ask)
		return n ? 0 : r;
	if (n && !set->ask->reattach.error)
		rx_reattach_put_off_end(set->ask, now_ns);
	r = rx_reattach(set->ask, 0);
	if (r == 1)
		return take_queue(set);
	return n ? 0 : r;
}

/* The daemon's first answer says whether this client may be a member. */
int rx_set_join(struct rx_set *set, const struct ibvcap_rx_options *options)
{
	int r = getrandom(&set->member, sizeof(set->member), 0) < 0
	                ? error_set(-errno, "no random number: %s", strerror(errno))
	                : rx_set_new_part(set, IBVCAP_QUEUE_ALL, &set->ask);

	if (r < 0 || !set->ask)
		return r < 0 ? r : error_set(-ENOMEM, "out of memory");
	r = rx_reattach_join(set->ask, options);
	set->epoch = set->ask->reattach.joined_epoch;
	set->n_queues = set->ask->reattach.joined_queues;
	return r;
}
