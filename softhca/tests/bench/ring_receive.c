// SPDX-License-Identifier: Apache-2.0
/*
 * ring_receive NETDEV BYTES SECONDS: counts the frames of BYTES or more that come in through a
 * plain AF_PACKET receive ring (packet(7), PACKET_RX_RING, TPACKET_V3: the fastest there is) for
 * SECONDS from the first one; says "ready" before and one JSON line in the end.
 */
#include "softhca/wire/clock_now.h"

#include <arpa/inet.h>
#include <err.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define BLOCK_BYTES (1u << 20)
#define BLOCKS      32u
#define FRAME_BYTES 2048u /* V3 only wants to hear that it divides the block */
#define RETIRE_MS   4u
#define GIVE_UP_MS  10000

static uint8_t *open_ring(int fd, const char *netdev)
{
	int version = TPACKET_V3, one = 1;
	struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	struct tpacket_req3 req = {
		.tp_block_size = BLOCK_BYTES,
		.tp_block_nr = BLOCKS,
		.tp_frame_size = FRAME_BYTES,
		.tp_frame_nr = BLOCKS * (BLOCK_BYTES / FRAME_BYTES),
		.tp_retire_blk_tov = RETIRE_MS,
	};
	uint8_t *ring;

	if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
	    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
	    setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &req, sizeof(req)))
		err(EXIT_FAILURE, "setsockopt");
	ring = mmap(NULL, BLOCKS * BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED)
		err(EXIT_FAILURE, "mmap");
	address.sll_ifindex = (int)if_nametoindex(netdev);
	if (bind(fd, (void *)&address, sizeof(address)))
		err(EXIT_FAILURE, "%s", netdev);
	return ring;
}

/* Touches every frame's header, as whoever wants the frames would. */
static uint64_t count(const struct tpacket_block_desc *block, uint32_t bytes)
{
	const uint8_t *p = (const uint8_t *)block + block->hdr.bh1.offset_to_first_pkt;
	uint64_t n = 0;

	for (uint32_t i = 0; i < block->hdr.bh1.num_pkts; i++) {
		const struct tpacket3_hdr *h = (const void *)p;

		n += h->tp_len >= bytes && p[h->tp_mac] != 0xff;
		p += h->tp_next_offset;
	}
	return n;
}

int main(int argc, char **argv)
{
	struct tpacket_stats_v3 stats;
	socklen_t stats_bytes = sizeof(stats);
	uint64_t start = 0, end = UINT64_MAX, last = 0, frames = 0;
	uint8_t *ring;
	int fd;

	if (argc != 4) {
		fprintf(stderr, "usage: see the source\n");
		return EXIT_FAILURE;
	}
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (fd < 0)
		err(EXIT_FAILURE, "socket");
	ring = open_ring(fd, argv[1]);
	puts("ready");
	fflush(stdout);
	for (uint32_t next = 0; clock_now_ns(CLOCK_MONOTONIC) < end;) {
		struct tpacket_block_desc *block = (void *)(ring + (size_t)next * BLOCK_BYTES);
		struct pollfd p = {.fd = fd, .events = POLLIN | POLLERR};
		uint64_t n;

		if (!(__atomic_load_n(&block->hdr.bh1.block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) {
			if (poll(&p, 1, start ? 100 : GIVE_UP_MS) == 0 && !start)
				break;
			continue;
		}
		n = count(block, (uint32_t)atoi(argv[2]));
		__atomic_store_n(&block->hdr.bh1.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
		next = (next + 1) % BLOCKS;
		if (n && !start) {
			start = clock_now_ns(CLOCK_MONOTONIC);
			end = start + (uint64_t)(atof(argv[3]) * 1e9);
			getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &stats_bytes);
			continue; /* what the clock did not cover is not counted */
		}
		frames += n;
		last = clock_now_ns(CLOCK_MONOTONIC);
	}
	getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &stats_bytes);
	printf("{\"frames\": %llu, \"seconds\": %.6f, \"dropped\": %u}\n", (unsigned long long)frames,
	       last > start ? (double)(last - start) / 1e9 : 0.0, stats.tp_drops);
	return EXIT_SUCCESS;
}
