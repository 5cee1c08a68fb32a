// SPDX-License-Identifier: Apache-2.0
/* What `ibvcap info` prints and returns: the whole text and JSON of made recordings. */
#include "made_recording.h"
#include "tools/ibvcap/ibvcap.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static char printed[1 << 19];

static void begin(void)
{
	strcpy(folder, "/tmp/ibvcap-test-info-XXXXXX");
	cr_assert(mkdtemp(folder) != NULL);
	cr_assert(zero(int, chdir(folder)));
}

static void end(void)
{
	static const char *const names[] = {"a", "b", "c", "e\x1b", "out", "none"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlink(names[i]);
	for (unsigned i = 0; i < 60; i++) {
		char name[8];

		snprintf(name, sizeof(name), "f%u", i);
		unlink(name);
	}
	rmdir(folder);
}

TestSuite(cmd_info, .init = begin, .fini = end);

/* Run info with these words, the last of which is NULL. Its exit code; what it prints is in printed. */
static int run_info(const char *const *words)
{
	char *argv[80] = {(char *)(uintptr_t) "ibvcap info"};
	int argc = 1, code, saved = dup(STDOUT_FILENO);
	FILE *out;
	size_t n;

	while (words[argc - 1]) {
		argv[argc] = (char *)(uintptr_t)words[argc - 1];
		argc++;
	}
	fflush(stdout);
	out = fopen("out", "w+e");
	cr_assert(out != NULL);
	dup2(fileno(out), STDOUT_FILENO);
	optind = 0; /* glibc: begin again */
	code = cmd_info(argc, argv);
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	rewind(out);
	n = fread(printed, 1, sizeof(printed) - 1, out);
	printed[n] = '\0';
	fclose(out);
	return code;
}

#define INFO(...) run_info((const char *const[]){__VA_ARGS__, NULL})

static void expect_json(const char *path, const char *wanted)
{
	json_t *all = json_loads(printed, 0, NULL), *json = all, *expected = json_loads(wanted, JSON_DECODE_ANY, NULL);
	char words[128], *said;

	snprintf(words, sizeof(words), "%s", path);
	for (char *word = strtok(words, "."); word; word = strtok(NULL, "."))
		json = json_is_array(json) ? json_array_get(json, strtoul(word, NULL, 10))
		                           : json_object_get(json, word);
	said = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
	cr_assert(expected != NULL, "%s", wanted);
	/* What is not there is null, too. */
	cr_expect(json_equal(json, expected) || (!json && json_is_null(expected)), "%s: %s", path,
	          said ? said : printed);
	free(said);
	json_decref(expected);
	json_decref(all);
}

/* Queue 0 with losses and a restart, queue 1 with a packet that is earlier and cut. */
static struct made_recording make_rich(void)
{
	struct made_recording recording = made_recording();
	struct made_source *source = &recording.sources[0];

	recording.n_sources = 2;
	*source = made_source("lidar/0", 10, 13);
	source->description = "interface eth0, backend xdp";
	source->device = "mlx5_0";
	source->flows = "10.0.0.1:7502";
	source->comment = "clock device";
	source->packets[1].id = 15;
	source->packets[1].drops = 6;
	source->packets[1].comment = "4 packets lost (skipped): slow; 2 packets lost (no_buffer): full\n"
				     "losses {\"skipped\":4,\"no_buffer\":2}";
	source->packets[2].id = 0;
	source->packets[2].comment =
		"ibvcapd was restarted: how many packets were lost is not known\nlosses {\"restarts\":1}";
	source->dropped = 2;
	source->os_dropped = 4;
	source->account.n_queues = 2;
	source->account.sum.skipped = 4;
	source->account.rx.no_buffer = source->account.rx.no_buffer_least = source->account.rx.no_buffer_most = 2;
	source->account.rx.restarts = 1;
	source->account.until.epoch = 8;
	source->account.until.sequence = 1;
	source->account.rx.unknown = IBVCAP_UNKNOWN_RESTART;
	recording.sources[1] = made_source("lidar/1", 5, 7);
	recording.sources[1].account.queue = 1;
	recording.sources[1].account.n_queues = 2;
	return recording;
}

Test(cmd_info, the_text_has_all_that_is_known)
{
	const struct made_recording recording = make_rich();

	made_write(&recording, "a");
	cr_expect(eq(int, INFO("a"), 1));
	cr_expect_str_eq(
		printed,
		"a: 5 packets, written by ibvcap 0.2.0\n"
		"  lidar/0\n"
		"    what       interface eth0, backend xdp\n"
		"    device     mlx5_0\n"
		"    flows      10.0.0.1:7502\n"
		"    notes      clock device\n"
		"    packets    3, 180 bytes of frames\n"
		"    times      2026-11-22T08:00:00.000000000Z to 2026-11-22T08:00:00.015000000Z (0.015 s)\n"
		"               1 packets are earlier than the one before\n"
		"    account    recording 0000000000001234, file 1 (the last), from packet 10 until 1: incomplete\n"
		"    ring       rows 10 to 0, as ibvcapd counts them from 0 in each of 2 runs; 4 absent, 4 explained\n"
		"    sum        published\n"
		"  lidar/1\n"
		"    packets    2, 120 bytes of frames\n"
		"    times      2026-11-22T08:00:00.005000000Z to 2026-11-22T08:00:00.006000000Z (0.001 s)\n"
		"    account    recording 0000000000001234, file 1 (the last), from packet 5 until 7: complete\n"
		"    ring       rows 5 to 6, as ibvcapd counts them from 0; 0 absent, 0 explained\n"
		"    sum        published\n"
		"  to UDP port 7502 (5 packets)\n"
		"  before 2026-11-22T08:00:00.015000Z, packet 15 of lidar/0: 6 lost: 4 packets lost (skipped): slow; 2 "
		"packets lost (no_buffer): full\n"
		"  before 2026-11-22T08:00:00.000000Z, packet 0 of lidar/0: ibvcapd was restarted: how many "
		"packets were lost is not known\n"
		"  the recorder said: Complete: no packet is missing.\n"
		"  incomplete: 6 packets are missing; the daemon (ibvcapd) was restarted, or its "
		"interface was made anew: packets meanwhile are not counted\n");
	cr_expect(eq(int, INFO("a", "--gaps", "1"), 1));
	cr_expect(strstr(printed, "slow; 2 packets lost") && strstr(printed, "  and 1 gaps more: --gaps N") &&
	          !strstr(printed, "packet 0 of lidar/0"));
}

Test(cmd_info, json_has_the_same)
{
	const struct made_recording recording = make_rich();

	made_write(&recording, "a");
	cr_expect(eq(int, INFO("--json", "a"), 1));
	expect_json("0.file", "\"a\"");
	expect_json("0.application", "\"ibvcap 0.2.0\"");
	expect_json("0.comment", "\"\"");
	expect_json("0.closing", "\"Complete: no packet is missing.\"");
	expect_json("0.packets", "5");
	expect_json("0.n_gaps", "2");
	expect_json("0.complete", "false");
	expect_json("0.consistent", "true");
	expect_json("0.verdict_word", "\"incomplete\"");
	expect_json("0.sequences", "[]");
	expect_json("0.gaps.0", "{\"name\":\"lidar/0\",\"number\":15,\"time_ns\":1795334400015000000,\"lost\":6,"
	                        "\"why\":\"4 packets lost (skipped): slow; 2 packets lost (no_buffer): full\"}");
	expect_json("0.streams.1.account.until.sequence", "7");
	expect_json("0.streams.0.account.unknown", "[\"restart\"]");
	expect_json("0.streams.1.name", "\"lidar/1\"");
	expect_json("0.streams.0.has_numbers", "true");
	{
		static const struct {
			const char *key, *value;
		} wanted[] = {
			{"packets", "3"},
			{"bytes", "180"},
			{"cut", "0"},
			{"first_ns", "1795334400000000000"},
			{"backwards", "1"},
			{"first_number", "10"},
			{"last_number", "0"},
			{"last_ns", "1795334400015000000"},
			{"runs", "2"},
			{"absent", "4"},
			{"repeated", "0"},
			{"lost", "6"},
			{"explained", "4"},
			{"delivered", "3"},
			{"dropped", "6"},
			{"restarts", "1"},
			{"description", "\"interface eth0, backend xdp\""},
			{"notes", "\"clock device\""},
			{"sum", "\"published\""},
			{"flows", "\"10.0.0.1:7502\""},
			{"device", "\"mlx5_0\""},
		};
		char path[64];

		for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
			snprintf(path, sizeof(path), "0.streams.0.%s", wanted[i].key);
			expect_json(path, wanted[i].value);
		}
	}
}

