// SPDX-License-Identifier: Apache-2.0
/*
 * Takers for what others on a network send to all, and what most hosts have no use for. An EtherType that is not in the
 * table gets a taker after its first frame.
 *
 * A socket for all EtherTypes is not enough: the kernel forgets such a taker (pt_prev in __netif_receive_skb_core()) of
 * an interface with a tc program, as backend packet has one, and of a frame with a VLAN tag.
 */
#include "daemon/net/takers.h"

#include "lib/base/min.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#define N_OF_KERNEL 2         /* the first ones of the table */
#define QUEUE_BYTES (1 << 14) /* of frames of new EtherTypes, of each of which it has a byte */
#define LEARN_MAX   256       /* frames that one reading looks at */
#define FILTER_MAX  (1 + TAKERS_MAX + 2)

/* IEEE 802 "EtherType" of the IANA registry. */
static const uint16_t table[] = {
	ETH_P_IP,       ETH_P_ARP,     ETH_P_IPV6,            /* a kernel without IPv6 */
	ETH_P_802_3,                                          /* IPX */
	ETH_P_802_2,                                          /* STP, CDP, IS-IS */
	ETH_P_SNAP,     0x0842,                               /* Wake-on-LAN */
	ETH_P_TSN,                                            /* AVTP */
	ETH_P_LOOP,                                           /* 0x0060 */
	ETH_P_8021Q,                                          /* the second of two tags */
	ETH_P_8021AD,   ETH_P_MPLS_UC, ETH_P_MPLS_MC, 0x8863, /* PPPoE */
	0x886d,                                               /* Intel's teaming */
	0x8874,                                               /* loop detection of switches */
	0x887b,                                               /* HomePlug */
	0x888e,                                               /* 802.1X */
	0x8892,                                               /* PROFINET */
	0x8899,                                               /* RRCP and loop detection of switches */
	0x88a2,                                               /* ATA over Ethernet */
	0x88a4,                                               /* EtherCAT */
	0x88b8,                                               /* GOOSE */
	0x88ba,                                               /* IEC 61850 sampled values */
	0x88cc,                                               /* LLDP */
	0x88e1,                                               /* HomePlug AV */
	0x88e3,                                               /* MRP */
	0x88e5,                                               /* MACsec */
	0x88f5,                                               /* MVRP */
	0x88f6,                                               /* MMRP */
	0x88f7,                                               /* PTP */
	0x88fb,                                               /* PRP, HSR */
	0x8902,                                               /* CFM */
	0x8906,                                               /* FCoE */
	0x8912,                                               /* mediaxtream */
	0x8914,                                               /* FIP */
	0x8809,                                               /* LACP */
	0x893a,                                               /* IEEE 1905.1 */
	ETH_P_LOOPBACK,                                       /* 0x9000: keepalives of switches */
};
#define N_TABLE (sizeof(table) / sizeof(table[0]))
_Static_assert(N_TABLE < TAKERS_MAX, "others have room");

/* ---- filters --------------------------------------------------------------------------------------- */

static int attach(int fd, const struct sock_filter *filter, unsigned n)
{
	const struct sock_fprog program = {.len = (unsigned short)n, .filter = (struct sock_filter *)filter};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

static int refuse_all(int fd)
{
	const struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);

	return attach(fd, &none, 1);
}

/* A byte of each frame whose EtherType has no taker, while there is room for more takers. */
static int refuse_known(int fd, const struct takers *takers)
{
	struct sock_filter filter[FILTER_MAX];
	unsigned n = 0;

	if (takers->n == TAKERS_MAX)
		return refuse_all(fd);
	filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PROTOCOL));
	for (unsigned i = 0; i < takers->n; i++)
		filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, takers->types[i],
		                                           (uint8_t)(takers->n - i), 0);
	filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 1);
	filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
	return attach(fd, filter, n);
}

/* ---- sockets --------------------------------------------------------------------------------------- */

/* takers: whose EtherTypes are refused; NULL: refuse all. -1: cannot be opened. */
static int open_taker(unsigned index, uint16_t type, const struct takers *takers)
{
	const struct sockaddr_ll address = {
		.sll_family = AF_PACKET, .sll_protocol = htons(type), .sll_ifindex = (int)index};
	const int queue = QUEUE_BYTES, on = 1;
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &queue, sizeof(queue));
	setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on));
	if ((takers ? refuse_known(fd, takers) : refuse_all(fd)) < 0 ||
	    bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static void takers_add(struct takers *takers, unsigned index, uint16_t type)
{
	takers->types[takers->n] = type;
	takers->fds[takers->n] = takers->n < N_OF_KERNEL ? -1 : open_taker(index, type, NULL);
	takers->n++;
}

void takers_open(struct takers *takers, unsigned index)
{
	*takers = (struct takers){.other = -1};
	for (size_t i = 0; i < N_TABLE && index; i++)
		takers_add(takers, index, table[i]);
	if (index)
		takers->other = open_taker(index, ETH_P_ALL, takers);
}

void takers_close(struct takers *takers)
{
	for (unsigned i = 0; i < takers->n; i++)
		if (takers->fds[i] >= 0)
			close(takers->fds[i]);
	if (takers->other >= 0)
		close(takers->other);
}

static bool takers_have(const struct takers *takers, uint16_t type)
{
	for (unsigned i = 0; i < takers->n; i++)
		if (takers->types[i] == type)
			return true;
	return false;
}

void takers_learn(struct takers *takers, unsigned index)
{
	unsigned n_before = takers->n;
	struct sockaddr_ll from;
	socklen_t length = sizeof(from);
	char byte;

	/* A flood comes as fast as this reads. */
	for (unsigned i = 0; i < LEARN_MAX && takers->other >= 0 && takers->n < TAKERS_MAX &&
	                     recvfrom(takers->other, &byte, 1, 0, (struct sockaddr *)&from, &length) >= 0;
	     i++) {
		if (!takers_have(takers, ntohs(from.sll_protocol)))
			takers_add(takers, index, ntohs(from.sll_protocol));
		length = sizeof(from);
	}
	if (takers->n > n_before)
		refuse_known(takers->other, takers);
}
