// SPDX-License-Identifier: Apache-2.0
/* Sends and receives management datagrams by a packet socket. */
#include "cm_wire.h"

#include "../roce/neighbor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OUR_FDS_FROM 200
#define GSI_QPN      1
#define GSI_QKEY     0x80010000u /* IBTA 10.2.5: of queue pair 1 */
#define GSI_SPORT    0xf000u     /* one flow for all (annex A17.9.1: any port may be the source) */

/* Offsets behind the IP header: UDP's destination port, the opcode, the queue pair. */
enum { UDP_DPORT = 2, BTH_OPCODE = 8, BTH_QPN = 12 };

/* RoCE v2 over IPv4 without fragments, or IPv6 without extension headers: a UD SEND to queue pair 1. */
static const struct sock_filter wire_filter[] = {
	BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 6, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 15),
	BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 20),
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x3fff, 13, 0),
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),
	BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
	BPF_JUMP(BPF_JMP | BPF_JA, 2, 0, 0),
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 20), /* IPv6 */
	BPF_STMT(BPF_LDX | BPF_W | BPF_IMM, 40),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 7),
	BPF_STMT(BPF_LD | BPF_H | BPF_IND, 14 + UDP_DPORT),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_UDP_PORT, 0, 5),
	BPF_STMT(BPF_LD | BPF_B | BPF_IND, 14 + BTH_OPCODE),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, UD_SEND_ONLY, 0, 3),
	BPF_STMT(BPF_LD | BPF_W | BPF_IND, 14 + BTH_QPN),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, GSI_QPN, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, ROCE_FRAME_BYTES),
	BPF_STMT(BPF_RET | BPF_K, 0),
};

int cm_wire_open(const char *netdev)
{
	const struct sock_fprog program = {.len = sizeof(wire_filter) / sizeof(wire_filter[0]),
	                                   .filter = (struct sock_filter *)wire_filter};
	struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	/* Without a protocol it receives nothing until it is bound, and by then it has its filter. */
	int low = (int)syscall(SYS_socket, AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), fd, r;

	if (low < 0)
		return -errno;
	fd = fcntl(low, F_DUPFD_CLOEXEC, OUR_FDS_FROM);
	syscall(SYS_close, low);
	if (fd < 0)
		return -errno;
	address.sll_ifindex = (int)if_nametoindex(netdev);
	r = !address.sll_ifindex ? -ENODEV : 0;
	if (!r && (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ||
	           bind(fd, (const struct sockaddr *)&address, sizeof(address))))
		r = -errno;
	if (!r)
		return fd;
	syscall(SYS_close, fd);
	return r;
}

bool cm_wire_read(struct cm_datagram *d, const uint8_t *frame, size_t bytes)
{
	struct roce_packet p;

	if (roce_packet_read(&p, frame, (uint32_t)bytes) != ROCE_IS_GOOD || p.opcode != UD_SEND_ONLY ||
	    p.dest_qpn != GSI_QPN || p.qkey != GSI_QKEY || !cm_message_read(&d->message, p.payload, p.bytes))
		return false;
	d->answer = (struct roce_path){.version = p.version, .udp_sport = GSI_SPORT};
	memcpy(d->answer.dmac, frame + ETH_ALEN, ETH_ALEN);
	memcpy(d->answer.sgid, p.dgid, 16);
	memcpy(d->answer.dgid, p.sgid, 16);
	return true;
}

int cm_wire_receive(int fd, const char *netdev, struct cm_datagram *d)
{
	uint8_t frame[ROCE_FRAME_BYTES], own[ETH_ALEN];
	struct sockaddr_ll from = {};
	socklen_t from_bytes = sizeof(from);
	ssize_t n = recvfrom(fd, frame, sizeof(frame), MSG_DONTWAIT, (struct sockaddr *)&from, &from_bytes);

	if (n < 0)
		return 0;
	/* What another process of this host sends from the same netdev is outgoing. */
	if (from.sll_pkttype != PACKET_HOST &&
	    (from.sll_pkttype != PACKET_OUTGOING || neighbor_own_mac(netdev, own) || memcmp(frame, own, ETH_ALEN)))
		return -1;
	return cm_wire_read(d, frame, (size_t)n) ? 1 : -1;
}

size_t cm_wire_frame(uint8_t frame[ROCE_FRAME_BYTES], const struct cm_message *m, const struct roce_path *path,
                     const uint8_t smac[6])
{
	const struct roce_packet p = {
		.opcode = UD_SEND_ONLY,
		.dest_qpn = GSI_QPN,
		.qkey = GSI_QKEY,
		.src_qpn = GSI_QPN,
		.bytes = CM_MAD_BYTES,
	};
	struct roce_path way = *path;

	way.udp_sport = GSI_SPORT;
	cm_message_write(m, roce_packet_begin(frame, &p, &way, smac));
	return roce_packet_end(frame, &p, &way);
}
