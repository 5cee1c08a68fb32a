// SPDX-License-Identifier: Apache-2.0
/* A sender's handle and the daemon's side of it in one process: both can be driven step by step. */
#include "daemon/ring/rx_ring.h"
#include "daemon/ring/sender.h"
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/ring_tx.h"
#include "lib/ibvcap/tx/tx.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 64u
#define BYTES 100u
#define EPOCH 99u

static struct sender sender;
static struct ibvcap_tx *tx;
static int daemon_control;

static void prepare(int fds[PROTOCOL_FD_OPENED_N], int *control)
{
	const struct sender_options options = {.channel = "test",
	                                       .epoch = EPOCH,
	                                       .n_slots = SLOTS,
	                                       .slot_bytes = BYTES,
	                                       .n_destinations = 2,
	                                       .page_bytes = 4096,
	                                       .rate_bps = 5,
	                                       .burst_bytes = 6,
	                                       .late_after_ns = 7};
	int controls[2], sockets[2];
	struct failure failure;

	cr_assert(eq(int, sender_init(&sender, &options, &failure), 0), "%s", failure.text);
	cr_assert(eq(int, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, controls), 0));
	cr_assert(eq(int, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0));
	daemon_control = controls[0];
	*control = controls[1];
	sender.socket = sockets[0];
	fds[PROTOCOL_FD_ARENA] = fcntl(sender.arena.fd, F_DUPFD_CLOEXEC, 0);
	fds[PROTOCOL_FD_SENDER_PAGE] = fcntl(sender.page_shm.fd, F_DUPFD_CLOEXEC, 0);
	fds[PROTOCOL_FD_SENDER_STATE] = shm_reopen_readonly(&sender.state_shm);
	fds[PROTOCOL_FD_SENDER_SOCKET] = sockets[1];
	sender.kick.eventfd = eventfd(0, EFD_CLOEXEC);
	fds[PROTOCOL_FD_SENDER_KICK] = fcntl(sender.kick.eventfd, F_DUPFD_CLOEXEC, 0);
}

static void init(void)
{
	int fds[PROTOCOL_FD_OPENED_N], control;

	prepare(fds, &control);
	cr_assert(eq(int, tx_handle_new(&tx, control, fds, EPOCH), 0), "%s", ibvcap_error_text());
	cr_assert(eq(int, sender_seal(&sender), 0));
}

static void deinit(void)
{
	ibvcap_tx_close(tx);
	if (daemon_control >= 0)
		close(daemon_control);
	close(sender.socket);
	sender_kick_deinit(&sender.kick);
	sender_deinit(&sender);
}

TestSuite(tx, .init = init, .fini = deinit, .timeout = 30);

/* What the worker would do: take all there is, and end n of those that it has with that status. */
static void work(uint32_t n, int32_t status)
{
	static _Atomic uint64_t channel[IBVCAP_TX_COUNTER_N];

	cr_assert(sender_read_submitted(&sender));
	while (sender_peek(&sender))
		sender_take(&sender);
	while (n-- > 0)
		sender_complete(&sender, status, BYTES, 146);
	sender_publish(&sender, channel);
	if (sender_wants_wake(&sender))
		client_wake(&sender.state->link, &sender.page->wake, sender.socket);
}

static void submit(uint32_t n)
{
	struct ibvcap_tx_slots slots = IBVCAP_INIT(struct ibvcap_tx_slots);

	while (n > 0) {
		int got = ibvcap_tx_reserve(tx, &slots, n, 1, 0);

		cr_assert(gt(int, got, 0));
		cr_assert(eq(int, ibvcap_tx_submit(tx, (uint32_t)got), 0));
		n -= (uint32_t)got;
	}
}

static struct ibvcap_tx_counts counts(void)
{
	struct ibvcap_tx_counts result = IBVCAP_INIT(struct ibvcap_tx_counts);

	cr_assert(eq(int, ibvcap_tx_counts(tx, &result), 0));
	cr_assert(eq(u64, result.submitted,
	             result.completed + result.errored + result.flushed + result.late_dropped + result.pending));
	return result;
}

/* ---- opening ------------------------------------------------------------------------------------- */

