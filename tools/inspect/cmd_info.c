// SPDX-License-Identifier: Apache-2.0
/* ibvcap info: says what is in a recording, what is missing and why, and whether the file proves it. */
#include "tools/ibvcap/ibvcap.h"
#include "tools/ibvcap/options.h"
#include "tools/ibvcap/report.h"
#include "tools/ibvcap/tracker_print.h"
#include "tools/capture/recording.h"
#include "tools/inspect/inspect_numbers.h"
#include "tools/inspect/inspect_sum.h"
#include "tools/json/text_to_json.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

static const char usage[] =
	"usage: ibvcap info FILE... [OPTIONS...]\n"
	"Say what is in a recording (pcapng, compressed by zstd or not): packets and times of each stream, by which\n"
	"clock, what was lost where and why, and whether the numbers of the packets agree with that.\n"
	"Exit 1: packets are missing, and the file says which and why. Exit 65: a file is damaged, cut off or not\n"
	"closed, or its numbers do not agree with the losses that it names. Exit 66: a file cannot be read.\n"
	"\n"
	"  -g, --gaps N  print at most N gaps of each file (10)\n"
	"  -j, --json    print JSON, with up to 1000 gaps of each file\n"
	"  -h, --help    print this\n";

struct info_options {
	uint64_t gaps;
	bool json;
};

/* One file, read to its end. */
struct info {
	const char *path;
	struct inspect_sum sum;
	struct inspect_numbers numbers; /* by the packets' own; of an extract: none */
	bool is_index;                  /* of a recording, and no recording */
	int end;                        /* 0: behind a whole block; -errno */
	char error[PCAPNG_ERROR_BYTES];
};

/* ---- verdict ------------------------------------------------------------------------------------- */

static bool was_daemon_away(const struct info *info)
{
	for (uint32_t i = 0; i < info->sum.n_sources; i++)
		if (info->sum.sources[i].n_restarts || info->sum.sources[i].n_runs > 1)
			return true;
	return false;
}

/* Packets that the recording does not name: the sender numbered them, and they did not come. */
static uint64_t lost_before_card(const struct info *info)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < info->numbers.n_streams; i++)
		sum += inspect_lost_before_card(&info->numbers.streams[i]);
	return sum;
}

static bool has_losses(const struct info *info)
{
	for (uint32_t i = 0; i < info->sum.n_sources; i++) {
		const struct inspect_source *source = &info->sum.sources[i];

		if (source->n_lost || source->n_dropped)
			return true;
	}
	return was_daemon_away(info) || lost_before_card(info);
}

/* record numbers the packets; a file of a time without packets has none. */
static bool is_of_record(const struct info *info)
{
	for (uint32_t i = 0; i < info->sum.n_sources; i++)
		if (info->sum.sources[i].has_numbers)
			return true;
	return !info->sum.n_packets && !strncmp(info->sum.application, "ibvcap ", strlen("ibvcap "));
}

/* What contradicts the file's own account; NULL: nothing. */
static const char *contradiction(const struct info *info)
{
	if (inspect_is_extract(&info->sum))
		return NULL;
	for (uint32_t i = 0; i < info->sum.n_sources; i++) {
		const struct inspect_source *source = &info->sum.sources[i];

		if (source->n_repeated)
			return "numbers of packets come twice or go back";
		if (!inspect_is_explained(source))
			return "numbers of packets are absent that no gap explains";
		if (is_of_record(info) && source->has_statistics && source->n_delivered != source->n_packets)
			return "its statistics name another number of packets than it has";
	}
	return NULL;
}

static bool is_left_open(const struct info *info)
{
	return is_of_record(info) && !inspect_is_closed(&info->sum) && !inspect_is_extract(&info->sum);
}

static int info_code(const struct info *info)
{
	if (info->end || contradiction(info) || is_left_open(info))
		return EX_DATAERR;
	return has_losses(info) ? 1 : EX_OK;
}

