// SPDX-License-Identifier: Apache-2.0
/*
 * The account of one source against a slow reference that keeps every number of the run in a list, on random input; and
 * against lists of what was left out, sent twice and exchanged.
 */
#include "lib/ibvcap/track/tracker_source.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#define N_COUNTS IBVCAP_TRACKED_COUNTER_N

/* ---- the reference ------------------------------------------------------------------------------- */

/* Positions count on over wraps, from MIDDLE, so that there is room before the first packet of a run. */
#define MIDDLE (1 << 20)

struct reference {
	const struct tracker_rules *rules;
	uint8_t *has_come; /* by position */
	int64_t first, highest;
	uint64_t of_first; /* the number at first */
	uint64_t counts[N_COUNTS];
	uint64_t suspect, n_suspect;
	uint32_t suspect_takes;
	int suspect_as;
	bool begun;
};

static uint64_t number_at(const struct reference *r, int64_t position)
{
	int64_t cycle = (int64_t)r->rules->cycle;

	return (uint64_t)((((int64_t)r->of_first + position - r->first) % cycle + cycle) % cycle);
}

/* Recounted from the list each time. */
static uint64_t reference_lost(const struct reference *r)
{
	uint64_t n = 0;

	for (int64_t p = r->first; p <= r->highest; p++)
		n += !r->has_come[p];
	return n;
}

static void come(struct reference *r, int64_t position, bool is_behind)
{
	if (r->has_come[position]) {
		r->counts[IBVCAP_TRACKED_COUNTER_REPEATED]++;
		return;
	}
	r->has_come[position] = 1;
	r->counts[IBVCAP_TRACKED_COUNTER_ONCE]++;
	r->counts[IBVCAP_TRACKED_COUNTER_REORDERED] += is_behind;
}

static void begin(struct reference *r, uint64_t number)
{
	r->counts[IBVCAP_TRACKED_COUNTER_LOST] += r->begun ? reference_lost(r) : 0; /* of the run that ends */
	memset(r->has_come, 0, 2 * MIDDLE);
	r->first = MIDDLE;
	r->highest = MIDDLE - 1;
	r->of_first = number;
	r->begun = true;
}

/* Look at every position that the number may have; true: it is near the run. */
static bool place(struct reference *r, uint64_t number, uint32_t n, uint64_t slack)
{
	int64_t ahead = (int64_t)(r->rules->jump + slack), most = (int64_t)(r->rules->cycle - 1 - r->rules->window);

	for (int64_t p = r->highest + 1; p <= r->highest + 1 + (ahead < most ? ahead : most); p++) {
		if (number_at(r, p) != number)
			continue;
		for (uint32_t i = 0; i < n; i++)
			come(r, p + i, false);
		r->highest = p + n - 1;
		return true;
	}
	for (int64_t p = r->highest; p > r->highest - (int64_t)r->rules->window; p--) {
		int64_t old = r->highest;

		if (number_at(r, p) != number)
			continue;
		for (uint32_t i = 0; i < n; i++)
			come(r, p + i, p + i <= old);
		r->highest = p + n - 1 > old ? p + n - 1 : old;
		return true;
	}
	return false;
}

static bool is_near(const struct reference *r, uint64_t number)
{
	const struct tracker_rules *rules = r->rules;
	uint64_t end = (r->suspect + r->suspect_takes) % rules->cycle;
	uint64_t ahead = (number + rules->cycle - end) % rules->cycle;
	uint64_t jump = rules->jump < rules->window ? rules->jump : rules->window;

	return ahead <= jump || rules->cycle - ahead <= rules->window;
}

static void reference_add(struct reference *r, uint64_t number, uint32_t n, uint64_t slack)
{
	if (!r->begun)
		begin(r, number);
	if (place(r, number, n, slack)) {
		r->n_suspect = 0;
		return;
	}
	bool again = r->n_suspect && r->suspect == number && r->suspect_takes == n;

	if (!again && r->n_suspect && is_near(r, number)) {
		uint64_t times = r->n_suspect;

		r->counts[r->suspect_as] -= times * r->suspect_takes;
		r->counts[IBVCAP_TRACKED_COUNTER_RESTARTED]++;
		begin(r, r->suspect);
		for (; times > 0; times--)
			place(r, r->suspect, r->suspect_takes, 0);
		place(r, number, n, 0);
		r->n_suspect = 0;
		return;
	}
	if (n == 0)
		return;
	uint64_t ahead = (number + r->rules->cycle - number_at(r, r->highest + 1)) % r->rules->cycle;

	r->suspect_as = ahead > r->rules->cycle / 2 ? IBVCAP_TRACKED_COUNTER_LATE : IBVCAP_TRACKED_COUNTER_STRAY;
	r->n_suspect = again ? r->n_suspect + 1 : 1;
	r->suspect = number;
	r->suspect_takes = n;
	r->counts[r->suspect_as] += n;
}