Test(tx, its_properties_are_the_channels)
{
	struct ibvcap_tx_info info = IBVCAP_INIT(struct ibvcap_tx_info);

	cr_assert(eq(int, ibvcap_tx_info(tx, &info), 0));
	cr_expect_str_eq(info.channel, "test");
	cr_expect(eq(u64, info.epoch, EPOCH));
	cr_expect(eq(u32, info.n_slots, SLOTS));
	cr_expect(eq(u32, info.slot_bytes, BYTES));
	cr_expect(eq(u32, info.n_destinations, 2));
	cr_expect(eq(u64, info.rate_bps, 5));
	cr_expect(eq(u32, info.burst_bytes, 6));
	cr_expect(eq(u64, info.late_after_ns, 7));
}

/* Before it is sent: the state is made wrong, and then is refused. */
static void expect_refused(void (*spoil)(struct sender *), const char *text)
{
	int fds[PROTOCOL_FD_OPENED_N], control;
	struct ibvcap_tx *refused = NULL;

	deinit();
	prepare(fds, &control);
	spoil(&sender);
	cr_expect(eq(int, tx_handle_new(&refused, control, fds, EPOCH), -EPROTO));
	cr_expect(eq(ptr, refused, NULL));
	cr_expect(strstr(ibvcap_error_text(), text) != NULL, "%s", ibvcap_error_text());
	close(sender.socket);
	sender_kick_deinit(&sender.kick);
	close(daemon_control);
	sender_deinit(&sender);
	init();
}

static void more_slots(struct sender *s)
{
	s->state->n_slots = 128;
}

static void odd_slots(struct sender *s)
{
	s->state->n_slots = 65;
}

static void no_slots(struct sender *s)
{
	s->state->n_slots = 0;
}

static void larger_rows(struct sender *s)
{
	s->state->slot_bytes = 129;
}

static void descriptors_outside(struct sender *s)
{
	s->state->descriptors_offset = 4096 - 16;
}

static void statuses_outside(struct sender *s)
{
	s->state->statuses_offset = UINT64_MAX - 3;
}

static void another_magic(struct sender *s)
{
	s->page->segment.magic ^= 1;
}

static void another_epoch(struct sender *s)
{
	s->state->segment.epoch++;
}

static void another_abi(struct sender *s)
{
	s->state->segment.abi_major++;
}

Test(tx, memory_that_does_not_hold_what_it_says_is_refused)
{
	expect_refused(more_slots, "outside of its segments");
	expect_refused(odd_slots, "outside of its segments");
	expect_refused(no_slots, "outside of its segments");
	expect_refused(larger_rows, "outside of its segments");
	expect_refused(descriptors_outside, "outside of its segments");
	expect_refused(statuses_outside, "outside of its segments");
	expect_refused(another_magic, "sender page segment is none");
	expect_refused(another_epoch, "another epoch");
	expect_refused(another_abi, "ABI");
}

/* ---- reserve, submit ------------------------------------------------------------------------------ */

