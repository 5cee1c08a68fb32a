// SPDX-License-Identifier: Apache-2.0
/*
 * Leases against recycling, in threads, so that ThreadSanitizer sees every access: a worker publishes
 * numbered packets into a tiny ring as fast as it can; consumers (libibvcap's own acquire and release)
 * hold batches, dawdle, check each word and release, and sleep when there is nothing. A block reposted
 * under a lease shows as a torn row here and as a data race there. Meanwhile mail goes both ways. Exit 0:
 * nothing torn, every sum exact.
 */
#include "daemon/worker/worker.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/rx.h"
#include "tests/support/consumers.h"
#include "tests/support/frames.h"
#include "tests/support/scripted_backend.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define N           64u
#define S           128u
#define SLOTS       128u
#define N_CONSUMERS 3u
#define QUOTA       2u
#define HELD_MAX    3u /* batches; two of one block share a lease */

struct stress {
	struct backend *backend;
	struct backend_queue *queue;
	struct backend_flow *flow;
	struct rx_ring ring;
	struct worker *worker;
	_Atomic bool end;
	uint64_t sent;
};

struct reader {
	struct stress *stress;
	struct ring_consumer consumer;
	struct ibvcap_rx rx;
	unsigned seed;
	uint64_t expected;
	uint64_t delivered;
	uint64_t torn; /* rows that are not what was sent, batches that are not where the last one ended */
};

/* ---- the worker's side: wire and worker in one thread, since the script is not shared ------------- */

static void *work(void *argument)
{
	struct stress *stress = argument;
	uint8_t frame[FRAME_BYTES_MAX];
	const struct frame_options options = { .payload_bytes = S };
	uint32_t bytes = frame_build(&options, 0, frame);

	while (!atomic_load_explicit(&stress->end, memory_order_relaxed)) {
		for (uint32_t i = 0; i < 32; i++) {
			for (uint32_t word = 0; word < S / 8; word++)
				memcpy(frame + 42 + word * 8, &(uint64_t){ stress->sent * 31 + word }, 8);
			if (scripted_arrive(stress->queue, frame, bytes))
				stress->sent++;
		}
		if (worker_do_work(stress->worker) < 0)
			abort();
	}
	while (worker_do_work(stress->worker) > 0)
		;
	return NULL;
}

/* ---- a consumer: the library's own code ----------------------------------------------------------- */

/*
 * What segments.c makes of the daemon's descriptors, but over the daemon's own mappings: ThreadSanitizer
 * compares addresses, and through mappings of its own it would see none of the consumer's accesses.
 */
static void attach_here(struct reader *reader)
{
	const struct rx_ring *ring = &reader->stress->ring;

	reader->rx = (struct ibvcap_rx){
		.next_epoch = { .poll_fd = -1, .timer_fd = -1 },
		.socket = -1, /* poll() passes over it: a daemon that is there */
		.wake_socket = -1,
		.payload = { .address = ring->payload.address, .fd = -1 },
		.headers = { .address = ring->headers.address, .fd = -1 },
		.ring = ring->ring,
		.state = reader->consumer.state,
		.page = reader->consumer.page,
		.slots_per_block = N,
		.slot_bytes = S,
		.header_stride = ring->header_stride,
		.n_blocks = ring->n_blocks,
		.lease_blocks = QUOTA,
		.table_mask = ring->table_mask,
		.block_bytes = ring->block_bytes,
		.attach_sequence = reader->consumer.attach_sequence,
		.table = ring_table(ring->ring),
		.meta = ring->meta,
		.blocks = ring->blocks,
		.next = reader->consumer.attach_sequence,
		.released = reader->consumer.attach_sequence,
		.batch_starts = calloc(QUOTA * N / 64, sizeof(uint64_t)),
	};
}

static void check_rows(struct reader *reader, const struct ibvcap_batch *batch)
{
	for (uint32_t i = 0; i < batch->n; i++) {
		reader->torn += batch->meta[i].length != S;
		for (uint32_t word = 0; word < S / 8; word++) {
			uint64_t value;

			memcpy(&value, ibvcap_payload(batch, i) + word * 8, 8);
			reader->torn += value != (batch->sequence + i) * 31 + word;
		}
	}
}

static void dawdle(struct reader *reader)
{
	if (rand_r(&reader->seed) % 8 == 0)
		for (int i = rand_r(&reader->seed) % 50; i > 0; i--)
			sched_yield();
}

static void account(struct reader *reader, const struct ibvcap_batch *batch)
{
	reader->torn += batch->sequence != reader->expected + batch->gap;
	reader->expected = batch->sequence + batch->n;
	reader->delivered += batch->n;
}

/* In any order, each checked as late as can be. */
static void give_back(struct reader *reader, struct ibvcap_batch *held, uint32_t *n_held)
{
	while (*n_held > 0) {
		uint32_t which = (uint32_t)rand_r(&reader->seed) % *n_held;

		check_rows(reader, &held[which]);
		if (ibvcap_release(&reader->rx, &held[which]) < 0)
			abort();
		held[which] = held[--*n_held];
	}
}

static void *read_ring(void *argument)
{
	struct reader *reader = argument;
	struct ibvcap_batch held[HELD_MAX];
	uint32_t n_held = 0;

	reader->expected = reader->rx.next;
	while (!atomic_load_explicit(&reader->stress->end, memory_order_relaxed)) {
		uint32_t max = 1 + (uint32_t)rand_r(&reader->seed) % N;
		int r = ibvcap_acquire(&reader->rx, &held[n_held], max, 1 + max / 4, rand_r(&reader->seed) % 3);

		if (r < 0 && r != -ENOBUFS)
			abort();
		if (r > 0)
			account(reader, &held[n_held++]);
		dawdle(reader);
		if (n_held == HELD_MAX || r == -ENOBUFS || rand_r(&reader->seed) % 3 == 0)
			give_back(reader, held, &n_held);
	}
	give_back(reader, held, &n_held);
	return NULL;
}