static const char *info_verdict(const struct info *info, char text[INSPECT_TEXT_BYTES])
{
	const char *wrong = contradiction(info);

	if (info->end)
		snprintf(text, INSPECT_TEXT_BYTES, "%s: %s",
		         info->end == -ENODATA ? "cut off: the packets before are whole" : "damaged", info->error);
	else if (wrong)
		snprintf(text, INSPECT_TEXT_BYTES, "does not agree with itself: %s", wrong);
	else if (!is_of_record(info))
		snprintf(text, INSPECT_TEXT_BYTES, "%s",
		         "not written by ibvcap record: its packets have no numbers, so nothing proves that none is "
		         "missing");
	else if (inspect_is_extract(&info->sum))
		snprintf(text, INSPECT_TEXT_BYTES, "%s",
		         "an extract: it names the losses between its packets, and nothing proves what was left out");
	else if (is_left_open(info))
		snprintf(text, INSPECT_TEXT_BYTES, "%s",
		         "not closed: the recorder still writes it, or was killed; losses behind the last packet are "
		         "not known");
	else if (was_daemon_away(info) && lost_before_card(info))
		snprintf(text, INSPECT_TEXT_BYTES,
		         "packets are missing: ibvcapd was away; by their own numbers, %" PRIu64
		         " did not come that the recording does not name",
		         lost_before_card(info));
	else if (was_daemon_away(info))
		snprintf(text, INSPECT_TEXT_BYTES, "%s",
		         "packets may be missing: ibvcapd was away, and nobody counted the packets of that time");
	else if (lost_before_card(info))
		snprintf(text, INSPECT_TEXT_BYTES,
		         "packets are missing: %" PRIu64 " were lost before the network card, by the sender or the "
		         "network",
		         lost_before_card(info));
	else if (info_code(info))
		snprintf(text, INSPECT_TEXT_BYTES, "%s", "packets are missing; each is named above");
	else
		snprintf(text, INSPECT_TEXT_BYTES, "complete: no packet is missing%s",
		         info->numbers.n_streams ? ", by the packets' own numbers, too" : "");
	return text;
}

/* ---- text ---------------------------------------------------------------------------------------- */

static void print_word(const char *word, const char *text)
{
	if (text[0])
		printf("    %-10s %s\n", word, text);
}

static void print_source(const struct inspect_source *source)
{
	char first[REPORT_UTC_BYTES], last[REPORT_UTC_BYTES];

	report_format_utc(source->first_ns, 9, first);
	report_format_utc(source->last_ns, 9, last);
	printf("  %s\n", source->name[0] ? source->name : "an interface without a name");
	print_word("what", source->description);
	print_word("device", source->hardware);
	print_word("flows", source->filter);
	print_word("notes", source->comment);
	printf("    %-10s %" PRIu64 ", %" PRIu64 " bytes on the wire", "packets", source->n_packets, source->n_bytes);
	if (source->n_cut)
		printf(", %" PRIu64 " of them cut", source->n_cut);
	putchar('\n');
	if (source->n_packets)
		printf("    %-10s %s to %s (%.3f s)\n", "times", first, last,
		       ((double)source->last_ns - (double)source->first_ns) / 1e9);
	if (source->n_backwards)
		printf("    %-10s %" PRIu64 " packets are earlier than the one before\n", "", source->n_backwards);
	if (!source->has_numbers)
		return;
	printf("    %-10s %" PRIu64 " to %" PRIu64, "numbers", source->first_id, source->last_id);
	if (source->n_runs > 1)
		printf(", in %" PRIu64 " runs of the daemon", source->n_runs);
	printf("; %" PRIu64 " absent, %" PRIu64 " explained", source->n_absent, source->n_named);
	if (source->is_one_flow && inspect_is_explained(source) && inspect_in_other_files(source))
		printf(", %" PRIu64 " in the files of other flows", inspect_in_other_files(source));
	putchar('\n');
	print_word("sum", source->sum);
}

static void print_gaps(const struct info *info, uint64_t limit)
{
	const struct inspect_sum *sum = &info->sum;
	char time[REPORT_UTC_BYTES];
	uint64_t n = sum->n_gaps_kept < limit ? sum->n_gaps_kept : limit;

	for (uint64_t i = 0; i < n; i++) {
		const struct inspect_gap *gap = &sum->gaps[i];

		report_format_utc(gap->time_ns, 6, time);
		printf("  before %s, packet %" PRIu64 " of %s: %" PRIu64 " lost: %s\n", time, gap->packet_id,
		       sum->sources[gap->source].name, gap->n_lost,
		       gap->text[0] ? gap->text : "the file does not say why");
	}
	if (sum->n_gaps > n)
		printf("  and %" PRIu64 " gaps more: --gaps N prints N of them\n", sum->n_gaps - n);
}

