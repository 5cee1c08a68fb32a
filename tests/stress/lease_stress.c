// SPDX-License-Identifier: Apache-2.0
/*
 * Leases against recycling: a worker publishes numbered packets into a tiny ring as fast as it can; consumers
 * (libibvcap's own acquire and release) hold batches, dawdle, check each word and release, and sleep when there is
 * nothing. A block reposted under a lease shows as a torn row here. Meanwhile mail goes both ways. Exit 0: nothing
 * torn, every sum exact.
 *
 *     lease_stress [--seconds N] [--packets N] [--processes]
 *
 * In threads, so that ThreadSanitizer sees every access; or each consumer in a process of its own, of which one is
 * killed and another stopped again and again, at any instruction.
 */
#include "daemon/control/notifier.h"
#include "daemon/losses/losses.h"
#include "daemon/worker/rx_worker.h"
#include "lib/ibvcap/ring.h"
#include "tests/stress/reader.h"
#include "tests/support/consumers.h"
#include "tests/support/frames.h"
#include "tests/support/scripted_backend.h"
#include "tests/support/small_ring.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define N          64u
#define SLOTS      128u
#define QUOTA      2u
#define HISTORY    8u /* blocks */
#define TICK_MS    10
#define KILL_TICKS 7
#define STOP_TICKS 11

/* A tap copies what may be written meanwhile and then looks whether it was: to ThreadSanitizer that is a race. */
#ifdef __SANITIZE_THREAD__
#define HAS_TAP 0
#else
#define HAS_TAP 1
#endif

static const enum ibvcap_policy policies[] = {
	IBVCAP_POLICY_LOSSY,    IBVCAP_POLICY_LOSSY,    IBVCAP_POLICY_LOSSY,
	IBVCAP_POLICY_LOSSLESS, IBVCAP_POLICY_LOSSLESS, IBVCAP_POLICY_TAP,
};
enum { MORTAL = 0, STOPPED = 1, HOARDER = 4, N_READERS = 5 + HAS_TAP };

/* What children have in common with us. */
struct shared {
	_Atomic bool end;
	struct reader readers[N_READERS];
};

struct stress {
	struct shared *shared;
	struct backend *backend;
	struct backend_queue *queue;
	struct backend_flow *flow;
	struct rx_ring ring;
	struct notifier *notifier;
	struct worker *worker;
	struct losses losses;
	uint64_t sent;
	bool processes;
	pthread_t worker_thread;
	pthread_t threads[N_READERS];
	pid_t children[N_READERS];
	uint64_t n_killed;
};

static void require(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "lease_stress: %s\n", what);
	exit(EXIT_FAILURE);
}

/* ---- the worker's side: wire and worker in one thread, since the script is not shared ------------- */

static void *work(void *argument)
{
	struct stress *stress = argument;
	uint8_t frame[FRAME_BYTES_MAX];
	const struct frame_options options = {.payload_bytes = ROW_BYTES};
	uint32_t bytes = frame_build(&options, 0, frame);

	while (!atomic_load_explicit(&stress->shared->end, memory_order_relaxed)) {
		for (uint32_t i = 0; i < 32; i++) {
			for (uint32_t word = 0; word < ROW_BYTES / 8; word++)
				memcpy(frame + 42 + word * 8, &(uint64_t){stress->sent * ROW_FACTOR + word}, 8);
			if (scripted_arrive(stress->queue, frame, bytes))
				stress->sent++;
		}
		if (rx_worker_do_work(stress->worker) < 0)
			abort();
	}
	while (rx_worker_do_work(stress->worker) > 0)
		;
	return NULL;
}

