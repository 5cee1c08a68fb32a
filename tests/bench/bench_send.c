// SPDX-License-Identifier: Apache-2.0
/*
 * What a packet costs on its way out, below the channels: its headers built, posted in batches, and reaped with the
 * completions waiting.
 *
 *     bench_send [--payload BYTES] [--rounds N] [--checksums device|zero|software]    on the scripted backend
 *     bench_send … --interface A                                                      on verbs
 *
 * Under callgrind (--collect-atstart=no --instr-atstart=no is set up by scripts/bench) only that is counted. Prints one
 * JSON line.
 */
#include "daemon/packet/build.h"
#include "tests/support/scripted_backend.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#define QUEUE_SLOTS   1024u
#define BATCH         64u
#define RUNS_MAX      32u
#define HEADER_STRIDE 128u
#define EMPTY_REAPS_MAX 100000000u /* some seconds */

struct bench {
	uint32_t payload_bytes;
	uint32_t rounds;
	const char *interface; /* NULL = scripted */
	const char *checksums_name;
	enum packet_checksums checksums;
	const struct backend_ops *ops;
	struct backend *backend;
	struct backend_memory *payload_memory;
	struct backend_memory *headers_memory;
	struct backend_queue *queue;
	struct packet_template template;
	uint8_t *payload;
	uint8_t *headers;
	uint8_t *copies; /* of payloads, for checksums in software */
};

static const char *const checksum_names[] = { "device", "zero", "software" };

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void die(const char *what, const char *why)
{
	fprintf(stderr, "bench_send: %s: %s\n", what, why);
	exit(EXIT_FAILURE);
}

static void parse_checksums(struct bench *bench, const char *name)
{
	unsigned i = 0;

	while (i < 3 && strcmp(checksum_names[i], name) != 0)
		i++;
	if (i == 3)
		die("usage", "--checksums device, zero or software");
	bench->checksums = (enum packet_checksums)i;
	bench->checksums_name = checksum_names[i];
}

static void parse(struct bench *bench, int argc, char **argv)
{
	static const struct option options[] = { { "payload", required_argument, NULL, 'p' },
						 { "rounds", required_argument, NULL, 'r' },
						 { "checksums", required_argument, NULL, 'c' },
						 { "interface", required_argument, NULL, 'i' },
						 { 0 } };
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (option == 'p')
			bench->payload_bytes = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'r')
			bench->rounds = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'c')
			parse_checksums(bench, optarg);
		else if (option == 'i')
			bench->interface = optarg;
		else
			exit(EX_USAGE);
	}
	if (bench->payload_bytes < 1 || bench->payload_bytes > 65000 || !bench->rounds)
		die("usage", "--payload 1..65000 --rounds N [--checksums NAME] [--interface A]");
}

/* ---- the queue ----------------------------------------------------------------------------------- */

static uint8_t *map(size_t bytes)
{
	void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (address == MAP_FAILED)
		die("memory", strerror(errno));
	return address;
}

static void create(struct bench *bench)
{
	size_t payload_bytes = (size_t)QUEUE_SLOTS * bench->payload_bytes;
	struct fault fault = { 0 };
	uint8_t *sent;

	bench->ops = bench->interface ? backend_find("verbs") : &scripted_backend_ops;
	if (!bench->ops)
		die("backend", "verbs is not in this build");
	bench->payload = map(payload_bytes);
	bench->copies = map(payload_bytes);
	bench->headers = map((size_t)QUEUE_SLOTS * HEADER_STRIDE);
	sent = bench->checksums == PACKET_CHECKSUMS_SOFTWARE ? bench->copies : bench->payload;
	if (bench->ops->open(bench->interface, &bench->backend, &fault) < 0 ||
	    bench->ops->register_memory(bench->backend, sent, payload_bytes, &bench->payload_memory, &fault) < 0 ||
	    bench->ops->register_memory(bench->backend, bench->headers, (size_t)QUEUE_SLOTS * HEADER_STRIDE,
					&bench->headers_memory, &fault) < 0)
		die("device", fault.text);
	const struct backend_send_options options = {
		.headers = bench->headers_memory,
		.slots = QUEUE_SLOTS,
		.checksums = bench->checksums == PACKET_CHECKSUMS_DEVICE,
	};

	if (bench->ops->create_send_queue(bench->backend, &options, &bench->queue, &fault) < 0)
		die("queue", fault.text);
	if (bench->ops->start(bench->queue) < 0)
		die("queue", "does not start");
}

/* 10.0.0.1:1000 → 10.0.0.2:2000 */
static void build_template(struct bench *bench)
{
	const struct packet_route route = {
		.family = AF_INET, .destination_mac = { 2, 0, 0, 0, 0, 2 }, .source_mac = { 2, 0, 0, 0, 0, 1 },
		.destination = { 10, 0, 0, 2 }, .source = { 10, 0, 0, 1 }, .destination_port = 2000, .source_port = 1000,
		.vlan = -1, .hop_limit = 64,
	};

	if (!packet_template_init(&bench->template, &route, bench->checksums))
		die("template", "is refused");
}