Test(tx, what_is_written_to_reserved_rows_is_what_the_worker_finds)
{
	struct ibvcap_tx_slots slots = IBVCAP_INIT(struct ibvcap_tx_slots);

	cr_assert(eq(int, ibvcap_tx_reserve(tx, &slots, 3, 0, 0), 3));
	cr_expect(eq(u32, slots.n, 3));
	cr_expect(eq(u32, slots.stride, BYTES));
	cr_expect(eq(u64, slots.sequence, 0));
	for (uint32_t i = 0; i < 3; i++) {
		memset(slots.payload + (size_t)i * slots.stride, (int)i + 1, slots.stride);
		cr_expect(eq(u16, slots.packets[i].length, BYTES), "preset");
		cr_expect(eq(u64, slots.packets[i].not_before_ns, 0));
	}
	slots.packets[1] = (struct ibvcap_tx_descriptor){.length = 17, .destination = 1, .not_before_ns = 5};
	cr_assert(sender_read_submitted(&sender));
	cr_expect(eq(ptr, (void *)sender_peek(&sender), NULL), "not submitted yet");
	slots.packets[0].not_before_ns = UINT64_C(86400) * 1000000000; /* CLOCK_MONOTONIC, a day after the boot */
	cr_expect(eq(int, ibvcap_tx_submit(tx, 3), -EINVAL));
	cr_expect(strstr(ibvcap_error_text(), "ns since 1970, UTC") != NULL, "%s", ibvcap_error_text());
	cr_assert(sender_read_submitted(&sender));
	cr_expect(eq(ptr, (void *)sender_peek(&sender), NULL), "none of them is submitted");
	slots.packets[0].not_before_ns = 0;
	cr_assert(eq(int, ibvcap_tx_submit(tx, 3), 0));
	cr_assert(sender_read_submitted(&sender));
	for (uint32_t i = 0; i < 3; i++) {
		const struct ibvcap_tx_descriptor *descriptor = sender_peek(&sender);

		cr_assert(ne(ptr, (void *)descriptor, NULL));
		cr_expect(eq(u16, descriptor->length, i == 1 ? 17 : BYTES));
		cr_expect(eq(u64, descriptor->not_before_ns, i == 1 ? 5 : 0));
		cr_expect(eq(int, sender_take(&sender)[99], (int)i + 1));
	}
}

Test(tx, no_row_is_given_out_again_before_it_is_completed)
{
	struct ibvcap_tx_slots slots = IBVCAP_INIT(struct ibvcap_tx_slots);

	submit(SLOTS);
	cr_expect(eq(int, ibvcap_tx_reserve(tx, &slots, 10, 0, 0), 0));
	work(5, 0);
	cr_expect(eq(int, ibvcap_tx_reserve(tx, &slots, 10, 0, 0), 5));
	cr_expect(eq(ptr, slots.payload, tx->arena.address));
	cr_expect(eq(u64, slots.sequence, SLOTS));
}

Test(tx, a_reservation_ends_at_the_arenas_end)
{
	struct ibvcap_tx_slots slots = IBVCAP_INIT(struct ibvcap_tx_slots);

	submit(60);
	work(60, 0);
	cr_expect(eq(int, ibvcap_tx_reserve(tx, &slots, 10, 10, 0), 4));
	cr_assert(eq(int, ibvcap_tx_submit(tx, 4), 0));
	cr_expect(eq(int, ibvcap_tx_reserve(tx, &slots, 10, 10, 0), 10));
	cr_expect(eq(ptr, slots.payload, tx->arena.address));
}

Test(tx, slots_of_a_size_that_cannot_be_used_are_refused_and_nothing_is_reserved)
{
	const size_t sizes[] = {0, sizeof(size_t), offsetof(struct ibvcap_tx_slots, stride), SIZE_MAX};
	struct ibvcap_tx_slots slots = {0};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		slots.size = sizes[i];
		cr_expect(eq(int, ibvcap_tx_reserve(tx, &slots, 3, 1, 0), -EINVAL));
		cr_expect_not_null(strstr(ibvcap_error_text(), "IBVCAP_INIT(struct ibvcap_tx_slots)"));
		cr_expect(eq(ptr, slots.payload, NULL));
		cr_expect(eq(int, ibvcap_tx_submit(tx, 1), -EINVAL));
	}
	slots.size = offsetof(struct ibvcap_tx_slots, stride) + sizeof(slots.stride);
	cr_expect(eq(int, ibvcap_tx_reserve(tx, &slots, 3, 1, 0), 3));
}

