// SPDX-License-Identifier: Apache-2.0
/* A moment of one queue counts the losses before it, by the ledger of the ring. */
#include "lib/base/time.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/rx/rx.h"
#include "lib/losses/ledger.h"
#include "tests/unit/ibvcap/attached.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <sys/socket.h>

#define LATER_NS UINT64_C(100000000000)

static struct attached attached;
static int fds[PROTOCOL_FD_N], client_socket;
static struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);

static void end(void)
{
	attached_deinit(&attached);
}

TestSuite(rx_moment, .fini = end, .timeout = 30);

static void prepare_and_attach(void)
{
	const struct ibvcap_rx_options options = {.size = sizeof(options), .reattach_ms = IBVCAP_NO_REATTACH};

	attached_prepare(&attached, fds, &client_socket);
	cr_assert(eq(int, attached_open(&attached.rx, client_socket, fds, EPOCH, NULL, &options), 0), "%s",
	          ibvcap_error_text());
}

/* All packets before head were published before the entry. The card had lost `lost` packets until then. */
static void append(uint64_t until_ns, uint64_t head, uint64_t lost)
{
	const struct ledger_entry entry = {.until_ns = until_ns,
	                                   .head = head,
	                                   .before = {.no_buffer = lost, .marks = 10 * lost},
	                                   .after = {.no_buffer = lost, .marks = 10 * lost},
	                                   .no_buffer_most = lost + 1};

	ledger_append(&attached.ring.ring->ledger, &entry);
}

/* Likewise, nothing is lost, and n fragments were ambiguous until then. */
static void append_ambiguous(uint64_t until_ns, uint64_t head, uint64_t n)
{
	const struct ledger_losses losses = {.marks = n, .ambiguous = n};
	const struct ledger_entry entry = {.until_ns = until_ns, .head = head, .before = losses, .after = losses};

	ledger_append(&attached.ring.ring->ledger, &entry);
}

static void renew(uint64_t until_ns)
{
	const struct ledger_entry entry = {.until_ns = until_ns, .no_buffer_most = 4};

	ledger_renew(&attached.ring.ring->ledger, &entry);
}

static struct ibvcap_rx_moment moment_of_rx(void)
{
	struct ibvcap_rx_moment moment = IBVCAP_INIT(struct ibvcap_rx_moment);

	cr_assert(eq(int, ibvcap_rx_take_moment(attached.rx, &moment), 0));
	return moment;
}

static void expect_before(uint64_t lost)
{
	const struct ibvcap_rx_moment moment = moment_of_rx();

	cr_expect(eq(u64, moment.before.least, lost));
	cr_expect(eq(u64, moment.before.marks, 10 * lost));
	cr_expect(eq(u64, moment.before.most, UINT64_MAX), "the entries before say no more than that");
}

static int settle(struct ibvcap_rx_moment *moment)
{
	return ibvcap_rx_settle_moment(attached.rx, moment);
}

static void take(uint32_t n)
{
	cr_assert(eq(int, ibvcap_rx_acquire(attached.rx, &batch, n, n, 0), (int)n));
	cr_assert(eq(int, ibvcap_rx_release(attached.rx, &batch), 0));
}

Test(rx_moment, without_a_packet_nothing_is_proven)
{
	struct ibvcap_rx_account account = IBVCAP_INIT(struct ibvcap_rx_account);
	struct ibvcap_rx_moment from, until;

	prepare_and_attach();
	from = until = moment_of_rx();
	from.is_settled = until.is_settled = 1;
	cr_assert(eq(int, ibvcap_rx_account_between(&from, &until, &account), 0));
	cr_expect(eq(u32, account.unknown & IBVCAP_UNKNOWN_NO_PACKETS, IBVCAP_UNKNOWN_NO_PACKETS));
	attached_publish(&attached, 1);
	take(1);
	from = until = moment_of_rx();
	from.is_settled = until.is_settled = 1;
	cr_assert(eq(int, ibvcap_rx_account_between(&from, &until, &account), 0));
	cr_expect(eq(u32, account.unknown & IBVCAP_UNKNOWN_NO_PACKETS, 0), "a quiet interval behind a packet");
}

/* ---- before the moment ------------------------------------------------------------------------------- */

Test(rx_moment, an_entry_counts_when_the_reader_has_passed_its_head)
{
	prepare_and_attach();
	expect_before(0);
	attached_publish(&attached, 10);
	append(100, 5, 3);
	expect_before(0);
	take(4);
	expect_before(0);
	take(1);
	expect_before(3);
	append(200, 10, 7);
	take(4);
	append(300, 11, 8);
	expect_before(3);
	take(1);
	expect_before(7);
	attached_publish(&attached, 1);
	take(1);
	expect_before(8);
}

