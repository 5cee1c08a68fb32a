// SPDX-License-Identifier: Apache-2.0
/*
 * How long a datagram takes from its sender to a program in another namespace. The sender puts CLOCK_MONOTONIC, which
 * is one for all namespaces, into each payload; the receiver reads it, and the clock.
 *
 *     bench_wire send ADDRESS PORT PACKETS PERIOD_US
 *     bench_wire socket PORT PACKETS sleep|busy            recvmsg(2)
 *     bench_wire ring SOCKET STREAM PACKETS sleep|busy     libibvcap
 *
 * A receiver prints {"ready": true}, and one JSON line when it has all packets, or none has come for 3 s.
 */
#include "lib/base/time.h"
#include "tests/bench/capture_peer.h"

#include <ibvcap/ibvcap.h>

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <time.h>

#define PAYLOAD_BYTES 64
#define PATIENCE_MS   3000
#define PACKETS_MAX   1000000

struct times {
	uint64_t *ns;
	unsigned long n;
	unsigned long n_max;
};

static void times_take(struct times *times, const void *payload)
{
	uint64_t sent_ns, now_ns = time_monotonic_ns();

	memcpy(&sent_ns, payload, sizeof(sent_ns));
	if (times->n < times->n_max)
		times->ns[times->n++] = now_ns - sent_ns;
}

static int compare_times(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;

	return one < other ? -1 : one > other;
}

static double times_at(const struct times *times, double part)
{
	return times->n ? (double)times->ns[(unsigned long)(part * (double)(times->n - 1))] / 1000 : 0;
}

static void times_report(struct times *times)
{
	qsort(times->ns, times->n, sizeof(*times->ns), compare_times);
	printf("{\"packets\": %lu, \"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f}\n", times->n, times_at(times, 0.5),
	       times_at(times, 0.9), times_at(times, 0.99));
}

static int open_socket(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		peer_die("socket");
	return fd;
}

static void run_sender(char **words)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
	                         .sin_port = htons((uint16_t)peer_number(words[1], 1, UINT16_MAX))};
	unsigned long n = peer_number(words[2], 1, PACKETS_MAX), period_us = peer_number(words[3], 1, 1000000);
	uint64_t payload[PAYLOAD_BYTES / 8] = {0}, due_ns = time_monotonic_ns();
	int fd = open_socket();

	if (inet_pton(AF_INET, words[0], &to.sin_addr) != 1 || connect(fd, (struct sockaddr *)&to, sizeof(to)))
		peer_die(words[0]);
	while (n-- > 0) {
		struct timespec due;

		due_ns += period_us * 1000;
		due = (struct timespec){.tv_sec = (time_t)(due_ns / 1000000000),
		                        .tv_nsec = (long)(due_ns % 1000000000)};
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
		payload[0] = time_monotonic_ns();
		if (send(fd, payload, sizeof(payload), 0) < 0 && errno != ECONNREFUSED)
			peer_die("send");
	}
}

static void run_socket(char **words, struct times *times, bool busy)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
	                         .sin_port = htons((uint16_t)peer_number(words[0], 1, UINT16_MAX))};
	const struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
	uint64_t last_ns, payload[PAYLOAD_BYTES / 8];
	int fd = open_socket();

	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		peer_die("bind");
	peer_ready();
	last_ns = time_monotonic_ns();
	while (times->n < times->n_max && time_monotonic_ns() - last_ns < PATIENCE_MS * UINT64_C(1000000)) {
		if (recv(fd, payload, sizeof(payload), busy ? MSG_DONTWAIT : 0) < (ssize_t)sizeof(payload))
			continue;
		times_take(times, payload);
		last_ns = time_monotonic_ns();
	}
}

static void run_ring(char **words, struct times *times, bool busy)
{
	struct ibvcap_rx_batch batch = {.size = sizeof(batch)};
	struct ibvcap_rx *rx;
	int n = ibvcap_rx_open(words[0], words[1], NULL, &rx);
	uint64_t last_ns;

	if (n < 0) {
		errno = -n;
		peer_die(words[1]);
	}
	peer_ready();
	last_ns = time_monotonic_ns();
	while (times->n < times->n_max && time_monotonic_ns() - last_ns < PATIENCE_MS * UINT64_C(1000000)) {
		n = ibvcap_rx_acquire(rx, &batch, 64, 0, busy ? 0 : PATIENCE_MS);
		if (n <= 0)
			continue;
		for (uint32_t i = 0; i < batch.n; i++)
			times_take(times, ibvcap_rx_payload(&batch, i));
		ibvcap_rx_release(rx, &batch);
		last_ns = time_monotonic_ns();
	}
	ibvcap_rx_close(rx);
}

int main(int argc, char **argv)
{
	struct times times = {0};
	bool busy = argc > 2 && strcmp(argv[argc - 1], "busy") == 0;

	if (argc == 6 && strcmp(argv[1], "send") == 0) {
		run_sender(&argv[2]);
		return EXIT_SUCCESS;
	}
	if (argc < 5) {
		fputs("usage: bench_wire send|socket|ring ...\n", stderr);
		return EX_USAGE;
	}
	times.n_max = peer_number(argv[argc - 2], 1, PACKETS_MAX);
	times.ns = calloc(times.n_max, sizeof(*times.ns));
	if (!times.ns)
		peer_die("calloc");
	if (strcmp(argv[1], "socket") == 0)
		run_socket(&argv[2], &times, busy);
	else
		run_ring(&argv[2], &times, busy);
	times_report(&times);
	free(times.ns);
	return EXIT_SUCCESS;
}
