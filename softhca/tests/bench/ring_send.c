// SPDX-License-Identifier: Apache-2.0
/*
 * ring_send NETDEV BYTES SECONDS DST_MAC [SRC_IP DST_IP DST_PORT]: frames of BYTES from a plain
 * AF_PACKET transmit ring (packet(7), PACKET_TX_RING), as fast as they go; one JSON line in the
 * end. What softhca is measured against.
 */
#include "softhca/wire/clock_now.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define BLOCK_BYTES (1u << 20)
#define BLOCKS      4u
#define BATCH       64u
#define DATA_OFFSET TPACKET_ALIGN(sizeof(struct tpacket2_hdr))

struct sender {
	int fd;
	uint8_t *ring;
	uint32_t slot_bytes, slots_per_block, n_slots, next;
	uint8_t frame[65536];
	uint32_t frame_bytes;
};

static uint16_t ip_sum(const void *header)
{
	const uint16_t *words = header;
	uint32_t sum = 0;

	for (size_t i = 0; i < sizeof(struct iphdr) / 2; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~(sum + (sum >> 16));
}

static void build_frame(struct sender *s, char **words)
{
	struct ether_header *eth = (void *)s->frame;
	struct iphdr ip = {.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_UDP};
	struct udphdr udp = {.source = htons(1000)};
	unsigned int mac[6];

	if (sscanf(words[0], "%x:%x:%x:%x:%x:%x", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4], &mac[5]) != 6)
		err(EXIT_FAILURE, "DST_MAC");
	for (int i = 0; i < 6; i++)
		eth->ether_dhost[i] = (uint8_t)mac[i];
	eth->ether_shost[0] = 2;
	eth->ether_type = htons(0x88b5); /* for experiments */
	if (!words[1])
		return;
	eth->ether_type = htons(ETHERTYPE_IP);
	ip.tot_len = htons((uint16_t)(s->frame_bytes - sizeof(*eth)));
	udp.len = htons((uint16_t)(s->frame_bytes - sizeof(*eth) - sizeof(ip)));
	udp.dest = htons((uint16_t)atoi(words[3]));
	if (inet_pton(AF_INET, words[1], &ip.saddr) != 1 || inet_pton(AF_INET, words[2], &ip.daddr) != 1)
		err(EXIT_FAILURE, "address");
	ip.check = ip_sum(&ip);
	memcpy(eth + 1, &ip, sizeof(ip));
	memcpy((uint8_t *)(eth + 1) + sizeof(ip), &udp, sizeof(udp));
}

static void open_ring(struct sender *s, const char *netdev)
{
	int version = TPACKET_V2, one = 1;
	struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = 0};
	struct tpacket_req req = {.tp_block_size = BLOCK_BYTES, .tp_block_nr = BLOCKS};

	s->slot_bytes = (uint32_t)(DATA_OFFSET + s->frame_bytes + 127) & ~127u;
	s->slots_per_block = BLOCK_BYTES / s->slot_bytes;
	s->n_slots = BLOCKS * s->slots_per_block;
	req.tp_frame_size = s->slot_bytes;
	req.tp_frame_nr = s->n_slots;
	s->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (s->fd < 0)
		err(EXIT_FAILURE, "socket");
	if (setsockopt(s->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
	    setsockopt(s->fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one)) ||
	    setsockopt(s->fd, SOL_PACKET, PACKET_TX_RING, &req, sizeof(req)))
		err(EXIT_FAILURE, "setsockopt");
	s->ring = mmap(NULL, BLOCKS * BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	if (s->ring == MAP_FAILED)
		err(EXIT_FAILURE, "mmap");
	address.sll_ifindex = (int)if_nametoindex(netdev);
	if (bind(s->fd, (void *)&address, sizeof(address)))
		err(EXIT_FAILURE, "%s", netdev);
}

static struct tpacket2_hdr *slot(const struct sender *s, uint32_t i)
{
	return (void *)(s->ring + (size_t)(i / s->slots_per_block) * BLOCK_BYTES +
	                (size_t)(i % s->slots_per_block) * s->slot_bytes);
}

/* One batch; how many frames the ring had room for. */
static uint32_t send_batch(struct sender *s)
{
	uint32_t n = 0;

	for (; n < BATCH; n++) {
		struct tpacket2_hdr *h = slot(s, s->next);

		if (__atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) != TP_STATUS_AVAILABLE)
			break;
		memcpy((uint8_t *)h + DATA_OFFSET, s->frame, s->frame_bytes);
		h->tp_len = s->frame_bytes;
		__atomic_store_n(&h->tp_status, TP_STATUS_SEND_REQUEST, __ATOMIC_RELEASE);
		s->next = s->next + 1 == s->n_slots ? 0 : s->next + 1;
	}
	if (sendto(s->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno != EAGAIN && errno != ENOBUFS)
		err(EXIT_FAILURE, "send");
	return n;
}

int main(int argc, char **argv)
{
	static struct sender s;
	uint64_t start, end, sent = 0;

	if (argc != 5 && argc != 8) {
		fprintf(stderr, "usage: see the source\n");
		return EXIT_FAILURE;
	}
	s.frame_bytes = (uint32_t)atoi(argv[2]);
	if (s.frame_bytes < 42 || s.frame_bytes > sizeof(s.frame)) {
		errno = EINVAL;
		err(EXIT_FAILURE, "BYTES");
	}
	build_frame(&s, argv + 4);
	open_ring(&s, argv[1]);
	start = clock_now_ns(CLOCK_MONOTONIC);
	end = start + (uint64_t)(atof(argv[3]) * 1e9);
	while (clock_now_ns(CLOCK_MONOTONIC) < end)
		sent += send_batch(&s);
	printf("{\"frames\": %llu, \"seconds\": %.3f}\n", (unsigned long long)sent,
	       (double)(clock_now_ns(CLOCK_MONOTONIC) - start) / 1e9);
	return EXIT_SUCCESS;
}
