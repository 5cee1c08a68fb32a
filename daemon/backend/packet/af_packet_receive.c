// SPDX-License-Identifier: Apache-2.0
/*
 * Receives with a packet socket: the hot path copies each frame from the kernel's ring to the oldest posted slot. No
 * allocation, no lock, no system call.
 *
 * While no slot is posted, frames stay in the kernel's ring, and when that is full the kernel drops and counts them.
 */
#include "daemon/backend/packet/af_packet.h"

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
#include <sys/socket.h>
#include <unistd.h>

/* Of packets that are several datagrams, beside the ring. The kernel shares their memory and takes none before. */
#define JOINED_ROOM_BYTES (32 << 20)
#define TAG_AT            12 /* a VLAN tag follows the two MAC addresses */
#define TAG_BYTES         4
/* VIRTIO_NET_HDR_GSO_UDP_L4, which older headers lack. */
#define GSO_UDP_DATAGRAMS 5

/* ---- the hot path -------------------------------------------------------------------------------- */

int af_packet_post(struct backend_queue *base, const struct backend_run *run)
{
	return posted_rows_add(&af_packet_receive(base)->rows, run);
}

/* A frame in the ring, and its bytes there or, if it is longer than its slot, whole. */
struct receive_frame {
	const struct tpacket2_hdr *header;
	const uint8_t *bytes;
	uint32_t n_bytes;
	uint32_t before_ip; /* of the bytes */
};

/* Its bytes, or 0. After an error of the socket (the interface is down) the frame is still there. */
static uint32_t receive_recv_whole(const struct af_packet_receive *receive)
{
	ssize_t n;

	do
		n = recv(receive->queue.fd, receive->whole, AF_PACKET_WHOLE_BYTES, MSG_DONTWAIT);
	while (n < 0 && errno == ENETDOWN);
	return n > 0 ? (uint32_t)n : 0;
}

/*
 * The kernel has put a frame that is longer than its slot whole into the socket's receive queue, too: packets in which
 * it has joined several datagrams, and oversize ones. One system call serves all datagrams of the frame.
 */
static __attribute__((noinline, cold)) void receive_read_whole(struct af_packet_receive *receive,
                                                               struct receive_frame *frame)
{
	if (receive->n_cut == 0)
		receive->whole_bytes = receive_recv_whole(receive);
	if (receive->whole_bytes < sizeof(struct virtio_net_hdr) + frame->n_bytes)
		return;
	frame->bytes = receive->whole + sizeof(struct virtio_net_hdr);
	frame->n_bytes = receive->whole_bytes - (uint32_t)sizeof(struct virtio_net_hdr);
}

static struct receive_frame receive_read_frame(struct af_packet_receive *receive, const struct tpacket2_hdr *header)
{
	struct receive_frame frame = {.header = header,
	                              .bytes = (const uint8_t *)header + header->tp_mac,
	                              .n_bytes = header->tp_snaplen,
	                              .before_ip = header->tp_net - header->tp_mac};

	if (header->tp_status & TP_STATUS_COPY)
		receive_read_whole(receive, &frame);
	return frame;
}

/* The kernel has taken the outer VLAN tag out. It is put back between the MAC addresses and the rest. */
static void receive_describe_frame(const struct af_packet_receive *receive, const struct receive_frame *frame,
                                   struct af_packet_row *row)
{
	const struct tpacket2_hdr *header = frame->header;
	uint16_t tpid_be = htons(header->tp_status & TP_STATUS_VLAN_TPID_VALID ? header->tp_vlan_tpid : ETH_P_8021Q);
	uint16_t tci_be = htons(header->tp_vlan_tci);

	if (!receive->queue.backend->has_ethernet) { /* some tunnels show their own header before the IP header, too */
		const uint8_t *ip = frame->bytes + frame->before_ip;
		uint16_t type_be = htons(*ip >> 4 == 6 ? ETH_P_IPV6 : ETH_P_IP);

		/* An interface without Ethernet headers: the row gets one without addresses. */
		memset(row->made, 0, ETH_HLEN);
		memcpy(row->made + TAG_AT, &type_be, 2);
		row->parts[0] = (struct af_packet_part){row->made, ETH_HLEN};
		row->parts[1] = (struct af_packet_part){ip, frame->n_bytes - frame->before_ip};
		row->n_parts = 2;
		row->bytes = header->tp_len - frame->before_ip + ETH_HLEN;
		return;
	}
	row->bytes = header->tp_len;
	row->parts[0] = (struct af_packet_part){frame->bytes, frame->n_bytes};
	row->n_parts = 1;
	if (!(header->tp_status & TP_STATUS_VLAN_VALID) || frame->n_bytes < TAG_AT)
		return;
	memcpy(row->made, &tpid_be, 2);
	memcpy(row->made + 2, &tci_be, 2);
	row->bytes += TAG_BYTES;
	row->parts[0] = (struct af_packet_part){frame->bytes, TAG_AT};
	row->parts[1] = (struct af_packet_part){row->made, TAG_BYTES};
	row->parts[2] = (struct af_packet_part){frame->bytes + TAG_AT, frame->n_bytes - TAG_AT};
	row->n_parts = 3;
}

