// SPDX-License-Identifier: Apache-2.0
#include "lib/recording/recording_index.h"
#include "tools/inspect/extract.h"
#include "tools/inspect/inspect_numbers.h"
#include "tools/inspect/inspect_sum.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>

#define SECOND_NS UINT64_C(1000000000)
#define BEGIN_NS  (UINT64_C(1795334400) * SECOND_NS + 5) /* 2026-11-22T08:00:00.000000005 */

/* ---- times --------------------------------------------------------------------------------------- */

static void expect_time(const char *text, uint64_t wanted)
{
	uint64_t ns = 0;

	cr_assert(time_text_parse(text, BEGIN_NS, &ns), "%s", text);
	cr_expect(eq(u64, ns, wanted), "%s", text);
}

Test(time_text, each_form_is_exact_to_the_ns)
{
	expect_time("2026-11-22T08:00:00.000000005", BEGIN_NS);
	expect_time("2026-11-22 08:00:01.5Z", BEGIN_NS - 5 + SECOND_NS + SECOND_NS / 2);
	expect_time("08:00:02", BEGIN_NS - 5 + 2 * SECOND_NS);
	expect_time("00:00:00", BEGIN_NS - 5 - 8 * 3600 * SECOND_NS);
	expect_time("@1795334400.000000006", BEGIN_NS + 1);
	expect_time("+0.25", BEGIN_NS + SECOND_NS / 4);
	expect_time("1970-01-01T00:00:00", 0);
}

Test(time_text, everything_else_is_refused)
{
	static const char *const texts[] = {"",
	                                    "now",
	                                    "8",
	                                    "24:00:00",
	                                    "08:60:00",
	                                    "08:00",
	                                    "+",
	                                    "+-1",
	                                    "+1s",
	                                    "@",
	                                    "@99999999999999999999",
	                                    "1969-12-31T23:59:59",
	                                    "2026-13-01T00:00:00",
	                                    "2026-11-22T08:00:00.x",
	                                    "2026-11-22",
	                                    "2026-11-22T08:00:00 ",
	                                    "-1",
	                                    "08:00:00."};
	uint64_t ns = 7;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		cr_expect(not(time_text_parse(texts[i], BEGIN_NS, &ns)), "'%s'", texts[i]);
	cr_expect(eq(u64, ns, 7));
}

/* ---- the index ----------------------------------------------------------------------------------- */

#define INDEX_HEAD "# ibvcap index 2: offset bytes packets first_ns last_ns first_sequence last_sequence\n"
#define INDEX_END  "# end 1000 00000000000000ab\n"

static int find_pieces(const char *text, uint64_t from, uint64_t to, struct recording_pieces *pieces)
{
	FILE *index = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	int r = recording_index_find(index, &(struct recording_stamp){1000, 0xab}, from, to, pieces);

	fclose(index);
	return r;
}

Test(recording_index, the_pieces_of_a_time_are_found_with_those_between_them)
{
	static const char text[] = INDEX_HEAD "100 100 10 1000 1999 0 9\n"
					      "200 100 20 2000 2999 10 29\n"
					      "300 100 30 1500 1600 0 29\n" /* of another queue */
					      "400 100 40 3000 3999 30 69\n" INDEX_END;
	struct recording_pieces pieces;

	cr_assert(eq(int, find_pieces(text, 1550, 1999, &pieces), 0));
	cr_expect(eq(u64, pieces.offset, 100));
	cr_expect(eq(u64, pieces.n_packets, 60));
	cr_assert(eq(int, find_pieces(text, 3999, UINT64_MAX, &pieces), 0));
	cr_expect(eq(u64, pieces.offset, 400));
	cr_expect(eq(u64, pieces.n_packets, 40));
	cr_assert(eq(int, find_pieces(text, 0, 999, &pieces), 0));
	cr_expect(eq(u64, pieces.n_packets, 0));
	cr_assert(eq(int, find_pieces(text, 4000, 5000, &pieces), 0));
	cr_expect(eq(u64, pieces.n_packets, 0));
}

