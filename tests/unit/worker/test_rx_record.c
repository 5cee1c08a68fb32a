// SPDX-License-Identifier: Apache-2.0
/*
 * What a worker says to be settled: all losses that it puts before a row happened before that row, and all that
 * happened before a time are counted. Of random histories, too, in which intervals that a consumer would call complete
 * have lost nothing.
 */
#include "daemon/reassembly/reassembly.h"
#include "daemon/control/rx_losses.h"
#include "daemon/worker/rx_worker.h"

#include "lib/base/time.h"
#include "lib/ibvcap/ring.h"
#include "tests/support/datagram_pieces.h"
#include "tests/support/scripted_backend.h"
#include "tests/support/small_ring.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <unistd.h>

#define SLOTS    256u
#define ROW      64u
#define HEADERS  42u
#define N_QUEUED 100u /* more than a batch, less than the queue has room for */
#define N_LOST   7u
#define PORT     7502

/* counts_drops: as packet sockets have it; else as cards do. */
struct kind {
	bool joins, counts_drops;
};

static const struct backend_ops *const ops = &scripted_backend_ops;
static struct backend *backend;
static struct backend_flow *flow;
static struct reassembly *reassembly;
static struct backend_queue *queue, *device; /* the worker's; behind it, if it joins fragments */
static struct rx_ring ring;
static struct rx_losses ledger;
static struct worker *worker;

static void make_queue(const struct rx_ring_options *of_ring, struct kind kind)
{
	static uint64_t ports[REASSEMBLY_N_PORTS / 64];
	struct reassembly_options options = {.ops = ops,
	                                     .backend = backend,
	                                     .n_frames = SLOTS,
	                                     .frame_bytes = 1514,
	                                     .waits_for_rows = kind.counts_drops,
	                                     .counters = ring.ring->counters,
	                                     .rows = {.slots = SLOTS,
	                                              .header_bytes = of_ring->header_bytes,
	                                              .header_stride = 64,
	                                              .slot_bytes = ROW,
	                                              .row_stride = ROW}};

	reassembly = NULL;
	if (!kind.joins) {
		cr_assert(eq(int, ops->create_queue(backend, &options.rows, &device, NULL), 0));
		queue = device;
		return;
	}
	cr_assert(eq(int, reassembly_new(&options, &reassembly, NULL), 0));
	ports[PORT / 64] = UINT64_C(1) << PORT % 64;
	reassembly_set_ports(reassembly, ports);
	device = reassembly_device_queue(reassembly);
	queue = reassembly_queue(reassembly);
}

static void make(struct kind kind)
{
	struct rx_ring_options of_ring = small_ring();

	of_ring.slot_bytes = ROW;
	of_ring.header_bytes = HEADERS;
	of_ring.history_blocks = 8;
	of_ring.posted_slots = SLOTS;
	cr_assert(eq(int, ops->open(NULL, &backend, NULL), 0));
	cr_assert(eq(int, rx_ring_init(&ring, &of_ring, NULL), 0));
	make_queue(&of_ring, kind);
	const struct rx_worker_options of_worker = {.worker.name = "test",
	                                            .worker.cpu = -1,
	                                            .queue = queue,
	                                            .ring = &ring,
	                                            .losses = &ledger.sum.queues[0]};

	losses_init(&ledger.sum, 1, SLOTS, kind.counts_drops, kind.joins, LOSSES_DRAIN_NS_MIN);
	rx_losses_add_queue(&ledger, 0, ring.ring, &device->n_split);
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
	if (!reassembly)
		ops->destroy_queue(device);
	reassembly_free(reassembly);
	ops->close(backend);
}

static bool try_arrive(const struct piece_of_datagram *piece)
{
	static uint8_t frame[PIECE_FRAME_BYTES_MAX];

	return scripted_arrive(device, frame, piece_write_frame(piece, frame));
}

static void arrive(const struct piece_of_datagram *piece)
{
	cr_assert(try_arrive(piece));
}

static struct mail read_flow_counters(void)
{
	struct mail mail = {.type = MAIL_MATCHED, .at_ns = time_utc_ns(), .read_ns = time_monotonic_ns()};

	ops->read_matched(device, &mail.matched);
	return mail;
}

/* A reading of the flow counters comes, and long enough passes to settle it. */
static void settle(uint64_t n_lost)
{
	struct mail mail = read_flow_counters();

	mail.matched += n_lost;
	cr_assert(eq(int, mailbox_send(worker->inbox, &mail), 0));
	for (unsigned i = 0; i < 10; i++) {
		cr_assert(ge(int, rx_worker_do_work(worker), 0));
		rx_losses_update(&ledger);
		usleep(1000);
	}
}