Test(tx, fewer_than_reserved_may_be_submitted_and_the_rest_later_or_never)
{
	struct ibvcap_tx_slots slots = IBVCAP_INIT(struct ibvcap_tx_slots);
	struct ibvcap_tx_slots again = IBVCAP_INIT(struct ibvcap_tx_slots);

	cr_assert(eq(int, ibvcap_tx_reserve(tx, &slots, 10, 0, 0), 10));
	cr_expect(eq(int, ibvcap_tx_submit(tx, 11), -EINVAL));
	cr_expect(eq(int, ibvcap_tx_submit(tx, 4), 0));
	cr_expect(eq(int, ibvcap_tx_submit(tx, 0), 0));
	cr_expect(eq(int, ibvcap_tx_submit(tx, 3), 0));
	cr_expect(eq(int, ibvcap_tx_submit(tx, 4), -EINVAL));
	cr_assert(eq(int, ibvcap_tx_reserve(tx, &again, 1, 0, 0), 1));
	cr_expect(eq(ptr, again.payload, slots.payload + 7 * BYTES));
	cr_expect(eq(u64, counts().submitted, 7));
	cr_expect(eq(int, ibvcap_tx_reserve(tx, &again, 0, 0, 0), -EINVAL));
	cr_expect(eq(int, ibvcap_tx_submit(tx, 1), -EINVAL));
	cr_expect(eq(int, ibvcap_tx_reserve(tx, &again, 1, 0, -2), -EINVAL));
}

Test(tx, send_copies_one_payload)
{
	cr_expect(eq(int, ibvcap_tx_send(tx, "hello", 5, 1, 0), 1));
	cr_expect(eq(int, ibvcap_tx_send(tx, "", 0, 0, 0), 1));
	cr_expect(eq(int, ibvcap_tx_send(tx, "", BYTES + 1, 0, 0), -EMSGSIZE));
	cr_expect(eq(int, ibvcap_tx_send(tx, "", 1, 2, 0), -EINVAL));
	cr_assert(sender_read_submitted(&sender));
	cr_expect(eq(u64, sender.submitted, 2));
	cr_expect(eq(u16, sender_peek(&sender)->length, 5));
	cr_expect(eq(u16, sender_peek(&sender)->destination, 1));
	cr_expect_arr_eq(sender_take(&sender), "hello", 5);
	submit(SLOTS - 2);
	cr_expect(eq(int, ibvcap_tx_send(tx, "hello", 5, 0, 0), 0), "no room");
}

Test(tx, a_worker_that_sleeps_is_kicked_once_it_asked_for_it)
{
	struct pollfd poller = {.fd = sender.kick.eventfd, .events = POLLIN};

	submit(1);
	cr_expect(eq(int, poll(&poller, 1, 0), 0));
	daemon_store_need_kick(sender.state, true);
	submit(1);
	cr_expect(eq(int, poll(&poller, 1, 0), 1));
}

/* ---- what became of packets ----------------------------------------------------------------------- */

Test(tx, results_come_in_order_and_once)
{
	int32_t statuses[10];
	uint64_t sequence;

	submit(20);
	cr_expect(eq(int, ibvcap_tx_results(tx, statuses, 10, &sequence), 0));
	work(3, 0);
	work(2, -EMSGSIZE);
	work(1, -ETIME);
	work(1, -ECANCELED);
	cr_assert(eq(int, ibvcap_tx_results(tx, statuses, 4, &sequence), 4));
	cr_expect(eq(u64, sequence, 0));
	cr_expect(eq(i32, statuses[2], 0));
	cr_expect(eq(i32, statuses[3], -EMSGSIZE));
	cr_assert(eq(int, ibvcap_tx_results(tx, statuses, 10, &sequence), 3));
	cr_expect(eq(u64, sequence, 4));
	cr_expect(eq(i32, statuses[1], -ETIME));
	cr_expect(eq(i32, statuses[2], -ECANCELED));
	cr_expect(eq(int, ibvcap_tx_results(tx, statuses, 10, &sequence), 0));
	const struct ibvcap_tx_counts now = counts();

	cr_expect(eq(u64, now.completed, 3));
	cr_expect(eq(u64, now.errored, 2));
	cr_expect(eq(u64, now.late_dropped, 1));
	cr_expect(eq(u64, now.flushed, 1));
	cr_expect(eq(u64, now.pending, 13));
}

