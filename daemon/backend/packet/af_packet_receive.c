// SPDX-License-Identifier: Apache-2.0
/*
 * Receives with a packet socket: the hot path copies each frame from the kernel's ring to the oldest posted slot. No
 * allocation, no lock, no system call.
 *
 * While no slot is posted, frames stay in the kernel's ring, and when that is full the kernel drops and counts them.
 */
#include "daemon/backend/packet/af_packet.h"

#include "daemon/backend/socket/kernel_path.h"
#include "daemon/base/machine.h"
#include "daemon/base/time.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/net_tstamp.h>
#include <linux/virtio_net.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define TAG_AT    12 /* a VLAN tag follows the two MAC addresses */
#define TAG_BYTES 4
/* VIRTIO_NET_HDR_GSO_UDP_L4, which older headers lack. */
#define GSO_UDP_DATAGRAMS 5

/* ---- the hot path -------------------------------------------------------------------------------- */

/* For arm(), and for the post() after it: rare. */
static __attribute__((noinline, cold)) int receive_watch_socket(struct af_packet_receive *receive)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT};

	receive->arm_due = false;
	return epoll_ctl(receive->queue.wake_fd, EPOLL_CTL_MOD, receive->queue.fd, &event) == 0 ? 0 : -errno;
}

int af_packet_post(struct backend_queue *base, const struct backend_run *run)
{
	struct af_packet_receive *receive = af_packet_receive(base);
	int n = posted_rows_add(&receive->rows, run);

	if (receive->arm_due &&
	    n > 0) /* the worker is about to sleep, and packets may be in the kernel's ring already */
		receive_watch_socket(receive);
	return n;
}

/* The kernel has taken the outer VLAN tag out. It is put back between the MAC addresses and the rest. */
static void receive_describe_frame(const struct af_packet_receive *receive, const struct tpacket3_hdr *frame,
                                   struct af_packet_row *row)
{
	const uint8_t *bytes = (const uint8_t *)frame + frame->tp_mac;
	uint16_t tpid_be = htons(frame->tp_status & TP_STATUS_VLAN_TPID_VALID ? frame->hv1.tp_vlan_tpid : ETH_P_8021Q);
	uint16_t tci_be = htons((uint16_t)frame->hv1.tp_vlan_tci);

	if (!receive->queue.backend->has_ethernet) {
		uint32_t before_ip = frame->tp_net - frame->tp_mac; /* some tunnels show their own header, too */
		const uint8_t *ip = (const uint8_t *)frame + frame->tp_net;
		uint16_t type_be = htons(*ip >> 4 == 6 ? ETH_P_IPV6 : ETH_P_IP);

		/* An interface without Ethernet headers: the row gets one without addresses. */
		memset(row->made, 0, ETH_HLEN);
		memcpy(row->made + TAG_AT, &type_be, 2);
		row->parts[0] = (struct af_packet_part){row->made, ETH_HLEN};
		row->parts[1] = (struct af_packet_part){ip, frame->tp_snaplen - before_ip};
		row->n_parts = 2;
		row->bytes = frame->tp_len - before_ip + ETH_HLEN;
		return;
	}
	row->bytes = frame->tp_len;
	row->parts[0] = (struct af_packet_part){bytes, frame->tp_snaplen};
	row->n_parts = 1;
	if (!(frame->tp_status & TP_STATUS_VLAN_VALID) || frame->tp_snaplen < TAG_AT)
		return;
	memcpy(row->made, &tpid_be, 2);
	memcpy(row->made + 2, &tci_be, 2);
	row->bytes += TAG_BYTES;
	row->parts[0] = (struct af_packet_part){bytes, TAG_AT};
	row->parts[1] = (struct af_packet_part){row->made, TAG_BYTES};
	row->parts[2] = (struct af_packet_part){bytes + TAG_AT, frame->tp_snaplen - TAG_AT};
	row->n_parts = 3;
}

static struct virtio_net_hdr receive_lengths(const struct tpacket3_hdr *frame)
{
	struct virtio_net_hdr lengths;

	memcpy(&lengths, (const uint8_t *)frame + frame->tp_mac - sizeof(lengths), sizeof(lengths));
	return lengths;
}

/*
 * The payload bytes of each datagram of a packet that is several; the last one may be shorter. 0: the packet is one
 * datagram.
 */
static uint32_t receive_joined_bytes(const struct af_packet_receive *receive, const struct tpacket3_hdr *frame)
{
	struct virtio_net_hdr lengths;

	if (!receive->has_lengths)
		return 0;
	lengths = receive_lengths(frame);
	return lengths.gso_type == GSO_UDP_DATAGRAMS ? lengths.gso_size : 0;
}

