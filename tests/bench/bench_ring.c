// SPDX-License-Identifier: Apache-2.0
/*
 * What a packet costs from poll to published and reposted, with completions waiting: a queue's worth of
 * packets is let in while nobody polls, then drained under the clock, many times over.
 *
 *     bench_ring [--payload BYTES] [--rounds N] [--consumers N]        on the scripted backend
 *     bench_ring … --interface A --peer B                              on verbs; A and B a wire's two ends,
 *                                                                      both in this network namespace
 *     bench_ring … --interface A                                       on verbs, below softhca's generator, which
 *                                                                      sends to port 2000
 *     bench_ring … --library                                           … without the direct path
 *     bench_ring … --live                                              … polled while it makes completions
 *     bench_ring … --interface A --peer B --backend NAME               on packet or xdp
 *     bench_ring … --batch N [--idle]                                  N packets a poll; each poll is followed by
 *                                                                      one that finds nothing
 *     bench_ring … --option NAME                                       with one of ring_options.c
 *
 * Under callgrind (--collect-atstart=no --instr-atstart=no is set up by scripts/bench) only the drain is
 * counted. Prints one JSON line.
 */
#include "lib/base/time.h"
#include "tests/bench/ring_bed.h"
#include "tests/bench/ring_behaviours.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <valgrind/callgrind.h>

#define GIVE_UP_NS UINT64_C(10000000000)
#define BATCHED    256u /* packets a round, in batches */

struct bench {
	struct ring_bed bed;
	uint32_t rounds;
	uint32_t batch; /* 0: as many as the queue holds */
	bool idle;
};

static void parse(struct bench *bench, int argc, char **argv)
{
	static const struct option options[] = {{"payload", required_argument, NULL, 'p'},
	                                        {"rounds", required_argument, NULL, 'r'},
	                                        {"consumers", required_argument, NULL, 'c'},
	                                        {"batch", required_argument, NULL, 'b'},
	                                        {"idle", no_argument, NULL, 'l'},
	                                        {"interface", required_argument, NULL, 'i'},
	                                        {"peer", required_argument, NULL, 'e'},
	                                        {"option", required_argument, NULL, 'o'},
	                                        {"backend", required_argument, NULL, 'B'},
	                                        {"library", no_argument, NULL, 'L'},
	                                        {"live", no_argument, NULL, 'v'},
	                                        {0}};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (option == 'p')
			bench->bed.payload_bytes = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'r')
			bench->rounds = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'c')
			bench->bed.n_consumers = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'b')
			bench->batch = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'l')
			bench->idle = true;
		else if (option == 'i')
			bench->bed.interface = optarg;
		else if (option == 'e')
			bench->bed.peer = optarg;
		else if (option == 'B')
			bench->bed.backend_name = optarg;
		else if (option == 'L')
			bench->bed.by_library = true;
		else if (option == 'v')
			bench->bed.is_live = true;
		else if (option == 'o')
			bench->bed.option = ring_option_find(optarg);
		else
			exit(EX_USAGE);
	}
	if (bench->bed.payload_bytes < 18 || bench->bed.payload_bytes > 65000 || !bench->rounds ||
	    (bench->bed.peer && !bench->bed.interface) || (bench->bed.backend_name && !bench->bed.peer) ||
	    (bench->bed.is_live && (bench->bed.peer || !bench->bed.interface)) ||
	    bench->bed.n_consumers > RX_RING_CONSUMERS_MAX || bench->batch > BATCHED || !bench->bed.option)
		bench_die("usage", "--payload 18..65000 --rounds N [--consumers 0..64] [--batch 1..256 [--idle]] "
		                   "[--option NAME] [--interface A [--peer B [--backend NAME] | --live] [--library]]");
}

/* ---- the measurement ----------------------------------------------------------------------------- */

/* The one function under the counter: poll, publish, repost, until the queue is empty. */
static __attribute__((noinline)) uint64_t drain(const struct bench *bench, uint32_t waiting)
{
	uint64_t before = bench->bed.ring.head, empty_polls = 0, give_up_ns = 0;

	while (bench->bed.ring.head - before < waiting || (bench->idle && empty_polls == 0)) {
		int n = rx_worker_do_work(bench->bed.worker);

		if (n < 0)
			bench_die("drain", strerror(-n));
		/* By the clock: a million polls take a moment, or a minute under callgrind. */
		if (n == 0 && ++empty_polls % 65536 == 0) {
			if (give_up_ns == 0)
				give_up_ns = time_monotonic_ns() + GIVE_UP_NS;
			else if (time_monotonic_ns() > give_up_ns)
				bench_lost("since no buffer was posted");
		}
	}
	return bench->bed.ring.head - before;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Nanoseconds; done goes up by the packets. */
static double drain_batch(struct bench *bench, uint32_t round, uint64_t *done)
{
	uint32_t waiting = ring_bed_let_in(&bench->bed, bench->batch ? bench->batch : QUEUE_SLOTS);
	uint64_t before_ns, after_ns;

	behaviours_act(&bench->bed.ring, bench->bed.consumers, bench->bed.n_consumers, round);
	before_ns = time_monotonic_ns();
	CALLGRIND_TOGGLE_COLLECT;
	*done += drain(bench, waiting);
	CALLGRIND_TOGGLE_COLLECT;
	after_ns = time_monotonic_ns();
	return (double)(after_ns - before_ns);
}

static void run(struct bench *bench)
{
	double *ns = calloc(bench->rounds, sizeof(*ns));
	uint64_t packets = 0;

	if (!ns)
		bench_die("memory", strerror(ENOMEM));
	drain(bench, ring_bed_let_in(&bench->bed, QUEUE_SLOTS)); /* first touch of everything */
	CALLGRIND_START_INSTRUMENTATION;
	for (uint32_t i = 0; i < bench->rounds; i++) {
		uint64_t done = 0;

		do
			ns[i] += drain_batch(bench, i, &done);
		while (bench->batch && done < BATCHED);
		ns[i] /= (double)(done ? done : 1);
		packets += done;
	}
	qsort(ns, bench->rounds, sizeof(*ns), compare);
	printf("{\"backend\": \"%s%s\", \"payload_bytes\": %u, \"option\": \"%s\", \"consumers\": %u, \"batch\": %u, "
	       "\"idle\": %s, "
	       "\"packets\": %llu, "
	       "\"ns_per_packet\": {\"min\": %.1f, \"median\": %.1f, \"max\": %.1f}}\n",
	       bench->bed.ops->name, bench->bed.by_library ? " by library" : "", bench->bed.payload_bytes,
	       bench->bed.option->name, bench->bed.n_consumers, bench->batch, bench->idle ? "true" : "false",
	       (unsigned long long)packets, ns[0], ns[bench->rounds / 2], ns[bench->rounds - 1]);
	free(ns);
}

int main(int argc, char **argv)
{
	static struct bench bench = {.rounds = 50, .bed = {.payload_bytes = 64}};

	bench.bed.option = ring_option_find("plain");
	parse(&bench, argc, argv);
	bench.bed.has_small_batches = bench.batch != 0;
	ring_bed_init(&bench.bed);
	run(&bench);
	ring_bed_deinit(&bench.bed);
	return EXIT_SUCCESS;
}
