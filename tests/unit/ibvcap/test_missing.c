// SPDX-License-Identifier: Apache-2.0
/* The list of missing numbers of a tracker: where it says that numbers are missing, and until when. */
#include <criterion/criterion.h>
#include <ibvcap/ibvcap.h>
#include <string.h>

#define RANGES_MAX 4096

/* A number of 24 bits, a count of numbers, and the source. */
static struct ibvcap_tracker *tracker_of(uint32_t max_missing)
{
	struct ibvcap_sequence sequence = {.bytes = 3,
	                                   .step = 1,
	                                   .upper_step = 1,
	                                   .window = 64,
	                                   .jump = 1000,
	                                   .count_offset = 3,
	                                   .count_bytes = 1,
	                                   .source = IBVCAP_SOURCE_NONE,
	                                   .source_offset = 4,
	                                   .source_bytes = 1,
	                                   .source_mask = {0xff}};
	const struct ibvcap_tracker_options options = {
		.size = sizeof(options), .max_sources = 4, .max_missing = max_missing};
	struct ibvcap_tracker *tracker;

	cr_assert_eq(ibvcap_tracker_new(&sequence, &options, &tracker), 0, "%s", ibvcap_error_text());
	return tracker;
}

struct sent {
	uint32_t number, n, source;
	uint64_t ns;
};

static struct ibvcap_tracked track(struct ibvcap_tracker *tracker, struct sent sent)
{
	const uint8_t bytes[] = {(uint8_t)(sent.number >> 16), (uint8_t)(sent.number >> 8), (uint8_t)sent.number,
	                         (uint8_t)sent.n, (uint8_t)sent.source};
	const struct ibvcap_packet packet = {.row = bytes, .row_bytes = sizeof(bytes), .timestamp_ns = sent.ns};
	struct ibvcap_tracked tracked;

	cr_assert_eq(ibvcap_tracker_add(tracker, &packet, &tracked), 0);
	return tracked;
}

/* Packets of one number each, at 10 times their number. */
static void track_numbers(struct ibvcap_tracker *tracker, const uint32_t *numbers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		track(tracker, (struct sent){.number = numbers[i], .n = 1, .ns = 10 * (uint64_t)numbers[i]});
}