Test(rx_moment, a_handle_that_begins_in_the_past_has_the_entry_before_its_first_row)
{
	attached = (struct attached){.n_earlier = N + 5, .start = {.where = IBVCAP_START_OLDEST}};
	prepare_and_attach();
	append(100, 0, 6);
	append(200, N + 1, 9);
	expect_before(6);
	take(N);
	expect_before(6);
	take(1);
	expect_before(9);
}

/* The ledger keeps the newest entries only. */
Test(rx_moment, without_an_entry_before_it_nothing_is_known)
{
	prepare_and_attach();
	append(100, 0, 3);
	expect_before(3);
	for (unsigned i = 0; i < IBVCAP_LEDGER_ENTRIES; i++)
		append(200 + i, 1, 4 + i);
	expect_before(0);
}

/* A recorder ends a file between two rows of a batch, and takes the moment then. */
Test(rx_moment, while_a_batch_is_out_an_entry_counts_that_lies_before_the_batch)
{
	prepare_and_attach();
	attached_publish(&attached, 6);
	append(100, 2, 3);
	take(2);
	cr_assert(eq(int, ibvcap_rx_acquire(attached.rx, &batch, 4, 4, 0), 4));
	append(200, 6, 5);
	expect_before(3);
	cr_assert(eq(int, ibvcap_rx_release(attached.rx, &batch), 0));
	expect_before(5);
}

/* ---- until the moment -------------------------------------------------------------------------------- */

Test(rx_moment, the_first_entry_that_reaches_until_the_moment_settles_it)
{
	struct ibvcap_rx_moment moment;

	prepare_and_attach();
	append(1, 0, 3);
	moment = moment_of_rx();
	cr_expect(eq(int, settle(&moment), 0));
	renew(moment.monotonic_ns - 1);
	cr_expect(eq(int, settle(&moment), 0));
	renew(moment.monotonic_ns);
	append(moment.monotonic_ns + 1, 0, 9);
	cr_expect(eq(int, settle(&moment), 1));
	cr_expect(eq(u64, moment.after.least, 3));
	cr_expect(eq(u64, moment.after.most, 4));
	cr_expect(zero(u32, moment.state));
}

/* CLOCK_MONOTONIC of another time namespace: no moment of this one compares with it. */
Test(rx_moment, with_an_entry_of_the_future_no_entry_settles_but_that_of_the_end)
{
	struct ibvcap_rx_moment moment;

	prepare_and_attach();
	moment = moment_of_rx();
	append(moment.monotonic_ns, 0, 3); /* it is not from after the moment */
	append(moment.monotonic_ns + LATER_NS, 0, 4);
	cr_expect(eq(int, settle(&moment), 0));
	append(LEDGER_ENDED, 0, 5);
	cr_expect(eq(int, settle(&moment), 1));
	cr_expect(eq(u64, moment.after.least, 5));
}

/* The daemon appends the last entry before it ends. */
Test(rx_moment, at_the_end_the_last_entry_settles_a_moment_and_without_it_none_can)
{
	struct ibvcap_rx_moment settled, unsettled;

	prepare_and_attach();
	settled = unsettled = moment_of_rx();
	rx_ring_close(&attached.ring, IBVCAP_RING_END_STOPPED);
	cr_expect(eq(int, settle(&unsettled), 1));
	cr_expect(eq(u32, unsettled.state, RX_MOMENT_AWAY | RX_MOMENT_UNSETTLED));
	append(LEDGER_ENDED, 0, 3);
	cr_expect(eq(int, settle(&settled), 1));
	cr_expect(zero(u32, settled.state));
	cr_expect(eq(u64, settled.after.least, 3));
}

Test(rx_moment, what_is_ambiguous_makes_an_interval_not_proven)
{
	struct ibvcap_rx_account account = IBVCAP_INIT(struct ibvcap_rx_account);
	struct ibvcap_rx_moment moments[3];

	prepare_and_attach();
	attached_publish(&attached, 2);
	append_ambiguous(time_monotonic_ns(), 0, 3);
	moments[0] = moment_of_rx();
	take(1);
	append_ambiguous(time_monotonic_ns(), 1, 5);
	moments[1] = moment_of_rx();
	take(1);
	moments[2] = moment_of_rx();
	append_ambiguous(time_monotonic_ns(), 2, 5);
	for (unsigned i = 0; i < 3; i++)
		cr_assert(eq(int, settle(&moments[i]), 1));
	cr_assert(eq(int, ibvcap_rx_account_between(&moments[0], &moments[1], &account), 0));
	cr_expect(eq(u32, account.unknown, IBVCAP_UNKNOWN_FRAGMENTS));
	cr_expect(eq(int, ibvcap_account_verdict(&account), IBVCAP_VERDICT_NOT_PROVEN));
	cr_assert(eq(int, ibvcap_rx_account_between(&moments[1], &moments[2], &account), 0));
	cr_expect(eq(int, ibvcap_account_verdict(&account), IBVCAP_VERDICT_COMPLETE));
}
