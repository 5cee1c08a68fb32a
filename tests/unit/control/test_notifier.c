// SPDX-License-Identifier: Apache-2.0
/* Which clients are woken and when, and that a client that is expensive to wake costs the others a bounded time. */
#include "daemon/control/notifier.h"
#include "daemon/control/user.h"
#include "lib/base/time.h"
#include "lib/ibvcap/ring.h"
#include "tests/support/consumers.h"
#include "tests/support/small_ring.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <ibvcap/ibvcap.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define N       64u
#define SLOW_US 9000 /* of CPU time: an honest client's wake-up takes a few */
#define LATE_NS UINT64_C(1000000000)

/* The first consumer's wakes by socket, as long as a hostile client can make them. */
static struct {
	_Atomic uint32_t takes_us;
	_Atomic bool is_stuck;
	_Atomic uint32_t n_begun;
} first_wake;
static _Atomic uint32_t all_take_us; /* the wakes of all, as on a slow machine */
static int ours[3], theirs[3];

static uint64_t cpu_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* In place of libc's. */
ssize_t send(int fd, const void *bytes, size_t n, int flags)
{
	uint64_t end_us = cpu_now_us() + all_take_us + (fd == ours[0] ? first_wake.takes_us : 0);

	while (cpu_now_us() < end_us)
		;
	if (fd == ours[0]) {
		first_wake.n_begun++;
		while (first_wake.is_stuck)
			usleep(100);
	}
	return sendto(fd, bytes, n, flags, NULL, 0);
}

static struct rx_ring ring;
#define CLIENTS 64

static struct notifier *notifier;
static struct ring_consumer consumers[3];
static struct users users;
static struct user *hostile, *honest; /* of the first consumer; of the others */

static void init(void)
{
	struct rx_ring_options options = small_ring();

	options.slot_bytes = 64;
	options.slots_per_block = options.posted_slots = N;
	options.history_blocks = 2;
	options.spare_blocks = 3;
	options.lease_blocks_max = 1;
	cr_assert_eq(rx_ring_init(&ring, &options, NULL), 0);
	cr_assert_eq(notifier_new(&notifier, &ring, ring.doorbell, CLIENTS), 0);
	hostile = user_enter(&users, &(struct payer){PAYER_USER, 1});
	honest = user_enter(&users, &(struct payer){PAYER_USER, 2});
	for (int i = 0; i < 3; i++) {
		int ends[2];

		cr_assert_eq(test_consumer_init(&consumers[i], 1), 0);
		cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
		ours[i] = ends[0];
		theirs[i] = ends[1];
		cr_assert_eq(rx_ring_add_consumer(&ring, &consumers[i]), 0);
		cr_assert_eq(notifier_add(notifier, &consumers[i], ours[i], i == 0 ? hostile : honest), 0);
	}
}

static void deinit(void)
{
	notifier_free(notifier);
	for (int i = 0; i < 3; i++) {
		test_consumer_deinit(&consumers[i]);
		close(ours[i]);
		close(theirs[i]);
	}
	rx_ring_deinit(&ring);
	users_deinit(&users);
}

TestSuite(notifier, .init = init, .fini = deinit, .timeout = 60);

static void publish(uint32_t n)
{
	struct rx_span span;

	rx_ring_post_span(&ring, n, &span);
	rx_ring_publish(&ring, span.n);
	rx_ring_wake(&ring);
}

static bool is_readable_within(int fd, int timeout_ms)
{
	struct pollfd poller = {.fd = fd, .events = POLLIN};

	return poll(&poller, 1, timeout_ms) > 0;
}

static void await_word(const struct ring_consumer *consumer, uint32_t before)
{
	while (client_load_wake_word(&consumer->state->link) == before)
		usleep(100);
}

Test(notifier, each_consumer_is_woken_as_it_asked)
{
	client_request_wake(&consumers[0].page->wake, 1, false);
	client_request_wake(&consumers[1].page->wake, 1, false);
	client_request_wake(&consumers[2].page->wake, 1, true);
	publish(1);
	await_word(&consumers[0], 0);
	await_word(&consumers[1], 0);
	cr_expect(is_readable_within(theirs[2], 30000));
	cr_expect_not(is_readable_within(theirs[0], 0));
}