/* ---- random input -------------------------------------------------------------------------------- */

struct pair {
	struct tracker_rules rules;
	struct tracker_source source;
	uint64_t totals[N_COUNTS];
	struct reference reference;
};

static void init_pair(struct pair *pair, uint64_t cycle, uint64_t window, uint64_t jump)
{
	uint64_t bits = 64;

	while (bits < window)
		bits *= 2;
	*pair = (struct pair){.rules = {.cycle = cycle, .window = window, .jump = jump, .window_bits = bits}};
	pair->source.totals = pair->totals;
	pair->source.seen = calloc(bits / 64, 8);
	pair->reference = (struct reference){.rules = &pair->rules, .has_come = malloc((size_t)2 * MIDDLE)};
	cr_assert(pair->source.seen && pair->reference.has_come);
}

static void deinit_pair(struct pair *pair)
{
	free(pair->source.seen);
	free(pair->reference.has_come);
}

static void expect_same(const struct pair *pair, unsigned step)
{
	const uint64_t *ours = pair->source.counts, *theirs = pair->reference.counts;

	for (unsigned i = 0; i < N_COUNTS; i++) {
		uint64_t wanted = theirs[i] + (i == IBVCAP_TRACKED_COUNTER_LOST ? reference_lost(&pair->reference) : 0);

		cr_assert(eq(u64, ours[i], wanted), "counter %u after packet %u, cycle %llu, window %llu, jump %llu", i,
		          step, (unsigned long long)pair->rules.cycle, (unsigned long long)pair->rules.window,
		          (unsigned long long)pair->rules.jump);
		cr_assert(eq(u64, pair->totals[i], ours[i]));
	}
}

static void add_both(struct pair *pair, uint64_t number, uint32_t n, uint64_t slack)
{
	struct ibvcap_tracked tracked;

	tracker_source_add(&pair->source, &pair->rules, number % pair->rules.cycle, n, slack, &tracked);
	reference_add(&pair->reference, number % pair->rules.cycle, n, slack);
}

/* Mostly in order, with all that can happen in between. */
static void run_random(uint64_t cycle, uint64_t window, uint64_t jump, bool counts, unsigned n_packets)
{
	struct pair pair;
	uint64_t next = (uint64_t)random();

	init_pair(&pair, cycle, window, jump);
	for (unsigned i = 0; i < n_packets; i++) {
		uint64_t number = next, slack = 0;
		uint32_t n = counts ? (uint32_t)random() % 9 : 1;

		switch (random() % 16) {
		case 0: /* some are lost */
			number += 1 + (uint64_t)random() % 9;
			break;
		case 1: /* an old one, or one from behind the window */
		case 2:
			number -= (uint64_t)random() % (window + window / 4 + 2);
			break;
		case 3: /* about as many are lost as a jump, or more with an explanation */
			if (random() % 8 == 0) {
				slack = random() % 4 ? 0 : (uint64_t)random() % 100;
				number += jump + slack - 2 + (uint64_t)random() % 5;
			}
			break;
		case 4: /* anything, perhaps twice */
			if (random() % 4 == 0)
				number = (uint64_t)random();
			if (random() % 2 == 0)
				add_both(&pair, number, n, 0);
			break;
		}
		add_both(&pair, number, n, slack);
		if (number - next < 2 * jump + 100 || random() % 4 == 0)
			next = number + n;
		if (i % 8 == 0 || n_packets < 200)
			expect_same(&pair, i);
	}
	expect_same(&pair, n_packets);
	deinit_pair(&pair);
}

Test(tracker_source, counts_as_a_list_of_all_numbers_would)
{
	srandom(4);
	for (unsigned round = 0; round < 40; round++) {
		run_random(16, 8, 8, false, 400);
		run_random(100, 50, 40, false, 400);
		run_random(5000, 64, 1 + (uint64_t)random() % 300, false, 400);
		run_random(65536, 100, 3000, false, 150);
		run_random(UINT64_C(1) << 32, 256, 200, false, 400);
		run_random(UINT64_C(1) << 40, 64, 500, true, 400);
	}
}

