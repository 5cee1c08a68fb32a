// SPDX-License-Identifier: Apache-2.0
/*
 * bench_sendmmsg ADDRESS PORT SOURCE_PORT BYTES PACKETS SEGMENTS: an ordinary UDP socket's payloads of BYTES by
 * sendmmsg(2), as fast as they go; one JSON line in the end. SEGMENTS above 1: so many to a message, which the kernel
 * cuts (UDP_SEGMENT of udp(7)). Without them, no checksums. What a channel is measured against.
 */
#include "daemon/base/time.h"

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

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "bench_sendmmsg: %s: %s\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

static unsigned long number(const char *text, unsigned long low, unsigned long high)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || value < low || value > high) {
		fprintf(stderr, "bench_sendmmsg: %s: not a number from %lu to %lu\n", text, low, high);
		exit(EX_USAGE);
	}
	return value;
}

static int open_socket(char **words, int bytes, bool cut)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)number(words[1], 1, UINT16_MAX))};
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_port = htons((uint16_t)number(words[2], 1, UINT16_MAX))};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), buffer_bytes = 4 << 20, on = 1;

	if (inet_pton(AF_INET, words[0], &to.sin_addr) != 1) {
		fprintf(stderr, "bench_sendmmsg: %s: not an IPv4 address\n", words[0]);
		exit(EX_USAGE);
	}
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer_bytes, sizeof(buffer_bytes)))
		die("socket");
	if (cut ? setsockopt(fd, SOL_UDP, UDP_SEGMENT, &bytes, sizeof(bytes))
	        : setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &on, sizeof(on)))
		die("setsockopt");
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) || connect(fd, (struct sockaddr *)&to, sizeof(to)))
		die("bind, connect");
	return fd;
}

/* How many packets they are, and of them no fewer than n_packets. */
static unsigned long send_all(int fd, struct iovec *vector, unsigned long segments, unsigned long n_packets)
{
	struct mmsghdr messages[BATCH];
	unsigned long sent = 0;

	for (unsigned i = 0; i < BATCH; i++)
		messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = vector, .msg_iovlen = 1}};
	while (sent < n_packets) {
		int n = sendmmsg(fd, messages, BATCH, 0);

		if (n < 0 && errno != ENOBUFS)
			die("sendmmsg");
		sent += n > 0 ? (unsigned long)n * segments : 0;
	}
	return sent;
}

int main(int argc, char **argv)
{
	struct iovec vector = {.iov_base = message};
	unsigned long bytes, n_packets, segments, sent;
	uint64_t start_ns;
	int fd;

	if (argc != 7) {
		fputs("usage: bench_sendmmsg ADDRESS PORT SOURCE_PORT BYTES PACKETS SEGMENTS\n", stderr);
		return EX_USAGE;
	}
	bytes = number(argv[4], 1, MESSAGE_BYTES_MAX);
	n_packets = number(argv[5], 1, 1000000000);
	segments = number(argv[6], 1, SEGMENTS_MAX);
	if (segments > MESSAGE_BYTES_MAX / bytes)
		segments = MESSAGE_BYTES_MAX / bytes;
	vector.iov_len = segments * bytes;
	fd = open_socket(&argv[1], (int)bytes, segments > 1);
	start_ns = time_monotonic_ns();
	sent = send_all(fd, &vector, segments, n_packets);
	printf("{\"sent\": %lu, \"seconds\": %.9f, \"segments\": %lu}\n", sent,
	       (double)(time_monotonic_ns() - start_ns) * 1e-9, segments);
	return EXIT_SUCCESS;
}