Test(notifier, who_waits_for_more_is_left_asleep)
{
	client_request_wake(&consumers[0].page->wake, 1, true);
	client_request_wake(&consumers[1].page->wake, 2, true);
	publish(1);
	cr_expect(is_readable_within(theirs[0], 30000));
	cr_expect_not(is_readable_within(theirs[1], 0));
}

Test(notifier, a_closed_ring_wakes_whoever_asked)
{
	client_request_wake(&consumers[0].page->wake, 1000, true);
	rx_ring_close(&ring, IBVCAP_RING_END_STOPPED);
	cr_expect(is_readable_within(theirs[0], 30000));
}

static void *read_into_the_void(void *nowhere)
{
	(void)!read(theirs[0], nowhere, 1);
	return NULL;
}

static void await_first(uint32_t n)
{
	while (first_wake.n_begun < n)
		usleep(100);
}

static void ask_and_publish(uint64_t head)
{
	for (int i = 0; i < 3; i++)
		client_request_wake(&consumers[i].page->wake, head, true);
	publish(1);
}

static void empty(int fd)
{
	char byte;

	cr_assert(is_readable_within(fd, 30000));
	cr_assert_eq(read(fd, &byte, 1), 1);
}

static void ask_and_empty(uint64_t head)
{
	ask_and_publish(head);
	for (int i = 0; i < 3; i++)
		empty(theirs[i]);
}

/* Until the budget is used up; returns the head of the next request. */
static uint64_t use_budget_up(void)
{
	uint64_t head = 1;

	first_wake.takes_us = SLOW_US;
	while (!cpu_budget_excess_ns(&hostile->wakes, time_monotonic_ns())) {
		ask_and_empty(head++);
		cr_assert(head < 1000); /* on a loaded machine the budget grows meanwhile */
	}
	users_find_late(&users); /* a wake-up is charged after its byte has come, so one may have been late already */
	return head;
}

/* The others are woken at once. Another ring changes nothing. */
static void expect_late(uint64_t head)
{
	uint32_t n_begun = first_wake.n_begun;

	cpu_budget_charge(&hostile->wakes, CPU_BUDGET_FREE_NS + LATE_NS / CPU_BUDGET_REPAY, time_monotonic_ns());
	for (int i = 0; i < 2; i++) {
		ask_and_publish(head + i);
		empty(theirs[1]);
		empty(theirs[2]);
	}
	cr_expect(gt(u64, cpu_budget_excess_ns(&hostile->wakes, time_monotonic_ns()), 0), "the machine is too slow");
	cr_expect(eq(u32, first_wake.n_begun, n_begun));
	cr_expect_eq(users_find_late(&users), hostile);
	cr_expect_null(users_find_late(&users));
}

Test(notifier, a_client_whose_user_is_over_its_budget_is_woken_later_and_costs_the_others_no_more)
{
	uint64_t head = use_budget_up();
	uint32_t n_begun = first_wake.n_begun;

	expect_late(head);
	empty(theirs[0]); /* without another ring */
	cr_expect(eq(u64, cpu_budget_excess_ns(&hostile->wakes, time_monotonic_ns() + SLOW_US * UINT64_C(1000000)), 0));
	cr_expect(eq(u32, first_wake.n_begun, n_begun + 1), "once for both requests");
}

Test(notifier, a_client_that_comes_again_meets_the_same_budget)
{
	uint64_t head = use_budget_up();

	expect_late(head);
	notifier_remove(notifier, consumers[0].page);
	cr_assert_eq(notifier_add(notifier, &consumers[0], ours[0], hostile), 0);
	expect_late(head + 2);
}

Test(notifier, a_client_that_has_left_is_not_woken_later)
{
	uint64_t head = use_budget_up();
	uint32_t n_begun = first_wake.n_begun;

	expect_late(head);
	notifier_remove(notifier, consumers[0].page);
	while (cpu_budget_excess_ns(&hostile->wakes, time_monotonic_ns()))
		usleep(1000);
	usleep(20000);
	cr_expect(eq(u32, first_wake.n_begun, n_begun));
}

