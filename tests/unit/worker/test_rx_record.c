// SPDX-License-Identifier: Apache-2.0
/*
 * The settled record of a worker that joins fragments: all losses that it puts before a row happened before that row.
 */
#include "daemon/worker/rx_worker.h"

#include "daemon/base/time.h"
#include "lib/ibvcap/ring.h"
#include "tests/support/datagram_pieces.h"
#include "tests/support/scripted_backend.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <unistd.h>

#define SLOTS    256u
#define ROW      64u
#define HEADERS  42u
#define N_QUEUED 100u /* more than a batch, less than the queue has room for */
#define N_LOST   7u
#define PORT     7502

static const struct backend_ops *const ops = &scripted_backend_ops;
static struct backend *backend;
static struct backend_flow *flow;
static struct reassembly *reassembly;
static struct backend_queue *device;
static struct rx_ring ring;
static struct rx_sum sum;
static struct worker *worker;

static void make_queue(const struct rx_ring_options *of_ring, bool counts_drops)
{
	static uint64_t ports[REASSEMBLY_N_PORTS / 64];
	struct reassembly_options options = {.ops = ops,
	                                     .backend = backend,
	                                     .n_frames = SLOTS,
	                                     .frame_bytes = 1514,
	                                     .waits_for_rows = counts_drops,
	                                     .rows = {.slots = SLOTS,
	                                              .header_bytes = of_ring->header_bytes,
	                                              .header_stride = 64,
	                                              .slot_bytes = ROW,
	                                              .row_stride = ROW}};

	cr_assert(eq(int, reassembly_new(&options, &reassembly, NULL), 0));
	ports[PORT / 64] = UINT64_C(1) << PORT % 64;
	reassembly_set_ports(reassembly, ports);
	device = reassembly_device_queue(reassembly);
}

/* counts_drops: as packet sockets have it; else as cards do. */
static void make(bool counts_drops)
{
	const struct rx_ring_options of_ring = {.stream = "test",
	                                        .epoch = 1,
	                                        .slot_bytes = ROW,
	                                        .slots_per_block = 64,
	                                        .header_bytes = HEADERS,
	                                        .history_blocks = 8,
	                                        .posted_slots = SLOTS,
	                                        .page_bytes = 4096,
	                                        .n_queues = 1};

	cr_assert(eq(int, ops->open(NULL, &backend, NULL), 0));
	make_queue(&of_ring, counts_drops);
	cr_assert(eq(int, rx_ring_init(&ring, &of_ring, NULL), 0));
	const struct rx_worker_options of_worker = {.worker.name = "test",
	                                            .worker.cpu = -1,
	                                            .queue = device,
	                                            .reassembly = reassembly,
	                                            .ring = &ring,
	                                            .receive_queue_slots = SLOTS,
	                                            .sum = &sum};

	rx_sum_init(&sum, 1, counts_drops);
	cr_assert(eq(int, rx_worker_new(&worker, &of_worker), 0));
	cr_assert(eq(int, rx_worker_prime(worker), 0));
	cr_assert(eq(int, ops->start(device), 0));
	cr_assert(eq(int, ops->add_flow(device, &(struct flow_rule){0}, &flow, NULL), 0));
}

static void unmake(void)
{
	ops->remove_flow(flow);
	rx_worker_free(worker);
	rx_ring_deinit(&ring);
	reassembly_free(reassembly);
	ops->close(backend);
}

static void arrive(const struct piece_of_datagram *piece)
{
	static uint8_t frame[PIECE_FRAME_BYTES_MAX];

	cr_assert(scripted_arrive(device, frame, piece_write_frame(piece, frame)));
}

/* A reading of the flow counters comes, and long enough passes to settle it. */
static void settle(uint64_t n_lost)
{
	struct mail mail = {.type = MAIL_MATCHED, .at_ns = time_utc_ns(), .read_ns = time_monotonic_ns()};

	ops->read_matched(device, &mail.matched);
	mail.matched += n_lost;
	cr_assert(eq(int, mailbox_send(worker->inbox, &mail), 0));
	for (unsigned i = 0; i < 10; i++) {
		cr_assert(ge(int, rx_worker_do_work(worker), 0));
		usleep(1000);
	}
}

static struct ring_settled record(void)
{
	struct ring_settled settled;

	cr_assert(ring_load_settled(&ring.ring->settled, &settled));
	return settled;
}

/*
 * A fragment is held at a reading. The other one comes, with packets that a batch does not take to the end; behind them
 * the device loses some.
 */
static void expect_no_loss_before_its_row(bool counts_drops)
{
	static const struct piece_of_datagram
		first = {.source = 1, .id = 1, .port = PORT, .n_bytes = 40, .total = 56, .more_fragments = true},
		second = {.source = 1, .id = 1, .offset = 40, .n_bytes = 16, .total = 56, .port = PORT},
		other = {.source = 2, .id = 2, .port = PORT, .n_bytes = 40, .total = 40};

	make(counts_drops);
	arrive(&first);
	settle(0);
	cr_expect(eq(u64, record().matched, UINT64_MAX), "a fragment is held");
	arrive(&second);
	for (unsigned i = 0; i < N_QUEUED; i++)
		arrive(&other);
	atomic_fetch_add(&device->n_dropped[BACKEND_DROP_NO_FRAME], N_LOST);
	while (rx_worker_do_work(worker) > 0)
		if (record().before.marks >= N_LOST)
			cr_expect(ge(u64, record().head, 1 + N_QUEUED));
	settle(N_LOST);
	settle(N_LOST);
	cr_expect(eq(u64, record().before.marks, record().after.marks));
	cr_expect(eq(u64, record().before.no_buffer, N_LOST));
	cr_expect(eq(u64, record().head, 1 + N_QUEUED));
	unmake();
}

Test(rx_record, losses_of_a_socket_are_behind_what_waits_in_it)
{
	expect_no_loss_before_its_row(true);
}

Test(rx_record, losses_of_a_card_are_behind_what_waits_in_its_queue)
{
	expect_no_loss_before_its_row(false);
}

Test(rx_record, when_the_last_fragment_has_come_the_record_is_exact_without_another_reading)
{
	static const struct piece_of_datagram
		first = {.source = 1, .id = 1, .port = PORT, .n_bytes = 40, .total = 56, .more_fragments = true},
		second = {.source = 1, .id = 1, .offset = 40, .n_bytes = 16, .total = 56, .port = PORT};

	make(true);
	arrive(&first);
	settle(0);
	arrive(&second);
	for (unsigned i = 0; i < 10; i++) {
		rx_worker_do_work(worker);
		usleep(1000);
	}
	struct ring_settled settled = record();

	cr_expect(ring_settled_is_exact(&settled));
	cr_expect(eq(u64, settled.matched, 1));
	cr_expect(eq(u64, settled.head, 1));
	unmake();
}
