// SPDX-License-Identifier: Apache-2.0
/*
 * Senders against the transmit worker: libibvcap's own reserve, submit and flush, random lengths and batches, while the
 * worker takes, posts and completes. Two stages at once: in one the device sends when it likes, checks each payload to
 * the last byte, and fails now and then; in the other the worker is a thread that sleeps whenever it can, so that every
 * kick and every wake-up counts: one that is lost is a wait without end. Exit 0: all payloads whole, every sum exact.
 *
 *     send_stress [--seconds N] [--processes]
 *
 * In threads, so that ThreadSanitizer sees every access; or each sender in a process of its own, of which one is killed
 * again and again, at any instruction.
 */
#include "daemon/ring/rx_ring.h"
#include "daemon/worker/tx_worker.h"
#include "lib/base/time.h"
#include "lib/ibvcap/ring.h"
#include "tests/stress/submitter.h"
#include "tests/support/scripted_backend.h"

#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUEUE_SLOTS 96u
#define HEADERS     42u
#define KILL_MS     50
#define FAIL_ROUNDS 4096 /* on average */

/* Senders of the stage with the wire, then that of the stage with the thread: alone, no other kicks for it. */
enum { MORTAL = 0, N_WIRE = 4, N_SENDERS = 5 };
enum { WIRE, THREAD, STAGES };

/* What children have in common with us. */
struct shared {
	_Atomic bool end;
	struct submitter submitters[N_SENDERS];
};

struct stage {
	struct worker *transmit;
	struct tx_queue *channel;
	pthread_t waker;
};

struct stress {
	struct shared *shared;
	struct backend *backend;
	struct stage stages[STAGES];
	pthread_t wire;
	_Atomic bool stop;     /* wire and wakers */
	pthread_mutex_t mutex; /* which senders there are: the wakers' and ours */
	bool processes;
	pthread_t threads[N_SENDERS];
	pid_t children[N_SENDERS];
	uint64_t n_killed;
	uint64_t foreign; /* frames of nobody */
	bool good;
};

static void require(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "send_stress: %s\n", what);
	exit(EXIT_FAILURE);
}

static struct stage *stage_of(struct stress *stress, uint32_t sender)
{
	return &stress->stages[sender < N_WIRE ? WIRE : THREAD];
}

/* ---- the device of one stage, and who wakes senders ------------------------------------------------ */

static void send_some(struct stress *stress, uint32_t n)
{
	struct backend_queue *queue = stress->stages[WIRE].channel->queue;
	uint8_t frame[HEADERS + SUBMITTER_BYTES];
	uint32_t bytes;

	while (n-- > 0 && (bytes = scripted_take_frame(queue, frame)) > 0) {
		if (!submitter_check(stress->shared->submitters, N_WIRE, frame + HEADERS, bytes - HEADERS))
			stress->foreign++;
	}
}

/* Worker and wire in one thread, since the script is not shared. */
static void *run_wire(void *argument)
{
	struct stress *stress = argument;
	struct stage *stage = &stress->stages[WIRE];
	unsigned seed = 1;

	while (!atomic_load_explicit(&stress->stop, memory_order_relaxed)) {
		const struct tx_clock_sample now = {.monotonic_ns = time_monotonic_ns(), .utc_ns = time_utc_ns()};
		int n = tx_worker_do_work(stage->transmit, &now);

		send_some(stress, (uint32_t)rand_r(&seed) % 40);
		if (rand_r(&seed) % FAIL_ROUNDS == 0)
			scripted_next_status(stage->channel->queue, BACKEND_SLOT_ERROR);
		if (n == 0)
			sched_yield();
	}
	return NULL;
}

struct waker {
	struct stress *stress;
	struct stage *stage;
};

static void *run_waker(void *argument)
{
	struct waker *waker = argument;
	struct stress *stress = waker->stress;
	eventfd_t rings;

	while (!atomic_load_explicit(&stress->stop, memory_order_relaxed)) {
		eventfd_read(tx_worker_doorbell(waker->stage->transmit), &rings);
		pthread_mutex_lock(&stress->mutex);
		for (uint32_t i = 0; i < N_SENDERS; i++) {
			const struct sender *sender = &stress->shared->submitters[i].sender.sender;

			if (stage_of(stress, i) == waker->stage && sender->state &&
			    sender_due_request(sender->state, &sender->page->wake))
				client_wake(&sender->state->link, &sender->page->wake, sender->socket);
		}
		pthread_mutex_unlock(&stress->mutex);
	}
	return NULL;
}

