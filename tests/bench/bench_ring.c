// SPDX-License-Identifier: Apache-2.0
/*
 * What a packet costs from poll to published and reposted, with completions waiting: a queue's worth of
 * packets is let in while nobody polls, then drained under the clock, many times over.
 *
 *     bench_ring [--payload BYTES] [--rounds N] [--consumers N]        on the scripted backend
 *     bench_ring … --interface A --peer B                              on verbs; A and B a wire's two ends,
 *                                                                      both in this network namespace
 *     bench_ring … --batch N [--idle]                                  N packets a poll; each poll is followed by
 *                                                                      one that finds nothing
 *     bench_ring … --rows NAME                                         rows of another kind: see row_kinds
 *
 * Under callgrind (--collect-atstart=no --instr-atstart=no is set up by scripts/bench) only the drain is
 * counted. Prints one JSON line.
 */
#include "daemon/base/time.h"
#include "daemon/net/net.h"
#include "daemon/worker/rx_sum.h"
#include "daemon/worker/rx_worker.h"
#include "lib/ibvcap/ring.h"
#include "tests/support/consumers.h"
#include "tests/support/frames.h"
#include "tests/support/scripted_backend.h"
#include "tests/support/flows.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#define QUEUE_SLOTS 4096u
#define QUOTA       4u
#define GIVE_UP_NS  UINT64_C(10000000000)
#define WIRE_BURST  2048u
#define BATCHED     256u /* packets a round, in batches */

/* What the keys of a stream make of rows. A kind with empty bytes has rows longer than the packets by so many. */
static const struct row_kind {
	const char *name;
	uint32_t flags;
	uint32_t application_header_bytes;
	uint32_t gap_bytes; /* between rows */
	uint32_t empty_bytes;
} row_kinds[] = {
	{.name = "plain"},
	{.name = "application_header_bytes", .application_header_bytes = 16},
	{.name = "row_stride", .gap_bytes = 64},
	{.name = "short", .empty_bytes = 64},
	{.name = "zero_rest", .flags = IBVCAP_RING_FLAG_ZERO_REST, .empty_bytes = 64},
	{.name = "flow_numbers", .flags = IBVCAP_RING_FLAG_FLOWS},
	{.name = "frame", .flags = IBVCAP_RING_FLAG_FRAMES},
};
#define N_ROW_KINDS (sizeof(row_kinds) / sizeof(row_kinds[0]))

struct bench {
	uint32_t payload_bytes;
	const struct row_kind *rows;
	uint32_t rounds;
	uint32_t n_consumers;
	uint32_t batch; /* 0: as many as the queue holds */
	bool idle;
	const char *interface; /* NULL = scripted */
	const char *peer;
	const struct backend_ops *ops;
	struct backend *backend;
	struct backend_memory *payload;
	struct backend_memory *headers;
	struct backend_queue *queue;
	struct backend_flow *flow;
	struct rx_ring ring;
	struct rx_worker *worker;
	struct rx_sum sum;
	struct ring_consumer consumers[RX_RING_CONSUMERS_MAX];
	int sender;
	uint8_t frame[FRAME_BYTES_MAX];
	uint32_t frame_bytes;
};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "bench_ring: %s: %s\n", what, why);
	exit(EXIT_FAILURE);
}

/* What scripts/bench tries again. */
static void lost(const char *where)
{
	fprintf(stderr, "bench_ring: packets were lost on the emulated wire, %s: this machine had no time for them\n",
	        where);
	exit(EX_TEMPFAIL);
}

static const struct row_kind *find_row_kind(const char *name)
{
	for (uint32_t i = 0; i < N_ROW_KINDS; i++)
		if (!strcmp(name, row_kinds[i].name))
			return &row_kinds[i];
	die("no such rows", name);
	return NULL;
}

static void parse(struct bench *bench, int argc, char **argv)
{
	static const struct option options[] = {{"payload", required_argument, NULL, 'p'},
	                                        {"rounds", required_argument, NULL, 'r'},
	                                        {"consumers", required_argument, NULL, 'c'},
	                                        {"batch", required_argument, NULL, 'b'},
	                                        {"idle", no_argument, NULL, 'l'},
	                                        {"interface", required_argument, NULL, 'i'},
	                                        {"peer", required_argument, NULL, 'e'},
	                                        {"rows", required_argument, NULL, 'w'},
	                                        {0}};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (option == 'p')
			bench->payload_bytes = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'r')
			bench->rounds = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'c')
			bench->n_consumers = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'b')
			bench->batch = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'l')
			bench->idle = true;
		else if (option == 'i')
			bench->interface = optarg;
		else if (option == 'e')
			bench->peer = optarg;
		else if (option == 'w')
			bench->rows = find_row_kind(optarg);
		else
			exit(EX_USAGE);
	}
	if (bench->payload_bytes < 18 || bench->payload_bytes > 65000 || !bench->rounds ||
	    !bench->interface != !bench->peer || bench->n_consumers > RX_RING_CONSUMERS_MAX || bench->batch > BATCHED)
		die("usage", "--payload 18..65000 --rounds N [--consumers 0..64] [--batch 1..256 [--idle]] "
		             "[--interface A --peer B]");
}