static struct virtio_net_hdr receive_lengths(const struct tpacket2_hdr *header)
{
	struct virtio_net_hdr lengths;

	memcpy(&lengths, (const uint8_t *)header + header->tp_mac - sizeof(lengths), sizeof(lengths));
	return lengths;
}

/*
 * The payload bytes of each datagram of a packet that is several; the last one may be shorter. 0: the packet is one
 * datagram.
 */
static uint32_t receive_joined_bytes(const struct af_packet_receive *receive, const struct tpacket2_hdr *header)
{
	struct virtio_net_hdr lengths;

	if (!receive->has_lengths)
		return 0;
	lengths = receive_lengths(header);
	return lengths.gso_type == GSO_UDP_DATAGRAMS ? lengths.gso_size : 0;
}

/* The next datagram of a packet that is several. True: it is not the last one. */
static __attribute__((noinline, cold)) bool receive_cut(struct af_packet_receive *receive,
                                                        const struct tpacket2_hdr *header, struct af_packet_row *row,
                                                        uint32_t payload_bytes)
{
	const struct virtio_net_hdr lengths = receive_lengths(header);
	uint32_t added = row->bytes - header->tp_len; /* before the UDP header: a VLAN tag, or the Ethernet header */
	uint32_t udp_at = lengths.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM ? lengths.csum_start + added : 0;
	uint32_t n = af_packet_row_cut(row, payload_bytes, udp_at, receive->n_cut);

	if (receive->n_cut == 0 && n > 1)
		atomic_fetch_add_explicit(&receive->queue.base.n_split, n - 1, memory_order_relaxed);
	receive->n_cut = receive->n_cut + 1 < n ? receive->n_cut + 1 : 0;
	return receive->n_cut > 0;
}

/* Without a tag that the kernel has taken out. */
static __attribute__((noinline)) uint32_t receive_find_frame_tag(const struct af_packet_receive *receive,
                                                                 const struct receive_frame *frame)
{
	const struct tpacket2_hdr *header = frame->header;
	const uint8_t *end = frame->bytes + frame->n_bytes, *ip = frame->bytes + frame->before_ip;
	bool tag_gone = header->tp_status & TP_STATUS_VLAN_VALID, is_read;
	struct flow_headers headers = {0};

	if (tag_gone && (!(header->tp_status & TP_STATUS_VLAN_TPID_VALID) || header->tp_vlan_tpid == ETH_P_8021Q)) {
		headers.key.vlan_be = htons(header->tp_vlan_tci & 0x0fff);
		headers.key.fields = FLOW_KEY_VLAN;
	}
	is_read = receive->queue.backend->has_ethernet
	                  ? flow_key_read_frame(frame->bytes, end, tag_gone, &headers, true)
	                  : flow_key_read_ip(ip, end, *ip >> 4 == 6 ? ETH_P_IPV6 : ETH_P_IP, &headers, true);
	return is_read ? flow_tags_find(receive->tags, &headers) : 0;
}

/* True: the frame has more datagrams. */
static bool receive_take_frame(struct af_packet_receive *receive, const struct tpacket2_hdr *header,
                               struct backend_event *event)
{
	uint32_t row_bytes = receive->rows.header_bytes + receive->rows.slot_bytes, present = 0;
	uint32_t joined_bytes = receive_joined_bytes(receive, header);
	const struct receive_frame frame = receive_read_frame(receive, header);
	struct af_packet_row row;
	bool more;

	receive_describe_frame(receive, &frame, &row);
	more = joined_bytes && receive_cut(receive, header, &row, joined_bytes);
	for (uint32_t i = 0; i < row.n_parts; present += row.parts[i++].n)
		posted_rows_copy(&receive->rows, present, row.parts[i].bytes, row.parts[i].n);
	posted_rows_end(&receive->rows, row.bytes, event);
	event->timestamp_raw = receive->timestamps ? header->tp_sec * TIME_SECOND_NS + header->tp_nsec : 0;
	event->tag = receive->tags ? receive_find_frame_tag(receive, &frame) : 0;
	event->flags = 0;
	event->flags |= header->tp_status & TP_STATUS_TS_RAW_HARDWARE ? 0 : receive->flag_of_kernel_time;
	/* The socket had no room for the whole frame. That does not matter if the row is full. */
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
		const struct tpacket2_hdr *header = af_packet_ring_next(&receive->ring);