Test(cmd_info, of_one_file_there_is_no_sum_of_files)
{
	struct made_recording recording = made_recording();

	made_write(&recording, "a");
	cr_expect(eq(int, INFO("a"), 0));
	cr_expect(strstr(printed, "together") == NULL);
	cr_expect(eq(int, INFO("-j", "a"), 0));
	expect_json("1", "null");
	expect_json("0.complete", "true");
	expect_json("0.verdict_word", "\"complete\"");
	expect_json("0.verdict", "\"complete: no packet is missing\"");
	expect_json("0.streams.0.account.flow", "null");
}

static void make_file(const char *name, uint64_t file, uint64_t first, uint64_t until, bool is_last)
{
	struct made_recording recording = made_recording();

	recording.sources[0] = made_source("lidar", first, until);
	recording.sources[0].account.file = file;
	recording.sources[0].account.is_last = is_last;
	made_write(&recording, name);
}

Test(cmd_info, files_of_a_recording_are_judged_together)
{
	const char *found;

	make_file("a", 1, 10, 15, false);
	make_file("b", 2, 15, 20, false);
	make_file("c", 4, 23, 25, true);
	cr_expect(eq(int, INFO("c", "a"), 1));
	found = strstr(printed, "\nrecording");
	cr_assert(found != NULL);
	cr_expect_str_eq(found + 1,
	                 "recording 0000000000001234, lidar, queue 0: files 2 to 5\n"
	                 "  files before 2 are not here\n"
	                 "  files 3 to 4 are missing: packets 15 to 22\n"
	                 "all 2 files together: incomplete: 8 packets are missing, of files that are not here\n");
	cr_expect(eq(int, INFO("b", "a", "b"), 0));
	found = strstr(printed, "\nrecording");
	cr_assert(found != NULL);
	cr_expect_str_eq(found + 1, "recording 0000000000001234, lidar, queue 0: files 2 to 3\n"
	                            "  files before 2 are not here\n"
	                            "  files behind 3 are not here, if there are any\n"
	                            "  file 3 is given twice: b and b\n"
	                            "all 3 files together: complete: no packet is missing in these files\n");
	cr_expect(eq(int, INFO("b", "c"), 1));
	cr_expect(strstr(printed, "  file 4 is missing: packets 20 to 22\n") != NULL);
	cr_expect(eq(int, INFO("--json", "b", "c"), 1));
	expect_json("2.complete", "false");
	expect_json("2.consistent", "true");
	expect_json("2.verdict_word", "\"incomplete\"");
	expect_json("2.verdict", "\"incomplete: 3 packets are missing, of files that are not here\"");
	expect_json("2.recordings.0.queues.0.missing.0.first_file", "3");
	cr_expect(eq(int, INFO("--json", "a", "b"), 0));
	expect_json("2.complete", "true");
	make_file("c", 4, 20, 22, true);
	cr_expect(eq(int, INFO("b", "c"), 2));
	cr_expect(strstr(printed, "  file 4 is missing: no packets\n") != NULL);
	make_file("c", 3, 20, 22, true);
	cr_expect(eq(int, INFO("a", "b", "c"), 0));
	cr_expect(strstr(printed, "queue 0: files 2 to 4\n  files before 2 are not here\nall 3") != NULL);
	make_file("a", 0, 10, 15, false);
	make_file("b", 2, 14, 20, true);
	cr_expect(eq(int, INFO("--json", "a", "b"), 65));
	expect_json("2.consistent", "false");
	make_file("a", 0, 10, 15, true);
	cr_expect(eq(int, INFO("a", "a"), 0));
	cr_expect(strstr(printed, "queue 0: file 1\n  file 1 is given twice: a and a\nall 2") != NULL);
}