Test(tx, counts_are_the_daemons_also_of_bytes_and_times)
{
	submit(3);
	sender.tally[IBVCAP_TX_COUNTER_TIMED] = 2;
	sender.tally[IBVCAP_TX_COUNTER_TIMED_LATENESS_NS] = 70;
	sender.tally[IBVCAP_TX_COUNTER_TIMED_LATENESS_MAX_NS] = 50;
	sender.tally[IBVCAP_TX_COUNTER_LATE] = 1;
	work(2, 0);
	work(1, -EIO);
	const struct ibvcap_tx_counts now = counts();

	cr_expect(eq(u64, now.completed_bytes, 2 * BYTES));
	cr_expect(eq(u64, now.wire_bytes, 2 * 146));
	cr_expect(eq(u64, now.timed, 2));
	cr_expect(eq(u64, now.timed_lateness_ns, 70));
	cr_expect(eq(u64, now.timed_lateness_max_ns, 50));
	cr_expect(eq(u64, now.late, 1));
}

Test(tx, results_that_were_not_asked_for_in_time_are_passed_over_and_counted)
{
	int32_t statuses[2 * SLOTS];
	uint64_t sequence;

	submit(SLOTS);
	work(SLOTS, -EINVAL);
	submit(10);
	work(10, 0);
	cr_assert(eq(int, ibvcap_tx_results(tx, statuses, 2 * SLOTS, &sequence), SLOTS));
	cr_expect(eq(u64, sequence, 10));
	cr_expect(eq(i32, statuses[0], -EINVAL));
	cr_expect(eq(i32, statuses[SLOTS - 1], 0));
	cr_expect(eq(u64, counts().errored, SLOTS));
}

/* ---- waiting -------------------------------------------------------------------------------------- */

static void *complete_soon(void *n)
{
	usleep(20000);
	work((uint32_t)(uintptr_t)n, 0);
	return NULL;
}

static void complete_in_a_moment(pthread_t *thread, uint32_t n)
{
	cr_assert(sender_read_submitted(&sender));
	cr_assert(eq(int, pthread_create(thread, NULL, complete_soon, (void *)(uintptr_t)n), 0));
}

Test(tx, a_reserve_that_waits_is_woken_when_there_is_room_for_what_it_wants)
{
	struct ibvcap_tx_slots slots = IBVCAP_INIT(struct ibvcap_tx_slots);
	pthread_t thread;

	submit(SLOTS);
	complete_in_a_moment(&thread, 10);
	cr_expect(eq(int, ibvcap_tx_reserve(tx, &slots, 10, 10, -1), 10));
	pthread_join(thread, NULL);
	cr_assert(eq(int, ibvcap_tx_submit(tx, 10), 0));
	complete_in_a_moment(&thread, 3);
	cr_expect(eq(int, ibvcap_tx_reserve(tx, &slots, 10, 5, 100), 3), "what there is when the time is over");
	pthread_join(thread, NULL);
}

Test(tx, a_flush_waits_for_the_last_packet)
{
	pthread_t thread;

	cr_expect(eq(int, ibvcap_tx_flush(tx, 0), 0), "nothing was submitted");
	submit(10);
	cr_expect(eq(int, ibvcap_tx_flush(tx, 0), -ETIMEDOUT));
	work(9, 0);
	cr_expect(eq(int, ibvcap_tx_flush(tx, 10), -ETIMEDOUT));
	complete_in_a_moment(&thread, 1);
	cr_expect(eq(int, ibvcap_tx_flush(tx, -1), 0));
	pthread_join(thread, NULL);
}

Test(tx, the_descriptor_is_readable_once_what_was_waited_for_has_come)
{
	struct pollfd poller = {.fd = ibvcap_tx_fd(tx), .events = POLLIN};
	struct ibvcap_tx_slots slots = IBVCAP_INIT(struct ibvcap_tx_slots);

	submit(SLOTS);
	cr_expect(eq(int, ibvcap_tx_reserve(tx, &slots, 8, 2, 0), 0));
	cr_expect(eq(int, poll(&poller, 1, 0), 0));
	work(1, 0);
	cr_expect(eq(int, poll(&poller, 1, 0), 0), "two were wanted");
	work(1, 0);
	cr_expect(eq(int, poll(&poller, 1, 0), 1));
	cr_expect(eq(int, ibvcap_tx_reserve(tx, &slots, 8, 2, 0), 2));
	cr_expect(eq(int, poll(&poller, 1, 0), 0), "emptied");
	cr_expect(eq(int, ibvcap_tx_flush(tx, 0), -ETIMEDOUT));
	work(SLOTS - 3, 0);
	cr_expect(eq(int, poll(&poller, 1, 0), 0));
	work(1, 0);
	cr_expect(eq(int, poll(&poller, 1, 0), 1));
	cr_expect(eq(int, ibvcap_tx_flush(tx, 0), 0));
	cr_expect(eq(int, poll(&poller, 1, 0), 0));
}