/* Are the losses known to the packet: is "after" what "before" is? */
static bool ledger_is_exact(const struct ledger_entry *entry)
{
	return entry->before.marks == entry->after.marks && entry->before.no_buffer == entry->no_buffer_most &&
	       entry->after.no_buffer == entry->no_buffer_most && entry->before.outages == entry->after.outages;
}

static struct ledger_entry record(void)
{
	struct ledger_entry entry = {0};

	rx_losses_update(&ledger);
	ledger_newest(&ring.ring->ledger, &entry);
	return entry;
}

static const struct piece_of_datagram
	first_fragment = {.source = 1, .id = 1, .port = PORT, .n_bytes = 40, .total = 56, .more_fragments = true},
	second_fragment = {.source = 1, .id = 1, .port = PORT, .offset = 40, .n_bytes = 16, .total = 56},
	plain = {.source = 2, .id = 2, .port = PORT, .n_bytes = 40, .total = 40};

/* At a reading. Again if this thread was put off the CPU for so long that the fragment was given up. */
static void make_with_held_fragment(struct kind kind)
{
	for (unsigned i = 0; i < 20; i++) {
		make(kind);
		arrive(&first_fragment);
		settle(0);
		if (ledger.sum.queues[0].record == LOSSES_RECORD_PARTIAL && queue->use.held)
			return;
		unmake();
	}
	cr_assert(not(20), "no fragment is held");
}

/*
 * A fragment is held at a reading. The other one comes, with packets that a batch does not take to the end; behind them
 * the device loses some.
 */
static void expect_no_loss_before_its_row(struct kind kind)
{
	make_with_held_fragment(kind);
	arrive(&second_fragment);
	for (unsigned i = 0; i < N_QUEUED; i++)
		arrive(&plain);
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
	expect_no_loss_before_its_row((struct kind){.joins = true, .counts_drops = true});
}

Test(rx_record, losses_of_a_card_are_behind_what_waits_in_its_queue)
{
	expect_no_loss_before_its_row((struct kind){.joins = true});
}

Test(rx_record, when_the_last_fragment_has_come_the_record_is_exact_without_another_reading)
{
	make_with_held_fragment((struct kind){.joins = true, .counts_drops = true});
	arrive(&second_fragment);
	for (unsigned i = 0; i < 10; i++) {
		rx_worker_do_work(worker);
		usleep(1000);
	}
	struct ledger_entry entry = record();

	cr_expect(ledger_is_exact(&entry));
	cr_expect(eq(u64, entry.matched, 1));
	unmake();
}

/* ---- random histories ------------------------------------------------------------------------------ */

#define N_STEPS     6000u
#define N_LOSSES    (N_STEPS * 250u)
#define N_MOMENTS   N_STEPS
#define ARRIVE_MAX  500
#define PHASE_STEPS 300 /* with short bursts alone, then with long ones, too */
#define OPEN_STEPS  200 /* a datagram's second fragment comes so many steps later at most */

/* A moment of a consumer that has read all rows: see ibvcap_rx_take_moment(). */
struct moment {
	uint64_t taken; /* frames from the device so far */
	uint64_t at_ns;
	struct ledger_losses before, after;
	uint64_t most;
};

static struct history {
	unsigned seed;
	uint64_t accepted; /* frames that the device had room for */
	uint32_t n_losses, n_moments, n_settled;
	uint16_t id;               /* of the last datagram in fragments */
	unsigned n_steps_open;     /* since its first fragment; 0: it is whole */
	uint64_t losses[N_LOSSES]; /* frames that were accepted before each lost one */
	struct moment moments[N_MOMENTS];
} * history;

static unsigned chance(unsigned n)
{
	return (unsigned)rand_r(&history->seed) % n;
}

static void history_arrive(const struct piece_of_datagram *piece)
{
	cr_assert(lt(u32, history->n_losses, N_LOSSES));
	if (try_arrive(piece))
		history->accepted++;
	else
		history->losses[history->n_losses++] = history->accepted;
}

static void history_burst(unsigned n)
{
	while (n--)
		history_arrive(&plain);
}

/* The device is read, as the threads of control do it. The mail may come a while later, or never. */
static void history_read(bool counts_drops, bool is_sent)
{
	const struct mail mail = read_flow_counters();
	struct scripted_counts counts;

	scripted_counts(device, &counts);
	if (counts_drops)
		atomic_store(&device->n_dropped[BACKEND_DROP_NO_FRAME], counts.out_of_buffer);
	rx_losses_read(&ledger,
	               &(struct losses_reading){.matched = mail.matched, .at_ns = mail.read_ns, .utc_ns = mail.at_ns});
	if (is_sent && !mailbox_full(worker->inbox))
		cr_assert(eq(int, mailbox_send(worker->inbox, &mail), 0));
}