/* Of honest, two wakes of 1.9 ms beyond what is free for each packet: its budget is used up at the 12th. */
Test(notifier, where_each_wake_takes_long_each_client_is_woken)
{
	uint64_t start_ns;

	all_take_us = 2000;
	for (uint64_t head = 1; head < 14; head++)
		ask_and_empty(head);
	start_ns = time_monotonic_ns();
	for (uint64_t head = 14; head < 24; head++)
		ask_and_empty(head);
	cr_expect_not_null(users_find_late(&users));
	/* 20 wakes at 50 times 1.9 ms each: 1.9 s. */
	cr_expect(gt(u64, time_monotonic_ns() - start_ns, UINT64_C(1000000000)));
}

Test(notifier, clients_of_one_user_alone_have_no_budget)
{
	notifier_remove_and_wait(notifier, consumers[0].page);
	all_take_us = SLOW_US;
	for (uint64_t head = 1; head < 20; head++) {
		ask_and_publish(head);
		empty(theirs[1]);
		empty(theirs[2]);
	}
	cr_expect_not(cpu_budget_has_debt(&honest->wakes, time_monotonic_ns()));
	cr_expect_null(users_find_late(&users));
}

Test(notifier, roots_clients_have_no_budget)
{
	struct user *root = user_enter(&users, &(struct payer){PAYER_USER, 0});

	notifier_remove_and_wait(notifier, consumers[0].page);
	cr_assert_eq(notifier_add(notifier, &consumers[0], ours[0], root), 0);
	first_wake.takes_us = SLOW_US;
	for (uint64_t head = 1; head < 20; head++)
		ask_and_empty(head);
	cr_expect_not(cpu_budget_has_debt(&root->wakes, time_monotonic_ns()));
}

/* Both ask again at once; without turns the first one would have the whole budget. */
Test(notifier, the_clients_of_a_user_over_its_budget_take_turns)
{
	uint32_t n_woken[3] = {0};
	uint64_t head = 1;

	cpu_budget_charge(&honest->wakes, CPU_BUDGET_NS, time_monotonic_ns());
	cpu_budget_charge(&honest->wakes, CPU_BUDGET_NS, time_monotonic_ns());
	all_take_us = 500;
	while (n_woken[1] + n_woken[2] < 60) {
		ask_and_publish(head++);
		for (int i = 0; i < 3; i++)
			if (is_readable_within(theirs[i], i == 0)) {
				empty(theirs[i]);
				n_woken[i]++;
			}
	}
	/* A pass begins at each of three entries in turn, so one client has its turn twice as often as the other. */
	cr_expect(ge(u32, n_woken[1], 4));
	cr_expect(ge(u32, n_woken[2], 4));
}

Test(notifier, a_request_is_served_once)
{
	client_request_wake(&consumers[0].page->wake, 1, true);
	publish(1);
	empty(theirs[0]);
	for (uint64_t head = 2; head < 5; head++) {
		client_request_wake(&consumers[1].page->wake, head, true);
		publish(1);
		empty(theirs[1]); /* who comes after it */
	}
	cr_expect_eq(first_wake.n_begun, 1);
}

Test(notifier, honest_wakes_cost_no_budget)
{
	for (uint64_t head = 1; head < 100; head++)
		ask_and_empty(head);
	cr_expect_eq(cpu_budget_excess_ns(&hostile->wakes, time_monotonic_ns()), 0);
}

static void *wait_for_removal(void *has_returned)
{
	notifier_remove_and_wait(notifier, consumers[0].page);
	*(_Atomic bool *)has_returned = true;
	return NULL;
}