/* The next datagram of a packet that is several. True: it is not the last one. */
static __attribute__((noinline, cold)) bool receive_cut(struct af_packet_receive *receive,
                                                        const struct tpacket3_hdr *frame, struct af_packet_row *row,
                                                        uint32_t payload_bytes)
{
	const struct virtio_net_hdr lengths = receive_lengths(frame);
	uint32_t added = row->bytes - frame->tp_len; /* before the UDP header: a VLAN tag, or the Ethernet header */
	uint32_t udp_at = lengths.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM ? lengths.csum_start + added : 0;
	uint32_t n = af_packet_row_cut(row, payload_bytes, udp_at, receive->n_cut);

	if (receive->n_cut == 0 && n > 1)
		atomic_fetch_add_explicit(&receive->queue.base.n_split, n - 1, memory_order_relaxed);
	receive->n_cut = receive->n_cut + 1 < n ? receive->n_cut + 1 : 0;
	return receive->n_cut > 0;
}

/* Without a tag that the kernel has taken out. */
static __attribute__((noinline)) uint32_t receive_find_frame_tag(const struct af_packet_receive *receive,
                                                                 const struct tpacket3_hdr *frame)
{
	const uint8_t *bytes = (const uint8_t *)frame + frame->tp_mac, *end = bytes + frame->tp_snaplen;
	const uint8_t *ip = (const uint8_t *)frame + frame->tp_net;
	bool tag_gone = frame->tp_status & TP_STATUS_VLAN_VALID, is_read;
	struct flow_headers headers = {0};

	if (tag_gone && (!(frame->tp_status & TP_STATUS_VLAN_TPID_VALID) || frame->hv1.tp_vlan_tpid == ETH_P_8021Q)) {
		headers.key.vlan_be = htons(frame->hv1.tp_vlan_tci & 0x0fff);
		headers.key.fields = FLOW_KEY_VLAN;
	}
	is_read = receive->queue.backend->has_ethernet
	                  ? flow_key_read_frame(bytes, end, tag_gone, &headers, true)
	                  : flow_key_read_ip(ip, end, *ip >> 4 == 6 ? ETH_P_IPV6 : ETH_P_IP, &headers, true);
	return is_read ? flow_tags_find(receive->tags, &headers) : 0;
}

/* True: the frame has more datagrams. */
static bool receive_take_frame(struct af_packet_receive *receive, const struct tpacket3_hdr *frame,
                               struct backend_event *event)
{
	uint32_t row_bytes = receive->rows.header_bytes + receive->rows.slot_bytes, present = 0;
	uint32_t joined_bytes = receive_joined_bytes(receive, frame);
	struct af_packet_row row;
	bool more;

	receive_describe_frame(receive, frame, &row);
	more = joined_bytes && receive_cut(receive, frame, &row, joined_bytes);
	for (uint32_t i = 0; i < row.n_parts; present += row.parts[i++].n)
		posted_rows_copy(&receive->rows, present, row.parts[i].bytes, row.parts[i].n);
	posted_rows_end(&receive->rows, row.bytes, event);
	event->timestamp_raw = receive->timestamps ? frame->tp_sec * TIME_SECOND_NS + frame->tp_nsec : 0;
	event->tag = receive->tags ? receive_find_frame_tag(receive, frame) : 0;
	event->flags = 0;
	event->flags |= frame->tp_status & TP_STATUS_TS_RAW_HARDWARE ? 0 : receive->flag_of_kernel_time;
	/* The kernel cuts a frame that is longer than its block. That does not matter if the row is full. */
	if (present < row.bytes && present < row_bytes) {
		event->status = BACKEND_LENGTH_ERROR;
		event->bytes = 0;
	}
	return more;
}

int af_packet_poll(struct backend_queue *base, struct backend_event *events, uint32_t max)
{
	struct af_packet_receive *receive = af_packet_receive(base);
	uint32_t n = 0;

	while (n < max && receive->rows.n_posted > 0) {
		const struct tpacket3_hdr *frame = af_packet_ring_next(&receive->ring);

		if (!frame)
			break;
		if (!receive_take_frame(receive, frame, &events[n++]))
			af_packet_ring_release(&receive->ring);
	}
	return (int)n;
}

/* The kernel's counts are of 32 bits and start again at each reading. tp_packets has the dropped ones, too. */
int af_packet_read_matched(struct backend_queue *base, uint64_t *packets)
{
	struct af_packet_receive *receive = af_packet_receive(base);
	struct tpacket_stats_v3 statistics;
	socklen_t bytes = sizeof(statistics);
	int r = 0;

	pthread_mutex_lock(&receive->reading);
	if (getsockopt(receive->queue.fd, SOL_PACKET, PACKET_STATISTICS, &statistics, &bytes) == 0) {
		receive->n_matched += statistics.tp_packets;
		atomic_fetch_add_explicit(&base->n_dropped[BACKEND_DROP_RING_FULL], statistics.tp_drops,
		                          memory_order_relaxed);
		*packets = receive->n_matched;
	} else {
		r = -errno;
	}
	pthread_mutex_unlock(&receive->reading);
	return r;
}

/* ---- sleeping ------------------------------------------------------------------------------------ */

