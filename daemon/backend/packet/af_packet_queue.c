// SPDX-License-Identifier: Apache-2.0
/* Makes and frees a receive queue: the socket, its ring, its membership in the interface's fanout group. */
#include "daemon/backend/packet/af_packet.h"

#include "daemon/base/machine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/net_tstamp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Buffer of the socket, beside the ring, for packets that are several datagrams. It takes memory only while it holds
 * some, because the kernel does not copy them. */
#define MERGED_ROOM_BYTES (32 << 20)

int af_packet_receive_reset(struct backend_queue *base)
{
	struct af_packet_receive *receive = af_packet_receive(base);

	posted_rows_forget(&receive->rows);
	backend_use_reset(&base->use);
	return 0;
}

static void receive_unlink(struct af_packet_receive *receive)
{
	struct af_packet_receive **at = &receive->queue.backend->queues;

	while (*at && *at != receive)
		at = &(*at)->next;
	if (*at)
		*at = receive->next;
}

static void receive_close(struct af_packet_receive *receive)
{
	af_packet_ring_deinit(&receive->ring);
	if (receive->fanout_index)
		af_packet_fanout_give_back(receive->queue.backend, receive->fanout_index);
	else if (receive->queue.fd >= 0)
		close(receive->queue.fd);
}

void af_packet_receive_free(struct backend_queue *base)
{
	struct af_packet_receive *receive = af_packet_receive(base);

	pthread_mutex_lock(&receive->queue.backend->changing);
	receive_unlink(receive);
	receive_close(receive);
	pthread_mutex_unlock(&receive->queue.backend->changing);
	free(receive->whole);
	pthread_mutex_destroy(&receive->reading);
	posted_rows_deinit(&receive->rows);
	flow_tags_free(receive->tags);
	free(receive);
}

/* Frames that this host sends are not received; on lo each packet would come twice. */
static int receive_bind(const struct af_packet_receive *receive)
{
	struct sockaddr_ll address = {.sll_family = AF_PACKET,
	                              .sll_protocol = htons(ETH_P_ALL),
	                              .sll_ifindex = receive->queue.backend->index};
	int on = 1;

	if (setsockopt(receive->queue.fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) < 0)
		return -errno;
	return bind(receive->queue.fd, (struct sockaddr *)&address, sizeof(address)) == 0 ? 0 : -errno;
}

/* The card's time of each packet that has one; of the others, the kernel's. */
static int receive_ask_for_device_time(const struct af_packet_receive *receive)
{
	int source = SOF_TIMESTAMPING_RAW_HARDWARE;

	if (!receive->flag_of_kernel_time)
		return 0;
	return setsockopt(receive->queue.fd, SOL_PACKET, PACKET_TIMESTAMP, &source, sizeof(source)) == 0 ? 0 : -errno;
}

/*
 * Let the kernel mark packets that are several datagrams, and keep them whole beside the ring, as far as the socket's
 * buffer has room; without that they are one long row. Not before Linux 6.2, which would drop such packets.
 */