#define TRACK(tracker, ...) \
	track_numbers(tracker, (const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void expect_range(const struct ibvcap_tracker *tracker, uint32_t index, struct ibvcap_missing expected)
{
	struct ibvcap_missing range;

	cr_assert_geq(ibvcap_tracker_missing(tracker, index, &range, 1), 1, "there is range %u", index);
	cr_expect_eq(range.first, expected.first, "first %lu", (unsigned long)range.first);
	cr_expect_eq(range.n, expected.n, "n %lu", (unsigned long)range.n);
	cr_expect_eq(range.before_ns, expected.before_ns, "before %lu", (unsigned long)range.before_ns);
	cr_expect_eq(range.after_ns, expected.after_ns, "after %lu", (unsigned long)range.after_ns);
	cr_expect_eq(range.source, expected.source);
	cr_expect_eq(range.run, expected.run);
}

static void expect_n(const struct ibvcap_tracker *tracker, uint32_t n)
{
	cr_expect_eq(ibvcap_tracker_missing(tracker, 0, NULL, 0), n);
	cr_expect_eq(ibvcap_tracker_missing(tracker, n, NULL, 0), 0);
}

Test(missing, a_gap_has_the_times_of_the_packets_around_it)
{
	struct ibvcap_tracker *tracker = tracker_of(16);

	TRACK(tracker, 7, 8, 12, 13, 15);
	expect_n(tracker, 2);
	expect_range(tracker, 0, (struct ibvcap_missing){.first = 9, .n = 3, .before_ns = 80, .after_ns = 120});
	expect_range(tracker, 1, (struct ibvcap_missing){.first = 14, .n = 1, .before_ns = 130, .after_ns = 150});
	ibvcap_tracker_free(tracker);
}

Test(missing, a_number_that_comes_after_all_leaves_the_list)
{
	struct ibvcap_tracker *tracker = tracker_of(16);

	TRACK(tracker, 1, 7, 9, 4, 4);
	expect_n(tracker, 3);
	expect_range(tracker, 0, (struct ibvcap_missing){.first = 2, .n = 2, .before_ns = 10, .after_ns = 70});
	expect_range(tracker, 1, (struct ibvcap_missing){.first = 5, .n = 2, .before_ns = 10, .after_ns = 70});
	TRACK(tracker, 2, 6, 8, 3, 5);
	expect_n(tracker, 0);
	ibvcap_tracker_free(tracker);
}

Test(missing, a_packet_of_several_numbers_fills_several_gaps)
{
	struct ibvcap_tracker *tracker = tracker_of(16);

	TRACK(tracker, 0, 3, 6, 9);
	track(tracker, (struct sent){.number = 2, .n = 6});
	expect_n(tracker, 2);
	expect_range(tracker, 0, (struct ibvcap_missing){.first = 1, .n = 1, .before_ns = 0, .after_ns = 30});
	expect_range(tracker, 1, (struct ibvcap_missing){.first = 8, .n = 1, .before_ns = 60, .after_ns = 90});
	ibvcap_tracker_free(tracker);
}

Test(missing, numbers_are_counted_on_and_runs_and_sources_kept_apart)
{
	struct ibvcap_tracker *tracker = tracker_of(16);

	TRACK(tracker, 16777210, 16777214, 1);
	track(tracker, (struct sent){.number = 5, .n = 1, .source = 1, .ns = 1});
	track(tracker, (struct sent){.number = 7, .n = 1, .source = 1, .ns = 2});
	expect_range(tracker, 1,
	             (struct ibvcap_missing){.first = 16777215, .n = 2, .before_ns = 167772140, .after_ns = 10});
	expect_range(tracker, 2,
	             (struct ibvcap_missing){.first = 6, .n = 1, .before_ns = 1, .after_ns = 2, .source = 1});
	TRACK(tracker, 30000, 30001, 30003); /* a restart */
	expect_n(tracker, 4);
	expect_range(
		tracker, 3,
		(struct ibvcap_missing){.first = 30002, .n = 1, .before_ns = 300010, .after_ns = 300030, .run = 1});
	ibvcap_tracker_free(tracker);
}

Test(missing, a_full_list_keeps_the_first_ranges)
{
	struct ibvcap_tracker *tracker = tracker_of(2);

	TRACK(tracker, 0, 2, 9, 11, 13);
	expect_n(tracker, 2);
	TRACK(tracker, 5); /* splits a range: there is no room for its rest */
	expect_n(tracker, 2);
	expect_range(tracker, 1, (struct ibvcap_missing){.first = 3, .n = 2, .before_ns = 20, .after_ns = 90});
	TRACK(tracker, 12, 10, 1);
	expect_n(tracker, 1);
	ibvcap_tracker_free(tracker);
	tracker = tracker_of(0);
	TRACK(tracker, 0, 2, 1, 9);
	expect_n(tracker, 0);
	ibvcap_tracker_free(tracker);
}

/* Against a table of all numbers. */
Test(missing, random_histories_list_each_missing_number_once)
{
	static struct ibvcap_missing ranges[RANGES_MAX];
	static bool has_come[2][8192], is_listed[2][8192];

	for (uint32_t seed = 1; seed <= 40; seed++) {
		struct ibvcap_tracker_counts counts = IBVCAP_INIT(struct ibvcap_tracker_counts);
		struct ibvcap_tracker *tracker = tracker_of(RANGES_MAX);
		uint32_t next[2] = {1, 1}, n, n_lost = 0;
		unsigned state = seed;

		memset(has_come, 0, sizeof(has_come));
		memset(is_listed, 0, sizeof(is_listed));
		for (uint32_t source = 0; source < 2; source++) {
			track(tracker, (struct sent){.n = 1, .source = source});
			has_come[source][0] = true;
		}
		for (uint32_t i = 0; i < 1500; i++) {
			const uint32_t source = (uint32_t)rand_r(&state) % 2,
				       n_taken = 1 + (uint32_t)rand_r(&state) % 3;
			const uint32_t ahead = rand_r(&state) % 4 ? 0 : (uint32_t)rand_r(&state) % 9;
			const uint32_t back = rand_r(&state) % 3 ? 0 : (uint32_t)rand_r(&state) % 50;
			const uint32_t number =
				back > next[source] ? 0 : next[source] + ahead - (back > ahead ? back : 0);

			track(tracker, (struct sent){.number = number, .n = n_taken, .source = source, .ns = i});
			memset(&has_come[source][number], true, n_taken);
			next[source] = number + n_taken > next[source] ? number + n_taken : next[source];
		}
		n = ibvcap_tracker_missing(tracker, 0, ranges, RANGES_MAX);
		for (uint32_t i = 0; i < n; i++)
			for (uint64_t k = 0; k < ranges[i].n; k++) {
				cr_expect(!is_listed[ranges[i].source][ranges[i].first + k]);
				is_listed[ranges[i].source][ranges[i].first + k] = true;
				n_lost++;
				cr_expect(!has_come[ranges[i].source][ranges[i].first + k], "%lu came",
				          (unsigned long)(ranges[i].first + k));
			}
		ibvcap_tracker_counts(tracker, &counts);
		cr_expect_eq(n_lost, counts.numbers.lost, "seed %u: %u of %lu", seed, n_lost,
		             (unsigned long)counts.numbers.lost);
		cr_expect_gt(n_lost, 100);
		ibvcap_tracker_free(tracker);
	}
}