/*
 * While the device has room: a datagram whose fragment is lost is held for 200 ms. With the second one, half of the
 * time, comes more than the device has room for; the device is read, too.
 */
static void history_fragment(struct kind kind, bool is_heavy)
{
	bool is_first = history->n_steps_open == 0;
	struct piece_of_datagram piece = is_first ? first_fragment : second_fragment;
	struct scripted_counts counts;

	scripted_counts(device, &counts);
	if (counts.free_slots == 0)
		return;
	history->id += is_first;
	piece.id = history->id;
	history->n_steps_open = is_first;
	history_arrive(&piece);
	if (is_first || !is_heavy || chance(2))
		return;
	history_burst(ARRIVE_MAX);
	history_read(kind.counts_drops, chance(2));
}

static void history_take_moment(void)
{
	struct moment *moment = &history->moments[history->n_moments];
	struct ledger_entry entry = {0};

	ledger_before_row(&ring.ring->ledger, ring.head, &entry);
	*moment = (struct moment){.taken = queue->use.taken, .at_ns = time_monotonic_ns(), .before = entry.before};
	history->n_moments++;
}

static void history_settle_moments(void)
{
	rx_losses_update(&ledger);
	for (; history->n_settled < history->n_moments; history->n_settled++) {
		struct moment *moment = &history->moments[history->n_settled];
		struct ledger_entry entry;

		if (!ledger_until(&ring.ring->ledger, moment->at_ns, &entry))
			return;
		moment->after = entry.after;
		moment->most = entry.no_buffer_most;
	}
}

static void history_step(struct kind kind, unsigned step)
{
	bool is_heavy = step / PHASE_STEPS % 2;

	if (kind.joins &&
	    (history->n_steps_open ? history->n_steps_open++ == OPEN_STEPS || chance(48) == 0 : chance(4) == 0))
		history_fragment(kind, is_heavy);
	switch (chance(8)) {
	case 0:
	case 1:
		history_burst(chance(is_heavy && chance(4) == 0 ? ARRIVE_MAX : 10));
		break;
	case 2:
		history_read(kind.counts_drops, chance(2));
		break;
	case 3:
		usleep(500);
		break;
	default:
		cr_assert(ge(int, rx_worker_do_work(worker), 0));
		history_settle_moments();
		history_take_moment();
		break;
	}
}

static bool is_complete(const struct moment *from, const struct moment *until)
{
	return until->after.marks == from->before.marks || until->most == from->before.no_buffer;
}

/* Behind so many frames at least, and fewer than `below`. */
static bool has_loss(uint64_t from, uint64_t below)
{
	uint32_t low = 0, high = history->n_losses;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (history->losses[middle] < from)
			low = middle + 1;
		else
			high = middle;
	}
	return low < history->n_losses && history->losses[low] < below;
}

static unsigned first_seed(void)
{
	const char *word = getenv("IBVCAP_SEED");

	return word ? (unsigned)atoi(word) : 1;
}

/* A loss at a moment may be told of on either side of it, but on one. */
static void expect_no_lie(struct kind kind)
{
	uint32_t n_complete = 0, n_incomplete = 0;

	for (uint32_t i = 1; i < history->n_settled; i++) {
		const struct moment *from = &history->moments[i - 1], *until = from + 1;
		bool follows = i > 1 && is_complete(from - 1, from) && from[-1].taken < from->taken;
		bool lies;

		if (!is_complete(from, until)) {
			n_incomplete++;
			continue;
		}
		n_complete++;
		lies = has_loss(from->taken + !follows, until->taken);
		cr_expect(not(lies), "joins %d, counts_drops %d, seed %u: moment %u: %lu to %lu", kind.joins,
		          kind.counts_drops, first_seed(), i, from->taken, until->taken);
	}
	cr_expect(n_complete > 20, "%u complete of %u", n_complete, history->n_settled);
	cr_expect(n_incomplete > 20, "%u not complete of %u", n_incomplete, history->n_settled);
}

static void check_history(struct kind kind)
{
	history = calloc(1, sizeof(*history));
	history->seed = first_seed();
	make(kind);
	settle(0);
	for (unsigned i = 0; i < N_STEPS; i++)
		history_step(kind, i);
	expect_no_lie(kind);
	unmake();
	free(history);
}

Test(rx_record, no_interval_of_a_socket_lies)
{
	check_history((struct kind){.counts_drops = true});
}

Test(rx_record, no_interval_of_a_card_lies)
{
	check_history((struct kind){0});
}

Test(rx_record, no_interval_of_a_socket_with_joined_fragments_lies)
{
	check_history((struct kind){.joins = true, .counts_drops = true});
}

Test(rx_record, no_interval_of_a_card_with_joined_fragments_lies)
{
	check_history((struct kind){.joins = true});
}