/* ---- the packets --------------------------------------------------------------------------------- */

/* The frame every slot gets: 10.0.0.2:1000 → 10.0.0.1:2000. */
static void build_frame(struct bench *bench, const uint8_t *destination_mac)
{
	const struct frame_options options = {.payload_bytes = bench->payload_bytes};

	bench->frame_bytes = frame_build(&options, 0, bench->frame);
	memcpy(bench->frame, destination_mac, 6);
	memcpy(bench->frame + 26, &(uint32_t){htonl(0x0a000002)}, 4);
	memcpy(bench->frame + 30, &(uint32_t){htonl(0x0a000001)}, 4);
}

/* scripted_complete() writes no memory: every header row holds the frame's headers from the start. */
static void prefill_headers(struct bench *bench)
{
	uint8_t *row = bench->ring.headers.address;

	for (uint32_t i = 0; i < bench->ring.n_blocks * bench->ring.slots_per_block && bench->ring.header_bytes;
	     i++, row += bench->ring.header_stride)
		memcpy(row, bench->frame, bench->ring.header_bytes);
}

static void open_sender(struct bench *bench)
{
	struct net_interface peer;
	struct failure failure = {0};
	struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = 0};

	if (net_interface_read(bench->peer, &peer, &failure) < 0)
		die("peer", failure.text);
	bench->sender = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	address.sll_ifindex = (int)peer.index;
	if (bench->sender < 0 || bind(bench->sender, (struct sockaddr *)&address, sizeof(address)) < 0)
		die("AF_PACKET sender", strerror(errno));
}

static void wait_matched(struct bench *bench, uint64_t target)
{
	uint64_t matched;

	for (uint64_t give_up = time_monotonic_ns() + 5000000000u; time_monotonic_ns() < give_up;
	     usleep(bench->batch ? 10 : 1000)) {
		if (bench->ops->read_matched(bench->queue, &matched) < 0)
			die("flow counter", "cannot be read");
		if (matched >= target)
			return;
	}
	lost("before they were steered");
}

/* Let so many packets in, no more at a time than the wire's ring holds. Returns how many are waiting. */
static uint32_t let_in(struct bench *bench, uint32_t n)
{
	uint64_t before;

	if (!bench->interface)
		return scripted_complete(bench->queue, n, bench->frame_bytes);
	if (bench->ops->read_matched(bench->queue, &before) < 0)
		die("flow counter", "cannot be read");
	for (uint32_t sent = 0; sent < n;) {
		for (uint32_t end = sent + WIRE_BURST < n ? sent + WIRE_BURST : n; sent < end; sent++)
			if (send(bench->sender, bench->frame, bench->frame_bytes, 0) < 0)
				die("send", strerror(errno));
		wait_matched(bench, before + sent);
	}
	return n;
}

/* ---- the queue ----------------------------------------------------------------------------------- */

static void open_backend(struct bench *bench)
{
	struct net_interface interface = {.mac = {2, 0, 0, 0, 0, 1}};
	struct failure failure = {0};

	bench->ops = bench->interface ? backend_find("verbs") : &scripted_backend_ops;
	if (!bench->ops)
		die("backend", "verbs is not in this build");
	if (bench->interface && net_interface_read(bench->interface, &interface, &failure) < 0)
		die(bench->interface, failure.text);
	const struct backend_open_options options = {.interface = bench->interface};

	if (bench->ops->open(&options, &bench->backend, &failure) < 0)
		die("open", failure.text);
	build_frame(bench, interface.mac);
}

