// SPDX-License-Identifier: Apache-2.0
/*
 * Streams of several queues, with control, rings and workers on the scripted backend in this process, and consumers in
 * processes of their own that use libibvcap. Each packet that a consumer acquires is marked in memory that all share,
 * so at the end every packet of every queue was acquired once, or is counted as skipped.
 */
#include "daemon/control/control.h"
#include "lib/base/time.h"
#include "daemon/worker/rx_worker.h"
#include "lib/ibvcap/ring.h"
#include "tests/support/scripted_backend.h"
#include "tests/support/small_ring.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <ibvcap/ibvcap.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS       128u
#define BLOCK       64u
#define QUEUES      4u
#define MEMBERS     4u
#define PACKETS_MAX 65536u
#define PATIENCE_MS 60000u

/* What this process and the consumers share. */
static struct shared {
	char socket_path[108];
	struct ibvcap_rx_options options[MEMBERS];
	uid_t uid[MEMBERS];
	_Atomic bool may_open[MEMBERS];
	_Atomic bool by_descriptor; /* sleep in poll() */
	_Atomic bool stop;
	_Atomic bool hold[MEMBERS]; /* keep the next batch */
	_Atomic uint32_t holds[MEMBERS];
	_Atomic uint32_t n_attached[MEMBERS];
	_Atomic uint32_t failed_queues[MEMBERS];
	_Atomic uint32_t n_taken_over[MEMBERS];
	_Atomic uint32_t n_voided[MEMBERS]; /* batches whose release failed */
	_Atomic int error[MEMBERS];
	_Atomic bool is_open[MEMBERS];
	struct ibvcap_rx_counts counts[MEMBERS];
	bool tracks[MEMBERS];
	struct ibvcap_tracker_counts tracked[MEMBERS];
	_Atomic uint8_t seen[QUEUES][PACKETS_MAX];
} * shared;

static char directory[] = "/tmp/ibvcap-groups-XXXXXX";
static struct config_stream stream;
static struct config config;
static struct backend *backend;
static uint32_t n_queues;
static uint64_t epoch;
static struct backend_queue *queues[QUEUES];
static struct backend_flow *flows[QUEUES];
static struct rx_ring rings[QUEUES];
static struct worker *workers[QUEUES];
static bool has_failed[QUEUES];
static struct control_queue control_queues[QUEUES];
static struct control_stream control_stream;
static struct rx_losses ledger;
static struct reading matched, interface_lost;
static const uint64_t uncounted;
static sd_event *event;
static struct listener listener;
static struct control *control;
static pid_t members[MEMBERS];

/* ---- a consumer ------------------------------------------------------------------------------------ */

static void mark(const struct ibvcap_rx_batch *batch, int by)
{
	for (uint32_t i = 0; i < batch->n; i++)
		shared->seen[batch->queue][batch->sequence + i] += (uint8_t)by;
}

static void nap_ms(unsigned ms)
{
	usleep(ms * 1000);
}

static void hold_batch(unsigned me, uint32_t n)
{
	shared->holds[me] = n;
	while (shared->hold[me])
		nap_ms(1);
	shared->holds[me] = 0;
}

static int next_batch(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch)
{
	struct pollfd poller = {.fd = shared->by_descriptor ? ibvcap_rx_fd(rx) : -1, .events = POLLIN};
	int r = ibvcap_rx_acquire(rx, batch, 32, 1, shared->by_descriptor ? 0 : 50);

	if (r == 0 && shared->by_descriptor)
		poll(&poller, 1, 1000);
	return r;
}

/* The packets' number, and a byte that tells the senders apart. */
static const struct ibvcap_sequence packet_numbers = {.bytes = 4,
                                                      .source_offset = 4,
                                                      .source_bytes = 1,
                                                      .source_mask = {0xff},
                                                      .source = IBVCAP_SOURCE_NONE,
                                                      .step = 1,
                                                      .upper_step = 1,
                                                      .window = 64,
                                                      .jump = 1000};

static void track_batch(struct ibvcap_rx *rx, unsigned me, const struct ibvcap_rx_batch *batch)
{
	static struct ibvcap_tracker *tracker;
	int r = tracker ? 0 : ibvcap_tracker_new(&packet_numbers, NULL, &tracker);

	shared->tracked[me].size = sizeof(shared->tracked[me]);
	if (r == 0)
		r = ibvcap_rx_track(rx, batch, tracker, NULL);
	if (r == 0)
		r = ibvcap_tracker_counts(tracker, &shared->tracked[me]);
	shared->error[me] = r;
}