Test(notifier, control_waits_for_no_wake_and_the_users_thread_waits_for_its_end)
{
	_Atomic bool has_returned = false;
	struct ring_consumer other;
	pthread_t thread;

	first_wake.is_stuck = true;
	client_request_wake(&consumers[0].page->wake, 1, true);
	publish(1);
	await_first(1);
	cr_assert_eq(test_consumer_init(&other, 1), 0);
	cr_expect_eq(notifier_add(notifier, &other, -1, honest), 0);
	notifier_remove_and_wait(notifier, other.page);
	test_consumer_deinit(&other);
	notifier_remove(notifier, consumers[1].page);
	notifier_remove(notifier, consumers[0].page);
	cr_assert_eq(pthread_create(&thread, NULL, wait_for_removal, &has_returned), 0);
	usleep(20000);
	cr_expect_not(has_returned, "page and descriptor are in use");
	first_wake.is_stuck = false;
	pthread_join(thread, NULL);
	cr_expect(has_returned);
}

Test(notifier, it_may_be_waited_for_after_its_end)
{
	struct notifier *kept = notifier_ref(notifier);

	notifier_free(notifier);
	notifier_remove_and_wait(kept, consumers[0].page);
	notifier_unref(kept);
	notifier = NULL;
}

Test(notifier, nobody_is_woken_once_removed)
{
	notifier_remove(notifier, consumers[0].page);
	ask_and_publish(1);
	empty(theirs[1]);
	empty(theirs[2]);
	cr_expect_eq(first_wake.n_begun, 0);
}

Test(notifier, there_is_room_for_as_many_as_it_was_made_for_and_again_after_they_left)
{
	struct ring_consumer many[CLIENTS];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < CLIENTS - 3; i++) {
			cr_assert_eq(test_consumer_init(&many[i], 1), 0);
			cr_assert_eq(notifier_add(notifier, &many[i], -1, NULL), 0);
		}
		for (int i = 0; i < CLIENTS - 3; i++) {
			notifier_remove_and_wait(notifier, many[i].page);
			test_consumer_deinit(&many[i]);
		}
	}
}

/* A reader whose buffer is a page that nobody provides: it stops in the middle of its read. */
Test(notifier, a_reader_that_is_stuck_holds_up_nobody)
{
	struct uffdio_api api = {.api = UFFD_API};
	int fault_fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register range = {.range = {.start = (uintptr_t)page, .len = 4096},
	                                .mode = UFFDIO_REGISTER_MODE_MISSING};
	pthread_t thread;

	if (fault_fd < 0)
		cr_skip_test("userfaultfd is not for this user");
	cr_assert_eq(ioctl(fault_fd, UFFDIO_API, &api), 0);
	cr_assert_eq(ioctl(fault_fd, UFFDIO_REGISTER, &range), 0);
	client_request_wake(&consumers[0].page->wake, 1, true);
	publish(1);
	cr_assert_eq(pthread_create(&thread, NULL, read_into_the_void, page), 0);
	cr_assert(is_readable_within(fault_fd, 30000), "it faults, and waits");
	client_request_wake(&consumers[0].page->wake, 2, true);
	client_request_wake(&consumers[1].page->wake, 2, false);
	client_request_wake(&consumers[2].page->wake, 2, true);
	publish(1);
	await_word(&consumers[1], 0);
	cr_expect(is_readable_within(theirs[2], 30000));
	close(fault_fd); /* lets it go on */
	pthread_join(thread, NULL);
	munmap(page, 4096);
}

static struct heartbeats threads = LIST_HEAD_INITIALIZER(threads);

static void await_alive(void)
{
	while (heartbeat_find_stopped(&threads))
		usleep(1000);
}

Test(notifier, it_is_alive_as_long_as_its_thread_goes_round)
{
	heartbeat_watch(&threads, notifier_heartbeat(notifier), "it");
	await_alive();
	await_alive();
	first_wake.is_stuck = true;
	client_request_wake(&consumers[0].page->wake, 1, true);
	publish(1);
	while (first_wake.n_begun == 0)
		usleep(100);
	heartbeat_find_stopped(&threads); /* asks, if it was not asked before */
	usleep(10000);
	cr_expect_not_null(heartbeat_find_stopped(&threads));
	first_wake.is_stuck = false;
	await_alive();
}
