// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/notifier.h"
#include "lib/ibvcap/ring.h"
#include "tests/support/consumers.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ibvcap/ibvcap.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define N 64u

static struct rx_ring ring;
static struct notifier *notifier;
static struct ring_consumer consumers[3];
static int ours[3], theirs[3];

static void init(void)
{
	const struct rx_ring_options options = {
		.stream = "test", .epoch = 1, .slot_bytes = 64, .slots_per_block = N, .header_bytes = 42, .history_blocks = 2,
		.receive_queue_slots = N, .spare_blocks = 3, .lease_blocks_max = 1, .page_bytes = 4096, .n_queues = 1,
	};

	cr_assert_eq(rx_ring_init(&ring, &options, NULL), 0);
	cr_assert_eq(notifier_new(&notifier, &ring), 0);
	for (int i = 0; i < 3; i++) {
		int ends[2];

		cr_assert_eq(test_consumer_init(&consumers[i], 1), 0);
		cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
		ours[i] = ends[0];
		theirs[i] = ends[1];
		cr_assert_eq(rx_ring_add_consumer(&ring, &consumers[i]), 0);
		cr_assert_eq(notifier_add(notifier, &consumers[i], ours[i]), 0);
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
	struct pollfd poller = { .fd = fd, .events = POLLIN };

	return poll(&poller, 1, timeout_ms) > 0;
}

static void await_word(const struct ring_consumer *consumer, uint32_t before)
{
	while (consumer_load_wake_word(consumer->state) == before)
		usleep(100);
}

Test(notifier, each_consumer_is_woken_as_it_asked)
{
	consumer_request_wake(consumers[0].page, 1, false);
	consumer_request_wake(consumers[1].page, 1, false);
	consumer_request_wake(consumers[2].page, 1, true);
	publish(1);
	await_word(&consumers[0], 0);
	await_word(&consumers[1], 0);
	cr_expect(is_readable_within(theirs[2], 30000));
	cr_expect_not(is_readable_within(theirs[0], 0));
}

Test(notifier, who_waits_for_more_is_left_asleep)
{
	consumer_request_wake(consumers[0].page, 1, true);
	consumer_request_wake(consumers[1].page, 2, true);
	publish(1);
	cr_expect(is_readable_within(theirs[0], 30000));
	cr_expect_not(is_readable_within(theirs[1], 0));
}

Test(notifier, a_closed_ring_wakes_whoever_asked)
{
	consumer_request_wake(consumers[0].page, 1000, true);
	rx_ring_close(&ring);
	cr_expect(is_readable_within(theirs[0], 30000));
}

static void *read_into_the_void(void *nowhere)
{
	(void)!read(theirs[0], nowhere, 1);
	return NULL;
}

/* A reader whose buffer is a page that nobody provides: it stops in the middle of its read. */
Test(notifier, a_reader_that_is_stuck_holds_up_nobody)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fault_fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register range = { .range = { .start = (uintptr_t)page, .len = 4096 },
					 .mode = UFFDIO_REGISTER_MODE_MISSING };
	pthread_t thread;

	if (fault_fd < 0)
		cr_skip_test("userfaultfd is not for this user");
	cr_assert_eq(ioctl(fault_fd, UFFDIO_API, &api), 0);
	cr_assert_eq(ioctl(fault_fd, UFFDIO_REGISTER, &range), 0);
	consumer_request_wake(consumers[0].page, 1, true);
	publish(1);
	cr_assert_eq(pthread_create(&thread, NULL, read_into_the_void, page), 0);
	cr_assert(is_readable_within(fault_fd, 30000), "it faults, and waits");
	consumer_request_wake(consumers[0].page, 2, true);
	consumer_request_wake(consumers[1].page, 2, false);
	consumer_request_wake(consumers[2].page, 2, true);
	publish(1);
	await_word(&consumers[1], 0);
	cr_expect(is_readable_within(theirs[2], 30000));
	close(fault_fd); /* lets it go on */
	pthread_join(thread, NULL);
	munmap(page, 4096);
}