static void consume(struct ibvcap_rx *rx, unsigned me)
{
	while (!shared->stop) {
		struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);
		struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);
		int r = next_batch(rx, &batch);

		ibvcap_rx_info(rx, &info);
		shared->n_attached[me] = info.n_attached;
		shared->failed_queues[me] = info.failed_queues;
		ibvcap_rx_counts(rx, &shared->counts[me]);
		if (r < 0) {
			shared->error[me] = r;
			return;
		}
		if (r == 0)
			continue;
		shared->n_taken_over[me] += (batch.flags & IBVCAP_RX_BATCH_FLAG_TAKEN_OVER) != 0;
		mark(&batch, 1);
		if (shared->tracks[me])
			track_batch(rx, me, &batch);
		if (shared->hold[me])
			hold_batch(me, batch.n);
		if (ibvcap_rx_release(rx, &batch) < 0) { /* the batch is void */
			mark(&batch, -1);
			shared->n_voided[me]++;
		}
	}
}

static void be_member(unsigned me)
{
	struct ibvcap_rx *rx = NULL;

	while (!shared->may_open[me])
		nap_ms(1);
	shared->counts[me].size = sizeof(shared->counts[me]);
	if (setresuid(shared->uid[me], shared->uid[me], shared->uid[me]) < 0)
		_exit(1);
	shared->error[me] = ibvcap_rx_open(shared->socket_path, "lidar", &shared->options[me], &rx);
	shared->is_open[me] = shared->error[me] == 0;
	if (shared->is_open[me])
		consume(rx, me);
	if (rx)
		ibvcap_rx_counts(rx, &shared->counts[me]);
	ibvcap_rx_close(rx);
	_exit(0);
}

/* Before there is a daemon, so that they have none of its descriptors. */
static void fork_members(void)
{
	for (unsigned i = 0; i < MEMBERS; i++) {
		members[i] = fork();
		cr_assert(members[i] >= 0);
		if (members[i] == 0)
			be_member(i);
	}
}

/* ---- the daemon -------------------------------------------------------------------------------------- */

static int read_lost(void *, uint64_t *packets)
{
	*packets = 0;
	return 0;
}

static int read_matched(void *context, uint64_t *packets)
{
	uint64_t n;

	(void)context;
	*packets = 0;
	for (uint32_t i = 0; i < n_queues; i++) {
		scripted_backend_ops.read_matched(queues[i], &n);
		*packets += n;
	}
	return 0;
}

static void worker_ended(void *context, const struct control_stream *which, uint32_t queue_index, int error)
{
	(void)context;
	(void)which;
	(void)queue_index;
	(void)error;
}

static void make_queue(uint32_t index)
{
	struct rx_ring_options ring_options = small_ring();
	struct backend_queue_options queue_options;
	struct rx_worker_options options = {
		.worker.name = "test", .ring = &rings[index], .worker.cpu = -1, .losses = &ledger.sum.queues[index]};

	ring_options.stream = "lidar";
	ring_options.epoch = epoch;
	ring_options.slots_per_block = BLOCK;
	ring_options.posted_slots = SLOTS;
	ring_options.spare_blocks = 16;
	ring_options.queue_index = index;
	ring_options.n_queues = n_queues;
	ring_options.sequence = packet_numbers;
	queue_options = queue_for_ring(&ring_options);
	queue_options.completion_events = true;
	cr_assert_eq(scripted_backend_ops.create_queue(backend, &queue_options, &queues[index], NULL), 0);
	cr_assert_eq(rx_ring_init(&rings[index], &ring_options, NULL), 0);
	cr_assert_eq(rx_ring_seal(&rings[index], NULL), 0);
	options.queue = queues[index];
	rx_losses_add_queue(&ledger, index, rings[index].ring, NULL);
	cr_assert_eq(rx_worker_new(&workers[index], &options), 0);
	cr_assert_eq(rx_worker_prime(workers[index]), 0);
	cr_assert_eq(scripted_backend_ops.start(queues[index]), 0);
	cr_assert_eq(scripted_backend_ops.add_flow(queues[index], &(struct flow_rule){0}, &flows[index], NULL), 0);
	control_queues[index] = (struct control_queue){.ring = &rings[index],
	                                               .inbox = workers[index]->inbox,
	                                               .outbox = workers[index]->outbox,
	                                               .state = "capturing"};
	control_stream.queues[index] = &control_queues[index];
}