static void tear_down(struct bench *bench)
{
	bench->ops->destroy_queue(bench->queue);
	bench->ops->unregister_memory(bench->payload_memory);
	bench->ops->unregister_memory(bench->headers_memory);
	bench->ops->close(bench->backend);
	munmap(bench->payload, (size_t)QUEUE_SLOTS * bench->payload_bytes);
	munmap(bench->copies, (size_t)QUEUE_SLOTS * bench->payload_bytes);
	munmap(bench->headers, (size_t)QUEUE_SLOTS * HEADER_STRIDE);
}

/* ---- the measurement ----------------------------------------------------------------------------- */

static inline void build(const struct bench *bench, struct backend_packet *packet, uint32_t slot)
{
	uint8_t *headers = bench->headers + (size_t)slot * HEADER_STRIDE;
	const uint8_t *payload = bench->payload + (size_t)slot * bench->payload_bytes;

	if (bench->checksums == PACKET_CHECKSUMS_SOFTWARE) {
		uint8_t *copy = bench->copies + (size_t)slot * bench->payload_bytes;

		payload = memcpy(copy, payload, bench->payload_bytes);
	}
	packet_write_headers(&bench->template, headers, payload, bench->payload_bytes, (uint16_t)slot);
	packet->headers = headers;
	packet->header_bytes = bench->template.header_bytes;
	packet->payload = payload;
	packet->payload_bytes = bench->payload_bytes;
	packet->payload_memory = bench->payload_memory;
}

/* A queue's worth of packets: headers, post. */
static __attribute__((noinline)) void post(const struct bench *bench)
{
	struct backend_packet packets[BATCH];

	for (uint32_t slot = 0; slot < QUEUE_SLOTS; slot += BATCH) {
		for (uint32_t i = 0; i < BATCH; i++)
			build(bench, &packets[i], slot + i);
		if (bench->ops->send_post(bench->queue, packets, BATCH) != BATCH)
			die("post", "the queue did not take a batch");
	}
}

/* All of them, sent by now. */
static __attribute__((noinline)) void reap(const struct bench *bench)
{
	struct backend_sent runs[RUNS_MAX];
	uint32_t n_done = 0, n_empty = 0;

	while (n_done < QUEUE_SLOTS) {
		int n = bench->ops->send_reap(bench->queue, runs, RUNS_MAX);

		if (n < 0 || (n == 0 && ++n_empty > EMPTY_REAPS_MAX))
			die("reap", n < 0 ? strerror(-n) : "packets were posted and never completed");
		for (int i = 0; i < n; i++) {
			if (runs[i].status != BACKEND_OK)
				die("reap", "a packet in error");
			n_done += runs[i].n;
		}
	}
}

static void let_out(const struct bench *bench)
{
	if (bench->interface)
		usleep(RUNNING_ON_VALGRIND ? 200000 : 5000); /* nobody says so but its completions */
	else
		scripted_send(bench->queue, QUEUE_SLOTS);
}

/* Nanoseconds. */
static uint64_t counted(const struct bench *bench, void (*part)(const struct bench *bench))
{
	uint64_t before, ns;

	CALLGRIND_START_INSTRUMENTATION;
	CALLGRIND_TOGGLE_COLLECT;
	before = now_ns();
	part(bench);
	ns = now_ns() - before;
	CALLGRIND_TOGGLE_COLLECT;
	return ns;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void run(const struct bench *bench)
{
	double *ns = calloc(bench->rounds, sizeof(*ns));

	if (!ns)
		die("memory", strerror(ENOMEM));
	post(bench); /* first touch of everything */
	let_out(bench);
	reap(bench);
	for (uint32_t i = 0; i < bench->rounds; i++) {
		uint64_t spent = counted(bench, post);

		let_out(bench);
		spent += counted(bench, reap);
		ns[i] = (double)spent / QUEUE_SLOTS;
	}
	qsort(ns, bench->rounds, sizeof(*ns), compare);
	printf("{\"backend\": \"%s\", \"payload_bytes\": %u, \"checksums\": \"%s\", \"packets\": %llu, "
	       "\"ns_per_packet\": {\"min\": %.1f, \"median\": %.1f, \"max\": %.1f}}\n",
	       bench->ops->name, bench->payload_bytes, bench->checksums_name,
	       (unsigned long long)bench->rounds * QUEUE_SLOTS, ns[0], ns[bench->rounds / 2], ns[bench->rounds - 1]);
	free(ns);
}

int main(int argc, char **argv)
{
	struct bench bench = { .payload_bytes = 64, .rounds = 50, .checksums_name = checksum_names[0] };

	parse(&bench, argc, argv);
	create(&bench);
	build_template(&bench);
	run(&bench);
	tear_down(&bench);
	return EXIT_SUCCESS;
}