static void create(struct bench *bench)
{
	/* With consumers, blocks of the default size: leases are looked at once a block. */
	uint32_t slots_per_block = bench->payload_bytes > 2048 || bench->n_consumers ? 256 : 4096;
	const struct row_kind *rows = bench->rows;
	uint32_t network_bytes = rows->flags & IBVCAP_RING_FLAG_FRAMES ? 0 : 42;
	uint32_t slot_bytes = bench->frame_bytes - network_bytes - rows->application_header_bytes + rows->empty_bytes;
	const struct rx_ring_options ring = {
		.stream = "bench",
		.epoch = 1,
		.slot_bytes = slot_bytes,
		.row_stride = slot_bytes + rows->gap_bytes,
		.slots_per_block = slots_per_block,
		.header_bytes = network_bytes + rows->application_header_bytes,
		.application_header_bytes = rows->application_header_bytes,
		.flags = rows->flags,
		.history_blocks = QUEUE_SLOTS / slots_per_block,
		.receive_queue_slots = QUEUE_SLOTS,
		.spare_blocks = bench->n_consumers * QUOTA,
		.lease_blocks_max = QUOTA,
		.page_bytes = 2u << 20,
		.n_queues = 1,
	};
	struct failure failure = {0};

	if (rx_ring_init(&bench->ring, &ring, &failure) < 0)
		die("ring", failure.text);
	if (bench->ops->register_memory(bench->backend, bench->ring.payload.address, bench->ring.payload.bytes,
	                                &bench->payload, &failure) < 0 ||
	    bench->ops->register_memory(bench->backend, bench->ring.headers.address, bench->ring.headers.bytes,
	                                &bench->headers, &failure) < 0)
		die("register memory", failure.text);
	const struct backend_queue_options queue = {
		.payload = bench->payload,
		.headers = bench->headers,
		.slots = QUEUE_SLOTS,
		.header_bytes = bench->ring.header_bytes,
		.header_stride = bench->ring.header_stride,
		.slot_bytes = bench->ring.slot_bytes,
		.row_stride = bench->ring.row_stride,
		.flow_tags = rows->flags & IBVCAP_RING_FLAG_FLOWS,
		.timestamps = true,
	};

	if (bench->ops->create_queue(bench->backend, &queue, &bench->queue, &failure) < 0)
		die("queue", failure.text);
	const struct rx_worker_options worker = {.name = "bench",
	                                         .queue = bench->queue,
	                                         .ring = &bench->ring,
	                                         .receive_queue_slots = QUEUE_SLOTS,
	                                         .cpu = -1,
	                                         .device_timestamps = true,
	                                         .sum = &bench->sum};

	rx_sum_init(&bench->sum, 1, false);
	if (rx_worker_new(&bench->worker, &worker) < 0)
		die("worker", "cannot be made");
}

/* ---- consumers: one of each behaviour, over and over, as far as a worker sees of them --------------- */

enum behaviour {
	QUICK,    /* reads everything, sleeps meanwhile */
	LOSSLESS, /* … and so keeps nothing pinned */
	SLOW,     /* holds all the blocks it may, changing one now and then */
	STOPPED,  /* holds blocks for ever; it was asleep */
	DEAD,     /* asleep, and never did anything */
	POLLING,  /* waits by its descriptor */
	DISTANT,  /* asleep until there is much more */
	HOSTILE,  /* leases at random what it does not read, and wants to be woken all the time */
	N_BEHAVIOURS
};

static void add_consumers(struct bench *bench)
{
	for (uint32_t i = 0; i < bench->n_consumers; i++) {
		struct ring_consumer *consumer = &bench->consumers[i];

		if (test_consumer_init(consumer, QUOTA) < 0)
			die("consumer", strerror(ENOMEM));
		consumer->policy = i % N_BEHAVIOURS == LOSSLESS ? IBVCAP_POLICY_LOSSLESS : IBVCAP_POLICY_LOSSY;
		consumer->deadline_ns = UINT64_MAX;
		rx_ring_add_consumer(&bench->ring, consumer);
	}
}

static void act(const struct bench *bench, struct ring_consumer *consumer, enum behaviour behaviour, uint32_t round)
{
	uint64_t head = consumer_load_head(bench->ring.ring);
	uint64_t block = head / bench->ring.slots_per_block;

	switch (behaviour) {
	case QUICK:
	case LOSSLESS:
		consumer_store_delivered(consumer->page, head);
		consumer_request_wake(consumer->page, head + 1, false);
		break;
	case SLOW:
		if (block > 0)
			consumer_store_lease(consumer->page, round % QUOTA, block - 1);
		consumer_request_wake(consumer->page, head + 1, false);
		break;
	case STOPPED:
		if (block > 0 && round < QUOTA)
			consumer_store_lease(consumer->page, round, block - 1);
		break;
	case POLLING:
		consumer_request_wake(consumer->page, head + 1, true);
		break;
	case DISTANT:
		consumer_request_wake(consumer->page, UINT64_MAX, false);
		break;
	case HOSTILE:
		for (uint32_t slot = 0; slot < QUOTA; slot++)
			consumer_store_lease(consumer->page, slot, (uint64_t)rand() % (block + 1));
		consumer_request_wake(consumer->page, head + 1, rand() % 2);
		break;
	case DEAD:
	case N_BEHAVIOURS:
		break;
	}
	if ((behaviour == STOPPED || behaviour == DEAD) && round == 0)
		consumer_request_wake(consumer->page, head + 1, false);
}

