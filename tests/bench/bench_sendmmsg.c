// SPDX-License-Identifier: Apache-2.0
/*
 * bench_sendmmsg ADDRESS PORT SOURCE_PORT BYTES PACKETS SEGMENTS [RATE]: an ordinary UDP socket's payloads of BYTES by
 * sendmmsg(2), RATE a second or as fast as they go; one JSON line in the end. SEGMENTS above 1: so many to a message,
 * which the kernel cuts (UDP_SEGMENT of udp(7)). Without them, no checksums. What a channel is measured against, and
 * what scripts/bench capture sends with.
 */
#include "daemon/base/time.h"
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

static uint8_t message[MESSAGE_BYTES_MAX];

static int open_socket(char **words, int bytes, bool cut)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
	                         .sin_port = htons((uint16_t)peer_number(words[1], 1, UINT16_MAX))};
	struct sockaddr_in from = {.sin_family = AF_INET,
	                           .sin_port = htons((uint16_t)peer_number(words[2], 1, UINT16_MAX))};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), buffer_bytes = 4 << 20, on = 1;

	if (inet_pton(AF_INET, words[0], &to.sin_addr) != 1) {
		fprintf(stderr, "bench_sendmmsg: %s: not an IPv4 address\n", words[0]);
		exit(EX_USAGE);
	}
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer_bytes, sizeof(buffer_bytes)))
		peer_die("socket");
	if (cut ? setsockopt(fd, SOL_UDP, UDP_SEGMENT, &bytes, sizeof(bytes))
	        : setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &on, sizeof(on)))
		peer_die("setsockopt");
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) || connect(fd, (struct sockaddr *)&to, sizeof(to)))
		peer_die("bind, connect");
	return fd;
}

/* How many packets they are, and of them no fewer than n_packets. */
static unsigned long send_all(int fd, struct iovec *vector, unsigned long segments, unsigned long n_packets,
                              const struct peer_pace *pace)
{
	struct mmsghdr messages[BATCH];
	unsigned long sent = 0;

	for (unsigned i = 0; i < BATCH; i++)
		messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = vector, .msg_iovlen = 1}};
	while (sent < n_packets) {
		int n = sendmmsg(fd, messages, BATCH, 0);

		if (n < 0 && errno != ENOBUFS && errno != ECONNREFUSED) /* an answer to an earlier packet */
			peer_die("sendmmsg");
		sent += n > 0 ? (unsigned long)n * segments : 0;
		peer_pace_wait(pace, sent);
	}
	return sent;
}

int main(int argc, char **argv)
{
	struct iovec vector = {.iov_base = message};
	unsigned long bytes, n_packets, segments, sent;
	struct peer_pace pace;
	int fd;

	if (argc != 7 && argc != 8) {
		fputs("usage: bench_sendmmsg ADDRESS PORT SOURCE_PORT BYTES PACKETS SEGMENTS [RATE]\n", stderr);
		return EX_USAGE;
	}
	bytes = peer_number(argv[4], 1, MESSAGE_BYTES_MAX);
	n_packets = peer_number(argv[5], 1, 1000000000);
	segments = peer_number(argv[6], 1, SEGMENTS_MAX);
	if (segments > MESSAGE_BYTES_MAX / bytes)
		segments = MESSAGE_BYTES_MAX / bytes;
	vector.iov_len = segments * bytes;
	fd = open_socket(&argv[1], (int)bytes, segments > 1);
	peer_pace_init(&pace, argc == 8 ? peer_number(argv[7], 0, 1000000000) : 0);
	sent = send_all(fd, &vector, segments, n_packets, &pace);
	printf("{\"sent\": %lu, \"seconds\": %.9f, \"segments\": %lu}\n", sent,
	       (double)(time_monotonic_ns() - pace.start_ns) * 1e-9, segments);
	return EXIT_SUCCESS;
}