static void set_up(struct stress *stress)
{
	struct rx_ring_options ring = small_ring();
	struct backend_queue_options queue;
	const struct backend_ops *ops = &scripted_backend_ops;

	ring.slot_bytes = ROW_BYTES;
	ring.slots_per_block = N;
	ring.history_blocks = HISTORY;
	ring.posted_slots = SLOTS;
	ring.spare_blocks = N_READERS * QUOTA;
	ring.lease_blocks_max = QUOTA;
	queue = queue_for_ring(&ring);
	stress->shared = mmap(NULL, sizeof(*stress->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	require(stress->shared != MAP_FAILED, "out of memory");
	require(ops->open(NULL, &stress->backend, NULL) == 0, "no backend");
	require(ops->create_queue(stress->backend, &queue, &stress->queue, NULL) == 0, "no queue");
	require(rx_ring_init(&stress->ring, &ring, NULL) == 0, "no ring");
	require(notifier_new(&stress->notifier, &stress->ring, stress->ring.doorbell, RX_RING_CONSUMERS_MAX) == 0,
	        "no notifier");
	losses_init(&stress->losses, 1, SLOTS, false, false, LOSSES_DRAIN_NS_MIN);
	require(rx_worker_new(&stress->worker, &(struct rx_worker_options){.worker.name = "stress",
	                                                                   .queue = stress->queue,
	                                                                   .ring = &stress->ring,
	                                                                   .worker.cpu = -1,
	                                                                   .losses = &stress->losses.queues[0]}) == 0,
	        "no worker");
	require(rx_worker_prime(stress->worker) == 0 && ops->start(stress->queue) == 0, "no start");
	require(ops->add_flow(stress->queue, &(struct flow_rule){0}, &stress->flow, NULL) == 0, "no flow");
	require(pthread_create(&stress->worker_thread, NULL, work, stress) == 0, "no thread");
}

static void tear_down(struct stress *stress)
{
	notifier_free(stress->notifier);
	for (uint32_t i = 0; i < N_READERS; i++) {
		test_reader_deinit(&stress->shared->readers[i].handle);
		test_consumer_deinit(&stress->shared->readers[i].consumer);
	}
	scripted_backend_ops.remove_flow(stress->flow);
	rx_worker_free(stress->worker);
	rx_ring_deinit(&stress->ring);
	scripted_backend_ops.destroy_queue(stress->queue);
	scripted_backend_ops.close(stress->backend);
	munmap(stress->shared, sizeof(*stress->shared));
}

/* ---- readers come and go ------------------------------------------------------------------------- */

static void ask_worker(struct stress *stress, enum mail_type question, struct ring_consumer *consumer,
                       enum mail_type answer)
{
	struct mail mail;

	/* Full where the worker had no CPU for a second. */
	while (mailbox_send(stress->worker->inbox, &(struct mail){.type = question, .consumer = consumer}) < 0)
		sched_yield();
	while (!mailbox_receive(stress->worker->outbox, &mail))
		sched_yield();
	require(mail.type == answer && mail.error == 0 && mail.consumer == consumer,
	        "the worker answered something else");
}

static void attach(struct stress *stress, uint32_t i)
{
	struct reader *reader = &stress->shared->readers[i];
	struct ring_consumer *consumer = &reader->consumer;
	bool is_tap = policies[i] == IBVCAP_POLICY_TAP;

	*reader = (struct reader){.policy = policies[i],
	                          .keeps = i == HOARDER ? QUOTA - 1 : 0,
	                          .end = &stress->shared->end,
	                          .seed = i + 1 + (unsigned)stress->n_killed,
	                          .torn = reader->torn};
	require(test_consumer_init(consumer, QUOTA) == 0, "no consumer");
	consumer->policy = policies[i];
	consumer->deadline_ns = UINT64_MAX;
	daemon_store_policy(consumer->state, policies[i]);
	if (!is_tap) {
		ask_worker(stress, MAIL_ADD_CONSUMER, consumer, MAIL_CONSUMER_ADDED);
		require(notifier_add(stress->notifier, consumer, -1, NULL) == 0, "no place with the notifier");
	}
	require(test_reader_init(&reader->handle, &stress->ring, is_tap ? NULL : consumer) == 0, "out of memory");
}

static void *run_reader(void *argument)
{
	reader_run(argument);
	return NULL;
}

static void start(struct stress *stress, uint32_t i)
{
	struct reader *reader = &stress->shared->readers[i];

	if (!stress->processes) {
		require(pthread_create(&stress->threads[i], NULL, run_reader, reader) == 0, "no thread");
		return;
	}
	stress->children[i] = fork();
	require(stress->children[i] >= 0, "no process");
	if (stress->children[i] == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		reader_run(reader);
		_exit(EXIT_SUCCESS);
	}
}

static void end(struct stress *stress, uint32_t i)
{
	int status = 0;

	if (stress->processes)
		require(waitpid(stress->children[i], &status, 0) > 0 && status == 0, "a reader failed");
	else
		pthread_join(stress->threads[i], NULL);
}

/* Killed wherever it is; another takes its place. */
static void replace(struct stress *stress, uint32_t i)
{
	struct ring_consumer *consumer = &stress->shared->readers[i].consumer;
	int status;

	kill(stress->children[i], SIGKILL);
	require(waitpid(stress->children[i], &status, 0) > 0 && WIFSIGNALED(status), "a reader failed");
	ask_worker(stress, MAIL_REMOVE_CONSUMER, consumer, MAIL_CONSUMER_REMOVED);
	test_reader_deinit(&stress->shared->readers[i].handle);
	notifier_remove_and_wait(stress->notifier, consumer->page);
	test_consumer_deinit(consumer);
	stress->n_killed++;
	attach(stress, i);
	start(stress, i);
}

/* ---- the run ------------------------------------------------------------------------------------- */

static time_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* Until that long has passed, or so many packets were published if that is not 0. */
static void let_run(struct stress *stress, uint64_t seconds, uint64_t packets)
{
	const struct timespec tick = {.tv_nsec = TICK_MS * 1000000};
	const time_t end_s = now_s() + (time_t)seconds;

	for (uint64_t i = 0; now_s() < end_s && (!packets || consumer_load_head(stress->ring.ring) < packets); i++) {
		mailbox_send(stress->worker->inbox, &(struct mail){.type = MAIL_CLOCK});
		nanosleep(&tick, NULL);
		if (stress->processes && i % KILL_TICKS == KILL_TICKS - 1)
			replace(stress, MORTAL);
		if (stress->processes && i % STOP_TICKS >= STOP_TICKS - 2)
			kill(stress->children[STOPPED], i % STOP_TICKS == STOP_TICKS - 1 ? SIGCONT : SIGSTOP);
	}
	if (stress->processes)
		kill(stress->children[STOPPED], SIGCONT);
	atomic_store_explicit(&stress->shared->end, true, memory_order_relaxed);
}

static bool verdict(const struct stress *stress, uint64_t packets)
{
	uint64_t head = consumer_load_head(stress->ring.ring);
	uint64_t spares_used = counter_get(&stress->ring.ring->counters[IBVCAP_RX_COUNTER_SPARES_USED]);
	bool good = head == stress->sent && head >= packets;

	for (uint32_t i = 0; i < N_READERS; i++) {
		/* Who has just taken a dead one's place may have had no time. */
		if (i == MORTAL && stress->processes)
			good &= stress->shared->readers[i].torn == 0;
		else
			good &= reader_is_good(&stress->shared->readers[i]);
	}
	/* What it keeps became due for reuse, and nobody waited for it. */
	good &= stress->shared->readers[HOARDER].delivered > 2 * (HISTORY + SLOTS / N + 1) * N;
	printf("%llu packets, spares used: %llu, killed: %llu\n", (unsigned long long)head,
	       (unsigned long long)spares_used, (unsigned long long)stress->n_killed);
	return good && spares_used > 0; /* else nothing was contended */
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"seconds", required_argument, NULL, 's'},
	                                        {"packets", required_argument, NULL, 'n'},
	                                        {"processes", no_argument, NULL, 'p'},
	                                        {0}};
	struct stress stress = {0};
	uint64_t seconds = 0, packets = 0;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (option == 's')
			seconds = strtoull(optarg, NULL, 10);
		else if (option == 'n')
			packets = strtoull(optarg, NULL, 10);
		else if (option == 'p')
			stress.processes = true;
		else
			return 64;
	}
	if (!seconds)
		seconds = packets ? UINT32_MAX : 5;
	set_up(&stress);
	for (uint32_t i = 0; i < N_READERS; i++) {
		attach(&stress, i);
		start(&stress, i);
	}
	let_run(&stress, seconds, packets);
	for (uint32_t i = 0; i < N_READERS; i++)
		end(&stress, i);
	pthread_join(stress.worker_thread, NULL);
	bool good = verdict(&stress, packets);

	tear_down(&stress);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