/* ---- mail ---------------------------------------------------------------------------------------- */

static void ask(struct stage *stage, struct mail question, enum mail_type answer)
{
	struct mail mail;

	question.tx_queue = stage->channel;
	require(mailbox_send(stage->transmit->inbox, &question) == 0, "the worker takes no mail");
	while (answer && !mailbox_receive(stage->transmit->outbox, &mail))
		sched_yield();
	require(!answer || (mail.type == answer && mail.error == 0), "the worker answered something else");
}

static void init_stage(struct stress *stress, struct stage *stage)
{
	const struct tx_queue_options channel = {
		.name = "stress",
		.backend = stress->backend,
		.queue_slots = QUEUE_SLOTS,
		.slot_bytes = SUBMITTER_BYTES,
		.n_destinations = 1,
		.completion_events = true,
	};
	const struct worker_options transmit = {.name = "stress", .cpu = -1};
	static struct waker wakers[STAGES];
	struct waker *waker = &wakers[stage - stress->stages];

	require(tx_queue_new(&stage->channel, &channel, NULL) == 0, "no channel");
	require(tx_worker_new(&stage->transmit, &transmit) == 0, "no worker");
	if (stage == &stress->stages[WIRE]) {
		require(pthread_create(&stress->wire, NULL, run_wire, stress) == 0, "no thread");
	} else {
		scripted_send_at_once(stage->channel->queue, true);
		require(worker_start(stage->transmit) == 0, "no worker thread");
	}
	*waker = (struct waker){stress, stage};
	require(pthread_create(&stage->waker, NULL, run_waker, waker) == 0, "no thread");
	ask(stage, (struct mail){.type = MAIL_ADD_TX_QUEUE}, MAIL_TX_QUEUE_ADDED);
	ask(stage, (struct mail){.type = MAIL_DESTINATION, .destination = test_destination(0, PACKET_CHECKSUMS_DEVICE)},
	    0);
}

/* ---- senders come and go ------------------------------------------------------------------------- */

static void add_sender(struct stress *stress, uint32_t i)
{
	struct submitter *submitter = &stress->shared->submitters[i];
	struct test_sender *sender = &submitter->sender;

	pthread_mutex_lock(&stress->mutex);
	*submitter = (struct submitter){.frames = 0};
	require(test_sender_init(sender, stress->backend, stage_of(stress, i)->transmit, SUBMITTER_SLOTS,
	                         SUBMITTER_BYTES) == 0,
	        "no sender");
	submitter_init(submitter, i, &stress->shared->end);
	submitter->seed += (unsigned)stress->n_killed * N_SENDERS;
	pthread_mutex_unlock(&stress->mutex);
	ask(stage_of(stress, i), (struct mail){.type = MAIL_ADD_SENDER, .sender = &sender->sender}, MAIL_SENDER_ADDED);
}

static void *run_submitter(void *argument)
{
	submitter_run(argument);
	return NULL;
}

static void start(struct stress *stress, uint32_t i)
{
	if (!stress->processes) {
		require(pthread_create(&stress->threads[i], NULL, run_submitter, &stress->shared->submitters[i]) == 0,
		        "no thread");
		return;
	}
	stress->children[i] = fork();
	require(stress->children[i] >= 0, "no process");
	if (stress->children[i] == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		submitter_run(&stress->shared->submitters[i]);
		_exit(EXIT_SUCCESS);
	}
}

static uint64_t count(const struct submitter *submitter, enum ibvcap_tx_counter counter)
{
	return test_sender_count(&submitter->sender, counter);
}

/* After its removal: whatever it was doing, each packet that it had submitted ended, once. */
static bool is_sum_exact(const struct submitter *submitter)
{
	return count(submitter, IBVCAP_TX_COUNTER_SUBMITTED) == count(submitter, IBVCAP_TX_COUNTER_COMPLETED) +
	                                                                count(submitter, IBVCAP_TX_COUNTER_ERRORED) +
	                                                                count(submitter, IBVCAP_TX_COUNTER_FLUSHED) &&
	       count(submitter, IBVCAP_TX_COUNTER_SUBMITTED) == submitter->sender.sender.submitted &&
	       submitter->wrong == 0;
}

static void remove_sender(struct stress *stress, uint32_t i)
{
	struct submitter *submitter = &stress->shared->submitters[i];

	ask(stage_of(stress, i), (struct mail){.type = MAIL_REMOVE_SENDER, .sender = &submitter->sender.sender},
	    MAIL_SENDER_REMOVED);
	if (!is_sum_exact(submitter)) {
		fprintf(stderr, "send_stress: sender %u: its sum is not exact\n", i);
		stress->good = false;
	}
	pthread_mutex_lock(&stress->mutex);
	test_sender_deinit(&submitter->sender);
	pthread_mutex_unlock(&stress->mutex);
}