/* ---- set-up and the verdict ---------------------------------------------------------------------- */

static void require(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "lease_stress: %s\n", what);
	exit(EXIT_FAILURE);
}

static void set_up(struct stress *stress)
{
	const struct rx_ring_options ring = {
		.stream = "stress", .epoch = 1, .slot_bytes = S, .slots_per_block = N, .header_bytes = 42, .history_blocks = 2,
		.receive_queue_slots = SLOTS, .spare_blocks = N_CONSUMERS * QUOTA, .lease_blocks_max = QUOTA,
		.page_bytes = 4096, .n_queues = 1,
	};
	const struct backend_queue_options queue = { .slots = SLOTS, .header_bytes = 42, .header_stride = 64, .slot_bytes = S };
	const struct backend_ops *ops = &scripted_backend_ops;

	require(ops->open("none", &stress->backend, NULL) == 0, "no backend");
	require(ops->create_queue(stress->backend, &queue, &stress->queue, NULL) == 0, "no queue");
	require(rx_ring_init(&stress->ring, &ring, NULL) == 0, "no ring");
	require(worker_new(&stress->worker, &(struct worker_options){ .name = "stress", .queue = stress->queue,
								       .ring = &stress->ring,
								       .receive_queue_slots = SLOTS, .cpu = -1 }) == 0,
		"no worker");
	require(worker_prime(stress->worker) == 0 && ops->start(stress->queue) == 0, "no start");
	require(ops->add_flow(stress->queue, &(struct flow_rule){ 0 }, &stress->flow, NULL) == 0, "no flow");
}

static void tear_down(struct stress *stress)
{
	scripted_backend_ops.remove_flow(stress->flow);
	worker_free(stress->worker);
	rx_ring_deinit(&stress->ring);
	scripted_backend_ops.destroy_queue(stress->queue);
	scripted_backend_ops.close(stress->backend);
}

static void await(struct mailbox *mailbox, enum mail_type type)
{
	struct mail mail;

	while (!mailbox_receive(mailbox, &mail))
		sched_yield();
	require(mail.type == type && mail.error == 0, "the worker answered something else");
}

static void add_readers(struct stress *stress, struct reader *readers)
{
	for (uint32_t i = 0; i < N_CONSUMERS; i++) {
		readers[i] = (struct reader){ .stress = stress, .seed = i + 1 };
		require(test_consumer_init(&readers[i].consumer, QUOTA) == 0, "no consumer");
		mailbox_send(worker_inbox(stress->worker),
			     &(struct mail){ .type = MAIL_ADD_CONSUMER, .consumer = &readers[i].consumer });
		await(worker_outbox(stress->worker), MAIL_CONSUMER_ADDED);
		attach_here(&readers[i]);
		require(readers[i].rx.batch_starts, "out of memory");
	}
}

static void free_reader(struct reader *reader)
{
	free(reader->rx.batch_starts);
	test_consumer_deinit(&reader->consumer);
}

static bool verdict(const struct stress *stress, const struct reader *readers)
{
	uint64_t head = consumer_load_head(stress->ring.ring);
	bool good = head == stress->sent;

	for (uint32_t i = 0; i < N_CONSUMERS; i++) {
		const struct reader *reader = &readers[i];
		struct ibvcap_rx_counts counts;

		ibvcap_rx_counts(&reader->rx, &counts);
		printf("consumer %u: published %llu = delivered %llu + skipped %llu + lag %llu, torn %llu\n", i,
		       (unsigned long long)counts.published, (unsigned long long)reader->delivered,
		       (unsigned long long)counts.skipped, (unsigned long long)counts.lag,
		       (unsigned long long)reader->torn);
		good &= reader->torn == 0 && reader->delivered > 0 && counts.delivered == reader->delivered;
		good &= counts.published == counts.delivered + counts.skipped + counts.lag;
	}
	uint64_t spares_used = counter_get(&stress->ring.ring->counters[IBVCAP_CTR_SPARES_USED]);

	printf("spares used: %llu\n", (unsigned long long)spares_used);
	return good && spares_used > 0; /* else nothing was contended */
}

static void let_run(struct stress *stress, unsigned seconds)
{
	const struct timespec tick = { .tv_nsec = 10000000 };

	for (unsigned i = 0; i < seconds * 100; i++) {
		mailbox_send(worker_inbox(stress->worker), &(struct mail){ .type = MAIL_CLOCK });
		nanosleep(&tick, NULL);
	}
	atomic_store_explicit(&stress->end, true, memory_order_relaxed);
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "seconds", required_argument, NULL, 's' }, { 0 } };
	struct stress stress = { 0 };
	struct reader readers[N_CONSUMERS];
	pthread_t worker, threads[N_CONSUMERS];
	unsigned seconds = 5;

	if (getopt_long(argc, argv, "", options, NULL) == 's')
		seconds = (unsigned)strtoul(optarg, NULL, 10);
	set_up(&stress);
	require(pthread_create(&worker, NULL, work, &stress) == 0, "no thread");
	add_readers(&stress, readers);
	for (uint32_t i = 0; i < N_CONSUMERS; i++)
		require(pthread_create(&threads[i], NULL, read_ring, &readers[i]) == 0, "no thread");
	let_run(&stress, seconds);
	for (uint32_t i = 0; i < N_CONSUMERS; i++)
		pthread_join(threads[i], NULL);
	pthread_join(worker, NULL);
	bool good = verdict(&stress, readers);

	for (uint32_t i = 0; i < N_CONSUMERS; i++)
		free_reader(&readers[i]);
	tear_down(&stress);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
