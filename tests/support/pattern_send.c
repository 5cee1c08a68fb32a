// SPDX-License-Identifier: Apache-2.0
/*
 * Send the numbered test pattern as UDP and say exactly how many packets the kernel took.
 *
 * The count is exact as long as nothing behind the socket drops: the neighbour must be known (a queue for an
 * unresolved one is short) and the interface without a queueing discipline, as a veth is.
 */
#include "tools/send/pattern.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <net/if.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#define BATCH             64u
#define NS_PER_S          1000000000ull
#define PAYLOAD_BYTES_MAX 65507u

struct options {
	struct sockaddr_storage destination;
	socklen_t destination_bytes;
	const char *interface;
	uint64_t rate_pps; /* 0 = as fast as it goes */
	uint64_t count;    /* 0 = no limit */
	uint64_t duration_ns;
	uint64_t first;
	size_t size_bytes;
};

struct sender {
	int socket;
	uint64_t sent;
	uint64_t start_ns;
	uint8_t *payloads; /* BATCH × size */
	struct iovec vectors[BATCH];
	struct mmsghdr messages[BATCH];
};

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static void usage(FILE *to)
{
	fputs("usage: pattern_send --destination ADDRESS --port PORT [--size BYTES] [--rate PACKETS_PER_S]\n"
	      "                    [--count PACKETS] [--duration SECONDS] [--first NUMBER] [--interface NAME]\n"
	      "Stops at --count, after --duration, or at TERM or INT; then prints one line of JSON.\n",
	      to);
}

static uint64_t number(const char *name, const char *text, uint64_t low, uint64_t high)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *text < '0' || *text > '9' || *end || value < low || value > high) {
		fprintf(stderr, "pattern_send: --%s %s: not a number from %llu to %llu\n", name, text,
		        (unsigned long long)low, (unsigned long long)high);
		exit(EX_USAGE);
	}
	return value;
}

static void resolve(const char *address, const char *port, struct options *options)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_DGRAM};
	struct addrinfo *found;
	int error = address && port ? getaddrinfo(address, port, &hints, &found) : EAI_NONAME;

	if (error) {
		fprintf(stderr, "pattern_send: --destination and --port want a numeric address and port: %s\n",
		        gai_strerror(error));
		exit(EX_USAGE);
	}
	memcpy(&options->destination, found->ai_addr, found->ai_addrlen);
	options->destination_bytes = found->ai_addrlen;
	freeaddrinfo(found);
}

static void parse(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {
		{"destination", required_argument, NULL, 'd'},
		{"port", required_argument, NULL, 'p'},
		{"size", required_argument, NULL, 's'},
		{"rate", required_argument, NULL, 'r'},
		{"count", required_argument, NULL, 'c'},
		{"duration", required_argument, NULL, 't'},
		{"first", required_argument, NULL, 'f'},
		{"interface", required_argument, NULL, 'i'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	const char *address = NULL, *port = NULL;
	int option;

	*options = (struct options){.size_bytes = 1024};
	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 'd':
			address = optarg;
			break;
		case 'p':
			port = optarg;
			break;
		case 's':
			options->size_bytes = number("size", optarg, PATTERN_BYTES_MIN, PAYLOAD_BYTES_MAX);
			break;
		case 'r':
			options->rate_pps = number("rate", optarg, 0, NS_PER_S);
			break;
		case 'c':
			options->count = number("count", optarg, 1, UINT64_MAX);
			break;
		case 't':
			options->duration_ns = number("duration", optarg, 1, 1000000) * NS_PER_S;
			break;
		case 'f':
			options->first = number("first", optarg, 0, UINT64_MAX);
			break;
		case 'i':
			options->interface = optarg;
			break;
		case 'h':
			usage(stdout);
			exit(EX_OK);
		default:
			usage(stderr);
			exit(EX_USAGE);
		}
	}
	resolve(address, port, options);
}

