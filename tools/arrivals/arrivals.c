// SPDX-License-Identifier: Apache-2.0
/*
 * Reads a packet socket for a short time and counts packets by destination. A filter in the kernel lets only UDP to
 * this machine pass and cuts it behind its headers, so the look costs the machine little. Packets that come faster than
 * it reads are dropped at the socket, and counted.
 */
#include "tools/arrivals/arrivals.h"

#include "lib/base/time.h"
#include "lib/frame/frame.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SNAP_BYTES 256 /* tags, IPv6 with extension headers, UDP */
#define VLAN_ID    0x0fff

/* ---- counting ------------------------------------------------------------------------------------ */

static void read_address(const struct frame *frame, const uint8_t *packet, bool is_source, struct arrival_address *at)
{
	const bool is_ipv6 = frame->ip_version == 6;
	const size_t bytes = is_ipv6 ? 16 : 4, first = is_ipv6 ? 8 : 12;

	*at = (struct arrival_address){.family = is_ipv6 ? AF_INET6 : AF_INET,
	                               .port = frame_be16(packet + frame->l4_at + (is_source ? 0 : 2))};
	memcpy(&at->ip, packet + frame->l3_at + first + (is_source ? 0 : bytes), bytes);
}

static bool is_same_address(const struct arrival_address *one, const struct arrival_address *other)
{
	return one->family == other->family && one->port == other->port &&
	       memcmp(&one->ip, &other->ip, sizeof(one->ip)) == 0;
}

/* If the array is full, a new destination takes the place of the one with the fewest datagrams. */
static struct arrival *find_place(struct arrivals *arrivals, const struct arrival *key)
{
	struct arrival *rarest = arrivals->at;

	for (unsigned i = 0; i < arrivals->n; i++) {
		struct arrival *at = &arrivals->at[i];

		if (at->interface == key->interface && at->vlan == key->vlan &&
		    is_same_address(&at->destination, &key->destination))
			return at;
		if (at->n_datagrams < rarest->n_datagrams)
			rarest = at;
	}
	if (arrivals->n < ARRIVALS_MAX)
		rarest = &arrivals->at[arrivals->n++];
	else
		arrivals->n_forgotten += rarest->n_datagrams;
	*rarest = *key;
	rarest->bytes_min = UINT32_MAX;
	return rarest;
}

static void note_source(struct arrival *arrival, const struct arrival_address *source)
{
	for (unsigned i = 0; i < arrival->n_sources; i++)
		if (is_same_address(&arrival->sources[i], source))
			return;
	if (arrival->n_sources < ARRIVAL_SOURCES_MAX)
		arrival->sources[arrival->n_sources++] = *source;
	else
		arrival->has_more_sources = true;
}

void arrivals_add(struct arrivals *arrivals, const struct arrival *where, uint16_t ether_type, const uint8_t *packet,
                  uint32_t captured, uint32_t wire_bytes)
{
	struct arrival key = *where, *arrival;
	struct arrival_address source;
	struct frame frame;

	frame_walk_from(packet, captured, wire_bytes, 0, ether_type, &frame);
	if (frame.end != FRAME_UDP || frame_is_malformed(&frame, wire_bytes))
		return;
	read_address(&frame, packet, false, &key.destination);
	read_address(&frame, packet, true, &source);
	arrival = find_place(arrivals, &key);
	arrival->is_fragmented |= frame_is_fragment(&frame);
	arrival->n_datagrams++;
	arrivals->n_datagrams++;
	if (frame.datagram_bytes < arrival->bytes_min)
		arrival->bytes_min = frame.datagram_bytes;
	if (frame.datagram_bytes > arrival->bytes_max)
		arrival->bytes_max = frame.datagram_bytes;
	note_source(arrival, &source);
}

/* ---- the socket ---------------------------------------------------------------------------------- */

