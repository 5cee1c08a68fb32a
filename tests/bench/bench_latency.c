// SPDX-License-Identifier: Apache-2.0
/*
 * How long after it was published a packet is acquired in another process: asleep, asleep beside others, and polling;
 * beside a pipe, an eventfd and a Unix socket that carry the same to the same process, asleep and polling.
 *
 *     bench_latency [--rounds N] [--period-us N] [--way NAME]
 *
 * One JSON line a way; all of them, or that one. A packet goes every period, whether the last one was acquired or not,
 * so that whoever is held up is late for each that came meanwhile and not for one alone. Its time is taken just before
 * it is published, and just after it was acquired, by CLOCK_MONOTONIC, which is one for all CPUs. Sender and receivers
 * are pinned to the first and the last.
 */
#include "daemon/control/notifier.h"
#include "lib/base/time.h"
#include "lib/ibvcap/ring.h"
#include "tests/support/consumers.h"
#include "tests/support/readers.h"
#include "tests/support/small_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define N          64u
#define SLOT_BYTES 64u
#define N_SLEEPERS 4u /* beside the one that is measured */
#define WARM_UP    500u

struct round {
	_Atomic uint64_t sent_ns; /* for the eventfd, which carries no message */
	uint64_t ns;
};

struct shared {
	_Atomic uint32_t n_ready; /* receivers */
	struct round rounds[];
};

struct bench {
	uint32_t rounds;
	uint32_t period_us;
	struct shared *shared;
	struct rx_ring ring;
	struct notifier *notifier;
	struct ring_consumer consumers[1 + N_SLEEPERS];
	uint32_t n_consumers;
	int fds[2]; /* of the other ways: sender's, receiver's */
	uint32_t round;
};

/* A way for one u64, the time it was sent at, and its receiver's end. */
struct way {
	const char *name;
	uint32_t n_consumers; /* 0: not through the ring */
	bool polls;           /* … and reads without sleeping */
	void (*open)(struct bench *bench);
	void (*send)(struct bench *bench, uint64_t now_ns);
	uint64_t (*receive)(struct bench *bench, struct ibvcap_rx *rx);
};

static void require(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "bench_latency: %s: %s\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

/* To the CPUs from first to last. */
static void pin(int first, int last)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	for (int cpu = first; cpu <= last; cpu++)
		CPU_SET((unsigned)cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus); /* not allowed: then it is not pinned */
}

/* ---- the ring ------------------------------------------------------------------------------------ */

static void open_ring(struct bench *bench)
{
	struct rx_ring_options options = small_ring();

	options.slot_bytes = SLOT_BYTES;
	options.slots_per_block = options.posted_slots = N;
	options.history_blocks = (bench->rounds + WARM_UP) / N + 2; /* no packet is skipped */
	options.spare_blocks = 1 + N_SLEEPERS;
	options.lease_blocks_max = 1;
	require(rx_ring_init(&bench->ring, &options, NULL) == 0, "ring");
	require(notifier_new(&bench->notifier, &bench->ring, bench->ring.doorbell, RX_RING_CONSUMERS_MAX) == 0,
	        "notifier");
	for (uint32_t i = 0; i < bench->n_consumers; i++) {
		require(test_consumer_init(&bench->consumers[i], 1) == 0, "consumer");
		require(rx_ring_add_consumer(&bench->ring, &bench->consumers[i]) == 0, "consumer");
		require(notifier_add(bench->notifier, &bench->consumers[i], -1, NULL) == 0, "consumer");
	}
}

static void close_ring(struct bench *bench)
{
	notifier_free(bench->notifier);
	bench->notifier = NULL;
	for (uint32_t i = 0; i < bench->n_consumers; i++)
		test_consumer_deinit(&bench->consumers[i]);
	rx_ring_deinit(&bench->ring);
}

