// SPDX-License-Identifier: Apache-2.0
/* What tests of a sender stand on: the scripted backend keeps the rules of backend.h, and holds its caller to them. */
#include "tests/support/scripted_backend.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>

#define SLOTS        8
#define HEADER_BYTES 42

static const struct backend_ops *const ops = &scripted_backend_ops;
static struct backend *backend;
static struct backend_memory *headers, *payload;
static struct backend_queue *queue;
static uint8_t header_rows[SLOTS][HEADER_BYTES], payload_rows[SLOTS][100];
static struct failure failure;

static void open_queue(void)
{
	struct backend_send_options options = {.slots = SLOTS, .completion_events = true};

	cr_assert(zero(int, ops->open(NULL, &backend, &failure)));
	cr_assert(zero(int, ops->register_memory(backend, header_rows, sizeof(header_rows), &headers, &failure)));
	cr_assert(zero(int, ops->register_memory(backend, payload_rows, sizeof(payload_rows), &payload, &failure)));
	options.headers = headers;
	cr_assert(zero(int, ops->create_send_queue(backend, &options, &queue, &failure)));
	cr_assert(zero(int, ops->start(queue)));
}

static void close_queue(void)
{
	ops->destroy_queue(queue);
	ops->unregister_memory(headers);
	ops->unregister_memory(payload);
	ops->close(backend);
}

static int post(uint32_t first, uint32_t n, uint32_t payload_bytes)
{
	struct backend_packet packets[2 * SLOTS];

	for (uint32_t i = 0; i < n; i++)
		packets[i] = (struct backend_packet){
			.headers = header_rows[(first + i) % SLOTS],
			.payload = payload_rows[(first + i) % SLOTS],
			.payload_memory = payload,
			.header_bytes = HEADER_BYTES,
			.payload_bytes = payload_bytes,
		};
	return ops->send_post(queue, packets, n);
}

static void expect_run(uint32_t n, enum backend_status status)
{
	struct backend_sent sent[2];

	cr_assert(eq(int, ops->send_reap(queue, sent, 1), 1));
	cr_expect(eq(u32, sent[0].n, n));
	cr_expect(eq(int, sent[0].status, status));
}

static void expect_nothing(int result)
{
	struct backend_sent sent[2];

	cr_expect(eq(int, ops->send_reap(queue, sent, 2), result));
}

TestSuite(scripted_send, .init = open_queue, .fini = close_queue);

Test(scripted_send, packets_are_under_way_until_the_script_sends_them)
{
	uint8_t frame[200];

	cr_expect(eq(int, post(0, 12, 100), SLOTS), "a full queue is a count");
	expect_nothing(0);
	cr_expect(eq(u32, scripted_send(queue, 2), 2));
	header_rows[2][0] = 7;
	payload_rows[2][99] = 8;
	cr_expect(eq(u32, scripted_take_frame(queue, frame), 142));
	cr_expect(eq(u8, frame[0], 7));
	cr_expect(eq(u8, frame[141], 8));
	cr_expect(zero(int, post(0, 1, 100)), "nothing is reaped yet");
	expect_run(3, BACKEND_OK);
	cr_expect(eq(int, post(0, 4, 0), 3));
	cr_expect(eq(u32, scripted_send(queue, UINT32_MAX), 8));
	expect_run(8, BACKEND_OK);
	expect_nothing(0);
}

Test(scripted_send, a_packet_in_error_fails_the_queue_until_it_is_reset_and_started)
{
	cr_assert(eq(int, post(0, 5, 10), 5));
	cr_assert(eq(u32, scripted_send(queue, 1), 1));
	scripted_next_status(queue, BACKEND_SLOT_ERROR);
	cr_assert(zero(u32, scripted_send(queue, 4)));
	expect_run(1, BACKEND_OK);
	expect_run(1, BACKEND_SLOT_ERROR);
	expect_run(3, BACKEND_FLUSHED);
	expect_nothing(-EIO);
	cr_assert(zero(int, ops->reset(queue)));
	cr_assert(eq(int, post(0, 1, 10), -EINVAL), "not started");
	cr_assert(zero(int, ops->start(queue)));
	scripted_send_at_once(queue, true);
	cr_assert(eq(int, post(0, 8, 10), 8));
	expect_run(8, BACKEND_OK);
}

Test(scripted_send, what_lies_outside_of_its_memory_is_an_error)
{
	cr_assert(eq(int, post(SLOTS - 1, 1, 101), 1));
	cr_expect(zero(u32, scripted_send(queue, 1)));
	expect_run(1, BACKEND_SLOT_ERROR);
}

Test(scripted_send, reset_forgets_what_is_under_way)
{
	cr_assert(eq(int, post(0, 8, 10), 8));
	scripted_fail_queue(queue);
	cr_assert(zero(int, ops->reset(queue)));
	cr_assert(zero(int, ops->start(queue)));
	expect_nothing(0);
	cr_expect(eq(int, post(0, 8, 10), 8));
}

Test(scripted_send, a_completion_after_arming_is_an_event)
{
	struct pollfd fd = {.fd = ops->fd(queue), .events = POLLIN};

	cr_assert(eq(int, post(0, 2, 10), 2));
	scripted_send(queue, 1);
	cr_expect(zero(int, poll(&fd, 1, 0)));
	cr_assert(zero(int, ops->arm(queue)));
	scripted_send(queue, 1);
	cr_expect(eq(int, poll(&fd, 1, 0), 1));
	ops->clear(queue);
	cr_expect(zero(int, poll(&fd, 1, 0)));
}

/* Even those that are sent: until they are reaped, nobody knows. */
Test(scripted_send, memory_of_packets_that_are_not_reaped_may_not_go, .signal = SIGABRT)
{
	cr_assert(eq(int, post(0, 2, 10), 2));
	scripted_send(queue, 2);
	ops->unregister_memory(payload);
}
