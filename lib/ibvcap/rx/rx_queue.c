// SPDX-License-Identifier: Apache-2.0
/* A queue of a handle: how it is made of what the daemon sent, what it says about itself, and how it is freed. */
#include "lib/base/fd.h"
#include "lib/base/min.h"
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/client/owner.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/rx/rx_queue.h"
#include "lib/ibvcap/client/segment_check.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int rx_queue_new_empty(struct rx_queue **queue, struct rx_shared *shared, const struct ibvcap_rx_options *options)
{
	struct rx_queue *new = calloc(1, sizeof(*new));

	if (!new)
		return error_set(-ENOMEM, "out of memory");
	new->shared = shared;
	new->waiter = (struct waiter){.ops = &rx_waiter_ops, .control = -1, .socket = -1};
	new->reattach = (struct rx_reattach){.options = *options, .timer_fd = -1, .client = CLIENT_INIT};
	/* Packets that the next daemon publishes before this handle attaches to it are delivered too. */
	new->reattach.options.start = IBVCAP_START_OLDEST;
	new->payload = new->headers = new->ring_shm = new->state_shm = new->page_shm = (struct shm)SHM_INIT;
	new->is_tap = options->policy == IBVCAP_POLICY_TAP;
	/* Not as the state has it: the consumer may have been demoted by now, and is to be told. */
	new->policy_reported = options->policy;
	*queue = new;
	return 0;
}

int rx_queue_new(struct rx_queue **queue, struct rx_shared *shared, const struct ibvcap_rx_options *options, int socket,
                 const int fds[PROTOCOL_FD_N], uint64_t epoch)
{
	struct rx_queue *new;
	int r = rx_queue_new_empty(&new, shared, options);

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
	if (r == 0) {
		new->batch_starts = calloc(((size_t) new->lease_blocks *new->info.slots_per_block + 63) / 64,
		                           sizeof(*new->batch_starts));
		r = new->batch_starts ? 0 : error_set(-ENOMEM, "out of memory");
	}
	if (r < 0)
		rx_queue_free(new);
	else
		*queue = new;
	return r;
}

bool rx_queue_describe_memory(const struct rx_queue *queue, enum ibvcap_rx_memory_kind kind,
                              struct ibvcap_rx_memory *memory)
{
	const struct shm *shms[] = {
		[IBVCAP_RX_MEMORY_PAYLOAD] = &queue->payload,
		[IBVCAP_RX_MEMORY_HEADERS] = &queue->headers,
		[IBVCAP_RX_MEMORY_RING] = &queue->ring_shm,
	};
	const struct shm *shm = shms[kind];

	*memory = (struct ibvcap_rx_memory){
		.size = sizeof(*memory),
		.address = shm->address,
		.bytes = shm->bytes,
		.generation = queue->generation + kind,
		.epoch = queue->info.epoch,
		.page_bytes = shm->page_bytes,
		.queue = queue->info.queue,
		.kind = kind,
	};
	return shm->address && !(queue->is_lent && kind == IBVCAP_RX_MEMORY_PAYLOAD);
}

static void rx_queue_tell_unmap(const struct rx_queue *queue)
{
	const struct rx_shared *shared = queue->shared;
	struct ibvcap_rx_memory memory;

	for (unsigned kind = 0; kind < RX_MEMORY_KINDS; kind++)
		if (rx_queue_describe_memory(queue, kind, &memory))
			shared->on_unmap(shared->on_unmap_context, &memory);
}

void rx_queue_unmap(struct rx_queue *queue)
{
	if (queue->shared->on_unmap && owner_is_here(queue->shared->owner))
		rx_queue_tell_unmap(queue);
	if (queue->is_lent)
		queue->payload = (struct shm)SHM_INIT;
	shm_deinit(&queue->payload);
	shm_deinit(&queue->headers);
	shm_deinit(&queue->ring_shm);
	shm_deinit(&queue->state_shm);
	shm_deinit(&queue->page_shm);
	queue->ring = NULL;
	queue->state = NULL;
	queue->page = NULL;
	queue->waiter.link = NULL;
	queue->waiter.wake = NULL;
}

void rx_queue_close_epoch(struct rx_queue *queue)
{
	rx_queue_unmap(queue);
	rx_poll_close(queue, &queue->waiter.socket);
	fd_close(&queue->waiter.control);
}

bool rx_queue_is_removed(const struct rx_queue *queue)
{
	return !queue->is_tap && client_load_reason(&queue->state->link) == IBVCAP_DISCONNECT_REMOVED;
}

bool rx_queue_has_batches(const struct rx_queue *queue)
{
	for (uint32_t i = 0; i < queue->lease_blocks; i++)
		if (queue->leases[i].n_batches)
			return true;
	return false;
}

uint32_t rx_queue_failed(const struct rx_queue *queue)
{
	bool has_failed = queue->reattach.failed || (queue->ring && consumer_ring_failed(queue->ring));

	return has_failed && queue->info.queue < IBVCAP_QUEUES_MAX ? UINT32_C(1) << queue->info.queue : 0;
}

void rx_queue_free(struct rx_queue *queue)
{
	if (!queue)
		return;
	rx_poll_close(queue, &queue->reattach.timer_fd);
	/* The daemon sees this at once, also if a child has inherited the socket. */
	if (owner_is_here(queue->shared->owner)) {
		shutdown(queue->waiter.control, SHUT_RDWR);
		shutdown(queue->reattach.client.socket, SHUT_RDWR);
	}
	rx_queue_close_epoch(queue);
	rx_poll_close(queue, &queue->reattach.client.socket);
	free(queue->batch_starts);
	free(queue);
}

void rx_queue_describe(const struct rx_queue *queue, struct ibvcap_rx_info *info)
{
	struct status_clock clock = queue->reattach.away ? STATUS_CLOCK_NONE : ring_load_clock(queue->ring);

	*info = queue->info;
	info->size = sizeof(*info);
	info->n_attached = !queue->reattach.away;
	info->failed_queues = rx_queue_failed(queue);
	info->attach_sequence = queue->attach_sequence + queue->passed;
	info->attach_back = queue->attach_head > info->attach_sequence ? queue->attach_head - info->attach_sequence : 0;
	info->disconnected = queue->reattach.away && queue->info.epoch;
	STATUS_CLOCK_COPY(info, &clock);
	if (queue->reattach.away)
		return;
	info->disconnected =
		(consumer_ring_closed(queue->ring) || waiter_is_hung_up(&queue->waiter)) && !rx_queue_is_removed(queue);
	info->policy = queue->is_tap ? IBVCAP_POLICY_TAP : (enum ibvcap_policy)consumer_load_policy(queue->state);
}

void rx_queue_add_counts(const struct rx_queue *queue, struct ibvcap_rx_counts *sum)
{
	uint64_t head = queue->next, first = queue->attach_sequence + queue->passed;

	/* Between two epochs, all of the last was delivered. */
	if (!queue->reattach.away && consumer_load_head(queue->ring) > head)
		head = consumer_load_head(queue->ring);
	sum->published += head - first;
	sum->delivered += queue->next - first - queue->skipped;
	sum->skipped += queue->skipped;
	sum->lag += head - queue->next;
	sum->abandoned += queue->abandoned;
	sum->failures += rx_queue_failed(queue) != 0;
	sum->epochs = u64_max(sum->epochs, queue->reattach.epochs);
}