/* As the worker does after a short poll. */
static void publish(struct bench *bench, uint64_t now)
{
	struct rx_span span;

	rx_ring_post_span(&bench->ring, 1, &span);
	memcpy(span.payload, &now, sizeof(now));
	span.meta[0] = (struct ibvcap_meta){.length = SLOT_BYTES};
	rx_ring_publish(&bench->ring, 1);
	rx_ring_wake(&bench->ring);
}

static uint64_t acquire(struct ibvcap_rx *rx, int timeout_ms)
{
	struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);
	uint64_t sent_ns;
	int r;

	do {
		r = ibvcap_rx_acquire(rx, &batch, 1, 1, timeout_ms);
	} while (r == 0);
	require(r == 1 && batch.gap == 0, "acquire");
	memcpy(&sent_ns, batch.payload, sizeof(sent_ns));
	ibvcap_rx_release(rx, &batch);
	return sent_ns;
}

static uint64_t acquire_asleep(struct bench *bench, struct ibvcap_rx *rx)
{
	(void)bench;
	return acquire(rx, -1);
}

static uint64_t acquire_polling(struct bench *bench, struct ibvcap_rx *rx)
{
	(void)bench;
	return acquire(rx, 0);
}

/* ---- the others ---------------------------------------------------------------------------------- */

static void open_pipe(struct bench *bench)
{
	int fds[2];

	require(pipe(fds) == 0, "pipe");
	bench->fds[0] = fds[1];
	bench->fds[1] = fds[0];
}

static void open_eventfd(struct bench *bench)
{
	bench->fds[0] = eventfd(0, EFD_SEMAPHORE); /* a read takes one */
	require(bench->fds[0] >= 0, "eventfd");
	bench->fds[1] = dup(bench->fds[0]);
}

static void open_socket(struct bench *bench)
{
	require(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, bench->fds) == 0, "socketpair");
}

static void write_time(struct bench *bench, uint64_t now)
{
	require(write(bench->fds[0], &now, sizeof(now)) == sizeof(now), "write");
}

static void write_eventfd(struct bench *bench, uint64_t now)
{
	atomic_store(&bench->shared->rounds[bench->round].sent_ns, now);
	eventfd_write(bench->fds[0], 1);
}

/* The next u64. */
static uint64_t read_word(const struct bench *bench)
{
	uint64_t word;
	ssize_t n;

	do {
		n = read(bench->fds[1], &word, sizeof(word));
	} while (n < 0 && errno == EAGAIN); /* it polls */
	require(n == sizeof(word), "read");
	return word;
}

static uint64_t read_time(struct bench *bench, struct ibvcap_rx *rx)
{
	(void)rx;
	return read_word(bench);
}

static uint64_t read_eventfd(struct bench *bench, struct ibvcap_rx *rx)
{
	(void)rx;
	read_word(bench);
	return atomic_load(&bench->shared->rounds[bench->round].sent_ns);
}

/* ---- the measurement ----------------------------------------------------------------------------- */

