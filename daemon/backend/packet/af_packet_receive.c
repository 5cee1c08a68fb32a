// SPDX-License-Identifier: Apache-2.0
/*
 * Receives with a packet socket: the hot path copies each frame from the kernel's ring to the oldest posted slot. No
 * allocation, no lock, no system call.
 *
 * While no slot is posted, frames stay in the kernel's ring, and when that is full the kernel drops and counts them.
 */
#include "daemon/backend/packet/af_packet.h"

#include "lib/base/time.h"
#include "lib/frame/frame_checksum.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/virtio_net.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define TAG_AT    12 /* a VLAN tag follows the two MAC addresses */
#define TAG_BYTES 4
#define GSO_KIND  7 /* of gso_type, whose other bits are flags */

#define SCTP_CHECKSUM 8

/* ---- the hot path -------------------------------------------------------------------------------- */

int af_packet_post(struct backend_queue *base, const struct backend_run *run)
{
	int n = posted_rows_add(&af_packet_receive(base)->rows, run);

	backend_use_post(&base->use, (uint32_t)n);
	return n;
}

/* A frame in the ring, and its bytes there or, if it is longer than its slot, whole. */
struct receive_frame {
	const struct tpacket2_hdr *header;
	const uint8_t *bytes;
	uint32_t n_bytes;
	uint32_t before_ip; /* how many of the bytes are before the IP header */
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
 * it has merged several datagrams, and oversize ones. One system call serves all datagrams of the frame.
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

/* Has the kernel merged several packets? A frame of VIRTIO_NET_HDR_GSO_UDP is one, which the kernel would fragment. */
static bool receive_is_merged(const struct af_packet_receive *receive, const struct tpacket2_hdr *header)
{
	const struct virtio_net_hdr lengths =
		receive->has_lengths ? receive_lengths(header) : (struct virtio_net_hdr){0};

	return lengths.gso_size && (lengths.gso_type & GSO_KIND) != VIRTIO_NET_HDR_GSO_UDP;
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

/* A row of wire_bytes, of which the first `present` bytes were copied. */
static inline void receive_end_row(struct af_packet_receive *receive, const struct receive_frame *frame,
                                   uint32_t wire_bytes, uint32_t present, uint8_t flags, struct backend_event *event)
{
	const struct tpacket2_hdr *header = frame->header;
	uint32_t row_bytes = receive->rows.header_bytes + receive->rows.slot_bytes;

	posted_rows_end(&receive->rows, wire_bytes, event);
	event->timestamp_raw = receive->timestamps ? header->tp_sec * TIME_SECOND_NS + header->tp_nsec : 0;
	event->tag = receive->tags ? receive_find_frame_tag(receive, frame) : 0;
	event->flags = flags;
	event->flags |= header->tp_status & TP_STATUS_TS_RAW_HARDWARE ? 0 : receive->flag_of_kernel_time;
	/* The socket had no room for the whole frame. That does not matter if the row is full. */
	if (present < wire_bytes && present < row_bytes) {
		event->status = BACKEND_LENGTH_ERROR;
		event->bytes = 0;
	}
}

static __attribute__((noinline, cold)) void receive_fill_row(struct af_packet_receive *receive,
                                                             const struct receive_frame *frame,
                                                             const struct af_packet_row *row, uint8_t flags,
                                                             struct backend_event *event)
{
	uint32_t present = 0;

	for (uint32_t i = 0; i < row->n_parts; present += row->parts[i++].n)
		posted_rows_copy(&receive->rows, present, row->parts[i].bytes, row->parts[i].n);
	receive_end_row(receive, frame, row->bytes, present, flags, event);
}

/*
 * Several packets that the kernel counted once: n in place of one. Those that cannot be cut out have no row, and are
 * drops.
 */
static void receive_count_merged(struct af_packet_receive *receive, uint32_t n, bool is_cut)
{
	struct backend_queue *base = &receive->queue.base;

	atomic_fetch_add_explicit(&base->n_split, n - 1, memory_order_relaxed);
	if (!is_cut)
		atomic_fetch_add_explicit(&base->n_dropped[BACKEND_DROP_MERGED], n, memory_order_relaxed);
}

/*
 * The sender's machine left a checksum to a card. If it is that of the outermost UDP or TCP header, the event says so,
 * and the program that copies the row computes it. The row does not say where the checksum of a packet in a tunnel is:
 * this function writes it to the frame, which is the daemon's until it is released. SCTP has a sum of another kind.
 */
static __attribute__((noinline, cold)) uint8_t receive_find_partial_checksum(const struct af_packet_receive *receive,
                                                                             const struct receive_frame *frame)
{
	const struct virtio_net_hdr lengths = receive_lengths(frame->header);
	const uint8_t *ip = frame->bytes + frame->before_ip;
	uint32_t from = lengths.csum_start, at = from + lengths.csum_offset;
	uint16_t checksum;

	if (!receive->has_lengths || !(lengths.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) ||
	    lengths.csum_offset == SCTP_CHECKSUM || frame->n_bytes < frame->header->tp_len ||
	    at + sizeof(checksum) > frame->n_bytes ||
	    from == frame->before_ip + (*ip >> 4 == 4 ? (*ip & 15u) * 4 : FRAME_IPV6_BYTES))
		return BACKEND_EVENT_CHECKSUM_PARTIAL;
	checksum = checksum_of_transport(checksum_sum_bytes(frame->bytes + from, frame->n_bytes - from));
	memcpy((uint8_t *)frame->bytes + at, &checksum, sizeof(checksum));
	return 0;
}

/* A frame that is longer than its slot, lacks its tag, its Ethernet header or its checksum. */
static __attribute__((noinline)) void
receive_take_unusual(struct af_packet_receive *receive, const struct tpacket2_hdr *header, struct backend_event *event)
{
	const struct receive_frame frame = receive_read_frame(receive, header);
	struct af_packet_row row;
	uint8_t flags = 0;

	if (header->tp_status & TP_STATUS_CSUMNOTREADY)
		flags = receive_find_partial_checksum(receive, &frame);
	receive_describe_frame(receive, &frame, &row);
	receive_fill_row(receive, &frame, &row, flags, event);
}

static inline void receive_take_frame(struct af_packet_receive *receive, const struct tpacket2_hdr *header,
                                      struct backend_event *event)
{
	const uint32_t unusual = TP_STATUS_COPY | TP_STATUS_VLAN_VALID | TP_STATUS_CSUMNOTREADY;

	if (__builtin_expect(receive->queue.backend->has_ethernet && !(header->tp_status & unusual), 1)) {
		const struct receive_frame frame = {.header = header,
		                                    .bytes = (const uint8_t *)header + header->tp_mac,
		                                    .n_bytes = header->tp_snaplen,
		                                    .before_ip = header->tp_net - header->tp_mac};

		posted_rows_copy(&receive->rows, 0, frame.bytes, frame.n_bytes);
		receive_end_row(receive, &frame, header->tp_len, frame.n_bytes, 0, event);
	} else {
		receive_take_unusual(receive, header, event);
	}
	af_packet_ring_release(&receive->ring);
}

static uint8_t receive_merged_protocol(const struct virtio_net_hdr *lengths)
{
	switch (lengths->gso_type & GSO_KIND) {
	case VIRTIO_NET_HDR_GSO_TCPV4:
	case VIRTIO_NET_HDR_GSO_TCPV6:
		return IPPROTO_TCP;
	default:
		return IPPROTO_UDP; /* VIRTIO_NET_HDR_GSO_UDP_L4, which older headers lack */
	}
}

/* The next packet of a frame in which the kernel has merged several. Returns the number of events: 0 or 1. */
static __attribute__((noinline, cold)) uint32_t
receive_take_merged(struct af_packet_receive *receive, const struct tpacket2_hdr *header, struct backend_event *event)
{
	const struct virtio_net_hdr lengths = receive_lengths(header);
	struct af_packet_merge merge = {.payload_bytes = lengths.gso_size,
	                                .protocol = receive_merged_protocol(&lengths)};
	const struct receive_frame frame = receive_read_frame(receive, header);
	struct af_packet_row row;
	uint32_t n;

	receive_describe_frame(receive, &frame, &row);
	if (lengths.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) /* a VLAN tag, or the Ethernet header, was added before it */
		merge.transport_at = lengths.csum_start + (row.bytes - header->tp_len);
	n = af_packet_row_cut(&row, &merge, receive->n_cut);
	if (receive->n_cut == 0)
		receive_count_merged(receive, n ? n : af_packet_row_count(&row, &merge), n > 0);
	if (n)
		receive_fill_row(receive, &frame, &row, 0, event);
	receive->n_cut = receive->n_cut + 1 < n ? receive->n_cut + 1 : 0;
	if (receive->n_cut == 0)
		af_packet_ring_release(&receive->ring);
	return n > 0;
}

int af_packet_poll(struct backend_queue *base, struct backend_event *events, uint32_t max)
{
	struct af_packet_receive *receive = af_packet_receive(base);
	uint32_t n = 0;

	while (n < max && receive->rows.n_posted > 0) {
		const struct tpacket2_hdr *header = af_packet_ring_next(&receive->ring);

		if (!header)
			break;
		if (__builtin_expect(receive_is_merged(receive, header), 0))
			n += receive_take_merged(receive, header, &events[n]);
		else
			receive_take_frame(receive, header, &events[n++]);
	}
	backend_use_take(&base->use, n);
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