static void print_numbered(const struct inspect_numbered *numbered)
{
	struct ibvcap_tracker_counts counts = IBVCAP_INIT(struct ibvcap_tracker_counts);
	uint64_t before_card = inspect_lost_before_card(numbered);

	printf("  %s, by the packets' own numbers:\n", numbered->stream);
	tracker_print(numbered->tracker);
	ibvcap_tracker_counts(numbered->tracker, &counts);
	if (counts.numbers.lost)
		printf("  lost before the card (sender, network) %" PRIu64
		       ", among the losses that the recording names %" PRIu64 "\n",
		       before_card, counts.numbers.lost - before_card);
}

static void print_info(const struct info *info, uint64_t gaps)
{
	char verdict[INSPECT_TEXT_BYTES], path[PATH_MAX];

	snprintf(path, sizeof(path), "%s", info->path);
	inspect_clean(path);
	if (info->is_index) {
		printf("%s: the index of a recording\n", path);
		return;
	}
	printf("%s: %" PRIu64 " packets%s%s\n", path, info->sum.n_packets,
	       info->sum.application[0] ? ", written by " : "", info->sum.application);
	if (info->sum.opening[0])
		printf("  %s\n", info->sum.opening);
	for (uint32_t i = 0; i < info->sum.n_sources; i++)
		print_source(&info->sum.sources[i]);
	print_gaps(info, gaps);
	for (uint32_t i = 0; i < info->numbers.n_streams; i++)
		print_numbered(&info->numbers.streams[i]);
	if (info->sum.closing[0])
		printf("  the recorder said: %s\n", info->sum.closing);
	printf("  %s\n", info_verdict(info, verdict));
}

/* ---- JSON ---------------------------------------------------------------------------------------- */

static json_t *inspect_source_to_json(const struct inspect_source *source)
{
	json_t *json = json_object();
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{"packets", source->n_packets},
		{"bytes", source->n_bytes},
		{"cut", source->n_cut},
		{"first_ns", source->first_ns},
		{"last_ns", source->last_ns},
		{"backwards", source->n_backwards},
		{"first_number", source->first_id},
		{"last_number", source->last_id},
		{"runs", source->n_runs},
		{"absent", source->n_absent},
		{"repeated", source->n_repeated},
		{"lost", source->n_lost},
		{"explained", source->n_named},
		{"delivered", source->n_delivered},
		{"dropped", source->n_dropped},
		{"restarts", source->n_restarts},
	};

	json_object_set_new(json, "name", text_to_json(source->name));
	json_object_set_new(json, "description", text_to_json(source->description));
	json_object_set_new(json, "device", text_to_json(source->hardware));
	json_object_set_new(json, "flows", text_to_json(source->filter));
	json_object_set_new(json, "notes", text_to_json(source->comment));
	json_object_set_new(json, "sum", text_to_json(source->sum));
	json_object_set_new(json, "has_numbers", json_boolean(source->has_numbers));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_object_set_new(json, numbers[i].key, json_integer((json_int_t)numbers[i].value));
	return json;
}

static json_t *inspect_gap_to_json(const struct inspect_sum *sum, const struct inspect_gap *gap)
{
	return json_pack("{s:o, s:I, s:I, s:I, s:o}", "name", text_to_json(sum->sources[gap->source].name), "number",
	                 (json_int_t)gap->packet_id, "time_ns", (json_int_t)gap->time_ns, "lost",
	                 (json_int_t)gap->n_lost, "why", text_to_json(gap->text));
}

static json_t *sequences_to_json(const struct inspect_numbers *numbers)
{
	json_t *all = json_array();

	for (uint32_t i = 0; i < numbers->n_streams; i++) {
		const struct inspect_numbered *numbered = &numbers->streams[i];
		json_t *json = tracker_to_json(numbered->tracker);

		json_object_set_new(json, "stream", text_to_json(numbered->stream));
		json_object_set_new(json, "lost_before_card",
		                    json_integer((json_int_t)inspect_lost_before_card(numbered)));
		json_array_append_new(all, json);
	}
	return all;
}