static void receive_all(struct bench *bench, const struct way *way, uint32_t which)
{
	struct test_reader reader = {0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(get_nprocs() - 1, get_nprocs() - 1);
	if (way->n_consumers)
		require(test_reader_init(&reader, &bench->ring, &bench->consumers[which]) == 0, "reader");
	if (way->polls)
		fcntl(bench->fds[1], F_SETFL, O_NONBLOCK);
	atomic_fetch_add(&bench->shared->n_ready, 1);
	for (bench->round = 0; bench->round < bench->rounds + WARM_UP; bench->round++) {
		uint64_t sent_ns = way->receive(bench, &reader.rx);

		if (which == 0)
			bench->shared->rounds[bench->round].ns = time_monotonic_ns() - sent_ns;
	}
	test_reader_deinit(&reader);
	_exit(EXIT_SUCCESS);
}

static void send_all(struct bench *bench, const struct way *way, uint32_t n_receivers)
{
	uint64_t due_ns;

	while (atomic_load(&bench->shared->n_ready) < n_receivers)
		sched_yield();
	due_ns = time_monotonic_ns();
	for (bench->round = 0; bench->round < bench->rounds + WARM_UP; bench->round++) {
		uint64_t now;

		due_ns += bench->period_us * UINT64_C(1000);
		while ((now = time_monotonic_ns()) < due_ns)
			;
		if (now - due_ns > bench->period_us * UINT64_C(1000))
			due_ns = now; /* held up itself: what it did not publish in time nobody waited for */
		way->send(bench, now);
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = ((const struct round *)a)->ns, y = ((const struct round *)b)->ns;

	return (x > y) - (x < y);
}

static void print(const struct bench *bench, const struct way *way)
{
	struct round *rounds = &bench->shared->rounds[WARM_UP];
	uint32_t n = bench->rounds;

	qsort(rounds, n, sizeof(*rounds), compare);
	printf("{\"way\": \"%s\", \"rounds\": %u, \"period_us\": %u, \"ns\": {\"p50\": %llu, \"p99\": %llu, \"p99.9\": "
	       "%llu}}\n",
	       way->name, n, bench->period_us, (unsigned long long)rounds[n / 2].ns,
	       (unsigned long long)rounds[(uint64_t)n * 99 / 100].ns,
	       (unsigned long long)rounds[(uint64_t)n * 999 / 1000].ns);
	fflush(stdout);
}

static void measure(struct bench *bench, const struct way *way)
{
	uint32_t n_receivers = way->n_consumers ? way->n_consumers : 1;
	int status;

	bench->n_consumers = way->n_consumers;
	atomic_store(&bench->shared->n_ready, 0);
	pin(0, get_nprocs() - 1); /* the notifier runs where there is room */
	way->open(bench);
	pin(0, 0);
	for (uint32_t i = 0; i < n_receivers; i++) {
		pid_t child = fork();

		require(child >= 0, "fork");
		if (child == 0)
			receive_all(bench, way, i);
	}
	send_all(bench, way, n_receivers);
	for (uint32_t i = 0; i < n_receivers; i++)
		require(wait(&status) > 0 && status == 0, "a receiver failed");
	print(bench, way);
	if (way->n_consumers) {
		close_ring(bench);
	} else {
		close(bench->fds[0]);
		close(bench->fds[1]);
	}
}

static const struct way ways[] = {
	{"ibvcap, asleep", 1, false, open_ring, publish, acquire_asleep},
	{"pipe, asleep", 0, false, open_pipe, write_time, read_time},
	{"eventfd, asleep", 0, false, open_eventfd, write_eventfd, read_eventfd},
	{"Unix socket, asleep", 0, false, open_socket, write_time, read_time},
	{"ibvcap, polling", 1, false, open_ring, publish, acquire_polling},
	{"pipe, polling", 0, true, open_pipe, write_time, read_time},
	{"eventfd, polling", 0, true, open_eventfd, write_eventfd, read_eventfd},
	{"Unix socket, polling", 0, true, open_socket, write_time, read_time},
	{"ibvcap, asleep beside others", 1 + N_SLEEPERS, false, open_ring, publish, acquire_asleep},
};

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"rounds", required_argument, NULL, 'r'},
		{"period-us", required_argument, NULL, 'p'},
		{"way", required_argument, NULL, 'w'},
		{0},
	};
	struct bench bench = {.rounds = 20000, .period_us = 100};
	const char *only = NULL;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (option == '?')
			return 64;
		if (option == 'w')
			only = optarg;
		else
			*(option == 'r' ? &bench.rounds : &bench.period_us) = (uint32_t)strtoul(optarg, NULL, 10);
	}
	require(bench.rounds > 0, "--rounds");
	bench.shared = mmap(NULL, sizeof(*bench.shared) + (bench.rounds + WARM_UP) * sizeof(struct round),
	                    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	require(bench.shared != MAP_FAILED, "mmap");
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!only || !strcmp(only, ways[i].name))
			measure(&bench, &ways[i]);
	return EXIT_SUCCESS;
}