/* Of the rest there is a number. JSON has all. */
Test(cmd_info, many_files_have_a_line_each_with_the_worst_first_and_a_total)
{
	char names[60][8];
	const char *arguments[70] = {NULL};
	unsigned n_lines = 0;

	for (unsigned i = 0; i < 60; i++) {
		snprintf(names[i], sizeof(names[i]), "f%u", i);
		make_file(names[i], i, 10 * i, 10 * i + 5 + 5 * (i != 40), i == 59);
		arguments[i] = names[i];
	}
	cr_expect(eq(int, run_info(arguments), 65), "f41 does not begin where f40 ends");
	for (const char *at = printed; (at = strchr(at, '\n')); at++)
		n_lines++;
	cr_expect(lt(uint, n_lines, 17), "%s", printed);
	cr_expect(strstr(printed, "and 50 files more, which are complete: --files all prints them") != NULL, "%s",
	          printed);
	cr_expect(strstr(printed, "\nin all files: 595 packets, 35700 bytes of frames, 2026") != NULL, "%s", printed);
	arguments[60] = "--files=2";
	make_file("f30", 30, 300, 310, true);
	truncate("f30", 200);
	cr_expect(eq(int, run_info(arguments), 65));
	cr_expect(strncmp(printed, "f30: ", 5) == 0, "%s", printed);
	cr_expect(strstr(printed, "and 58 files more") != NULL);
	arguments[60] = "--json";
	run_info(arguments);
	expect_json("60.total.files", "60");
	expect_json("59.file", "\"f59\"");
}