		if (!header)
			break;
		if (!receive_take_frame(receive, header, &events[n++]))
			af_packet_ring_release(&receive->ring);
	}
	return (int)n;
}

/* The kernel's counts are of 32 bits and start again at each reading. tp_packets has the dropped ones, too. */
int af_packet_read_matched(struct backend_queue *base, uint64_t *packets)
{
	struct af_packet_receive *receive = af_packet_receive(base);
	struct tpacket_stats statistics;
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

/* Without a posted slot a frame would stay in the ring, and the worker would wake again at once. */
int af_packet_receive_fd(const struct backend_queue *base)
{
	const struct af_packet_receive *receive = af_packet_receive(base);

	if (!receive->wakes)
		return -ENOTSUP;
	return receive->rows.n_posted > 0 ? receive->queue.fd : -EAGAIN;
}

/* The socket is readable while its ring has a frame for us. */
int af_packet_receive_arm(struct backend_queue *base)
{
	return af_packet_receive(base)->wakes ? 0 : -ENOTSUP;
}

/* After an error of the socket (the interface is down) it is readable until somebody has read the error. */
void af_packet_receive_clear(struct backend_queue *base)
{
	socklen_t bytes = sizeof(int);
	int error;

	getsockopt(af_packet_receive(base)->queue.fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
}

/* ---- life ---------------------------------------------------------------------------------------- */

int af_packet_receive_reset(struct backend_queue *base)
{
	struct af_packet_receive *receive = af_packet_receive(base);

	posted_rows_forget(&receive->rows);
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
	if (receive->place)
		af_packet_places_give_back(receive->queue.backend, receive->place);
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
	int on = 1, room = JOINED_ROOM_BYTES;

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
 * A free place gets its ring within the group. A socket that is in no list yet gets it while others go on: the kernel
 * takes a grace period of RCU for it, some 20 ms. Returns the place, 0: none; or -errno.
 */
static int receive_take_place(struct af_packet_receive *receive, const struct backend_queue_options *options)
{
	struct af_packet *backend = receive->queue.backend;
	int r;

	if (receive->place) {
		r = receive_set_up_socket(receive, options);
		af_packet_places_settle(backend, receive->place);
		return r < 0 ? r : (int)receive->place;
	}
	pthread_mutex_unlock(&backend->changing);
	r = receive_set_up_socket(receive, options);
	pthread_mutex_lock(&backend->changing);
	if (receive->has_turn) {
		int place = af_packet_places_enter(backend, receive->turn, r < 0 ? -1 : receive->queue.fd);

		return r < 0 ? r : place;
	}
	return r;
}

/* No frame comes before the filter is there, so that no other one is in the ring. */
static int receive_begin(struct af_packet_receive *receive)
{
	int r;

	if (receive->place && !af_packet_has_filter(receive))
		return af_packet_places_accept(receive->queue.backend, receive->place);
	r = af_packet_apply_flows(receive);
	return r < 0 || receive->place ? r : receive_bind(receive);
}

static int receive_set_up(struct af_packet_receive *receive, const struct backend_queue_options *options)
{
	int r = receive_take_place(receive, options);

	if (r < 0)
		return r;
	receive->place = (uint32_t)r;
	return receive_begin(receive);
}

static int receive_prepare(struct af_packet_receive *receive, const struct backend_queue_options *options)
{
	int r = posted_rows_init(&receive->rows, options);

	receive->tags = options->flow_tags ? flow_tags_new() : NULL;
	return r == 0 && options->flow_tags && !receive->tags ? -ENOMEM : r;
}

/* The kernel gives a packet to one place only, so not to a flow with copy and to another flow. */
static bool receive_may_have_place(const struct af_packet *backend, const struct backend_queue_options *options)
{
	return backend->places.n > 0 && !options->copies && (backend->program || !options->in_group);
}

/* A free place of the interface's group, or a socket for a new one, or one beside the group. 0 or -errno. */
static int receive_open(struct af_packet_receive *receive, const struct backend_queue_options *options,
                        struct failure *failure)
{
	struct af_packet *backend = receive->queue.backend;
	int place = receive_may_have_place(backend, options) ? af_packet_places_take(backend) : 0;

	if (place > 0) {
		receive->place = (uint32_t)place;
		receive->queue.fd = backend->places.at[place].fd;
		return 0;
	}
	receive->has_turn = receive_may_have_place(backend, options) && af_packet_places_have_room(backend);
	receive->queue.fd = receive->has_turn ? af_packet_places_make_socket(backend, &receive->turn, failure)
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