static void begin(uint32_t n)
{
	struct control_options options = {.config = &config, .listener = &listener, .worker_ended = worker_ended};

	n_queues = n;
	epoch++;
	memset(has_failed, 0, sizeof(has_failed));
	cr_assert_geq(sd_event_new(&event), 0);
	options.event = event;
	cr_assert_eq(listener_open(&listener, config.socket_path, 0666, (gid_t)-1, NULL), 0);
	cr_assert_eq(scripted_backend_ops.open(NULL, &backend, NULL), 0);
	reading_init(&interface_lost, read_lost, NULL);
	reading_init(&matched, read_matched, NULL);
	losses_init(&ledger.sum, n, SLOTS, false, false, LOSSES_DRAIN_NS_MIN);
	cr_assert_eq(control_new(&control, &options, NULL), 0);
	control_stream = (struct control_stream){.config = &stream,
	                                         .device = "scripted0",
	                                         .backend = "scripted",
	                                         .matched = &matched,
	                                         .losses = &ledger,
	                                         .interface_lost = &interface_lost,
	                                         .interface_uncounted = &uncounted,
	                                         .n_queues = n};
	for (uint32_t i = 0; i < n; i++)
		make_queue(i);
	cr_assert_eq(control_add_stream(control, &control_stream), 0);
}

static void set_up(void)
{
	if (getuid() != 0)
		cr_skip_test("a daemon's own user is refused, unless it is root: run as root");
	cr_assert(mkdtemp(directory) != NULL);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert(shared != MAP_FAILED);
	stream = (struct config_stream){.name = "lidar",
	                                .interface = "eth7",
	                                .max_consumers = 8,
	                                .lease_blocks = 2,
	                                .max_consumers_per_user = 8,
	                                .max_lease_blocks_per_user = 16,
	                                .file = "test.conf",
	                                .line = 7,
	                                .receive_queue_slots = SLOTS};
	config = (struct config){.file = "test.conf",
	                         .max_clients = 64,
	                         .max_clients_per_user = 64,
	                         .max_messages_per_s = 1000,
	                         .max_messages_per_s_per_user = 1000,
	                         .idle_timeout_s = 60};
	snprintf(config.socket_path, sizeof(config.socket_path), "%s/control.sock", directory);
	snprintf(shared->socket_path, sizeof(shared->socket_path), "%s", config.socket_path);
	for (unsigned i = 0; i < MEMBERS; i++) {
		shared->options[i] = (struct ibvcap_rx_options)IBVCAP_INIT(struct ibvcap_rx_options);
		shared->options[i].start = IBVCAP_START_OLDEST;
		snprintf(shared->options[i].group, sizeof(shared->options[i].group), "workers");
	}
	fork_members();
}

static void end_daemon(void)
{
	for (uint32_t i = 0; i < n_queues; i++)
		rx_ring_close(&rings[i], IBVCAP_RING_END_STOPPED);
	control_free(control);
	for (uint32_t i = 0; i < n_queues; i++) {
		rx_worker_free(workers[i]);
		rx_ring_deinit(&rings[i]);
		scripted_backend_ops.remove_flow(flows[i]);
		scripted_backend_ops.destroy_queue(queues[i]);
	}
	if (backend)
		scripted_backend_ops.close(backend);
	listener_close(&listener);
	sd_event_unref(event);
	control = NULL;
	backend = NULL;
	event = NULL;
	n_queues = 0;
}

static void tear_down(void)
{
	if (!shared)
		return;
	for (unsigned i = 0; i < MEMBERS; i++)
		if (members[i] > 0) {
			kill(members[i], SIGKILL);
			waitpid(members[i], NULL, 0);
		}
	if (n_queues)
		end_daemon();
	rmdir(directory);
}

TestSuite(groups, .init = set_up, .fini = tear_down, .timeout = 120);

/* ---- packets ------------------------------------------------------------------------------------------- */

static void work(void)
{
	for (uint32_t i = 0; i < n_queues; i++)
		if (!has_failed[i])
			cr_assert_geq(rx_worker_do_work(workers[i]), 0);
}

static uint64_t count_seen(uint32_t queue)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < rings[queue].head; i++)
		n += shared->seen[queue][i];
	return n;
}

static void arrive(uint32_t queue, uint32_t n)
{
	cr_assert_lt(rings[queue].head + n, PACKETS_MAX);
	scripted_complete(queues[queue], n, 100);
}

static bool is_hurried; /* packets come whether or not they are acquired */