Test(recording_index, what_no_recorder_writes_is_refused)
{
	static const char *const texts[] = {
		"offset bytes\n" INDEX_END,
		INDEX_HEAD "100 100 10 1000\n" INDEX_END,
		INDEX_HEAD "100 100 10 2000 1999 0 9\n" INDEX_END,
		INDEX_HEAD "900 101 10 1000 1999 0 9\n" INDEX_END,
		INDEX_HEAD "18446744073709551615 2 10 1000 1999 0 9\n" INDEX_END,
		INDEX_HEAD "200 100 10 1000 1999 0 9\n150 100 10 2000 2999 10 19\n" INDEX_END,
		/* A line is missing. */
		INDEX_HEAD "200 100 10 1000 1999 0 9\n400 100 10 2000 2999 30 39\n" INDEX_END,
		INDEX_HEAD "200 100 0 1000 1999 0 9\n" INDEX_END,
		INDEX_HEAD "200 100 1001 1000 1999 0 9\n" INDEX_END,
		/* Of another recording, of a recorder that was killed, and of an earlier version. */
		INDEX_HEAD "200 100 10 1000 1999 0 9\n# end 1001 00000000000000ab\n",
		INDEX_HEAD "200 100 10 1000 1999 0 9\n# end 1000 00000000000000ac\n",
		INDEX_HEAD "200 100 10 1000 1999 0 9\n",
		INDEX_HEAD "200 100 10 1000 1999 0 9\n300 100 5",
		INDEX_HEAD,
		"# ibvcap index 1: offset\n200 100 10 1000 1999 0 9\n" INDEX_END,
	};
	struct recording_pieces pieces;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		cr_expect(eq(int, find_pieces(texts[i], 0, UINT64_MAX, &pieces), -EBADMSG), "%s", texts[i]);
}

/* ---- the sum ------------------------------------------------------------------------------------- */

static struct inspect_sum sum;

static void add(uint64_t id, uint64_t drops, const char *comment)
{
	struct pcapng_block block = {
		.type = PCAPNG_BLOCK_PACKET,
		.packet = {.options = PCAPNG_PACKET_HAS_ID | (drops ? PCAPNG_PACKET_HAS_DROPS : 0),
	                   .packet_id = id,
	                   .drop_count = drops,
	                   .time_ns = id,
	                   .comment = pcapng_text_of(comment)},
	};

	cr_assert(zero(int, inspect_sum_add(&sum, &block)));
}

static void add_statistics(uint64_t delivered)
{
	struct pcapng_block block = {.type = PCAPNG_BLOCK_STATISTICS};

	block.statistics.values[PCAPNG_STATISTIC_DELIVERED] = delivered;
	cr_assert(zero(int, inspect_sum_add(&sum, &block)));
}

static void begin_sum(void)
{
	const struct pcapng_block section = {.type = PCAPNG_BLOCK_SECTION,
	                                     .section = {.application = pcapng_text_of("ibvcap 0")}};
	const struct pcapng_block interface = {.type = PCAPNG_BLOCK_INTERFACE,
	                                       .interface = {.name = pcapng_text_of("li\x1b[2Jd\xc2\x9b\xc3\x9br")}};

	inspect_sum_add(&sum, &section);
	inspect_sum_add(&sum, &interface);
}

static void end_sum(void)
{
	inspect_sum_free(&sum);
	cr_expect(zero(u32, sum.n_sources));
}

TestSuite(inspect_sum, .init = begin_sum, .fini = end_sum);

Test(inspect_sum, losses_are_those_of_the_line_and_not_of_the_words)
{
	add(10, 0, NULL);
	add(15, 6, "ibvcapd was restarted; 9 packets lost (no_buffer): x\nlosses {\"skipped\":4,\"no_buffer\":2}");
	cr_expect(eq(u64, sum.sources[0].n_card, 2));
	cr_expect(eq(u64, sum.sources[0].n_named, 4));
	cr_expect(zero(u64, sum.sources[0].n_restarts_before_packets));
	cr_expect(zero(int, strcmp(sum.gaps[0].text, "ibvcapd was restarted; 9 packets lost (no_buffer): x")));
	add(0, 0, "x\nlosses {\"restarts\":1}");
	cr_expect(eq(u64, sum.sources[0].n_restarts_before_packets, 1));
	cr_expect(inspect_is_explained(&sum.sources[0]));
}