/* The packet begins with the IP header, or with what follows the outer tag, which the kernel takes off. */
static const struct sock_filter first_fragments_of_udp[] = {
	{BPF_LD | BPF_B | BPF_ABS, 0, 0, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)},
	{BPF_JMP | BPF_JEQ | BPF_K, 15, 0, PACKET_OTHERHOST},
	{BPF_LD | BPF_H | BPF_ABS, 0, 0, (uint32_t)(SKF_AD_OFF + SKF_AD_PROTOCOL)},
	{BPF_JMP | BPF_JEQ | BPF_K, 4, 0, ETHERTYPE_IP},
	{BPF_JMP | BPF_JEQ | BPF_K, 7, 0, ETHERTYPE_IPV6},
	{BPF_JMP | BPF_JEQ | BPF_K, 12, 0, ETHERTYPE_VLAN},
	{BPF_JMP | BPF_JEQ | BPF_K, 11, 0, 0x88a8},
	{BPF_RET | BPF_K, 0, 0, 0},
	/* IPv4: the protocol, and no later fragment */
	{BPF_LD | BPF_B | BPF_ABS, 0, 0, 9},
	{BPF_JMP | BPF_JEQ | BPF_K, 0, 7, IPPROTO_UDP},
	{BPF_LD | BPF_H | BPF_ABS, 0, 0, 6},
	{BPF_JMP | BPF_JSET | BPF_K, 5, 6, 0x1fff},
	/* IPv6: UDP, or an extension header */
	{BPF_LD | BPF_B | BPF_ABS, 0, 0, 6},
	{BPF_JMP | BPF_JEQ | BPF_K, 4, 0, IPPROTO_UDP},
	{BPF_JMP | BPF_JEQ | BPF_K, 3, 0, IPPROTO_HOPOPTS},
	{BPF_JMP | BPF_JEQ | BPF_K, 2, 0, IPPROTO_FRAGMENT},
	{BPF_JMP | BPF_JEQ | BPF_K, 1, 0, IPPROTO_DSTOPTS},
	{BPF_RET | BPF_K, 0, 0, 0},
	{BPF_RET | BPF_K, 0, 0, SNAP_BYTES},
};

/* For all interfaces. Without a protocol the socket gets nothing until it has its filter. */
static int open_socket(void)
{
	const struct sock_fprog filter = {sizeof(first_fragments_of_udp) / sizeof(first_fragments_of_udp[0]),
	                                  (struct sock_filter *)first_fragments_of_udp};
	const struct sockaddr_ll all = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1, r;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) == 0 &&
	    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) == 0 &&
	    setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on)) == 0 &&
	    bind(fd, (const struct sockaddr *)&all, sizeof(all)) == 0)
		return fd;
	r = -errno;
	close(fd);
	return r;
}

static void add_message(const struct msghdr *message, uint32_t captured, struct arrivals *arrivals)
{
	const struct sockaddr_ll *from = message->msg_name;
	struct arrival where = {
		.interface = (unsigned)from->sll_ifindex,
		.vlan = -1,
		.is_broadcast = from->sll_pkttype == PACKET_BROADCAST,
		.is_multicast = from->sll_pkttype == PACKET_MULTICAST,
	};
	const struct cmsghdr *control = CMSG_FIRSTHDR(message);
	struct tpacket_auxdata about;

	if (!control || control->cmsg_type != PACKET_AUXDATA)
		return;
	memcpy(&about, CMSG_DATA(control), sizeof(about));
	if (about.tp_status & TP_STATUS_VLAN_VALID && about.tp_vlan_tci & VLAN_ID)
		where.vlan = about.tp_vlan_tci & VLAN_ID;
	arrivals_add(arrivals, &where, ntohs(from->sll_protocol), message->msg_iov->iov_base, captured, about.tp_len);
}

/* 0: no packet is there; or -errno, such as -ENETDOWN once for an interface that went. */
static int read_packet(int fd, struct arrivals *arrivals)
{
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
	uint8_t packet[SNAP_BYTES];
	struct sockaddr_ll from;
	struct iovec to = {packet, sizeof(packet)};
	struct msghdr message = {&from, sizeof(from), &to, 1, control, sizeof(control), 0};
	ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	add_message(&message, (uint32_t)n, arrivals);
	return 1;
}

int arrivals_look(uint64_t ns, struct arrivals *arrivals)
{
	const uint64_t start = time_monotonic_ns();
	struct pollfd socket = {.fd = open_socket(), .events = POLLIN};
	struct tpacket_stats stats;
	socklen_t bytes = sizeof(stats);

	*arrivals = (struct arrivals){0};
	if (socket.fd < 0)
		return socket.fd;
	while (arrivals->ns < ns) {
		if (read_packet(socket.fd, arrivals) == 0)
			poll(&socket, 1, (int)((ns - arrivals->ns) / 1000000) + 1);
		arrivals->ns = time_monotonic_ns() - start;
	}
	if (getsockopt(socket.fd, SOL_PACKET, PACKET_STATISTICS, &stats, &bytes) == 0)
		arrivals->n_unread = stats.tp_drops;
	close(socket.fd);
	return 0;
}
