// SPDX-License-Identifier: Apache-2.0
/*
 * bench_tpacket INTERFACE BYTES [THREADS [CPU N_CPUS]]: what a bare program receives with a packet socket's ring
 * (TPACKET_V3) when it copies each UDP payload to a ring of hugepages that another process could map. Several threads:
 * a socket each, among which the kernel shares flows out (PACKET_FANOUT_HASH), as Suricata has it.
 */
#include "tests/bench/capture_peer.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#define BLOCK_BYTES  (1u << 20)
#define N_BLOCKS     64u
#define RETIRE_MS    1
#define FANOUT       (PACKET_FANOUT_HASH | PACKET_FANOUT_FLAG_DEFRAG)
#define HEADER_BYTES 42u /* Ethernet, IPv4, UDP */

struct tpacket_peer {
	int fd;
	uint8_t *blocks;
	unsigned n_blocks;
	struct peer_rows rows;
	uint32_t payload_bytes;
	uint64_t n_packets;
	uint64_t n_bytes;
};

/* They share the memory that one has alone. */
static void tpacket_open(struct tpacket_peer *peer, const char *interface, unsigned n_sharing)
{
	struct tpacket_req3 request = {
		.tp_block_size = BLOCK_BYTES,
		.tp_block_nr = N_BLOCKS / n_sharing,
		.tp_frame_size = BLOCK_BYTES,
		.tp_frame_nr = N_BLOCKS / n_sharing,
		.tp_retire_blk_tov = RETIRE_MS,
	};
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
	                         .sll_protocol = htons(ETH_P_ALL),
	                         .sll_ifindex = (int)if_nametoindex(interface)};
	int version = TPACKET_V3, on = 1, fanout = (getpid() & UINT16_MAX) | FANOUT << 16;

	peer->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (peer->fd < 0 || setsockopt(peer->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
	    setsockopt(peer->fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof(request)) ||
	    setsockopt(peer->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)))
		peer_die("packet socket");
	peer->n_blocks = request.tp_block_nr;
	peer->blocks =
		mmap(NULL, (size_t)BLOCK_BYTES * peer->n_blocks, PROT_READ | PROT_WRITE, MAP_SHARED, peer->fd, 0);
	if (peer->blocks == MAP_FAILED)
		peer_die("mmap");
	if (!at.sll_ifindex || bind(peer->fd, (struct sockaddr *)&at, sizeof(at)))
		peer_die(interface);
	if (n_sharing > 1 && setsockopt(peer->fd, SOL_PACKET, PACKET_FANOUT, &fanout, sizeof(fanout)))
		peer_die("PACKET_FANOUT");
}

static void tpacket_take_frame(struct tpacket_peer *peer, const struct tpacket3_hdr *frame)
{
	const uint8_t *bytes = (const uint8_t *)frame + frame->tp_mac;
	uint32_t n = frame->tp_snaplen - HEADER_BYTES;

	if (frame->tp_snaplen != HEADER_BYTES + peer->payload_bytes || bytes[23] != IPPROTO_UDP)
		return; /* another packet of this wire */
	memcpy(peer_rows_take(&peer->rows), bytes + HEADER_BYTES, n);
	peer->n_packets++;
	peer->n_bytes += n;
}

static void tpacket_take_block(struct tpacket_peer *peer, struct tpacket_block_desc *block)
{
	const uint8_t *at = (const uint8_t *)block + block->hdr.bh1.offset_to_first_pkt;

	for (uint32_t i = 0; i < block->hdr.bh1.num_pkts; i++) {
		const struct tpacket3_hdr *frame = (const struct tpacket3_hdr *)at;

		tpacket_take_frame(peer, frame);
		at += frame->tp_next_offset;
	}
	__atomic_store_n(&block->hdr.bh1.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
}

static void *tpacket_run(void *argument)
{
	struct tpacket_peer *peer = argument;
	struct pollfd ready = {.fd = peer->fd, .events = POLLIN};

	for (uint32_t k = 0;; k = (k + 1) % peer->n_blocks) {
		struct tpacket_block_desc *block =
			(struct tpacket_block_desc *)(peer->blocks + (size_t)k * BLOCK_BYTES);

		while (!(__atomic_load_n(&block->hdr.bh1.block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) {
			if (poll(&ready, 1, 100) <= 0 && peer_stopped())
				return NULL;
		}
		tpacket_take_block(peer, block);
	}
}

/* Packets that the kernel dropped since the ring was full; reading resets the count. */
static uint64_t tpacket_drops(const struct tpacket_peer *peer)
{
	struct tpacket_stats_v3 statistics;
	socklen_t bytes = sizeof(statistics);

	if (getsockopt(peer->fd, SOL_PACKET, PACKET_STATISTICS, &statistics, &bytes))
		peer_die("PACKET_STATISTICS");
	return statistics.tp_drops;
}

int main(int argc, char **argv)
{
	static struct tpacket_peer peers[PEER_THREADS_MAX];
	struct peer_threads threads;
	uint64_t n_packets = 0, n_bytes = 0, n_dropped = 0;

	if (argc < 3 || argc > 6) {
		fputs("usage: bench_tpacket INTERFACE BYTES [THREADS [CPU N_CPUS]]\n", stderr);
		return EX_USAGE;
	}
	threads = peer_threads_read(argc, argv, 3);
	for (unsigned i = 0; i < threads.n; i++) {
		peers[i].payload_bytes = (uint32_t)peer_number(argv[2], 1, UINT16_MAX);
		peer_rows_init(&peers[i].rows, peers[i].payload_bytes, threads.n);
		tpacket_open(&peers[i], argv[1], threads.n);
	}
	peer_ready();
	peer_threads_run(&threads, tpacket_run, peers, sizeof(peers[0]));
	for (unsigned i = 0; i < threads.n; i++) {
		n_packets += peers[i].n_packets;
		n_bytes += peers[i].n_bytes;
		n_dropped += tpacket_drops(&peers[i]);
	}
	printf("{\"ring_full\": %" PRIu64 "}\n", n_dropped);
	peer_report(n_packets, n_bytes);
	return 0;
}