Test(inspect_sum, each_absent_number_must_be_in_a_gap_that_is_named)
{
	add(10, 4, "4 packets lost (skipped): before the file began\nlosses {\"skipped\":4}");
	add(11, 0, NULL);
	add(15, 5, "x\nlosses {\"skipped\":3,\"no_buffer\":2}");
	cr_expect(eq(u64, sum.sources[0].n_absent, 3));
	cr_expect(eq(u64, sum.sources[0].n_named, 3));
	cr_expect(eq(u64, sum.sources[0].n_lost, 9));
	cr_expect(inspect_is_explained(&sum.sources[0]));
	cr_expect(eq(u64, sum.n_gaps, 2));
	add(20, 0, NULL);
	cr_expect(not(inspect_is_explained(&sum.sources[0])));
}

Test(inspect_sum, numbers_begin_again_only_after_a_restart_that_is_named)
{
	add(10, 0, NULL);
	add(0, 0, "ibvcapd was restarted: how many packets were lost is not known\nlosses {\"restarts\":1}");
	add(1, 0, NULL);
	cr_expect(eq(u64, sum.sources[0].n_runs, 2));
	cr_expect(inspect_is_explained(&sum.sources[0]));
	add(1, 0, NULL);
	cr_expect(eq(u64, sum.sources[0].n_repeated, 1));
	cr_expect(not(inspect_is_explained(&sum.sources[0])));
}

Test(inspect_sum, a_file_is_closed_by_its_statistics_and_a_section_without_interfaces)
{
	const struct pcapng_block section = {.type = PCAPNG_BLOCK_SECTION};
	const struct pcapng_block interface = {.type = PCAPNG_BLOCK_INTERFACE,
	                                       .interface = {.name = pcapng_text_of("imu")}};

	add(0, 0, NULL);
	cr_expect(not(inspect_is_closed(&sum)));
	add_statistics(1);
	cr_expect(not(inspect_is_closed(&sum)));
	cr_assert(zero(int, inspect_sum_add(&sum, &section)));
	cr_expect(inspect_is_closed(&sum));
	cr_expect(eq(u64, sum.sources[0].n_delivered, 1));
	/* Another recording behind it, by cat(1). */
	cr_assert(zero(int, inspect_sum_add(&sum, &interface)));
	add_statistics(1);
	cr_expect(not(inspect_is_closed(&sum)), "the second one is cut");
	cr_assert(zero(int, inspect_sum_add(&sum, &section)));
	cr_expect(inspect_is_closed(&sum));
}

Test(inspect_sum, texts_of_a_file_send_no_control_codes_to_the_terminal)
{
	cr_expect(zero(int, strcmp(sum.sources[0].name, "li [2Jd  \xc3\x9br")));
}

Test(inspect_sum, comments_of_another_program_are_no_gaps)
{
	const struct pcapng_block section = {.type = PCAPNG_BLOCK_SECTION};
	const struct pcapng_block interface = {.type = PCAPNG_BLOCK_INTERFACE};

	end_sum();
	inspect_sum_add(&sum, &section);
	inspect_sum_add(&sum, &interface);
	add(1, 0, "look at this one");
	add(2, 3, "and that one");
	cr_expect(eq(u64, sum.n_gaps, 1), "that one has a count of drops");
	cr_expect(eq(u64, sum.n_comments, 2));
}

Test(inspect_sum, blocks_of_no_use_are_passed_over)
{
	static const uint32_t types[] = {PCAPNG_BLOCK_PACKET, PCAPNG_BLOCK_STATISTICS, 99};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct pcapng_block block = {.type = types[i]};

		block.packet.interface = block.statistics.interface = 1; /* there is one, number 0 */
		cr_expect(zero(int, inspect_sum_add(&sum, &block)));
	}
	cr_expect(zero(u64, sum.n_packets));
}

Test(inspect_sum, long_texts_are_cut_off)
{
	char text[INSPECT_TEXT_BYTES + 10];
	struct pcapng_block block = {.type = PCAPNG_BLOCK_INTERFACE};

	memset(text, 'x', sizeof(text));
	for (size_t n = INSPECT_TEXT_BYTES - 4; n < sizeof(text); n++) {
		size_t kept = n < INSPECT_TEXT_BYTES ? n : INSPECT_TEXT_BYTES - 1;

		block.interface.name = (struct pcapng_text){.at = text, .bytes = n};
		cr_assert(zero(int, inspect_sum_add(&sum, &block)));
		cr_expect(eq(sz, strlen(sum.sources[sum.n_sources - 1].name), kept));
	}
}