/* Killed wherever it is; another takes its place. */
static void replace(struct stress *stress, uint32_t i)
{
	int status;

	kill(stress->children[i], SIGKILL);
	require(waitpid(stress->children[i], &status, 0) > 0 && WIFSIGNALED(status), "a sender failed");
	remove_sender(stress, i);
	stress->n_killed++;
	add_sender(stress, i);
	start(stress, i);
}

static void end(struct stress *stress, uint32_t i)
{
	int status = 0;

	if (stress->processes)
		require(waitpid(stress->children[i], &status, 0) > 0 && status == 0, "a sender failed");
	else
		pthread_join(stress->threads[i], NULL);
}

/* ---- the run ------------------------------------------------------------------------------------- */

static void let_run(struct stress *stress, uint64_t seconds)
{
	const struct timespec tick = {.tv_nsec = KILL_MS * 1000000};

	for (uint64_t i = 0; i < seconds * 1000 / KILL_MS; i++) {
		nanosleep(&tick, NULL);
		if (stress->processes)
			replace(stress, i % 2 ? MORTAL : N_SENDERS - 1);
	}
	atomic_store_explicit(&stress->shared->end, true, memory_order_relaxed);
}

static void stop(struct stress *stress)
{
	for (int i = 0; i < STAGES; i++)
		ask(&stress->stages[i], (struct mail){.type = MAIL_REMOVE_TX_QUEUE}, MAIL_TX_QUEUE_REMOVED);
	ask(&stress->stages[THREAD], (struct mail){.type = MAIL_STOP}, MAIL_STOPPED);
	worker_join(stress->stages[THREAD].transmit);
	atomic_store_explicit(&stress->stop, true, memory_order_relaxed);
	pthread_join(stress->wire, NULL);
	for (int i = 0; i < STAGES; i++) {
		struct stage *stage = &stress->stages[i];
		const _Atomic uint64_t *counters = stage->channel->counters;

		eventfd_write(tx_worker_doorbell(stage->transmit), 1);
		pthread_join(stage->waker, NULL);
		printf("stage %d: completed %llu, wakes %llu, resets %llu\n", i,
		       (unsigned long long)counter_get(&counters[IBVCAP_TX_COUNTER_COMPLETED]),
		       (unsigned long long)counter_get(&counters[IBVCAP_TX_COUNTER_WAKES]),
		       (unsigned long long)counter_get(&counters[IBVCAP_TX_COUNTER_QUEUE_RESETS]));
		stress->good &= counter_get(&counters[IBVCAP_TX_COUNTER_COMPLETED]) > 0;
		tx_queue_free(stage->channel);
		tx_worker_free(stage->transmit);
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"seconds", required_argument, NULL, 's'}, {"processes", no_argument, NULL, 'p'}, {0}};
	static struct stress stress = {.mutex = PTHREAD_MUTEX_INITIALIZER, .good = true};
	uint64_t seconds = 5;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (option == 's')
			seconds = strtoull(optarg, NULL, 10);
		else if (option == 'p')
			stress.processes = true;
		else
			return 64;
	}
	stress.shared = mmap(NULL, sizeof(*stress.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	require(stress.shared != MAP_FAILED, "out of memory");
	require(scripted_backend_ops.open(NULL, &stress.backend, NULL) == 0, "no backend");
	for (uint32_t i = 0; i < N_SENDERS; i++)
		stress.shared->submitters[i].sender =
			(struct test_sender){.socket = -1, .sender.kick = SENDER_KICK_INIT};
	for (int i = 0; i < STAGES; i++)
		init_stage(&stress, &stress.stages[i]);
	for (uint32_t i = 0; i < N_SENDERS; i++) {
		add_sender(&stress, i);
		start(&stress, i);
	}
	let_run(&stress, seconds);
	for (uint32_t i = 0; i < N_SENDERS; i++) {
		end(&stress, i);
		stress.good &= submitter_is_good(&stress.shared->submitters[i], i < N_WIRE, i < N_WIRE);
		remove_sender(&stress, i);
	}
	stop(&stress);
	printf("killed %llu, foreign frames %llu\n", (unsigned long long)stress.n_killed,
	       (unsigned long long)stress.foreign);
	scripted_backend_ops.close(stress.backend);
	return stress.good && stress.foreign == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