static void let_act(struct bench *bench, uint32_t round)
{
	for (uint32_t i = 0; i < bench->n_consumers; i++)
		act(bench, &bench->consumers[i], (enum behaviour)(i % N_BEHAVIOURS), round);
}

static void start(struct bench *bench)
{
	struct config_flow flow = {.destination_port = 2000, FLOW_DEFAULTS};
	struct flow_rule rule;
	struct failure failure = {0};

	flow_set_destination(&flow, "10.0.0.1");
	flow_resolve(&flow, bench->frame, &rule);
	const struct mail clock = {.type = MAIL_CLOCK, .clock = {.mult = 1u << 24, .shift = 24, .mask = UINT64_MAX}};

	mailbox_send(rx_worker_inbox(bench->worker), &clock);
	if (rx_worker_prime(bench->worker) < 0 || bench->ops->start(bench->queue) < 0)
		die("start", "the queue did not take its slots");
	add_consumers(bench);
	if (bench->ops->add_flow(bench->queue, &rule, &bench->flow, &failure) < 0)
		die("flow", failure.text);
	prefill_headers(bench);
	if (bench->peer)
		open_sender(bench);
}

static void tear_down(struct bench *bench)
{
	rx_worker_free(bench->worker);
	for (uint32_t i = 0; i < bench->n_consumers; i++)
		test_consumer_deinit(&bench->consumers[i]);
	bench->ops->remove_flow(bench->flow);
	bench->ops->destroy_queue(bench->queue);
	bench->ops->unregister_memory(bench->payload);
	bench->ops->unregister_memory(bench->headers);
	bench->ops->close(bench->backend);
	rx_ring_deinit(&bench->ring);
}

/* ---- the measurement ----------------------------------------------------------------------------- */

/* The one function under the counter: poll, publish, repost, until the queue is empty. */
static __attribute__((noinline)) uint64_t drain(const struct bench *bench, uint32_t waiting)
{
	uint64_t before = bench->ring.head, empty_polls = 0, give_up_ns = 0;

	while (bench->ring.head - before < waiting || (bench->idle && empty_polls == 0)) {
		int n = rx_worker_do_work(bench->worker);

		if (n < 0)
			die("drain", strerror(-n));
		/* By the clock: a million polls take a moment, or a minute under callgrind. */
		if (n == 0 && ++empty_polls % 65536 == 0) {
			if (give_up_ns == 0)
				give_up_ns = time_monotonic_ns() + GIVE_UP_NS;
			else if (time_monotonic_ns() > give_up_ns)
				lost("since no buffer was posted");
		}
	}
	return bench->ring.head - before;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Nanoseconds; done goes up by the packets. */
static double drain_batch(struct bench *bench, uint32_t round, uint64_t *done)
{
	uint32_t waiting = let_in(bench, bench->batch ? bench->batch : QUEUE_SLOTS);
	uint64_t before_ns, after_ns;

	let_act(bench, round);
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
		die("memory", strerror(ENOMEM));
	drain(bench, let_in(bench, QUEUE_SLOTS)); /* first touch of everything */
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
	printf("{\"backend\": \"%s\", \"payload_bytes\": %u, \"rows\": \"%s\", \"consumers\": %u, \"batch\": %u, "
	       "\"idle\": %s, "
	       "\"packets\": %llu, "
	       "\"ns_per_packet\": {\"min\": %.1f, \"median\": %.1f, \"max\": %.1f}}\n",
	       bench->ops->name, bench->payload_bytes, bench->rows->name, bench->n_consumers, bench->batch,
	       bench->idle ? "true" : "false", (unsigned long long)packets, ns[0], ns[bench->rounds / 2],
	       ns[bench->rounds - 1]);
	free(ns);
}

int main(int argc, char **argv)
{
	struct bench bench = {.payload_bytes = 64, .rows = row_kinds, .rounds = 50, .sender = -1};

	parse(&bench, argc, argv);
	open_backend(&bench);
	create(&bench);
	start(&bench);
	run(&bench);
	tear_down(&bench);
	if (bench.sender >= 0)
		close(bench.sender);
	return EXIT_SUCCESS;
}
