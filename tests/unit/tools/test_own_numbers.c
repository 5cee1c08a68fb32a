// SPDX-License-Identifier: Apache-2.0
/*
 * Senders and networks that do what may fool the account of the packets' own numbers: histories at random, against
 * a list of all numbers that each source sent. Where a number is missing, the account has a count that takes the proof.
 */
#include "tools/inspect/inspect_numbers.h"
#include "tools/inspect/inspect_sum.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HISTORIES 1000
#define PACKETS   400u
#define SOURCES   3u
#define SENT_MAX  10000u

/* Numbers that do not wrap, in the order in which they arrive. */
struct sender {
	uint64_t next;
	uint64_t highest; /* that arrived */
	uint64_t arrived[SENT_MAX];
	uint32_t n_arrived;
	uint64_t held; /* sent later than the ones behind it; 0: none */
	uint32_t n_before_held;
};

static struct inspect_sum sum;
static struct inspect_numbers numbers;
static struct sender senders[SOURCES];
static uint64_t cycle, window, jump, limit;
static unsigned n_bytes;

static uint64_t below(uint64_t n)
{
	return n ? (uint64_t)random() % n : 0;
}

static void begin_history(unsigned number_bytes, uint64_t a_window, uint64_t a_jump)
{
	char text[200];
	struct pcapng_block block = {.type = PCAPNG_BLOCK_INTERFACE, .interface = {.name = pcapng_text_of("radar")}};

	n_bytes = number_bytes;
	cycle = n_bytes == 8 ? 0 : UINT64_C(1) << 8 * n_bytes;
	window = a_window;
	jump = a_jump;
	/* A number that is farther away is on the wire that of another packet within the window. */
	limit = cycle ? cycle - (window < cycle / 2 ? window : cycle / 2) - 1 : UINT64_MAX;
	snprintf(text, sizeof(text),
	         "x; sequence {\"offsets_from\":\"payload\",\"bytes\":%u,\"step\":1,\"source\":%d,\"jump\":%u,"
	         "\"window\":%u}",
	         n_bytes, IBVCAP_SOURCE_FLOW, (unsigned)jump, (unsigned)window);
	block.interface.comment = pcapng_text_of(text);
	cr_assert(zero(int, inspect_sum_add(&sum, &block)));
	cr_assert(zero(int, inspect_numbers_add(&numbers, &sum, &block)));
	cr_assert(eq(u32, numbers.n_streams, 1));
	memset(senders, 0, sizeof(senders));
	for (uint32_t i = 0; i < SOURCES; i++) /* the numbers of all sources are about the same, and wrap soon */
		senders[i].next = senders[i].highest = 3 * (UINT64_C(1) << 32) - below(300);
}

static void end_history(void)
{
	inspect_numbers_free(&numbers);
	inspect_sum_free(&sum);
}

static void arrive(uint32_t source, uint64_t number)
{
	uint8_t frame[50] = {[12] = 0x08, [14] = 0x45, [17] = 36, [23] = 17, [34] = 0x0f, [39] = 16};
	const struct pcapng_block block = {
		.type = PCAPNG_BLOCK_PACKET,
		.packet = {.frame = {frame}, .frame_bytes = {sizeof(frame)}, .wire_bytes = sizeof(frame)}};

	frame[35] = (uint8_t)source;
	for (unsigned i = 0; i < n_bytes; i++)
		frame[42 + i] = (uint8_t)(number >> 8 * (n_bytes - 1 - i));
	cr_assert(zero(int, inspect_numbers_add(&numbers, &sum, &block)));
	cr_assert(lt(u32, senders[source].n_arrived, SENT_MAX));
	senders[source].arrived[senders[source].n_arrived++] = number;
	if (number > senders[source].highest)
		senders[source].highest = number;
}

/* How many numbers in a row are lost: near each bound of the tracker's, and fewer than lead to the limit. */
static uint64_t choose_loss(const struct sender *sender)
{
	const uint64_t bounds[] = {2, jump, window, jump + window, 2 * window, cycle / 4, cycle / 2, limit};
	uint64_t n = bounds[below(sizeof(bounds) / sizeof(bounds[0]))] + below(5) - 2;
	uint64_t room = sender->highest + limit - sender->next;

	return limit == UINT64_MAX ? n % 100000 : n < room ? n : room;
}