Test(cmd_info, by_flow_and_over_restarts_the_missing_are_not_counted)
{
	struct made_recording recording = made_recording();

	for (int file = 0; file < 4; file += 2) {
		recording.sources[0] = made_source("lidar", 10u * (unsigned)file, 10u * (unsigned)file + 5);
		recording.sources[0].account.file = (unsigned)file;
		recording.sources[0].account.is_last = file;
		recording.sources[0].account.flow = 3;
		recording.sources[0].description = "only flow 3";
		made_write(&recording, file ? "b" : "a");
	}
	cr_expect(eq(int, INFO("a", "b"), 1));
	cr_expect(strstr(printed, "recording 0000000000001234, flow 3, file 1, from packet 0 until 5: complete") !=
	          NULL);
	cr_expect(strstr(printed, "recording 0000000000001234, flow 3, lidar, queue 0: files 1 to 3\n"
	                          "  file 2 is missing: of this flow, some of packets 5 to 19\n") != NULL);
	recording.sources[0].account.from.epoch = recording.sources[0].account.until.epoch = 8;
	made_write(&recording, "b");
	cr_expect(eq(int, INFO("a", "b"), 1));
	cr_expect(strstr(printed,
	                 "  file 2 is missing: packets from 5 on, and ibvcapd was restarted before packet 20\n") !=
	          NULL);
}

