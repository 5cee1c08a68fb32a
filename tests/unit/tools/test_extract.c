// SPDX-License-Identifier: Apache-2.0
/* What `ibvcap extract` copies out of made recordings, with and without their index. */
#include "captured.h"
#include "lib/recording/recording.h"
#include "lib/recording/recording_index.h"
#include "lib/recording/recording_words.h"
#include "made_recording.h"
#include "tools/inspect/extract.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define SECTOR_BYTES 512u /* what a disk writes or loses as a whole */
#define INDEX_MAX    8192u
#define COPIES_MAX   64u

static char folder[64];
static struct made_recording recording;
static struct extract_options options;
static const char *said; /* by the last extract, on standard error */

static void begin(void)
{
	strcpy(folder, "/tmp/ibvcap-test-extract-XXXXXX");
	cr_assert(mkdtemp(folder) != NULL);
	cr_assert(zero(int, chdir(folder)));
	recording = made_recording();
	options = (struct extract_options){.out = "out"};
}

static void end(void)
{
	static const char *const names[] = {"a", "b", "a.index", "out", "whole"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlink(names[i]);
	rmdir(folder);
}

TestSuite(extract, .init = begin, .fini = end);

static int extract(const char *first, const char *second)
{
	char *files[] = {(char *)(uintptr_t)first, (char *)(uintptr_t)second};
	int code;

	options.files = files;
	options.n_files = second ? 2 : 1;
	captured_begin();
	code = extract_run(&options);
	said = captured_end();
	return code;
}

/* ---- what was copied -------------------------------------------------------------------------------- */

static struct copy {
	uint32_t interface;
	uint64_t id;
	uint64_t time_ns;
	uint64_t drops;
	char comment[256];
} copies[COPIES_MAX];
static uint32_t n_copies, n_sections, n_interfaces;
static char name_of_interface[COPIES_MAX][16], last_comment[512];

static void keep_block(const struct pcapng_block *block)
{
	struct copy *copy = &copies[n_copies];

	if (block->type == PCAPNG_BLOCK_SECTION) {
		n_sections++;
		snprintf(last_comment, sizeof(last_comment), "%.*s", (int)block->section.comment.bytes,
		         block->section.comment.at);
	} else if (block->type == PCAPNG_BLOCK_INTERFACE) {
		snprintf(name_of_interface[n_interfaces++], sizeof(name_of_interface[0]), "%.*s",
		         (int)block->interface.name.bytes, block->interface.name.at);
	} else if (block->type == PCAPNG_BLOCK_PACKET) {
		cr_assert(lt(u32, n_copies, COPIES_MAX));
		n_copies++;
		*copy = (struct copy){.interface = block->packet.interface,
		                      .id = block->packet.packet_id,
		                      .time_ns = block->packet.time_ns,
		                      .drops = block->packet.drop_count};
		snprintf(copy->comment, sizeof(copy->comment), "%.*s", (int)block->packet.comment.bytes,
		         block->packet.comment.at);
	}
}

static void read_copies(const char *path)
{
	struct recording copied;
	struct pcapng_block block;
	int r;

	n_copies = n_sections = n_interfaces = 0;
	cr_assert(zero(int, recording_open(&copied, path)));
	while ((r = recording_next(&copied, &block)) > 0)
		keep_block(&block);
	cr_expect(zero(int, r), "%s", recording_error(&copied));
	recording_close(&copied);
}

/* Extract from file "a", and expect the packets with these numbers. */
static void expect_copies(const uint64_t *ids, uint32_t n)
{
	cr_assert(eq(int, extract("a", NULL), n ? EX_OK : 1), "%s", said);
	read_copies("out");
	cr_assert(eq(u32, n_copies, n));
	for (uint32_t i = 0; i < n; i++)
		cr_expect(eq(u64, copies[i].id, ids[i]), "packet %u", i);
}

#define EXPECT_COPIES(...) \
	expect_copies((const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void expect_said(const char *words)
{
	cr_expect(strstr(said, words) != NULL, "%s", said);
}

/* ---- packets ---------------------------------------------------------------------------------------- */

Test(extract, without_a_time_and_a_filter_every_packet_is_copied_as_it_was)
{
	recording.sources[1] = made_source("imu", 20, 23);
	recording.sources[2] = made_source("radar", 30, 31);
	recording.n_sources = 3;
	recording.sources[1].packets[1].drops = 2;
	recording.sources[1].packets[1].comment = "why";
	made_write(&recording, "a");
	EXPECT_COPIES(10, 11, 12, 13, 20, 21, 22, 30);
	cr_expect(eq(str, name_of_interface[2], (char *)"radar"));
	cr_expect(eq(u32, copies[3].interface, 0));
	cr_expect(eq(u32, copies[5].interface, 1));
	cr_expect(eq(u32, copies[7].interface, 2));
	cr_expect(eq(u64, copies[5].drops, 2));
	cr_expect(eq(str, copies[5].comment, (char *)"why"));
	cr_expect(eq(u64, copies[5].time_ns, MADE_TIME_NS + 21000000));
	cr_expect(zero(u64, copies[4].drops + copies[6].drops));
	expect_said("8 packets of 8 that were read\n");
	cr_expect(strstr(last_comment, "extracted by ibvcap: 8 packets, from the beginning to the end; ") ==
	                  last_comment,
	          "%s", last_comment);
	cr_expect(strstr(last_comment, "not proven") != NULL, "%s", last_comment);
}

Test(extract, a_time_begins_and_ends_with_the_packets_of_these_ns)
{
	made_write(&recording, "a");
	options.from = "+0.001"; /* behind packet 10 */
	options.to = "+0.002";
	EXPECT_COPIES(11, 12);
	cr_expect(strstr(last_comment, "2 packets, from +0.001 to +0.002; ") != NULL, "%s", last_comment);
	options.from = "+0.001000001";
	EXPECT_COPIES(12);
	options.from = NULL;
	EXPECT_COPIES(10, 11, 12);
	options.to = "+0.001999999";
	EXPECT_COPIES(10, 11);
	options.to = NULL;
	options.from = "08:00:00.013";
	EXPECT_COPIES(13);
	options.from = "08:00:01";
	expect_copies(NULL, 0);
	expect_said("0 packets of 4 that were read; 'ibvcap info' prints the times");
}

Test(extract, a_filter_is_named_and_takes_what_it_says)
{
	recording.sources[0].packets[1].port = recording.sources[0].packets[3].port = 4001;
	made_write(&recording, "a");
	options.filter = "udp src port 4001";
	EXPECT_COPIES(11, 13);
	cr_expect(strstr(last_comment, "to the end, filter udp src port 4001; ") != NULL, "%s", last_comment);
	options.to = "+0.002";
	EXPECT_COPIES(11);
}

Test(extract, losses_of_packets_that_a_filter_leaves_out_are_told_by_the_next_one)
{
	struct made_packet *packets = recording.sources[0].packets;

	recording.sources[1] = made_source("imu", 20, 22);
	recording.sources[1].packets[0].port = 4001;
	recording.n_sources = 2;
	packets[0].drops = 3;
	packets[0].comment = "one\nlosses {\"skipped\":3}";
	packets[1].drops = 4;
	packets[1].comment = "two\nlosses {\"skipped\":1,\"no_buffer\":3}";
	packets[2].port = packets[3].port = 4001;
	packets[2].drops = 5;
	packets[2].comment = "three";
	made_write(&recording, "a");
	options.filter = "udp src port 4001";
	EXPECT_COPIES(12, 13, 20);
	cr_expect(eq(u64, copies[0].drops, 12));
	cr_expect(eq(str, copies[0].comment, (char *)"one; two; three\nlosses {\"skipped\":4,\"no_buffer\":3}"));
	for (uint32_t i = 1; i < 3; i++) {
		cr_expect(zero(u64, copies[i].drops), "they are told once, of their own interface");
		cr_expect(eq(str, copies[i].comment, (char *)""));
	}
}

Test(extract, losses_without_a_word_or_without_a_number_are_told_too)
{
	struct made_packet *packets = recording.sources[0].packets;

	packets[0].drops = 3;
	packets[1].port = packets[3].port = 4001;
	packets[2].comment = "ibvcapd was restarted";
	made_write(&recording, "a");
	options.filter = "udp src port 4001";
	EXPECT_COPIES(11, 13);
	cr_expect(eq(u64, copies[0].drops, 3));
	cr_expect(eq(str, copies[0].comment, (char *)""));
	cr_expect(zero(u64, copies[1].drops));
	cr_expect(eq(str, copies[1].comment, (char *)"ibvcapd was restarted"));
}

Test(extract, losses_before_the_time_are_not_those_of_its_packets)
{
	struct made_packet *packets = recording.sources[0].packets;

	packets[1].drops = 3;
	packets[1].comment = "before";
	packets[3].drops = 4;
	packets[3].comment = "within";
	made_write(&recording, "a");
	options.from = "+0.002";
	EXPECT_COPIES(12, 13);
	cr_expect(zero(u64, copies[0].drops));
	cr_expect(eq(str, copies[0].comment, (char *)""));
	cr_expect(eq(u64, copies[1].drops, 4));
	cr_expect(eq(str, copies[1].comment, (char *)"within"));
}

/* The comments of many packets are more than one may have. */
Test(extract, many_words_about_losses_are_cut_off_and_all_losses_counted)
{
	static char words[401];

	memset(words, 'x', sizeof(words) - 1);
	for (unsigned i = 0; i < 3; i++) {
		recording.sources[0].packets[i].drops = 10;
		recording.sources[0].packets[i].comment = words;
	}
	recording.sources[0].packets[3].port = 4001;
	made_write(&recording, "a");
	options.filter = "udp src port 4001";
	EXPECT_COPIES(13);
	cr_expect(eq(u64, copies[0].drops, 30));
}

/* ---- several recordings ----------------------------------------------------------------------------- */

Test(extract, each_recording_has_a_section_of_its_own_if_it_has_interfaces)
{
	made_write(&recording, "a");
	recording.sources[0] = made_source("imu", 50, 52);
	recording.sources[0].packets[0].port = 4001;
	made_write(&recording, "b");
	cr_assert(eq(int, extract("a", "b"), EX_OK), "%s", said);
	read_copies("out");
	cr_assert(eq(u32, n_copies, 6));
	cr_expect(eq(u64, copies[4].id, 50));
	cr_expect(eq(u32, copies[4].interface, 0));
	cr_expect(eq(u32, n_sections, 3), "two and the summary");
	expect_said("6 packets of 6 that were read\n");
	options.from = "+0.001"; /* of each recording's own beginning */
	cr_assert(eq(int, extract("a", "b"), EX_OK), "%s", said);
	read_copies("out");
	cr_expect(eq(u32, n_copies, 4));
}

/* As of two recordings that were joined by cat(1): the second section's interfaces begin at 0 again. */
Test(extract, a_section_behind_another_one_is_copied_with_its_interfaces)
{
	uint8_t bytes[8192];
	size_t n[2];
	FILE *file;

	n[0] = made_write(&recording, "a");
	recording.sources[0] = made_source("imu", 50, 52);
	n[1] = made_write(&recording, "b");
	cr_assert(lt(sz, n[0] + n[1], sizeof(bytes)));
	for (unsigned i = 0; i < 2; i++) {
		file = fopen(i ? "b" : "a", "r");
		cr_assert(eq(sz, fread(bytes + (i ? n[0] : 0), 1, n[i], file), n[i]));
		fclose(file);
	}
	made_write_bytes("a", bytes, n[0] + n[1]);
	EXPECT_COPIES(10, 11, 12, 13, 50, 51);
	cr_expect(eq(u32, n_sections, 3));
	cr_expect(eq(u32, copies[4].interface, 0));
}

/* ---- the index -------------------------------------------------------------------------------------- */

/* The index of file "a", a piece for each packet. Its length; lines[i]: where the line of packet i begins. */
static size_t make_index(char text[INDEX_MAX], size_t *lines)
{
	size_t n = (size_t)snprintf(text, INDEX_MAX, "%s\n", RECORDING_INDEX_HEAD), i = 0;
	struct recording_stamp stamp;
	struct pcapng_block block;
	struct recording read;

	cr_assert(zero(int, recording_open(&read, "a")));
	while (recording_next(&read, &block) > 0) {
		if (block.type != PCAPNG_BLOCK_PACKET)
			continue;
		lines[i++] = n;
		n += (size_t)snprintf(text + n, INDEX_MAX - n,
		                      "%" PRIu64 " %u 1 %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
		                      block.offset, block.bytes, block.packet.time_ns, block.packet.time_ns,
		                      block.packet.packet_id, block.packet.packet_id);
	}
	lines[i] = n;
	cr_assert(zero(int, recording_stamp_of(read.unpack.fd, &stamp)));
	n += (size_t)snprintf(text + n, INDEX_MAX - n, "%s%" PRIu64 " %016" PRIx64 "\n", RECORDING_INDEX_END,
	                      stamp.bytes, stamp.hash);
	cr_assert(lt(sz, n, INDEX_MAX));
	recording_close(&read);
	made_write_bytes("a.index", text, n);
	return n;
}

/* Three queues at the same time, one behind the other in the file. */
static size_t make_long_index(char text[INDEX_MAX], size_t *lines)
{
	for (unsigned i = 0; i < 3; i++) {
		recording.sources[i] = made_source("lidar", 0, MADE_PACKETS_MAX);
		recording.sources[i].name = (const char *[]){"lidar/0", "lidar/1", "lidar/2"}[i];
	}
	recording.n_sources = 3;
	made_write(&recording, "a");
	return make_index(text, lines);
}

Test(extract, the_index_says_where_to_begin_and_where_to_end)
{
	size_t lines[COPIES_MAX];
	char text[INDEX_MAX];

	made_write(&recording, "a");
	make_index(text, lines);
	options.from = "+0.001";
	options.to = "+0.002";
	EXPECT_COPIES(11, 12);
	expect_said("2 packets of 2 that were read\n");
	options.from = "+0";
	EXPECT_COPIES(10, 11, 12);
	expect_said("3 packets of 3 that were read\n");
	options.from = "+1";
	options.to = NULL;
	expect_copies(NULL, 0);
	expect_said("0 packets of 0 that were read");
	options.no_index = true;
	expect_copies(NULL, 0);
	expect_said("0 packets of 4 that were read");
	options = (struct extract_options){.out = "out"};
	EXPECT_COPIES(10, 11, 12, 13);
	expect_said("4 packets of 4 that were read\n");
}

Test(extract, pieces_of_queues_at_the_same_time_are_read_with_those_between_them)
{
	size_t lines[COPIES_MAX];
	char text[INDEX_MAX];

	make_long_index(text, lines);
	options.from = "+0.014";
	options.to = "+0.015";
	EXPECT_COPIES(14, 15, 14, 15, 14, 15);
	for (uint32_t i = 0; i < n_copies; i++)
		cr_expect(eq(u32, copies[i].interface, i / 2));
	expect_said("6 packets of 34 that were read\n");
}

Test(extract, of_another_recordings_index_nothing_is_used)
{
	size_t lines[COPIES_MAX];
	char text[INDEX_MAX];

	made_write(&recording, "a");
	make_index(text, lines);
	recording.sources[0].packets[0].later_ns = 5; /* as long as before */
	recording.closing = "Complete: no packet is missinG.";
	made_write(&recording, "a");
	options.from = "+0.002";
	EXPECT_COPIES(13);
	expect_said("not the index of this recording; the whole recording is read");
	expect_said("1 packets of 4 that were read\n");
}

static size_t read_bytes(const char *path, uint8_t bytes[1 << 16])
{
	FILE *file = fopen(path, "r");
	size_t n;

	cr_assert(file != NULL);
	n = fread(bytes, 1, 1 << 16, file);
	fclose(file);
	return n;
}

/* What the file "a.index" has become leads to the same packets as no index. */
static void expect_whole(const char *index, size_t n_index, const char *how, size_t at)
{
	static uint8_t whole[1 << 16], found[1 << 16];
	size_t n = read_bytes("whole", whole);

	made_write_bytes("a.index", index, n_index);
	cr_assert(eq(int, extract("a", NULL), EX_OK), "%s %zu: %s", how, at, said);
	cr_assert(eq(sz, read_bytes("out", found), n), "%s %zu", how, at);
	cr_assert(zero(int, memcmp(whole, found, n)), "%s %zu", how, at);
	cr_expect(strstr(said, "the whole recording is read") != NULL, "%s %zu: %s", how, at, said);
}

/* The recorder does not sync the index. A power failure may leave zeros in any of its sectors, or take its end. */
Test(extract, a_torn_index_is_never_trusted)
{
	size_t lines[COPIES_MAX], n;
	char text[INDEX_MAX], torn[INDEX_MAX];

	n = make_long_index(text, lines);
	cr_assert(gt(sz, n, 4 * SECTOR_BYTES));
	options = (struct extract_options){.out = "whole", .from = "+0.014", .to = "+0.015", .no_index = true};
	cr_assert(eq(int, extract("a", NULL), EX_OK));
	options.out = "out";
	options.no_index = false;
	for (size_t at = 0; at < n; at += SECTOR_BYTES)
		for (size_t bytes = SECTOR_BYTES; at + bytes < n + SECTOR_BYTES; bytes += SECTOR_BYTES) {
			memcpy(torn, text, n);
			memset(torn + at, 0, at + bytes < n ? bytes : n - at);
			expect_whole(torn, n, "zeros from", at);
		}
	for (size_t bytes = 0; bytes < n - 1; bytes += bytes + 64 < n ? 23 : 1)
		expect_whole(text, bytes, "end at", bytes);
	memset(torn, 0, sizeof(torn));
	expect_whole(torn, n, "nothing but zeros", n);
}

Test(extract, an_index_without_one_of_its_lines_is_not_trusted)
{
	size_t lines[COPIES_MAX], n;
	char text[INDEX_MAX], torn[INDEX_MAX];

	n = make_long_index(text, lines);
	options = (struct extract_options){.out = "whole", .from = "+0.014", .to = "+0.015", .no_index = true};
	cr_assert(eq(int, extract("a", NULL), EX_OK));
	options.out = "out";
	options.no_index = false;
	for (size_t i = 1; i + 1 < 3 * (size_t)MADE_PACKETS_MAX; i++) {
		size_t gone = lines[i + 1] - lines[i];

		memcpy(torn, text, lines[i]);
		memcpy(torn + lines[i], text + lines[i + 1], n - lines[i + 1]);
		expect_whole(torn, n - gone, "without line", i);
	}
}

/* A pattern as a.* names it too. */
Test(extract, an_index_among_the_files_is_passed_over)
{
	size_t lines[COPIES_MAX];
	char text[INDEX_MAX];

	made_write(&recording, "a");
	make_index(text, lines);
	cr_assert(eq(int, extract("a", "a.index"), EX_OK), "%s", said);
	read_copies("out");
	cr_expect(eq(u32, n_copies, 4));
}

/* ---- what goes wrong -------------------------------------------------------------------------------- */

Test(extract, words_that_are_wrong_are_refused_by_name)
{
	made_write(&recording, "a");
	options.from = "soon";
	cr_expect(eq(int, extract("a", NULL), EX_USAGE));
	expect_said("--from 'soon': ");
	options = (struct extract_options){.out = "out", .to = "late"};
	cr_expect(eq(int, extract("a", NULL), EX_USAGE));
	expect_said("--to 'late': ");
	options = (struct extract_options){.out = "out", .filter = "udp port"};
	cr_expect(eq(int, extract("a", NULL), EX_USAGE));
	expect_said("--filter 'udp port': ");
}

Test(extract, a_file_that_cannot_be_read_is_named_and_the_others_are_copied)
{
	size_t bytes = made_write(&recording, "a");

	cr_expect(eq(int, extract("none\x1b", "a"), EX_NOINPUT));
	expect_said("ibvcap extract: none : No such file");
	read_copies("out");
	cr_expect(eq(u32, n_copies, 4));
	cr_assert(zero(int, truncate("a", (off_t)bytes - 2)));
	cr_expect(eq(int, extract("a", NULL), EX_DATAERR));
	expect_said("ibvcap extract: a: ");
	read_copies("out");
	cr_expect(eq(u32, n_copies, 4));
	made_write_bytes("b", "nothing of the kind", 19);
	cr_expect(eq(int, extract("b", NULL), EX_DATAERR));
}

Test(extract, an_output_that_cannot_be_written_is_an_error)
{
	made_write(&recording, "a");
	options.out = "none/out";
	cr_expect(eq(int, extract("a", NULL), EX_CANTCREAT));
	expect_said("none/out: there is no directory none");
	options.out = "/dev/full";
	cr_expect(eq(int, extract("a", NULL), EX_IOERR));
	expect_said("/dev/full: cannot be written");
}
