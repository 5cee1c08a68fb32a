// SPDX-License-Identifier: Apache-2.0
/* Receive handles: how one is made of what the daemon sent, what it says about itself, and how it is freed. */
#include "lib/ibvcap/error.h"
#include "lib/ibvcap/owner.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/rx.h"
#include "lib/ibvcap/segment_check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int rx_handle_new_empty(struct ibvcap_rx **rx)
{
	struct ibvcap_rx *new = calloc(1, sizeof(*new));

	if (!new)
		return error_set(-ENOMEM, "out of memory");
	new->reattach = (struct rx_reattach){
		.counts = IBVCAP_INIT(struct ibvcap_rx_counts), .poll_fd = -1, .timer_fd = -1, .client = CLIENT_INIT};
	new->waiter = (struct waiter){.ops = &rx_waiter_ops, .control = -1, .socket = -1};
	new->payload = new->headers = new->ring_shm = new->state_shm = new->page_shm = (struct shm)SHM_INIT;
	*rx = new;
	return 0;
}

int rx_handle_new(struct ibvcap_rx **rx, int socket, const int fds[PROTOCOL_FD_N], uint64_t epoch)
{
	struct ibvcap_rx *new;
	int r = rx_handle_new_empty(&new);

	if (r < 0) {
		close(socket);
		for (unsigned i = 0; i < PROTOCOL_FD_N && fds[i] >= 0; i++)
			close(fds[i]);
		return r;
	}
	new->waiter.control = socket;
	r = rx_map_segments(new, fds, epoch);
	if (r == 0 && !new->is_tap)
		r = segment_unblock(new->waiter.socket, "ring", "wake socket");
	if (r == 0)
		r = owner_mark_new(&new->owner);
	if (r == 0) {
		new->batch_starts = calloc(((size_t) new->lease_blocks *new->info.slots_per_block + 63) / 64,
		                           sizeof(*new->batch_starts));
		r = new->batch_starts ? 0 : error_set(-ENOMEM, "out of memory");
	}
	if (r == 0)
		rx_settled_begin(new);
	if (r < 0)
		rx_handle_free(new);
	else
		*rx = new;
	return r;
}

int rx_handle_set_reattach(struct ibvcap_rx *rx, const char *path, const char *stream,
                           const struct ibvcap_rx_options *options)
{
	struct rx_reattach *reattach = &rx->reattach;

	reattach->path = strdup(path);
	if (!reattach->path)
		return error_set(-ENOMEM, "out of memory");
	strncpy(reattach->stream, stream, sizeof(reattach->stream) - 1);
	reattach->options = *options;
	/* Packets that the next daemon publishes before this handle attaches to it are delivered too. */
	reattach->options.start = IBVCAP_START_OLDEST;
	/* Not as the state has it by now: the consumer may have been demoted already, and is to be told. */
	rx->policy_reported = options->policy;
	return 0;
}

void rx_handle_unmap(struct ibvcap_rx *rx)
{
	shm_deinit(&rx->payload);
	shm_deinit(&rx->headers);
	shm_deinit(&rx->ring_shm);
	shm_deinit(&rx->state_shm);
	shm_deinit(&rx->page_shm);
	rx->ring = NULL;
	rx->state = NULL;
	rx->page = NULL;
	rx->waiter.link = NULL;
	rx->waiter.wake = NULL;
}

void rx_handle_close_epoch(struct ibvcap_rx *rx)
{
	rx_handle_unmap(rx);
	rx_poll_close(&rx->reattach, &rx->waiter.socket);
	if (rx->waiter.control >= 0)
		close(rx->waiter.control);
	rx->waiter.control = -1;
}

bool rx_handle_is_removed(const struct ibvcap_rx *rx)
{
	return !rx->is_tap && client_load_reason(&rx->state->link) == IBVCAP_DISCONNECT_REMOVED;
}

bool rx_handle_has_batches(const struct ibvcap_rx *rx)
{
	for (uint32_t i = 0; i < rx->lease_blocks; i++)
		if (rx->leases[i].n_batches)
			return true;
	return false;
}

uint32_t rx_handle_failed_queues(const struct ibvcap_rx *rx)
{
	bool has_failed = rx->reattach.failed || (rx->ring && consumer_ring_failed(rx->ring));

	return has_failed && rx->info.queue < IBVCAP_QUEUES_MAX ? UINT32_C(1) << rx->info.queue : 0;
}

void rx_handle_free(struct ibvcap_rx *rx)
{
	if (!rx)
		return;
	/* The parent's copies of both descriptors lead to the same epoll set, so a child takes nothing out of it. */
	rx_poll_deinit(&rx->reattach);
	/* The daemon sees this at once, also if a child has inherited the socket. */
	if (owner_is_here(rx->owner)) {
		shutdown(rx->waiter.control, SHUT_RDWR);
		shutdown(rx->reattach.client.socket, SHUT_RDWR);
	}
	rx_handle_close_epoch(rx);
	rx_poll_close(&rx->reattach, &rx->reattach.client.socket);
	owner_mark_free(rx->owner);
	free(rx->reattach.path);
	free(rx->batch_starts);
	free(rx);
}

void rx_handle_describe(const struct ibvcap_rx *rx, struct ibvcap_rx_info *info)
{
	*info = rx->info;
	info->size = sizeof(*info);
	info->n_attached = !rx->reattach.away;
	info->failed_queues = rx_handle_failed_queues(rx);
	info->attach_sequence = rx->attach_sequence;
	info->attach_back = rx->attach_head > rx->attach_sequence ? rx->attach_head - rx->attach_sequence : 0;
	info->disconnected = rx->reattach.away && rx->info.epoch;
	if (rx->reattach.away)
		return;
	info->disconnected =
		(consumer_ring_closed(rx->ring) || waiter_is_hung_up(&rx->waiter)) && !rx_handle_is_removed(rx);
	info->policy = rx->is_tap ? IBVCAP_POLICY_TAP : (enum ibvcap_policy)consumer_load_policy(rx->state);
	info->clock_source = ring_load_clock(rx->ring, &info->clock_error_ns);
}

void rx_handle_count(const struct ibvcap_rx *rx, struct ibvcap_rx_counts *counts)
{
	uint64_t head = rx->next;

	*counts = rx->reattach.counts;
	counts->size = sizeof(*counts);
	/* Between two epochs, all of the last was delivered. */
	if (!rx->reattach.away && consumer_load_head(rx->ring) > head)
		head = consumer_load_head(rx->ring);
	counts->published += head - rx->attach_sequence;
	counts->delivered += rx->next - rx->attach_sequence - rx->skipped;
	counts->skipped += rx->skipped;
	counts->lag += head - rx->next;
	counts->abandoned += rx->abandoned;
	counts->failures += rx_handle_failed_queues(rx) != 0;
}