static void arrive_late(uint32_t i, uint64_t number)
{
	if (senders[i].highest - number < limit)
		arrive(i, number);
}

static void send_next(uint32_t i)
{
	struct sender *sender = &senders[i];

	arrive(i, sender->next++);
	if (sender->held && --sender->n_before_held == 0) {
		arrive_late(i, sender->held);
		sender->held = 0;
	}
}

static void step(uint32_t i)
{
	struct sender *sender = &senders[i];
	bool has_room = sender->next - sender->highest < limit;

	switch (below(40)) {
	case 0:
		sender->next += choose_loss(sender);
		break;
	case 1: /* again, however old it is */
		if (sender->n_arrived)
			arrive_late(i, sender->arrived[below(sender->n_arrived)]);
		break;
	case 2:
		if (!sender->held && has_room) {
			sender->held = sender->next++;
			sender->n_before_held = 1 + (uint32_t)below(2 * (window < 100 ? window : 100));
		}
		break;
	default:
		send_next(i);
	}
}

static int compare_numbers(const void *a, const void *b)
{
	const uint64_t *one = a, *other = b;

	return *one < *other ? -1 : *one > *other;
}

/* Within what arrived of the source. */
static uint64_t count_absent(struct sender *sender)
{
	uint64_t absent = 0;

	qsort(sender->arrived, sender->n_arrived, sizeof(sender->arrived[0]), compare_numbers);
	for (uint32_t i = 1; i < sender->n_arrived; i++)
		if (sender->arrived[i] > sender->arrived[i - 1])
			absent += sender->arrived[i] - sender->arrived[i - 1] - 1;
	return absent;
}

static bool is_proven(const struct ibvcap_tracker_counts *counts)
{
	const struct ibvcap_tracker_numbers *found = &counts->numbers;

	return !(counts->untracked || counts->unread || found->lost || found->stray || found->late ||
	         found->restarted || found->repeated);
}

Test(own_numbers, where_one_is_missing_nothing_is_proven, .timeout = 180)
{
	static const uint64_t windows[] = {64, 128, 1024}, jumps[] = {1, 63, 64, 65, 100, 5000};
	unsigned n_proven = 0, n_absent = 0;

	srandom(7);
	for (int history = 0; history < HISTORIES; history++) {
		struct ibvcap_tracker_counts counts;
		uint64_t absent = 0;

		begin_history((unsigned[]){1, 2, 4, 8}[below(4)], windows[below(3)], jumps[below(6)]);
		for (uint32_t i = 0, n = (uint32_t)below(PACKETS); i < n; i++)
			step((uint32_t)below(SOURCES));
		counts = inspect_numbers_counts(&numbers.streams[0]);
		for (uint32_t i = 0; i < SOURCES; i++)
			absent += count_absent(&senders[i]);
		n_absent += absent > 0;
		n_proven += is_proven(&counts);
		cr_expect(not(absent && is_proven(&counts)),
		          "history %d: %lu absent, %lu repeated; %u bytes, window %lu, jump %lu", history,
		          (unsigned long)absent, (unsigned long)counts.numbers.repeated, n_bytes, (unsigned long)window,
		          (unsigned long)jump);
		end_history();
	}
	cr_expect(gt(uint, n_absent, HISTORIES / 2));
	cr_expect(gt(uint, n_proven, HISTORIES / 50));
}

/* As the manual page says. */
Test(own_numbers, a_loss_of_nearly_all_numbers_is_no_proof_and_one_of_exactly_all_is_not_found)
{
	static const uint64_t losses[] = {60000, 62000, 65535, 65536};

	for (int i = 0; i < 4; i++) {
		struct ibvcap_tracker_counts counts;

		begin_history(2, 4096, 1 << 20);
		for (uint32_t n = 0; n < 5000; n++)
			arrive(0, n);
		for (uint32_t n = 0; n < 5000; n++)
			arrive(0, 5000 + losses[i] + n);
		counts = inspect_numbers_counts(&numbers.streams[0]);
		cr_expect(eq(int, is_proven(&counts), i == 3));
		end_history();
	}
}
