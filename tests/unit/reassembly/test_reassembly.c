// SPDX-License-Identifier: Apache-2.0
/* The queue that joins fragments: when it gives them up while frames come without a pause. */
#include "daemon/reassembly/reassembly.h"

#include "lib/base/time.h"
#include "tests/support/datagram_pieces.h"
#include "tests/support/scripted_backend.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <time.h>

#define SLOTS 128u
#define PORT  7502

static const struct backend_ops *const ops = &scripted_backend_ops;
static struct backend *backend;
static struct backend_flow *flow;
static struct reassembly *reassembly;
static struct backend_queue *queue, *device;
static uint8_t rows[SLOTS * 64];
static struct backend_memory *memory;
static _Atomic uint64_t counters[IBVCAP_RX_COUNTER_N];

static void make(void)
{
	struct reassembly_options options = {.ops = ops,
	                                     .n_frames = SLOTS,
	                                     .frame_bytes = 9022,
	                                     .counters = counters,
	                                     .rows = {.slots = SLOTS, .slot_bytes = 64, .row_stride = 64}};
	const struct backend_run run = {.n = SLOTS, .payload = rows, .headers = rows};

	cr_assert(eq(int, ops->open(NULL, &backend, NULL), 0));
	cr_assert(eq(int, ops->register_memory(backend, rows, sizeof(rows), &memory, NULL), 0));
	options.backend = backend;
	options.rows.payload = options.rows.headers = memory;
	cr_assert(eq(int, reassembly_new(&options, &reassembly, NULL), 0));
	queue = reassembly_queue(reassembly);
	device = reassembly_device_queue(reassembly);
	cr_assert(eq(int, ops->add_flow(device, &(struct flow_rule){0}, &flow, NULL), 0));
	cr_assert(eq(int, queue->ops->post(queue, &run), SLOTS));
	cr_assert(eq(int, queue->ops->start(queue), 0));
}

static void unmake(void)
{
	ops->remove_flow(flow);
	reassembly_free(reassembly);
	ops->unregister_memory(memory);
	ops->close(backend);
}

TestSuite(reassembly, .init = make, .fini = unmake);

static void arrive(const struct piece_of_datagram *piece)
{
	static uint8_t frame[PIECE_FRAME_BYTES_MAX];
	uint32_t bytes = piece_write_frame(piece, frame);

	cr_assert(scripted_arrive(device, frame, bytes));
}

/* A frame without an event. */
static void take_one(void)
{
	struct backend_event events[1];
	uint64_t taken = queue->use.taken;

	cr_assert(eq(int, queue->ops->poll(queue, events, 1), 0));
	cr_assert(eq(u64, queue->use.taken, taken + 1));
}

static void want_port(void)
{
	static uint64_t ports[REASSEMBLY_N_PORTS / 64];

	ports[PORT / 64] = UINT64_C(1) << PORT % 64;
	reassembly_set_ports(reassembly, ports);
}

Test(reassembly, fragments_are_given_up_while_frames_come_without_a_pause)
{
	static const struct piece_of_datagram first_of_five = {.source = 1,
	                                                       .id = 5,
	                                                       .port = PORT,
	                                                       .n_bytes = 1480,
	                                                       .total = 1580,
	                                                       .more_fragments = true},
					      to_other_port = {
						      .source = 2, .id = 6, .port = 9, .n_bytes = 100, .total = 100};
	const struct timespec timeout = {.tv_nsec = DATAGRAM_TIMEOUT_NS + 20000000};

	want_port();
	arrive(&first_of_five);
	for (unsigned i = 0; i < SLOTS; i++) {
		arrive(&to_other_port);
		take_one();
	}
	cr_expect(eq(u64, queue->use.held, 1));
	nanosleep(&timeout, NULL);
	for (unsigned i = 0; i < 2 * SLOTS + 2; i++) {
		arrive(&to_other_port);
		take_one();
	}
	cr_expect(eq(u64, queue->use.held, 0));
	cr_expect(eq(u64, device->n_dropped[BACKEND_DROP_INCOMPLETE], 1));
}

Test(reassembly, frames_show_in_what_the_queue_holds_and_joins)
{
	static const struct piece_of_datagram
		first = {.source = 1, .id = 1, .port = PORT, .n_bytes = 40, .total = 56, .more_fragments = true},
		last = {.source = 1, .id = 1, .port = PORT, .offset = 40, .n_bytes = 16, .total = 56};
	struct backend_event events[2];

	want_port();
	cr_assert(eq(u64, queue->use.posted, SLOTS));
	arrive(&first);
	take_one();
	cr_expect(eq(u64, queue->use.held, 1));
	cr_expect(le(u64, queue->use.decided_ns, time_monotonic_ns()));
	cr_expect(eq(u64, queue->use.given, queue->use.taken), "the device may have more");

	arrive(&last);
	cr_assert(eq(int, queue->ops->poll(queue, events, 2), 1));
	cr_expect(eq(u64, queue->use.taken, 2));
	cr_expect(eq(u64, queue->use.held, 0));
	cr_expect(eq(u64, queue->use.joined, 1));
	cr_expect(eq(u64, queue->use.given, queue->use.posted));
	cr_expect(eq(u64, counters[IBVCAP_RX_COUNTER_JOINED], 1));
	cr_expect(eq(u64, counters[IBVCAP_RX_COUNTER_REASSEMBLED], 1));
}

Test(reassembly, fragments_are_lost_when_no_packet_comes_any_more)
{
	static const struct piece_of_datagram first_of_five = {
		.source = 1, .id = 5, .port = PORT, .n_bytes = 1480, .total = 1580, .more_fragments = true};

	want_port();
	arrive(&first_of_five);
	take_one();
	queue->ops->give_up(queue);
	cr_expect(eq(u64, queue->use.held, 0));
	cr_expect(eq(u64, device->n_dropped[BACKEND_DROP_INCOMPLETE], 1));
}