static void on_signal(int number)
{
	(void)number;
}

Test(tx, a_signal_ends_a_wait)
{
	const struct sigaction action = {.sa_handler = on_signal};
	const struct itimerspec soon = {.it_value = {.tv_nsec = 20000000}};
	timer_t timer;

	sigaction(SIGALRM, &action, NULL);
	submit(1);
	cr_assert(eq(int, timer_create(CLOCK_MONOTONIC, NULL, &timer), 0));
	timer_settime(timer, 0, &soon, NULL);
	cr_expect(eq(int, ibvcap_tx_flush(tx, -1), -EINTR));
}

/* ---- ends ----------------------------------------------------------------------------------------- */

Test(tx, a_daemon_that_dies_ends_every_wait_and_what_is_left_is_of_unknown_fate)
{
	struct ibvcap_tx_slots slots = IBVCAP_INIT(struct ibvcap_tx_slots);

	submit(SLOTS);
	work(10, 0);
	close(daemon_control);
	daemon_control = -1;
	cr_expect(eq(int, ibvcap_tx_flush(tx, -1), -ESHUTDOWN));
	cr_expect(eq(int, ibvcap_tx_reserve(tx, &slots, 1, 1, -1), -ESHUTDOWN));
	cr_expect(eq(int, ibvcap_tx_submit(tx, 0), -ESHUTDOWN));
	cr_expect(eq(u64, counts().completed, 10));
	cr_expect(eq(u64, counts().pending, SLOTS - 10));
}

Test(tx, the_reason_for_an_end_is_told)
{
	static const struct {
		enum ibvcap_disconnect reason;
		int error;
	} ends[] = {
		{IBVCAP_DISCONNECT_SHUTDOWN, -ESHUTDOWN},   {IBVCAP_DISCONNECT_REMOVED, -ENODEV},
		{IBVCAP_DISCONNECT_CHANNEL_FAILED, -EIO},   {IBVCAP_DISCONNECT_BAD_CURSOR, -ECONNABORTED},
		{IBVCAP_DISCONNECT_HUNG_UP, -ECONNABORTED},
	};
	struct ibvcap_tx_slots slots = IBVCAP_INIT(struct ibvcap_tx_slots);

	submit(2);
	work(1, 0);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		daemon_disconnect(&sender.state->link, ends[i].reason);
		cr_expect(eq(int, ibvcap_tx_reserve(tx, &slots, 1, 1, -1), ends[i].error));
		cr_expect(eq(int, ibvcap_tx_flush(tx, -1), ends[i].error));
	}
	work(1, -ECANCELED);
	cr_expect(eq(int, ibvcap_tx_flush(tx, -1), 0), "all of it is known");
}

/* ---- a child of fork() ---------------------------------------------------------------------------- */

/* 0: all is as it should be. */
static int use_all_calls_in_child(void)
{
	struct ibvcap_tx_slots slots = IBVCAP_INIT(struct ibvcap_tx_slots);
	struct ibvcap_tx_info info = IBVCAP_INIT(struct ibvcap_tx_info);
	struct ibvcap_tx_counts at_child = IBVCAP_INIT(struct ibvcap_tx_counts);
	int32_t statuses[SLOTS];
	uint64_t sequence;

	if (ibvcap_tx_submit(tx, 1) != -ECHILD || !strstr(ibvcap_error_text(), "'test'"))
		return 1;
	if (ibvcap_tx_reserve(tx, &slots, 1, 1, -1) != -ECHILD || ibvcap_tx_send(tx, "", 1, 0, -1) != -ECHILD)
		return 2;
	if (ibvcap_tx_flush(tx, -1) != -ECHILD || ibvcap_tx_fd(tx) != -ECHILD)
		return 3;
	if (ibvcap_tx_info(tx, &info) != 0 || ibvcap_tx_counts(tx, &at_child) != 0 ||
	    ibvcap_tx_results(tx, statuses, SLOTS, &sequence) != 2)
		return 4;
	ibvcap_tx_close(tx);
	return 0;
}

