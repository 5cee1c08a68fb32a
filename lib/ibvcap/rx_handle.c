// SPDX-License-Identifier: Apache-2.0
/* Receive handles: how one is made of what the daemon sent, what it says about itself, and how it is freed. */
#include "lib/ibvcap/error.h"
#include "lib/ibvcap/owner.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/rx.h"
#include "lib/ibvcap/sized_struct.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Make the wake socket non-blocking: this process alone has its file description, and a read must never wait. */
static int rx_handle_unblock(const struct ibvcap_rx *rx)
{
	int flags = fcntl(rx->wake_socket, F_GETFL);

	if (flags < 0 || fcntl(rx->wake_socket, F_SETFL, flags | O_NONBLOCK) < 0)
		return error_set(-EPROTO, "the ring that the daemon sent: its wake socket cannot be read: %s",
		                 strerror(errno));
	return 0;
}

int rx_handle_new(struct ibvcap_rx **rx, int socket, const int fds[PROTOCOL_FD_N], uint64_t epoch)
{
	struct ibvcap_rx *new = calloc(1, sizeof(*new));
	int r;

	if (!new) {
		close(socket);
		for (unsigned i = 0; i < PROTOCOL_FD_N && fds[i] >= 0; i++)
			close(fds[i]);
		return error_set(-ENOMEM, "out of memory");
	}
	new->reattach = (struct rx_reattach){
		.counts = IBVCAP_INIT(struct ibvcap_rx_counts), .poll_fd = -1, .timer_fd = -1, .client = CLIENT_INIT};
	new->socket = socket;
	new->payload = new->headers = new->ring_shm = new->state_shm = new->page_shm = (struct shm)SHM_INIT;
	r = rx_map_segments(new, fds, epoch);
	if (r == 0 && !new->is_tap)
		r = rx_handle_unblock(new);
	if (r == 0)
		r = owner_mark_new(&new->owner);
	if (r == 0) {
		new->batch_starts = calloc(((size_t) new->lease_blocks *new->slots_per_block + 63) / 64,
		                           sizeof(*new->batch_starts));
		r = new->batch_starts ? 0 : error_set(-ENOMEM, "out of memory");
	}
	if (r < 0)
		ibvcap_rx_close(new);
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
	return 0;
}

void rx_handle_close_epoch(struct ibvcap_rx *rx)
{
	shm_deinit(&rx->payload);
	shm_deinit(&rx->headers);
	shm_deinit(&rx->ring_shm);
	shm_deinit(&rx->state_shm);
	shm_deinit(&rx->page_shm);
	rx_poll_close(&rx->reattach, &rx->wake_socket);
	if (rx->socket >= 0)
		close(rx->socket);
	rx->socket = -1;
	rx->ring = NULL;
	rx->state = NULL;
	rx->page = NULL;
}

void ibvcap_rx_close(struct ibvcap_rx *rx)
{
	if (!rx)
		return;
	/* The parent's copies of both descriptors lead to the same epoll set, so a child takes nothing out of it. */
	rx_poll_deinit(&rx->reattach);
	/* The daemon sees this at once, also if a child has inherited the socket. */
	if (rx->socket >= 0 && owner_is_here(rx->owner))
		shutdown(rx->socket, SHUT_RDWR);
	rx_handle_close_epoch(rx);
	rx_poll_close(&rx->reattach, &rx->reattach.client.socket);
	owner_mark_free(rx->owner);
	free(rx->reattach.path);
	free(rx->batch_starts);
	free(rx);
}

int ibvcap_rx_info(const struct ibvcap_rx *rx, struct ibvcap_rx_info *info)
{
	struct ibvcap_rx_info now = rx->info;

	now.size = sizeof(now);
	now.attach_sequence = rx->attach_sequence;
	now.attach_back = rx->attach_head > rx->attach_sequence ? rx->attach_head - rx->attach_sequence : 0;
	if (!rx->reattach.away) {
		now.policy = rx->is_tap ? IBVCAP_POLICY_TAP : (enum ibvcap_policy)consumer_load_policy(rx->state);
		now.clock_source = ring_load_clock(rx->ring, &now.clock_error_ns);
	}
	return sized_struct_write(info, &now, sizeof(now), "ibvcap_rx_info");
}

int ibvcap_rx_counts(const struct ibvcap_rx *rx, struct ibvcap_rx_counts *counts)
{
	struct ibvcap_rx_counts now = rx->reattach.counts;
	uint64_t head = rx->next;

	now.size = sizeof(now);
	/* Between two epochs, all of the last was delivered. */
	if (!rx->reattach.away && consumer_load_head(rx->ring) > head)
		head = consumer_load_head(rx->ring);
	now.published += head - rx->attach_sequence;
	now.delivered += rx->next - rx->attach_sequence - rx->skipped;
	now.skipped += rx->skipped;
	now.lag += head - rx->next;
	return sized_struct_write(counts, &now, sizeof(now), "ibvcap_rx_counts");
}
