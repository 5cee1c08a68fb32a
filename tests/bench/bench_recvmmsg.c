// SPDX-License-Identifier: Apache-2.0
/*
 * bench_recvmmsg ADDRESS PORT BYTES: what an ordinary UDP socket receives with recvmmsg(2), straight to a ring of
 * hugepages that another process could map.
 */
#include "tests/bench/capture_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sysexits.h>

#define BATCH        64u
#define BUFFER_BYTES (64 << 20)

/* A wait ends after a tenth of a second, so that the end is noticed. */
static int open_socket(const char *address, const char *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)peer_number(port, 1, UINT16_MAX))};
	const struct timeval timeout = {.tv_usec = 100000};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), bytes = BUFFER_BYTES;

	if (inet_pton(AF_INET, address, &at.sin_addr) != 1) {
		fprintf(stderr, "bench_recvmmsg: %s: not an IPv4 address\n", address);
		exit(EX_USAGE);
	}
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)))
		peer_die("socket");
	return fd;
}

int main(int argc, char **argv)
{
	struct mmsghdr messages[BATCH] = {0};
	struct iovec vectors[BATCH];
	struct peer_rows rows;
	uint64_t n_packets = 0, n_bytes = 0;
	unsigned used = BATCH;
	int fd, n;

	if (argc != 4) {
		fputs("usage: bench_recvmmsg ADDRESS PORT BYTES\n", stderr);
		return EX_USAGE;
	}
	peer_rows_init(&rows, (uint32_t)peer_number(argv[3], 1, UINT16_MAX));
	fd = open_socket(argv[1], argv[2]);
	peer_ready();
	for (;;) {
		for (unsigned i = 0; i < used; i++) {
			vectors[i] = (struct iovec){peer_rows_take(&rows), rows.row_bytes};
			messages[i].msg_hdr = (struct msghdr){.msg_iov = &vectors[i], .msg_iovlen = 1};
		}
		n = recvmmsg(fd, messages, BATCH, MSG_WAITFORONE, NULL);
		if (n <= 0 && peer_stopped())
			break;
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			peer_die("recvmmsg");
		used = n > 0 ? (unsigned)n : 0;
		n_packets += used;
		for (unsigned i = 0; i < used; i++)
			n_bytes += messages[i].msg_len;
	}
	peer_report(n_packets, n_bytes);
	return EXIT_SUCCESS;
}