Test(tx, a_childs_calls_fail_and_the_parents_rows_stay_reserved)
{
	struct ibvcap_tx_slots slots = IBVCAP_INIT(struct ibvcap_tx_slots);
	struct pollfd poller = {.fd = daemon_control, .events = POLLIN};
	int32_t statuses[SLOTS];
	uint64_t sequence;
	int status;
	pid_t child;

	submit(3);
	work(2, 0);
	cr_assert(eq(int, ibvcap_tx_reserve(tx, &slots, 2, 2, 0), 2));
	slots.packets[0].length = 7;
	child = fork();
	if (child == 0)
		_exit(use_all_calls_in_child());
	cr_assert(eq(int, waitpid(child, &status, 0), child));
	cr_expect(eq(int, status, 0), "check %d failed in the child", WEXITSTATUS(status));
	cr_expect(eq(int, poll(&poller, 1, 0), 0), "the connection stays");
	cr_expect(eq(int, slots.packets[0].length, 7));
	cr_expect(eq(u64, counts().submitted, 3));
	cr_expect(eq(int, ibvcap_tx_submit(tx, 2), 0));
	cr_expect(eq(int, ibvcap_tx_results(tx, statuses, SLOTS, &sequence), 2),
	          "the parent's place in them is its own");
	work(3, 0);
	cr_expect(eq(int, ibvcap_tx_flush(tx, 0), 0));
}

Test(tx, a_close_ends_the_connection_also_while_a_child_lives)
{
	struct pollfd poller = {.fd = daemon_control, .events = POLLIN};
	int until[2];
	pid_t child;

	cr_assert(eq(int, pipe(until), 0));
	child = fork();
	if (child == 0) {
		close(until[1]);
		_exit(read(until[0], until, 1) < 0);
	}
	ibvcap_tx_close(tx);
	tx = NULL;
	cr_expect(eq(int, poll(&poller, 1, 0), 1));
	close(until[1]);
	waitpid(child, NULL, 0);
	close(until[0]);
}

static void expect_own_text(int r, int error, const char *text)
{
	cr_expect(eq(int, r, error), "%s", text);
	cr_expect_not_null(strstr(ibvcap_error_text(), text), "%s", ibvcap_error_text());
	error_set_text("of an older failure");
}

Test(tx, each_failure_says_why)
{
	struct ibvcap_tx_slots slots = IBVCAP_INIT(struct ibvcap_tx_slots);

	expect_own_text(ibvcap_tx_reserve(tx, NULL, 1, 1, 0), -EINVAL, "struct ibvcap_tx_slots");
	expect_own_text(ibvcap_tx_reserve(tx, &slots, 0, 1, 0), -EINVAL, "max is 0");
	expect_own_text(ibvcap_tx_submit(tx, 1), -EINVAL, "0 are reserved");
	expect_own_text(ibvcap_tx_send(tx, "", BYTES + 1, 0, 0), -EMSGSIZE, "payload_size");
	expect_own_text(ibvcap_tx_send(tx, "", 1, 2, 0), -EINVAL, "destination 2");
	expect_own_text(ibvcap_tx_flush(tx, -2), -EINVAL, "timeout_ms is -2");
	expect_own_text(ibvcap_tx_info(tx, NULL), -EINVAL, "struct ibvcap_tx_info");
	expect_own_text(ibvcap_tx_counts(tx, NULL), -EINVAL, "struct ibvcap_tx_counts");
	cr_assert(eq(int, ibvcap_tx_send(tx, "", 1, 0, 0), 1));
	expect_own_text(ibvcap_tx_flush(tx, 1), -ETIMEDOUT, "not sent after 1 ms");
	daemon_disconnect(&sender.state->link, IBVCAP_DISCONNECT_REMOVED);
	expect_own_text(ibvcap_tx_reserve(tx, &slots, 1, 1, 0), -ENODEV, "the administrator removed it");
}
