// SPDX-License-Identifier: Apache-2.0
/*
 * bench_sendmmsg [-f] ADDRESS PORT SOURCE_PORT BYTES PACKETS SEGMENTS [RATE [PORTS [SOURCES]]]: an ordinary UDP
 * socket's payloads of BYTES by sendmmsg(2), RATE a second or as fast as they go (0), to PORTS ports from PORT on in
 * turn, from SOURCES sockets with ports from SOURCE_PORT on, a call each in turn; one JSON line in the end. SEGMENTS
 * above 1: so many to a message, which the kernel cuts (UDP_SEGMENT of udp(7)). Without them, no checksums. -f: each
 * payload is fresh, a copy out of a table, as a program has that sends what it has just got; else all are the same one.
 * What a channel is measured against, and what scripts/bench capture, scale and cores send with.
 */
#include "lib/base/time.h"
#include "tests/bench/capture_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>

#define BATCH             64u
#define MESSAGE_BYTES_MAX 65507u
#define SEGMENTS_MAX      64u
#define PORTS_MAX         1024u
#define SOURCES_MAX       64u
#define TABLE_PAYLOADS    1000u

static uint8_t messages_bytes[BATCH][MESSAGE_BYTES_MAX];

static int open_socket(char **words, uint16_t source, int bytes, bool cut, struct sockaddr_in *to, unsigned long ports)
{
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_port = htons(source)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), buffer_bytes = 4 << 20, on = 1;

	*to = (struct sockaddr_in){.sin_family = AF_INET,
	                           .sin_port = htons((uint16_t)peer_number(words[1], 1, UINT16_MAX))};
	if (inet_pton(AF_INET, words[0], &to->sin_addr) != 1) {
		fprintf(stderr, "bench_sendmmsg: %s: not an IPv4 address\n", words[0]);
		exit(EX_USAGE);
	}
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer_bytes, sizeof(buffer_bytes)))
		peer_die("socket");
	if (cut ? setsockopt(fd, SOL_UDP, UDP_SEGMENT, &bytes, sizeof(bytes))
	        : setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &on, sizeof(on)))
		peer_die("setsockopt");
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) ||
	    (ports == 1 && connect(fd, (struct sockaddr *)to, sizeof(*to))))
		peer_die("bind, connect");
	return fd;
}

/* What is sent: to one port the sockets are connected, to several each message has its own. */
struct sending {
	int fds[SOURCES_MAX];
	unsigned long n_sources;
	struct iovec vectors[BATCH];
	unsigned long segments;
	unsigned long bytes;
	uint8_t *table; /* NULL: all messages are the first one */
	struct sockaddr_in to[PORTS_MAX];
	unsigned long n_ports;
};

static void address_messages(struct sending *sending, struct mmsghdr messages[BATCH], unsigned long first)
{
	for (unsigned i = 0; i < BATCH && sending->n_ports > 1; i++) {
		messages[i].msg_hdr.msg_name = &sending->to[(first + i) % sending->n_ports];
		messages[i].msg_hdr.msg_namelen = sizeof(sending->to[0]);
	}
}

static void make_payloads(struct sending *sending, unsigned long first)
{
	for (unsigned long i = 0; i < BATCH * sending->segments; i++)
		memcpy(messages_bytes[i / sending->segments] + i % sending->segments * sending->bytes,
		       sending->table + (first + i) % TABLE_PAYLOADS * sending->bytes, sending->bytes);
}

/* How many packets they are, and of them no fewer than n_packets. */
static unsigned long send_all(struct sending *sending, unsigned long n_packets, const struct peer_pace *pace)
{
	struct mmsghdr messages[BATCH];
	unsigned long sent = 0;

	for (unsigned i = 0; i < BATCH; i++)
		messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &sending->vectors[i], .msg_iovlen = 1}};
	for (unsigned long call = 0; sent < n_packets; call++) {
		int n;

		address_messages(sending, messages, sent / sending->segments);
		if (sending->table)
			make_payloads(sending, sent);
		n = sendmmsg(sending->fds[call % sending->n_sources], messages, BATCH, 0);
		if (n < 0 && errno != ENOBUFS && errno != ECONNREFUSED) /* an answer to an earlier packet */
			peer_die("sendmmsg");
		sent += n > 0 ? (unsigned long)n * sending->segments : 0;
		peer_pace_wait(pace, sent);
	}
	return sent;
}

int main(int argc, char **argv)
{
	static struct sending sending = {.n_ports = 1, .n_sources = 1};
	bool is_fresh = argc > 1 && strcmp(argv[1], "-f") == 0;
	unsigned long n_packets, sent, source;
	struct peer_pace pace;

	argc -= is_fresh;
	argv += is_fresh;
	if (argc < 7 || argc > 10) {
		fputs("usage: bench_sendmmsg [-f] ADDRESS PORT SOURCE_PORT BYTES PACKETS SEGMENTS "
		      "[RATE [PORTS [SOURCES]]]\n",
		      stderr);
		return EX_USAGE;
	}
	sending.bytes = peer_number(argv[4], 1, MESSAGE_BYTES_MAX);
	n_packets = peer_number(argv[5], 1, 1000000000);
	sending.segments = peer_number(argv[6], 1, SEGMENTS_MAX);
	if (sending.segments > MESSAGE_BYTES_MAX / sending.bytes)
		sending.segments = MESSAGE_BYTES_MAX / sending.bytes;
	for (unsigned i = 0; i < BATCH; i++)
		sending.vectors[i] = (struct iovec){messages_bytes[is_fresh ? i : 0], sending.segments * sending.bytes};
	if (is_fresh && !(sending.table = calloc(TABLE_PAYLOADS, sending.bytes)))
		peer_die("memory");
	if (argc >= 9)
		sending.n_ports = peer_number(argv[8], 1, PORTS_MAX);
	if (argc == 10)
		sending.n_sources = peer_number(argv[9], 1, SOURCES_MAX);
	source = peer_number(argv[3], 1, UINT16_MAX - SOURCES_MAX);
	for (unsigned long i = 0; i < sending.n_sources; i++)
		sending.fds[i] = open_socket(&argv[1], (uint16_t)(source + i), (int)sending.bytes, sending.segments > 1,
		                             &sending.to[0], sending.n_ports);
	for (unsigned long i = 1; i < sending.n_ports; i++) {
		sending.to[i] = sending.to[0];
		sending.to[i].sin_port = htons((uint16_t)(ntohs(sending.to[0].sin_port) + i));
	}
	peer_pace_init(&pace, argc >= 8 ? peer_number(argv[7], 0, 1000000000) : 0);
	sent = send_all(&sending, n_packets, &pace);
	printf("{\"sent\": %lu, \"seconds\": %.9f, \"segments\": %lu}\n", sent,
	       (double)(time_monotonic_ns() - pace.start_ns) * 1e-9, sending.segments);
	return EXIT_SUCCESS;
}
