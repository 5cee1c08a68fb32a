// SPDX-License-Identifier: Apache-2.0
/*
 * gpu_send ADDRESS PORT BYTES RATE SECONDS: send packets for gpu_measure, so many a second, by UDP_SEGMENT. Prints how
 * many. BYTES of a payload: a multiple of 16.
 */
#include "tests/hardware/gpu/gpu_work.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#define BURST_BYTES 65000u
#define BURST_MAX   64u
#define NS_PER_S    UINT64_C(1000000000)

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

static void give_up(const char *what)
{
	perror(what);
	exit(1);
}

static int open_socket(const char *address, unsigned port, unsigned segment)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), bytes = 4 << 20;

	if (fd < 0 || inet_pton(AF_INET, address, &to.sin_addr) != 1 ||
	    connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		give_up("gpu_send: socket");
	if (setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &(int){(int)segment}, sizeof(int)) < 0)
		give_up("gpu_send: UDP_SEGMENT");
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	return fd;
}

/* The words of a packet that do not depend on its number. */
static void write_pattern(uint8_t *packet, unsigned bytes)
{
	for (uint32_t i = GPU_PACKET_WORDS; i < bytes / 4; i++)
		memcpy(packet + 4 * (size_t)i, &(uint32_t){gpu_packet_word(0, i)}, 4);
}

static void write_number(uint8_t *packet, unsigned bytes, uint64_t number, uint64_t time_ns)
{
	memcpy(packet, &number, sizeof(number));
	memcpy(packet + GPU_PACKET_TIME_AT, &time_ns, sizeof(time_ns));
	for (uint32_t i = 64; i < bytes / 4; i += 64)
		memcpy(packet + 4 * (size_t)i, &(uint32_t){gpu_packet_word(number, i)}, 4);
}

/* Sleep until it is due, or spin if that is near. */
static void wait_until_due(uint64_t at_ns)
{
	for (uint64_t now = clock_ns(CLOCK_MONOTONIC); now < at_ns; now = clock_ns(CLOCK_MONOTONIC))
		if (at_ns - now > 200000)
			nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

int main(int argc, char **argv)
{
	static uint8_t burst[BURST_BYTES];
	uint64_t n = 0, start;
	unsigned bytes, rate, seconds, most;
	int fd;

	if (argc != 6) {
		fprintf(stderr, "usage: gpu_send ADDRESS PORT BYTES RATE SECONDS\n");
		return 64;
	}
	bytes = (unsigned)atoi(argv[3]);
	rate = (unsigned)atoi(argv[4]);
	seconds = (unsigned)atoi(argv[5]);
	if (bytes < 32 || bytes > BURST_BYTES || bytes % 16 || !rate)
		return 64;
	most = BURST_BYTES / bytes < BURST_MAX ? BURST_BYTES / bytes : BURST_MAX;
	if (rate < 20000) /* few packets a second go one by one */
		most = 1;
	fd = open_socket(argv[1], (unsigned)atoi(argv[2]), bytes);
	for (unsigned i = 0; i < most; i++)
		write_pattern(burst + (size_t)i * bytes, bytes);
	start = clock_ns(CLOCK_MONOTONIC);
	while (n < (uint64_t)rate * seconds) {
		wait_until_due(start + n * NS_PER_S / rate);
		for (unsigned i = 0; i < most; i++)
			write_number(burst + (size_t)i * bytes, bytes, n + i, clock_ns(CLOCK_REALTIME));
		/* Between two runs of the daemon the kernel says that nobody reads the port. */
		if (send(fd, burst, (size_t)most * bytes, 0) < 0 && errno != ECONNREFUSED)
			give_up("gpu_send: send");
		n += most;
		if (clock_ns(CLOCK_MONOTONIC) - start > (seconds + 1) * NS_PER_S)
			break; /* the machine cannot send so many */
	}
	printf("{\"sent\": %" PRIu64 ", \"seconds\": %.3f}\n", n,
	       (double)(clock_ns(CLOCK_MONOTONIC) - start) / (double)NS_PER_S);
	return 0;
}