/* ---- known lists --------------------------------------------------------------------------------- */

static void add(struct pair *pair, uint64_t number)
{
	struct ibvcap_tracked tracked;

	tracker_source_add(&pair->source, &pair->rules, number, 1, 0, &tracked);
}

static void expect_counts(const struct pair *pair, uint64_t once, uint64_t lost, uint64_t repeated, uint64_t reordered,
                          uint64_t restarted)
{
	const uint64_t *counts = pair->source.counts;

	cr_expect(eq(u64, counts[IBVCAP_TRACKED_COUNTER_ONCE], once));
	cr_expect(eq(u64, counts[IBVCAP_TRACKED_COUNTER_LOST], lost));
	cr_expect(eq(u64, counts[IBVCAP_TRACKED_COUNTER_REPEATED], repeated));
	cr_expect(eq(u64, counts[IBVCAP_TRACKED_COUNTER_REORDERED], reordered));
	cr_expect(eq(u64, counts[IBVCAP_TRACKED_COUNTER_RESTARTED], restarted));
}

Test(tracker_source, a_counter_of_4_bits_shows_losses_of_up_to_7_in_a_row)
{
	struct pair pair;

	init_pair(&pair, 16, 8, 8);
	for (unsigned i = 0; i < 1000; i++)
		if (i % 50 >= 7 || i == 0) /* 7 are left out of 50, but for the first */
			add(&pair, i % 16);
	expect_counts(&pair, 1000 - 20 * 7 + 1, 20 * 7 - 1, 0, 0, 0);
	deinit_pair(&pair);
}

Test(tracker_source, a_number_of_64_bits_wraps)
{
	struct pair pair;

	init_pair(&pair, 0, 64, 1 << 20);
	for (uint64_t i = 0; i < 100; i++)
		if (i != 49 && i != 50)
			add(&pair, i - 50);
	add(&pair, (uint64_t)-1);
	add(&pair, (uint64_t)-1);
	expect_counts(&pair, 99, 1, 1, 1, 0);
	deinit_pair(&pair);
}

Test(tracker_source, a_restart_begins_a_new_run_and_keeps_the_losses_of_the_old_one)
{
	struct pair pair;

	init_pair(&pair, UINT64_C(1) << 32, 64, 1000);
	for (unsigned i = 0; i < 100; i++)
		if (i != 10)
			add(&pair, 5000 + i);
	for (unsigned i = 0; i < 100; i++)
		if (i != 50)
			add(&pair, i);
	expect_counts(&pair, 198, 2, 0, 0, 1);
	deinit_pair(&pair);
}

Test(tracker_source, a_single_packet_far_away_changes_nothing)
{
	struct pair pair;

	init_pair(&pair, UINT64_C(1) << 32, 64, 1000);
	for (unsigned i = 0; i < 100; i++) {
		add(&pair, 5000 + i);
		if (i == 50)
			add(&pair, 1000000);
		if (i == 60)
			add(&pair, 17);
	}
	expect_counts(&pair, 100, 0, 0, 0, 0);
	cr_expect(eq(u64, pair.source.counts[IBVCAP_TRACKED_COUNTER_STRAY], 1));
	cr_expect(eq(u64, pair.source.counts[IBVCAP_TRACKED_COUNTER_LATE], 1));
	deinit_pair(&pair);
}

Test(tracker_source, numbers_count_on_where_the_number_begins_again)
{
	struct ibvcap_tracked tracked;
	struct pair pair;

	init_pair(&pair, 1000, 64, 500);
	for (unsigned i = 0; i < 5000; i++) {
		tracker_source_add(&pair.source, &pair.rules, (990 + i) % 1000, 1, 0, &tracked);
		cr_assert(eq(u64, tracked.number, 990 + i));
		cr_assert(eq(u32, tracked.kind, IBVCAP_TRACKED_IN_ORDER));
	}
	tracker_source_add(&pair.source, &pair.rules, (990 + 4990) % 1000, 1, 0, &tracked);
	cr_expect(eq(u64, tracked.number, 990 + 4990));
	cr_expect(eq(u32, tracked.kind, IBVCAP_TRACKED_REPEATED));
	deinit_pair(&pair);
}