/* One turn. Packets come as fast as they are acquired, so that none is skipped. */
static void turn(bool with_packets)
{
	for (uint32_t i = 0; i < n_queues && with_packets; i++)
		if (!has_failed[i] && (is_hurried || rings[i].head < count_seen(i) + BLOCK))
			arrive(i, 8);
	work();
	cr_assert_geq(sd_event_run(event, 1000), 0);
}

static uint64_t now_ms(void)
{
	return time_monotonic_ns() / 1000000;
}

#define TURN_UNTIL(condition, with_packets)                                        \
	do {                                                                       \
		const uint64_t end = now_ms() + PATIENCE_MS;                       \
		while (!(condition)) {                                             \
			cr_assert_lt(now_ms(), end, "waited for: %s", #condition); \
			turn(with_packets);                                        \
		}                                                                  \
	} while (0)

static void turn_with_packets(unsigned n)
{
	uint64_t until[QUEUES] = {0};

	for (uint32_t i = 0; i < n_queues; i++)
		until[i] = rings[i].head + n;
	for (uint32_t i = 0; i < n_queues; i++)
		TURN_UNTIL(has_failed[i] || rings[i].head >= until[i], true);
}

static void join(unsigned member)
{
	shared->may_open[member] = true;
	TURN_UNTIL(shared->is_open[member] || shared->error[member], true);
	cr_assert_eq(shared->error[member], 0, "member %u: %s", member, strerror(-shared->error[member]));
}

static void kill_member(unsigned member)
{
	kill(members[member], SIGKILL);
	waitpid(members[member], NULL, 0);
	members[member] = 0;
}

/* As its worker does when the device cannot reset the queue. */
static void fail_queue(uint32_t queue)
{
	const struct mail failed = {.type = MAIL_FAILED, .error = -EIO};

	has_failed[queue] = true;
	rx_ring_close(&rings[queue], IBVCAP_RING_END_FAILED);
	cr_assert_eq(mailbox_send_last(workers[queue]->outbox, &failed), 0);
}

static bool is_all_acquired(void)
{
	uint64_t accounted = 0, published = 0;

	for (uint32_t i = 0; i < n_queues; i++) {
		accounted += count_seen(i);
		published += rings[i].head;
	}
	for (unsigned i = 0; i < MEMBERS; i++)
		accounted += shared->counts[i].skipped;
	return accounted >= published;
}

/* Packets stop, the consumers end. */
static void finish(void)
{
	TURN_UNTIL(is_all_acquired(), false);
	shared->stop = true;
	for (unsigned i = 0; i < MEMBERS; i++) {
		shared->may_open[i] = members[i] && shared->may_open[i];
		if (members[i] > 0 && !shared->may_open[i])
			kill_member(i);
		for (; members[i] > 0; turn(false))
			if (waitpid(members[i], NULL, WNOHANG) == members[i])
				members[i] = 0;
	}
}

static void expect_counts_add_up(unsigned member)
{
	const struct ibvcap_rx_counts *counts = &shared->counts[member];

	cr_expect_eq(counts->published, counts->delivered + counts->skipped + counts->lag, "member %u", member);
}

/* Each packet once, or among n_skipped. */
static void expect_each_once(uint64_t n_skipped)
{
	uint64_t missing = 0;

	for (uint32_t queue = 0; queue < n_queues; queue++)
		for (uint64_t i = 0; i < rings[queue].head; i++) {
			cr_expect_leq(shared->seen[queue][i], 1, "queue %u, packet %llu: %u times", queue,
			              (unsigned long long)i, shared->seen[queue][i]);
			missing += shared->seen[queue][i] == 0;
		}
	cr_expect_eq(missing, n_skipped);
	for (unsigned i = 0; i < MEMBERS; i++)
		expect_counts_add_up(i);
}

/* ---- one handle ------------------------------------------------------------------------------------------ */

static void read_all_queues(uint32_t n, bool by_descriptor)
{
	begin(n);
	shared->by_descriptor = by_descriptor;
	shared->options[0].group[0] = '\0';
	shared->options[0].queue = IBVCAP_QUEUE_ALL;
	join(0);
	turn_with_packets(1000);
	finish();
	cr_expect_eq(shared->n_attached[0], n);
	expect_each_once(0);
}

Test(groups, one_handle_reads_one_queue)
{
	read_all_queues(1, false);
}

Test(groups, one_handle_reads_four_queues)
{
	read_all_queues(4, false);
}

Test(groups, one_descriptor_wakes_the_reader_of_four_queues)
{
	read_all_queues(4, true);
}

Test(groups, a_handle_of_one_queue_reads_no_other)
{
	begin(2);
	shared->options[0].group[0] = '\0';
	shared->options[0].queue = 1;
	shared->may_open[0] = true;
	TURN_UNTIL(shared->is_open[0], false);
	arrive(0, 10);
	arrive(1, 20);
	TURN_UNTIL(count_seen(1) == 20, false);
	cr_expect_eq(count_seen(0), 0);
	shared->options[1].group[0] = '\0';
	shared->options[1].queue = 2;
	shared->may_open[1] = true;
	TURN_UNTIL(shared->error[1], false);
	cr_expect_eq(shared->error[1], -EINVAL, "there is no queue 2");
}

/* ---- the next daemon ------------------------------------------------------------------------------------- */

static void restart(uint32_t n)
{
	TURN_UNTIL(is_all_acquired(), false);
	end_daemon();
	memset((void *)shared->seen, 0, sizeof(shared->seen));
	begin(n);
}

Test(groups, a_handle_of_all_queues_follows_the_stream_to_the_next_daemon_with_more_or_fewer_queues)
{
	const uint32_t numbers[] = {4, 1, 3};

	begin(2);
	shared->options[0].group[0] = '\0';
	shared->options[0].queue = IBVCAP_QUEUE_ALL;
	join(0);
	for (unsigned i = 0; i < 3; i++) {
		turn_with_packets(100);
		restart(numbers[i]);
		TURN_UNTIL(shared->counts[0].epochs == i + 1 && shared->n_attached[0] == numbers[i], false);
	}
	turn_with_packets(100);
	finish();
	expect_each_once(0);
}

/* ---- a queue that fails ---------------------------------------------------------------------------------- */

static void read_all(unsigned member)
{
	shared->options[member].group[0] = '\0';
	shared->options[member].queue = IBVCAP_QUEUE_ALL;
	join(member);
}

/* What it had is delivered, and the next daemon's queue is read again. */
static void lose_a_queue(uint32_t queue, bool by_descriptor)
{
	begin(3);
	shared->by_descriptor = by_descriptor;
	read_all(0);
	turn_with_packets(100);
	shared->hold[0] = true;
	TURN_UNTIL(shared->holds[0], true);
	arrive(queue, 20);
	work();
	fail_queue(queue);
	shared->hold[0] = false;
	TURN_UNTIL(shared->failed_queues[0] == 1u << queue && shared->n_attached[0] == 2, true);
	turn_with_packets(200);
	TURN_UNTIL(is_all_acquired(), false);
	cr_expect_eq(shared->error[0], 0);
	cr_expect_eq(shared->counts[0].failures, 1);
	cr_expect_eq(count_seen(queue), rings[queue].head);
	expect_each_once(0);
	restart(3);
	TURN_UNTIL(shared->n_attached[0] == 3 && shared->failed_queues[0] == 0, false);
	turn_with_packets(100);
	finish();
	cr_expect_eq(shared->counts[0].failures, 1);
	cr_expect_eq(shared->counts[0].epochs, 1);
	expect_each_once(0);
}

Test(groups, a_handle_of_all_queues_goes_on_without_the_first_one_when_that_fails)
{
	lose_a_queue(0, false);
}

Test(groups, a_handle_of_all_queues_goes_on_without_the_last_one_when_that_fails)
{
	lose_a_queue(2, true);
}

Test(groups, the_last_queue_that_fails_ends_the_handle_and_the_reason_is_true)
{
	begin(2);
	shared->options[0].reattach_ms = IBVCAP_NO_REATTACH;
	read_all(0);
	fail_queue(1);
	TURN_UNTIL(shared->failed_queues[0] == 2, true);
	cr_expect_eq(shared->error[0], 0);
	fail_queue(0);
	TURN_UNTIL(shared->error[0], false);
	cr_expect_eq(shared->error[0], -EIO);
	cr_expect_eq(shared->counts[0].failures, 2);
	expect_counts_add_up(0);
}

Test(groups, a_stream_that_is_removed_after_a_queue_has_failed_ends_the_handle_as_removed)
{
	begin(2);
	read_all(0);
	fail_queue(0);
	TURN_UNTIL(shared->failed_queues[0] == 1, true);
	control_end_stream(&control_stream, IBVCAP_DISCONNECT_REMOVED);
	rx_ring_close(&rings[1], IBVCAP_RING_END_STOPPED);
	TURN_UNTIL(shared->error[0], false);
	cr_expect_eq(shared->error[0], -ENODEV);
}

Test(groups, a_handle_that_is_opened_after_a_queue_has_failed_has_the_others)
{
	begin(3);
	fail_queue(0);
	turn(false);
	read_all(0);
	TURN_UNTIL(shared->n_attached[0] == 2 && shared->failed_queues[0] == 1, false);
	turn_with_packets(100);
	shared->options[1].group[0] = '\0';
	shared->options[1].queue = 0;
	shared->may_open[1] = true;
	TURN_UNTIL(shared->error[1], true);
	cr_expect_eq(shared->error[1], -EIO, "a handle of that queue alone");
	finish();
	cr_expect_eq(shared->counts[0].failures, 1);
	expect_each_once(0);
}

Test(groups, a_member_whose_queue_fails_goes_on_with_its_others)
{
	begin(4);
	shared->options[0].reattach_ms = IBVCAP_NO_REATTACH;
	join(0);
	TURN_UNTIL(shared->n_attached[0] == 4, false);
	arrive(3, 8);
	work();
	fail_queue(3);
	TURN_UNTIL(shared->n_attached[0] == 3 && shared->failed_queues[0] == 8, true);
	turn_with_packets(100);
	finish();
	cr_expect_eq(shared->error[0], 0);
	cr_expect_eq(shared->counts[0].failures, 1);
	expect_each_once(0);
}

Test(groups, a_group_is_made_anew_by_the_next_daemon)
{
	begin(2);
	join(0);
	join(1);
	TURN_UNTIL(shared->n_attached[0] == 1 && shared->n_attached[1] == 1, true);
	restart(4);
	TURN_UNTIL(shared->n_attached[0] == 2 && shared->n_attached[1] == 2, false);
	turn_with_packets(100);
	finish();
	cr_expect_eq(shared->counts[0].epochs, 1);
	expect_each_once(0);
}

Test(groups, a_member_that_is_not_to_reattach_ends_with_the_daemon)
{
	begin(1);
	for (unsigned i = 0; i < 2; i++)
		shared->options[i].reattach_ms = IBVCAP_NO_REATTACH;
	join(0);
	TURN_UNTIL(shared->n_attached[0] == 1, false);
	join(1);
	end_daemon();
	for (uint64_t end = now_ms() + PATIENCE_MS; now_ms() < end && !(shared->error[0] && shared->error[1]);)
		nap_ms(1);
	cr_expect_eq(shared->error[0], -ESHUTDOWN);
	cr_expect_eq(shared->error[1], -ESHUTDOWN, "the one that stands by");
}

/* ---- groups ------------------------------------------------------------------------------------------------ */

Test(groups, a_member_that_joins_gets_queues_of_those_that_have_more)
{
	uint64_t skipped = 0;

	begin(4);
	join(0);
	TURN_UNTIL(shared->n_attached[0] == 4, true);
	is_hurried = true;
	join(1);
	TURN_UNTIL(shared->n_attached[0] == 2 && shared->n_attached[1] == 2, true);
	join(2);
	join(3);
	TURN_UNTIL(shared->n_attached[0] == 1 && shared->n_attached[1] == 1 && shared->n_attached[2] == 1 &&
	                   shared->n_attached[3] == 1,
	           true);
	turn_with_packets(500);
	finish();
	for (unsigned i = 0; i < MEMBERS; i++)
		skipped += shared->counts[i].skipped;
	expect_each_once(skipped);
	cr_expect_gt(shared->n_taken_over[1], 0);
	for (unsigned i = 0; i < MEMBERS; i++)
		cr_expect_eq(shared->counts[i].abandoned, 0, "member %u", i);
}

/* While nobody has the queues, more packets come than the rings keep. */
static void take_over(uint32_t n, bool by_descriptor)
{
	uint64_t from_ms, skipped = 0;
	uint32_t held;

	begin(n);
	shared->by_descriptor = by_descriptor;
	join(0);
	TURN_UNTIL(shared->n_attached[0] == n, true);
	join(1);
	TURN_UNTIL(shared->n_attached[0] + shared->n_attached[1] == n && shared->n_attached[1] == n / 2, true);
	turn_with_packets(500);
	shared->hold[0] = true;
	TURN_UNTIL(shared->holds[0], true);
	held = shared->holds[0];
	kill_member(0);
	is_hurried = true;
	for (unsigned i = 0; i < 20; i++)
		for (uint32_t queue = 0; queue < n; queue++) {
			arrive(queue, BLOCK);
			work();
		}
	from_ms = now_ms();
	TURN_UNTIL(shared->n_attached[1] == n, true);
	cr_log_info("%u queues: taken over in %llu ms", n, (unsigned long long)(now_ms() - from_ms));
	turn_with_packets(500);
	finish();
	for (uint32_t queue = 0; queue < n; queue++)
		for (uint64_t i = 0; i < rings[queue].head; i++)
			skipped += shared->seen[queue][i] == 0;
	cr_expect_gt(skipped, 0, "the rings are short");
	cr_expect_eq(shared->counts[1].skipped, skipped);
	cr_expect_eq(shared->counts[1].abandoned, held);
	cr_expect_eq(shared->n_taken_over[1], n);
	expect_each_once(skipped);
}

Test(groups, the_queue_of_a_killed_member_is_taken_over_by_the_one_that_stands_by)
{
	take_over(1, false);
}

Test(groups, two_queues_of_a_killed_member_are_taken_over)
{
	take_over(2, true);
}

Test(groups, four_queues_of_a_killed_member_are_taken_over)
{
	take_over(4, false);
}

Test(groups, a_member_that_gives_up_no_queue_is_disconnected_from_it_and_costs_only_its_group)
{
	begin(2);
	snprintf(shared->options[2].group, sizeof(shared->options[2].group), "others");
	join(2);
	join(0);
	TURN_UNTIL(shared->n_attached[0] == 2 && shared->n_attached[2] == 2, false);
	shared->hold[0] = true;
	arrive(0, 8);
	arrive(1, 8);
	TURN_UNTIL(shared->holds[0], false);
	shared->may_open[1] = true;
	TURN_UNTIL(shared->n_attached[1] == 1, false);
	cr_expect_eq(shared->n_attached[0], 2, "it knows nothing yet");
	arrive(0, 8);
	arrive(1, 8);
	TURN_UNTIL(shared->counts[2].delivered == rings[0].head + rings[1].head, false);
	shared->hold[0] = false;
	TURN_UNTIL(shared->n_attached[0] == 1, false);
	finish();
	cr_expect_eq(shared->error[0], 0);
	cr_expect_eq(shared->counts[2].skipped, 0);
	for (unsigned i = 0; i < MEMBERS; i++)
		expect_counts_add_up(i);
}

/* The second and the third one share a payer, which is everybody's. */
Test(groups, nobody_gets_into_the_group_of_another_user)
{
	const uid_t users[] = {0, 65533, 65534};

	begin(2);
	cr_assert_eq(chmod(directory, 0755), 0);
	for (unsigned i = 0; i < 3; i++) {
		shared->uid[i] = users[i];
		shared->may_open[i] = true; /* no packet comes meanwhile, so the ring keeps all for the last one */
		TURN_UNTIL(shared->is_open[i], false);
		TURN_UNTIL(shared->n_attached[i] == 2, false);
	}
	arrive(0, 10);
	arrive(1, 10);
	for (unsigned i = 0; i < 3; i++)
		TURN_UNTIL(shared->counts[i].delivered == rings[0].head + rings[1].head, false);
}

Test(groups, a_tap_is_no_member)
{
	begin(1);
	shared->options[0].policy = IBVCAP_POLICY_TAP;
	shared->may_open[0] = true;
	TURN_UNTIL(shared->error[0], false);
	cr_expect_eq(shared->error[0], -EINVAL);
}

Test(groups, a_batch_of_a_queue_that_is_recalled_is_whole_until_it_is_given_up)
{
	begin(2);
	join(0);
	TURN_UNTIL(shared->n_attached[0] == 2, false);
	shared->hold[0] = true;
	arrive(0, 8);
	TURN_UNTIL(shared->holds[0], false);
	shared->may_open[1] = true;
	TURN_UNTIL(shared->is_open[1], false);
	shared->hold[0] = false;
	TURN_UNTIL(shared->n_attached[0] == 1 && shared->n_attached[1] == 1, false);
	cr_expect_eq(shared->n_voided[0], 0);
	turn_with_packets(100);
	finish();
	expect_each_once(0);
}

Test(groups, a_queue_that_fails_while_it_is_recalled_keeps_no_other_queue_from_its_next_owner)
{
	begin(3);
	join(0);
	TURN_UNTIL(shared->n_attached[0] == 3, false);
	shared->hold[0] = true;
	arrive(0, 8);
	TURN_UNTIL(shared->holds[0], false);
	shared->may_open[1] = true;
	TURN_UNTIL(shared->is_open[1], false);
	fail_queue(0);
	shared->hold[0] = false;
	TURN_UNTIL(shared->n_attached[0] == 1 && shared->n_attached[1] == 1, false);
	cr_expect_eq(shared->error[0], 0);
	cr_expect_eq(shared->error[1], 0);
}

/* n numbers of a sender from first on, of which each tenth is lost on the wire. Returns how many. */
static uint32_t arrive_from_sender(uint32_t queue, uint32_t first, uint32_t n)
{
	uint8_t frame[42 + 16] = {
		[12] = 0x08, [14] = 0x45, [17] = 28 + 16, [23] = 17, [39] = 8 + 16, [46] = (uint8_t)queue};
	uint32_t lost = 0;

	for (uint32_t i = first; i < first + n; i++) {
		frame[44] = (uint8_t)(i >> 8);
		frame[45] = (uint8_t)i;
		if (i % 10 == 5)
			lost++;
		else
			cr_assert(scripted_arrive(queues[queue], frame, sizeof(frame)));
	}
	return lost;
}

/* One handle tracks both queues, and two members of a group one each. */
Test(groups, what_the_wire_lost_is_counted_in_all_queues_and_by_each_member)
{
	uint32_t lost = 0;

	begin(2);
	shared->options[2].group[0] = '\0';
	shared->options[2].queue = IBVCAP_QUEUE_ALL;
	for (unsigned i = 0; i < 3; i++) {
		shared->tracks[i] = true;
		shared->may_open[i] = true;
		TURN_UNTIL(shared->is_open[i], false);
	}
	TURN_UNTIL(shared->n_attached[0] == 1 && shared->n_attached[1] == 1 && shared->n_attached[2] == 2, false);
	for (uint32_t first = 0; first < 400; first += 40) {
		for (uint32_t queue = 0; queue < 2; queue++)
			lost += arrive_from_sender(queue, first, 40);
		TURN_UNTIL(shared->tracked[2].packets == 2 * (first + 40) - lost, false);
	}
	TURN_UNTIL(shared->tracked[0].packets + shared->tracked[1].packets == 800 - lost, false);
	for (unsigned i = 0; i < 3; i++) {
		cr_expect_eq(shared->error[i], 0);
		cr_expect_eq(shared->tracked[i].n_sources, i < 2 ? 1 : 2);
		cr_expect_eq(shared->tracked[i].numbers.lost, i < 2 ? lost / 2 : lost);
		cr_expect_eq(shared->tracked[i].lost_before_card, shared->tracked[i].numbers.lost);
		cr_expect_eq(shared->tracked[i].numbers.sent, i < 2 ? 400 : 800);
	}
}

Test(groups, packets_of_a_killed_member_are_abandoned_once_though_the_next_owner_acquires_nothing)
{
	uint32_t held;

	begin(1);
	join(0);
	join(1);
	join(2);
	shared->hold[0] = true;
	arrive(0, 8);
	TURN_UNTIL(shared->holds[0], false);
	held = shared->holds[0];
	kill_member(0);
	TURN_UNTIL(shared->counts[1].abandoned + shared->counts[2].abandoned == held, false);
	kill_member(shared->n_attached[1] ? 1 : 2);
	TURN_UNTIL(shared->n_attached[1] && shared->n_attached[2], false);
	turn_with_packets(100);
	cr_expect_eq(shared->counts[1].abandoned + shared->counts[2].abandoned, held);
}

static uint64_t ring_says(uint32_t queue, enum ibvcap_rx_counter counter)
{
	return counter_get(&rings[queue].ring->counters[counter]);
}

Test(groups, the_rings_of_all_queues_say_what_one_of_them_has_lost)
{
	const uint8_t frame[142] = {0};

	begin(2);
	for (uint32_t i = 0; i < SLOTS + 10; i++)
		scripted_arrive(queues[0], frame, sizeof(frame));
	TURN_UNTIL(ring_says(0, IBVCAP_RX_COUNTER_NO_BUFFER) == 10 && ring_says(1, IBVCAP_RX_COUNTER_NO_BUFFER) == 10,
	           false);
	cr_expect_eq(ring_says(0, IBVCAP_RX_COUNTER_MATCHED), SLOTS + 10);
	cr_expect_eq(ring_says(1, IBVCAP_RX_COUNTER_MATCHED), SLOTS + 10);
}