Test(cmd_info, the_own_numbers_are_printed)
{
	struct made_recording recording = made_recording();

	recording.sources[0].comment =
		"clock; sequence {\"offsets_from\":\"payload\",\"bytes\":4,\"step\":1,\"source\":1,\"window\":64,"
		"\"jump\":100}";
	recording.sources[0].packets[3].number = 20;
	made_write(&recording, "a");
	cr_expect(eq(int, INFO("a"), 1));
	cr_expect(strstr(printed, "  lidar, by the packets' own numbers:\nsource 0: ") != NULL);
	cr_expect(strstr(printed, "  sent 11 = once 4 + lost 7; ") != NULL);
	cr_expect(strstr(printed, "  lost before the flow rules (sender, network, interface) 7, among the losses that "
	                          "the recording "
	                          "names 0\n") != NULL);
	cr_expect(eq(int, INFO("-j", "a"), 1));
	expect_json("0.sequences.0.stream", "\"lidar\"");
	expect_json("0.sequences.0.lost_before_card", "7");
	expect_json("0.sequences.0.lost", "7");
	recording.sources[0].packets[3].number = 13;
	made_write(&recording, "a");
	cr_expect(eq(int, INFO("a"), 0));
	cr_expect(strstr(printed, "lost before the card") == NULL);
}

Test(cmd_info, the_worst_file_makes_the_exit_status)
{
	struct made_recording recording = made_recording();

	made_write(&recording, "a");
	recording.sources[0].has_account = false;
	made_write(&recording, "b");
	recording.sources[0].dropped = 1;
	made_write(&recording, "c");
	made_write_bytes("e\x1b", "x", 1);
	cr_expect(eq(int, INFO("a"), 0));
	cr_expect(eq(int, INFO("b"), 2));
	cr_expect(eq(int, INFO("c"), 1));
	made_write_bytes("e\x1b", "no recording", 12);
	cr_expect(eq(int, INFO("e\x1b"), 65));
	cr_expect(strstr(printed, "e : nothing was read\n  e : not a capture") != NULL, "%s", printed);
	cr_expect(eq(int, INFO("none"), 66));
	cr_expect(eq(int, INFO("a", "b"), 2));
	cr_expect(eq(int, INFO("b", "a"), 2));
	cr_expect(eq(int, INFO("c", "b", "a"), 1));
	cr_expect(eq(int, INFO("b", "c"), 1));
	cr_expect(eq(int, INFO("e\x1b", "c"), 65));
	cr_expect(eq(int, INFO("none", "e\x1b"), 66));
	cr_expect(eq(int, INFO("e\x1b", "none", "a"), 66));
	cr_expect(eq(int, INFO("--json", "none", "b"), 66));
	expect_json("0.verdict_word", "\"not proven\"");
	expect_json("1", "null");
}

Test(cmd_info, an_index_is_passed_over)
{
	struct made_recording recording = made_recording();

	made_write(&recording, "a");
	made_write_bytes("b", "# ibvcap index 1: offset\n", 25);
	cr_expect(eq(int, INFO("a", "b"), 0));
	cr_expect(strstr(printed, "b: the index of a recording\n") && !strstr(printed, "together"));
	cr_expect(eq(int, INFO("-j", "b", "a"), 0));
	expect_json("0.file", "\"a\"");
	expect_json("1", "null");
}

Test(cmd_info, indexes_alone_are_no_recordings)
{
	made_write_bytes("b", "# ibvcap index 1: offset\n", 25);
	cr_expect(eq(int, INFO("b"), 65));
	cr_expect(eq(int, INFO("b", "b", "b", "b", "b"), 65));
}

Test(cmd_info, wrong_arguments_are_refused)
{
	cr_expect(eq(int, INFO(NULL), 64));
	cr_expect(eq(int, INFO("-g", "x", "a"), 64));
	cr_expect(eq(int, INFO("-g", "1001", "a"), 64));
	cr_expect(eq(int, INFO("-x"), 64));
	cr_expect(eq(int, INFO("--help"), 0));
	cr_expect(strstr(printed, "usage: ibvcap info FILE...") == printed);
}