static int open_sender(struct sender *sender, struct options *options)
{
	int buffer_bytes = 4 << 20;
	struct ifreq device = {0};

	sender->socket = socket(options->destination.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	sender->payloads = malloc(BATCH * options->size_bytes);
	if (sender->socket < 0 || !sender->payloads)
		return -errno;
	setsockopt(sender->socket, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof(buffer_bytes));
	if (options->interface) {
		snprintf(device.ifr_name, sizeof(device.ifr_name), "%s", options->interface);
		if (setsockopt(sender->socket, SOL_SOCKET, SO_BINDTODEVICE, &device, sizeof(device)))
			return -errno;
	}
	for (unsigned int i = 0; i < BATCH; i++) {
		sender->vectors[i] = (struct iovec){sender->payloads + i * options->size_bytes, options->size_bytes};
		sender->messages[i].msg_hdr = (struct msghdr){.msg_name = &options->destination,
		                                              .msg_namelen = options->destination_bytes,
		                                              .msg_iov = &sender->vectors[i],
		                                              .msg_iovlen = 1};
	}
	return 0;
}

/* How many may go now; 0 after sleeping for the next one's turn. */
static unsigned int due(const struct sender *sender, const struct options *options)
{
	uint64_t elapsed_ns = now_ns() - sender->start_ns;
	uint64_t left = options->count ? options->count - sender->sent : BATCH;
	struct timespec turn;
	uint64_t allowed, turn_ns;

	if (options->rate_pps) {
		allowed = (uint64_t)((__uint128_t)elapsed_ns * options->rate_pps / NS_PER_S) + 1;
		if (allowed <= sender->sent) {
			turn_ns =
				sender->start_ns + (uint64_t)((__uint128_t)sender->sent * NS_PER_S / options->rate_pps);
			turn = (struct timespec){(time_t)(turn_ns / NS_PER_S), (long)(turn_ns % NS_PER_S)};
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &turn, NULL);
			return 0;
		}
		left = left < allowed - sender->sent ? left : allowed - sender->sent;
	}
	return left < BATCH ? (unsigned int)left : BATCH;
}

static bool finished(const struct sender *sender, const struct options *options)
{
	return stop || (options->count && sender->sent >= options->count) ||
	       (options->duration_ns && now_ns() - sender->start_ns >= options->duration_ns);
}

static int send_all(struct sender *sender, const struct options *options)
{
	unsigned int n;
	int sent;

	sender->start_ns = now_ns();
	while (!finished(sender, options)) {
		n = due(sender, options);
		for (unsigned int i = 0; i < n; i++)
			pattern_fill(options->first + sender->sent + i, sender->vectors[i].iov_base,
			             options->size_bytes);
		for (unsigned int done = 0; done < n; done += (unsigned int)sent) {
			sent = sendmmsg(sender->socket, sender->messages + done, n - done, 0);
			if (sent < 0 && errno != EINTR && errno != ENOBUFS)
				return -errno;
			sent = sent < 0 ? 0 : sent;
			sender->sent += (uint64_t)sent;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct sender sender = {.socket = -1};
	struct options options;
	double seconds;
	int error;

	parse(argc, argv, &options);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	error = open_sender(&sender, &options);
	if (!error)
		error = send_all(&sender, &options);
	if (error)
		fprintf(stderr, "pattern_send: after %llu packets: %s\n", (unsigned long long)sender.sent,
		        strerror(-error));
	seconds = sender.start_ns ? (double)(now_ns() - sender.start_ns) / 1e9 : 0;
	printf("{\"sent\": %llu, \"payload_bytes\": %zu, \"first\": %llu, \"seconds\": %.6f}\n",
	       (unsigned long long)sender.sent, options.size_bytes, (unsigned long long)options.first, seconds);
	free(sender.payloads);
	if (sender.socket >= 0)
		close(sender.socket);
	return error ? EX_OSERR : EX_OK;
}
