// SPDX-License-Identifier: Apache-2.0
/*
 * Sends UDP datagrams in fragments, with fragments of attackers between them, as fast as the kernel takes frames.
 * Prints how many frames that were.
 */
#include "tests/support/datagram_pieces.h"

#include <linux/if_packet.h>
#include <net/if.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>

#define BATCH         64u
#define PIECE_BYTES   1480u
#define ATTACK_BYTES  64u
#define ATTACKER      0x00004e0a /* 10.78.0.0, in network order */
#define LONELY_SOURCE 0x02004d0a /* 10.77.0.2, likewise */
#define HONEST_SOURCE 0x03004d0a

struct flood {
	int socket;
	uint8_t mac[6];
	uint32_t address; /* in network order */
	uint16_t port;
	uint32_t size;      /* of a payload */
	uint32_t n_attacks; /* for each datagram */
	uint16_t next_id;
	uint64_t random;
	uint64_t n_frames;
	uint32_t n_waiting;
	uint8_t frames[BATCH][PIECE_FRAME_BYTES_MAX];
	struct iovec parts[BATCH];
	struct mmsghdr messages[BATCH];
};

static uint32_t flood_random(struct flood *flood)
{
	flood->random = flood->random * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(flood->random >> 33);
}

static void flood_flush(struct flood *flood)
{
	for (uint32_t sent = 0; sent < flood->n_waiting;) {
		int n = sendmmsg(flood->socket, flood->messages + sent, flood->n_waiting - sent, 0);

		if (n < 0) {
			perror("fragment_flood: sendmmsg");
			exit(EX_OSERR);
		}
		sent += (uint32_t)n;
	}
	flood->n_frames += flood->n_waiting;
	flood->n_waiting = 0;
}

static void flood_send(struct flood *flood, const struct piece_of_datagram *piece)
{
	uint32_t i = flood->n_waiting++;
	uint8_t *frame = flood->frames[i];

	flood->parts[i].iov_len = piece_write_frame(piece, frame);
	memcpy(frame, flood->mac, sizeof(flood->mac));
	memcpy(frame + ETHER_HDR_LEN + 16, &flood->address, 4);
	if (flood->n_waiting == BATCH)
		flood_flush(flood);
}

/* A half from one source, the others from many. A quarter begin datagrams. */
static void flood_attack(struct flood *flood)
{
	uint32_t random = flood_random(flood);
	struct piece_of_datagram piece = {
		.source = random & 1 ? LONELY_SOURCE : ATTACKER | (flood_random(flood) << 16),
		.id = (uint16_t)flood_random(flood),
		.port = flood->port,
		.offset = (random >> 1) % 4 ? 8 * (1 + (random >> 12) % 7000) : 0,
		.n_bytes = ATTACK_BYTES,
		.total = 12000,
		.more_fragments = true,
	};

	flood_send(flood, &piece);
}

static void flood_datagram(struct flood *flood)
{
	uint32_t total = flood->size + FRAME_UDP_BYTES, n = (total + PIECE_BYTES - 1) / PIECE_BYTES;
	struct piece_of_datagram piece = {
		.source = HONEST_SOURCE, .id = flood->next_id++, .port = flood->port, .total = total};

	for (uint32_t i = 0; i < n; i++) {
		piece.offset = i * PIECE_BYTES;
		piece.more_fragments = i + 1 < n;
		piece.n_bytes = piece.more_fragments ? PIECE_BYTES : total - piece.offset;
		for (uint32_t k = 0; k < flood->n_attacks / n; k++)
			flood_attack(flood);
		flood_send(flood, &piece);
	}
}

static int flood_open(struct flood *flood, char **words)
{
	struct sockaddr_ll here = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(words[1])};

	flood->socket = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	flood->port = (uint16_t)atoi(words[4]);
	flood->size = (uint32_t)atoi(words[5]);
	flood->n_attacks = (uint32_t)atoi(words[7]);
	for (uint32_t i = 0; i < BATCH; i++) {
		flood->parts[i].iov_base = flood->frames[i];
		flood->messages[i].msg_hdr = (struct msghdr){.msg_iov = &flood->parts[i], .msg_iovlen = 1};
	}
	if (flood->socket < 0 || bind(flood->socket, (struct sockaddr *)&here, sizeof(here)) < 0) {
		perror("fragment_flood");
		return EX_OSERR;
	}
	return sscanf(words[2], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &flood->mac[0], &flood->mac[1], &flood->mac[2],
	              &flood->mac[3], &flood->mac[4], &flood->mac[5]) == 6 &&
	                       inet_pton(AF_INET, words[3], &flood->address) == 1
	               ? EX_OK
	               : EX_USAGE;
}

int main(int argc, char **argv)
{
	static struct flood flood = {.random = 1};
	int r;

	if (argc != 8) {
		fputs("usage: fragment_flood INTERFACE MAC ADDRESS PORT PAYLOAD_BYTES DATAGRAMS ATTACKS_PER_DATAGRAM\n",
		      stderr);
		return EX_USAGE;
	}
	r = flood_open(&flood, argv);
	if (r != EX_OK)
		return r;
	for (int n = atoi(argv[6]); n > 0; n--)
		flood_datagram(&flood);
	flood_flush(&flood);
	printf("%llu\n", (unsigned long long)flood.n_frames);
	return EX_OK;
}