Test(inspect_sum, of_many_gaps_the_first_are_kept)
{
	for (uint64_t i = 0; i < INSPECT_GAPS_MAX + 5; i++)
		add(2 * i, 1, "1 packets lost (skipped): x");
	cr_expect(eq(u64, sum.n_gaps, INSPECT_GAPS_MAX + 5));
	cr_expect(eq(u32, sum.n_gaps_kept, INSPECT_GAPS_MAX));
	cr_expect(eq(u64, sum.gaps[INSPECT_GAPS_MAX - 1].packet_id, 2 * (INSPECT_GAPS_MAX - 1)));
	cr_expect(eq(u64, sum.sources[0].n_named, INSPECT_GAPS_MAX + 4));
}

/* ---- the packets' own numbers -------------------------------------------------------------------- */

/* Packets of n sources, told apart by the port, two of each. How many were not tracked. */
static uint64_t count_untracked(uint32_t n, const char *description)
{
	static struct inspect_numbers numbers;
	uint8_t frame[46] = {[12] = 0x08, [14] = 0x45, [17] = 32, [23] = 17, [39] = 12};
	struct pcapng_block block = {.type = PCAPNG_BLOCK_INTERFACE};
	struct ibvcap_tracker_counts counts;

	block.interface.name = pcapng_text_of("radar");
	block.interface.comment = pcapng_text_of(description);
	cr_assert(zero(int, inspect_sum_add(&sum, &block)));
	cr_assert(zero(int, inspect_numbers_add(&numbers, &sum, &block)));
	cr_assert(eq(u32, numbers.n_streams, 1));
	block = (struct pcapng_block){
		.type = PCAPNG_BLOCK_PACKET,
		.packet = {
			.interface = 1, .frame = {frame}, .frame_bytes = {sizeof(frame)}, .wire_bytes = sizeof(frame)}};
	for (uint32_t i = 0; i < 2 * n; i++) {
		frame[27] = (uint8_t)(i / 2 >> 16); /* of the address */
		frame[34] = (uint8_t)(i / 2 >> 8);
		frame[35] = (uint8_t)(i / 2);
		frame[45] = i & 1;
		cr_assert(zero(int, inspect_numbers_add(&numbers, &sum, &block)));
	}
	counts = inspect_numbers_counts(&numbers.streams[0]);
	cr_expect(eq(u64, counts.packets, 2 * n));
	cr_expect(zero(u64, counts.unread));
	inspect_numbers_free(&numbers);
	cr_expect(zero(u32, numbers.n_streams));
	return counts.untracked;
}

#define DESCRIPTION \
	"sequence {\"offsets_from\":\"payload\",\"bytes\":4,\"step\":1,\"source\":%d,\"jump\":100,\"window\":%d}"

Test(inspect_sum, a_stream_without_a_description_is_not_followed)
{
	static const char *const comments[] = {
		"",
		"clock device",
		"x; sequence",
		"x; sequence {",
		"x; sequence {\"bytes\":4}",
		"x; sequence {\"offsets_from\":\"payload\",\"bytes\":4,\"step\":1,\"window\":3}"};
	static struct inspect_numbers numbers;

	for (size_t i = 0; i < sizeof(comments) / sizeof(comments[0]); i++) {
		struct pcapng_block block = {.type = PCAPNG_BLOCK_INTERFACE};

		block.interface.name = pcapng_text_of("radar");
		block.interface.comment = pcapng_text_of(comments[i]);
		cr_assert(zero(int, inspect_sum_add(&sum, &block)));
		cr_expect(zero(int, inspect_numbers_add(&numbers, &sum, &block)));
		cr_expect(zero(u32, numbers.n_streams), "%s", comments[i]);
		cr_expect(inspect_numbers_find(&numbers, "radar") == NULL);
	}
}

Test(inspect_sum, a_stranger_cannot_fill_the_table_of_sources_unseen)
{
	char text[200];

	snprintf(text, sizeof(text), "x; " DESCRIPTION, IBVCAP_SOURCE_FLOW, 64);
	cr_expect(zero(u64, count_untracked(65536, text)));
	inspect_sum_free(&sum);
	begin_sum();
	cr_expect(eq(u64, count_untracked(65537, text), 2));
	inspect_sum_free(&sum);
	begin_sum();
	/* A window of 8 KiB for each source, and 64 MiB for all. */
	snprintf(text, sizeof(text), "x; " DESCRIPTION, IBVCAP_SOURCE_FLOW, 65536);
	cr_expect(eq(u64, count_untracked(7711, text), 2));
}