int af_packet_receive_fd(const struct backend_queue *base)
{
	int fd = af_packet_receive(base)->queue.wake_fd;

	return fd >= 0 ? fd : -ENOTSUP;
}

/*
 * The socket is readable while its ring has a block for us. Without a posted slot the block stays in the ring, and the
 * worker would wake again at once: then the next post() arms.
 */
int af_packet_receive_arm(struct backend_queue *base)
{
	struct af_packet_receive *receive = af_packet_receive(base);

	if (receive->queue.wake_fd < 0)
		return -ENOTSUP;
	receive->arm_due = receive->rows.n_posted == 0;
	return receive->arm_due ? 0 : receive_watch_socket(receive);
}

/* After an error of the socket (the interface is down) it is readable until somebody has read the error. */
void af_packet_receive_clear(struct backend_queue *base)
{
	const struct af_packet_queue *queue = &af_packet_receive(base)->queue;
	socklen_t bytes = sizeof(int);
	struct epoll_event event;
	int error;

	if (epoll_wait(queue->wake_fd, &event, 1, 0) == 1 && event.events & EPOLLERR)
		getsockopt(queue->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
}

/* ---- life ---------------------------------------------------------------------------------------- */

int af_packet_receive_reset(struct backend_queue *base)
{
	struct af_packet_receive *receive = af_packet_receive(base);

	posted_rows_forget(&receive->rows);
	return 0;
}

void af_packet_receive_free(struct backend_queue *base)
{
	struct af_packet_receive *receive = af_packet_receive(base), **at = &receive->queue.backend->queues;

	while (*at && *at != receive)
		at = &(*at)->next;
	if (*at)
		*at = receive->next;
	af_packet_ring_deinit(&receive->ring);
	if (receive->queue.wake_fd >= 0)
		close(receive->queue.wake_fd);
	if (receive->queue.fd >= 0)
		close(receive->queue.fd);
	pthread_mutex_destroy(&receive->reading);
	posted_rows_deinit(&receive->rows);
	flow_tags_free(receive->tags);
	free(receive);
}

static int receive_open_epoll(struct af_packet_receive *receive)
{
	struct epoll_event event = {.events = EPOLLONESHOT};

	receive->queue.wake_fd = epoll_create1(EPOLL_CLOEXEC);
	if (receive->queue.wake_fd < 0)
		return -errno;
	return epoll_ctl(receive->queue.wake_fd, EPOLL_CTL_ADD, receive->queue.fd, &event) == 0 ? 0 : -errno;
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
 * Let the kernel mark packets that are several datagrams; without that they are one long row. Not before Linux 6.2,
 * which would drop such packets.
 */
static void receive_ask_for_lengths(struct af_packet_receive *receive)
{
	int on = 1;

	receive->has_lengths = machine_kernel_is_from(6, 2) &&
	                       setsockopt(receive->queue.fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) == 0;
}

/* The filter comes first, so that no other packet is in the ring. */
static int receive_set_up(struct af_packet_receive *receive, const struct backend_queue_options *options)
{
	int r = posted_rows_init(&receive->rows, options);

	receive->tags = options->flow_tags ? flow_tags_new() : NULL;
	if (r == 0 && options->flow_tags && !receive->tags)
		r = -ENOMEM;
	if (r == 0)
		r = af_packet_apply_flows(receive);
	if (r == 0)
		r = receive_ask_for_device_time(receive);
	receive_ask_for_lengths(receive);
	if (r == 0)
		r = af_packet_ring_init(&receive->ring, receive->queue.fd, options->slots,
		                        options->header_bytes + options->slot_bytes);
	if (r == 0 && options->completion_events)
		r = receive_open_epoll(receive);
	return r < 0 ? r : receive_bind(receive);
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
		.queue = {.base = {.ops = base->ops}, .backend = backend, .wake_fd = -1},
		.timestamps = options->timestamps,
		.reading = PTHREAD_MUTEX_INITIALIZER,
	};
	if (options->timestamps && device_time_is_open(&backend->time))
		receive->flag_of_kernel_time = BACKEND_EVENT_KERNEL_TIME;
	receive->queue.fd = kernel_path_open_socket(backend->interface, SOCK_RAW, failure);
	r = receive->queue.fd;
	if (r >= 0) {
		r = receive_set_up(receive, options);
		if (r < 0)
			failure_set(failure, r == -ENODEV ? EX_UNAVAILABLE : EX_OSERR, -r,
			            "interface %s: cannot make a ring for %u packets of %u bytes: %s%s",
			            backend->interface, options->slots, options->header_bytes + options->slot_bytes,
			            strerror(-r), r == -ENOMEM ? ": lower receive_queue_slots" : "");
	}
	if (r < 0) {
		af_packet_receive_free(&receive->queue.base);
		return r;
	}
	receive->next = backend->queues;
	backend->queues = receive;
	*queue = &receive->queue.base;
	return 0;
}
