// SPDX-License-Identifier: Apache-2.0
/*
 * bench_recvmmsg ADDRESS PORT BYTES [THREADS [CPU N_CPUS]]: what ordinary UDP sockets, one a thread (SO_REUSEPORT),
 * receive with recvmmsg(2), straight to a ring of hugepages that another process could map.
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

struct recvmmsg_peer {
	int fd;
	struct peer_rows rows;
	uint64_t n_packets;
	uint64_t n_bytes;
};

/* A wait ends after a tenth of a second, so that the end is noticed. */
static int open_socket(const char *address, const char *port, bool shared)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)peer_number(port, 1, UINT16_MAX))};
	const struct timeval timeout = {.tv_usec = 100000};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), bytes = BUFFER_BYTES, on = 1;

	if (inet_pton(AF_INET, address, &at.sin_addr) != 1) {
		fprintf(stderr, "bench_recvmmsg: %s: not an IPv4 address\n", address);
		exit(EX_USAGE);
	}
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) ||
	    (shared && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on))) ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)))
		peer_die("socket");
	return fd;
}

static void *recvmmsg_run(void *argument)
{
	struct recvmmsg_peer *peer = argument;
	struct mmsghdr messages[BATCH] = {0};
	struct iovec vectors[BATCH];
	unsigned used = BATCH;
	int n;

	for (;;) {
		for (unsigned i = 0; i < used; i++) {
			vectors[i] = (struct iovec){peer_rows_take(&peer->rows), peer->rows.row_bytes};
			messages[i].msg_hdr = (struct msghdr){.msg_iov = &vectors[i], .msg_iovlen = 1};
		}
		n = recvmmsg(peer->fd, messages, BATCH, MSG_WAITFORONE, NULL);
		if (n <= 0 && peer_stopped())
			return NULL;
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			peer_die("recvmmsg");
		used = n > 0 ? (unsigned)n : 0;
		peer->n_packets += used;
		for (unsigned i = 0; i < used; i++)
			peer->n_bytes += messages[i].msg_len;
	}
}

int main(int argc, char **argv)
{
	static struct recvmmsg_peer peers[PEER_THREADS_MAX];
	struct peer_threads threads;

	if (argc < 4 || argc > 7) {
		fputs("usage: bench_recvmmsg ADDRESS PORT BYTES [THREADS [CPU N_CPUS]]\n", stderr);
		return EX_USAGE;
	}
	threads = peer_threads_read(argc, argv, 4);
	for (unsigned i = 0; i < threads.n; i++) {
		peer_rows_init(&peers[i].rows, (uint32_t)peer_number(argv[3], 1, UINT16_MAX), threads.n);
		peers[i].fd = open_socket(argv[1], argv[2], threads.n > 1);
	}
	peer_ready();
	peer_threads_run(&threads, recvmmsg_run, peers, sizeof(peers[0]));
	for (unsigned i = 1; i < threads.n; i++) {
		peers[0].n_packets += peers[i].n_packets;
		peers[0].n_bytes += peers[i].n_bytes;
	}
	peer_report(peers[0].n_packets, peers[0].n_bytes);
	return EXIT_SUCCESS;
}
