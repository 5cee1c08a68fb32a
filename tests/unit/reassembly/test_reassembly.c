// SPDX-License-Identifier: Apache-2.0
/* The queue that joins fragments: when it gives them up while frames come without a pause. */
#include "daemon/reassembly/reassembly.h"
#include "tests/support/datagram_pieces.h"
#include "tests/support/scripted_backend.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <time.h>

#define SLOTS 128u

static const struct backend_ops *const ops = &scripted_backend_ops;
static struct backend *backend;
static struct backend_flow *flow;
static struct reassembly *reassembly;
static uint8_t rows[SLOTS * 64];
static struct backend_memory *memory;
static _Atomic uint64_t counters[IBVCAP_RX_COUNTER_N];

static void make(void)
{
	struct reassembly_options options = {.ops = ops,
	                                     .n_frames = SLOTS,
	                                     .frame_bytes = 9022,
	                                     .rows = {.slots = SLOTS, .slot_bytes = 64, .row_stride = 64}};
	const struct backend_run run = {.n = SLOTS, .payload = rows, .headers = rows};

	cr_assert(eq(int, ops->open(NULL, &backend, NULL), 0));
	cr_assert(eq(int, ops->register_memory(backend, rows, sizeof(rows), &memory, NULL), 0));
	options.backend = backend;
	options.rows.payload = options.rows.headers = memory;
	cr_assert(eq(int, reassembly_new(&options, &reassembly, NULL), 0));
	reassembly_count_in(reassembly, counters);
	cr_assert(eq(int, ops->add_flow(reassembly_device_queue(reassembly), &(struct flow_rule){0}, &flow, NULL), 0));
	cr_assert(eq(int, reassembly_queue(reassembly)->ops->post(reassembly_queue(reassembly), &run), SLOTS));
	cr_assert(eq(int, reassembly_queue(reassembly)->ops->start(reassembly_queue(reassembly)), 0));
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

	cr_assert(scripted_arrive(reassembly_device_queue(reassembly), frame, bytes));
}

static void take_one(void)
{
	struct backend_event events[1];

	cr_assert(eq(int, reassembly_queue(reassembly)->ops->poll(reassembly_queue(reassembly), events, 1), 1));
}

Test(reassembly, fragments_are_given_up_while_frames_come_without_a_pause)
{
	static const struct piece_of_datagram last_of_five = {.source = 1, .id = 5, .offset = 1480, .n_bytes = 100},
					      to_other_port = {
						      .source = 2, .id = 6, .port = 9, .n_bytes = 100, .total = 100};
	const struct timespec timeout = {.tv_nsec = DATAGRAM_TIMEOUT_NS + 20000000};

	arrive(&last_of_five);
	for (unsigned i = 0; i < SLOTS; i++) {
		arrive(&to_other_port);
		take_one();
	}
	cr_expect(eq(u64, reassembly_counts(reassembly)->held, 1));
	nanosleep(&timeout, NULL);
	for (unsigned i = 0; i < 2 * SLOTS + 2; i++) {
		arrive(&to_other_port);
		take_one();
	}
	cr_expect(eq(u64, reassembly_counts(reassembly)->held, 0));
	cr_expect(eq(u64, reassembly_counts(reassembly)->missing, 1));
}