static json_t *info_to_json(const struct info *info)
{
	char verdict[INSPECT_TEXT_BYTES];
	json_t *sources = json_array(), *gaps = json_array();

	for (uint32_t i = 0; i < info->sum.n_sources; i++)
		json_array_append_new(sources, inspect_source_to_json(&info->sum.sources[i]));
	for (uint32_t i = 0; i < info->sum.n_gaps_kept; i++)
		json_array_append_new(gaps, inspect_gap_to_json(&info->sum, &info->sum.gaps[i]));
	return json_pack("{s:o, s:o, s:o, s:I, s:o, s:o, s:I, s:o, s:o, s:b, s:b, s:s}", "file",
	                 text_to_json(info->path), "comment", text_to_json(info->sum.opening), "application",
	                 text_to_json(info->sum.application), "packets", (json_int_t)info->sum.n_packets, "streams",
	                 sources, "sequences", sequences_to_json(&info->numbers), "n_gaps",
	                 (json_int_t)info->sum.n_gaps, "gaps", gaps, "closing", text_to_json(info->sum.closing),
	                 "complete", info_code(info) == EX_OK && !inspect_is_extract(&info->sum), "consistent",
	                 info_code(info) != EX_DATAERR, "verdict", info_verdict(info, verdict));
}

/* ---- the command --------------------------------------------------------------------------------- */

/* Read a file to its end. An exit code. */
static int read_info(struct info *info, const char *path)
{
	struct recording recording;
	struct pcapng_block block;
	int r = recording_open(&recording, path), memory = 0;
	char shown[PATH_MAX];

	*info = (struct info){.path = path};
	snprintf(shown, sizeof(shown), "%s", path);
	if (r < 0) {
		fprintf(stderr, "ibvcap info: %s: %s\n", inspect_clean(shown), strerror(-r));
		return EX_NOINPUT;
	}
	info->is_index = recording_is_index(&recording);
	if (info->is_index) {
		recording_close(&recording);
		return EX_OK;
	}
	while (memory == 0 && (r = recording_next(&recording, &block)) > 0) {
		memory = inspect_sum_add(&info->sum, &block);
		if (memory == 0)
			memory = inspect_numbers_add(&info->numbers, &info->sum, &block);
	}
	info->end = r;
	if (inspect_is_extract(&info->sum)) /* numbers are absent that were not lost */
		inspect_numbers_free(&info->numbers);
	inspect_numbers_end(&info->numbers, &info->sum);
	snprintf(info->error, sizeof(info->error), "%s", recording_error(&recording));
	recording_close(&recording);
	if (memory < 0)
		fprintf(stderr, "ibvcap info: %s: out of memory\n", inspect_clean(shown));
	return memory < 0 ? EX_OSERR : info_code(info);
}

static int parse_info_arguments(int argc, char **argv, struct info_options *options)
{
	static const struct option known[] = {
		{"gaps", required_argument, NULL, 'g'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "g:jh", known, NULL)) != -1) {
		if (option == 'g' && !options_parse_number("info", "--gaps", optarg, INSPECT_GAPS_MAX, &options->gaps))
			return EX_USAGE;
		if (option == 'j')
			options->json = true;
		else if (option != 'g')
			return options_print_usage(option, usage);
	}
	return optind == argc ? options_reject("info", usage, "which recording?") : -1;
}

int cmd_info(int argc, char **argv)
{
	struct info_options options = {.gaps = 10};
	int worst = parse_info_arguments(argc, argv, &options);
	json_t *all = options.json && worst < 0 ? json_array() : NULL;

	if (worst >= 0)
		return worst;
	worst = EX_OK;
	for (int i = optind; i < argc; i++) {
		struct info info;
		int code = read_info(&info, argv[i]);

		if (code == EX_OK || code == 1 || code == EX_DATAERR) {
			if (!all)
				print_info(&info, options.gaps);
			else if (!info.is_index)
				json_array_append_new(all, info_to_json(&info));
		}
		inspect_numbers_free(&info.numbers);
		inspect_sum_free(&info.sum);
		worst = code > worst ? code : worst;
	}
	if (all)
		report_json(all, JSON_INDENT(2));
	return worst;
}