static int receive_ask_for_lengths(struct af_packet_receive *receive)
{
	int on = 1, room = MERGED_ROOM_BYTES;

	if (!machine_kernel_is_from(6, 2) ||
	    setsockopt(receive->queue.fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) < 0)
		return 0;
	receive->has_lengths = true;
	receive->whole = malloc(AF_PACKET_WHOLE_BYTES);
	if (!receive->whole)
		return -ENOMEM;
	/* Without CAP_NET_ADMIN the buffer is at most net.core.rmem_max. */
	if (setsockopt(receive->queue.fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) < 0)
		setsockopt(receive->queue.fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	return setsockopt(receive->queue.fd, SOL_PACKET, PACKET_COPY_THRESH, &on, sizeof(on)) == 0 ? 0 : -errno;
}

static int receive_set_up_socket(struct af_packet_receive *receive, const struct backend_queue_options *options)
{
	int r = receive_ask_for_device_time(receive);

	if (r == 0)
		r = receive_ask_for_lengths(receive);
	return r < 0 ? r
	             : af_packet_ring_init(&receive->ring, receive->queue.fd, options->slots,
	                                   options->header_bytes + options->slot_bytes);
}

/*
 * A free member gets its ring within the group. A socket that is not a member yet gets its ring while others go on,
 * because the kernel waits for a grace period of RCU, some 20 ms. Returns the fanout index, 0: no member; or -errno.
 */
static int receive_take_index(struct af_packet_receive *receive, const struct backend_queue_options *options)
{
	struct af_packet *backend = receive->queue.backend;
	int r;

	if (receive->fanout_index) {
		r = receive_set_up_socket(receive, options);
		af_packet_fanout_finish(backend, receive->fanout_index);
		return r < 0 ? r : (int)receive->fanout_index;
	}
	pthread_mutex_unlock(&backend->changing);
	r = receive_set_up_socket(receive, options);
	pthread_mutex_lock(&backend->changing);
	if (receive->has_turn) {
		int index = af_packet_fanout_enter(backend, receive->turn, r < 0 ? -1 : receive->queue.fd);

		return r < 0 ? r : index;
	}
	return r;
}

/* The filter is set before the first frame can come, so that the ring never holds frames of other flows. */
static int receive_begin(struct af_packet_receive *receive)
{
	int r;

	if (receive->fanout_index && !af_packet_has_filter(receive))
		return af_packet_fanout_accept(receive->queue.backend, receive->fanout_index);
	r = af_packet_apply_flows(receive);
	return r < 0 || receive->fanout_index ? r : receive_bind(receive);
}

static int receive_set_up(struct af_packet_receive *receive, const struct backend_queue_options *options)
{
	int r = receive_take_index(receive, options);

	if (r < 0)
		return r;
	receive->fanout_index = (uint32_t)r;
	return receive_begin(receive);
}

static int receive_prepare(struct af_packet_receive *receive, const struct backend_queue_options *options)
{
	int r = posted_rows_init(&receive->rows, options);

	receive->tags = options->flow_tags ? flow_tags_new() : NULL;
	return r == 0 && options->flow_tags && !receive->tags ? -ENOMEM : r;
}

/* The kernel gives a packet to one member only, so a queue for flows with copy is outside the fanout group. */
static bool receive_may_have_index(const struct af_packet *backend, const struct backend_queue_options *options)
{
	return backend->fanout.n > 0 && !options->copies && (backend->program || !options->in_group);
}

/* Takes a free member of the fanout group, or opens a socket for a new member or outside the group. 0 or -errno. */
static int receive_open(struct af_packet_receive *receive, const struct backend_queue_options *options,
                        struct failure *failure)
{
	struct af_packet *backend = receive->queue.backend;
	int index = receive_may_have_index(backend, options) ? af_packet_fanout_take(backend) : 0;

	if (index > 0) {
		receive->fanout_index = (uint32_t)index;
		receive->queue.fd = backend->fanout.at[index].fd;
		return 0;
	}
	receive->has_turn = receive_may_have_index(backend, options) && af_packet_fanout_have_room(backend);
	receive->queue.fd = receive->has_turn ? af_packet_fanout_make_socket(backend, &receive->turn, failure)
	                                      : kernel_path_open_socket(backend->interface, SOCK_RAW, failure);
	return receive->queue.fd < 0 ? receive->queue.fd : 0;
}

static int receive_add(struct af_packet_receive *receive, const struct backend_queue_options *options,
                       struct failure *failure)
{
	struct af_packet *backend = receive->queue.backend;
	int r = receive_prepare(receive, options);

	if (r < 0)
		return failure_no_memory(failure);
	r = receive_open(receive, options, failure);
	if (r < 0)
		return r;
	r = receive_set_up(receive, options);
	if (r < 0)
		return failure_set(failure, r == -ENODEV ? EX_UNAVAILABLE : EX_OSERR, -r,
		                   "interface %s: cannot make a ring for %u packets of %u bytes: %s%s",
		                   backend->interface, options->slots, options->header_bytes + options->slot_bytes,
		                   strerror(-r), r == -ENOMEM ? ": lower receive_queue_slots" : "");
	receive->next = backend->queues;
	backend->queues = receive;
	return 0;
}

int af_packet_create_queue(struct backend *base, const struct backend_queue_options *options,
                           struct backend_queue **queue, struct failure *failure)
{
	struct af_packet *backend = (struct af_packet *)base;
	struct af_packet_receive *receive = calloc(1, sizeof(*receive));
	int r;

	if (!receive)
		return failure_no_memory(failure);
	*receive = (struct af_packet_receive){
		.queue = {.base = {.ops = base->ops}, .backend = backend, .fd = -1},
		.timestamps = options->timestamps,
		.wakes = options->completion_events,
		.reading = PTHREAD_MUTEX_INITIALIZER,
	};
	if (options->timestamps && device_time_is_open(&backend->time))
		receive->flag_of_kernel_time = BACKEND_EVENT_KERNEL_TIME;
	pthread_mutex_lock(&backend->changing);
	r = receive_add(receive, options, failure);
	pthread_mutex_unlock(&backend->changing);
	if (r < 0)
		af_packet_receive_free(&receive->queue.base);
	else
		*queue = &receive->queue.base;
	return r;
}
