// SPDX-License-Identifier: Apache-2.0
/* Says what is in a recording, what is missing and why, and whether the file proves it. */

#include "lib/recording/pcap_file.h"
#include "tools/common/report.h"
#include "tools/common/terminal.h"
#include "tools/inspect/file_lines.h"
#include "tools/inspect/inspect_file.h"
#include "tools/inspect/inspect_set.h"
#include "lib/json/text_to_json.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#define INFO_FILES_IN_FULL 4 /* of more files each has a line */

/* ---- text ---------------------------------------------------------------------------------------- */

static void print_word(const char *word, const char *text)
{
	if (text[0])
		printf("    %-10s %s\n", word, text);
}

static void print_interface_losses(const struct ibvcap_rx_account *account)
{
	char from[REPORT_UTC_BYTES], until[REPORT_UTC_BYTES];

	if (!account->interface_lost)
		return;
	report_format_utc(account->interface_from_ns, 3, from);
	report_format_utc(account->interface_until_ns, 3, until);
	printf("    %-10s %" PRIu64 " packets lost before the flow rules, of all streams and programs; the last ones "
	       "between %s and %s\n",
	       "interface", account->interface_lost, from, until);
}

/* Other programs name no interface. */
static const char *title_of_source(const struct inspect_sum *sum, uint32_t number)
{
	static char title[40];

	if (sum->sources[number].name[0])
		return sum->sources[number].name;
	snprintf(title, sizeof(title), "interface %u", number);
	return title;
}

static void print_source(const struct inspect_source *source)
{
	char first[REPORT_UTC_BYTES], last[REPORT_UTC_BYTES];
	struct verdict of_account = {0};

	report_format_utc(source->first_ns, 9, first);
	report_format_utc(source->last_ns, 9, last);
	if (source->link_type != PCAPNG_LINK_ETHERNET)
		print_word("link", pcap_file_link_text(source->link_type));
	print_word("what", source->description);
	print_word("device", source->hardware);
	print_word("flows", source->flows);
	print_word("filter", source->filter);
	print_word("notes", source->comment);
	printf("    %-10s %" PRIu64 ", %" PRIu64 " bytes of frames", "packets", source->n_packets, source->n_bytes);
	if (source->n_cut)
		printf(", %" PRIu64 " of them cut", source->n_cut);
	if (source->n_untimed)
		printf(", %" PRIu64 " of them without a time", source->n_untimed);
	putchar('\n');
	if (source->n_packets > source->n_untimed)
		printf("    %-10s %s to %s (%.3f s)\n", "times", first, last,
		       ((double)source->last_ns - (double)source->first_ns) / 1e9);
	if (source->n_backwards)
		printf("    %-10s %" PRIu64 " packets are earlier than the one before\n", "", source->n_backwards);
	if (source->account_state == INSPECT_ACCOUNT_READ) {
		printf("    %-10s recording %016" PRIx64, "account", source->account.recording);
		if (source->account.flow != RECORDING_ACCOUNT_NO_FLOW)
			printf(", flow %d", source->account.flow);
		verdict_find_accounts(&of_account, &source->account, 1, NULL);
		printf(", file %" PRIu64 "%s, from packet %" PRIu64 " until %" PRIu64 ": %s\n",
		       source->account.file + 1, source->account.is_last ? " (the last)" : "",
		       source->account.from.sequence, source->account.until.sequence, verdict_title(&of_account));
		print_interface_losses(&source->account.rx);
	}
	if (!source->has_numbers)
		return;
	printf("    %-10s rows %" PRIu64 " to %" PRIu64 ", as ibvcapd counts them from 0", "ring", source->first_id,
	       source->last_id);
	if (source->n_runs > 1)
		printf(" in each of %" PRIu64 " runs", source->n_runs);
	printf("; %" PRIu64 " absent, %" PRIu64 " explained", source->n_absent, source->n_named);
	if (inspect_is_explained(source) && inspect_elsewhere(source))
		printf(", %" PRIu64 " %s", inspect_elsewhere(source),
		       !source->is_filtered  ? "in the files of other flows"
		       : source->is_one_flow ? "of other flows or left out by the filter"
		                             : "left out by the filter");
	putchar('\n');
	print_word("sum", source->sum);
}

static void print_gaps(const struct inspect_sum *sum, uint64_t limit)
{
	char time[REPORT_UTC_BYTES];
	uint64_t n = sum->n_gaps_kept < limit ? sum->n_gaps_kept : limit;

	for (uint64_t i = 0; i < n; i++) {
		const struct inspect_gap *gap = &sum->gaps[i];

		report_format_utc(gap->time_ns, 6, time);
		printf("  before %s, ", time);
		if (gap->has_id)
			printf("packet %" PRIu64 " of ", gap->packet_id);
		printf("%s: ", title_of_source(sum, gap->source));
		if (gap->n_lost || !gap->text[0])
			printf("%" PRIu64 " lost: ", gap->n_lost);
		puts(gap->text[0] ? gap->text : "the file does not say why");
	}
	if (sum->n_gaps > n)
		printf("  and %" PRIu64 " gaps more: --gaps N prints N of them\n", sum->n_gaps - n);
}

static void print_file(const struct inspect_file *file, const struct info_options *options)
{
	const struct inspect_sum *sum = &file->sum;
	char verdict[VERDICT_TEXT_BYTES], path[PATH_MAX];

	snprintf(path, sizeof(path), "%s", file->path);
	inspect_clean(path);
	if (file->is_index) {
		printf("%s: the index of a recording\n", path);
		return;
	}
	if (!sum->n_sections)
		printf("%s: nothing was read\n", path);
	else
		printf("%s: %" PRIu64 " packets%s%s\n", path, sum->n_packets,
		       sum->application[0] ? ", written by " : "", sum->application);
	if (sum->opening[0])
		printf("  %s\n", sum->opening);
	for (uint32_t i = 0; i < sum->n_sources; i++) {
		printf("  %s\n", title_of_source(sum, i));
		print_source(&sum->sources[i]);
	}
	inspect_ports_print(&file->ports);
	print_gaps(sum, options->gaps);
	if (file->fragments.fragments)
		printf("  fragments of UDP: %" PRIu64 ", which make %" PRIu64 " whole datagrams; with holes: %" PRIu64
		       ", refused: %" PRIu64 "\n",
		       file->fragments.fragments, file->fragments.joined, file->fragments.incomplete,
		       file->fragments.refused);
	if (sum->n_comments)
		printf("  %" PRIu64 " packets have comments of that program, which say nothing of losses\n",
		       sum->n_comments);
	for (unsigned i = 0; i < PCAPNG_PASSED_N; i++)
		if (sum->passed[i])
			printf("  passed over: %" PRIu64 " %s\n", sum->passed[i], pcapng_passed_labels[i].text);
	for (uint32_t i = 0; i < file->numbers.n_streams; i++) {
		const struct ibvcap_tracker_counts counts = inspect_numbers_counts(&file->numbers.streams[i]);
		uint64_t before_card = inspect_lost_before_card(&file->numbers.streams[i]);
		uint64_t in_absence = inspect_lost_in_absence(&file->numbers.streams[i]);

		printf("  %s, by the packets' own numbers:\n", file->numbers.streams[i].stream);
		tracker_print(file->numbers.streams[i].tracker, inspect_lost_unexplained(&file->numbers.streams[i]),
		              options->sources);
		if (in_absence)
			printf("  lost before the card, or while nobody counted: cannot be told %" PRIu64
			       ", among the losses that the recording names %" PRIu64 "\n",
			       in_absence, counts.numbers.lost - in_absence);
		else if (counts.numbers.lost)
			printf("  lost before the flow rules (sender, network, interface) %" PRIu64
			       ", among the losses that the recording names %" PRIu64 "\n",
			       before_card, counts.numbers.lost - before_card);
		tracker_print_missing(file->numbers.streams[i].tracker, options->gaps);
	}
	if (sum->closing[0])
		printf("  the recorder said: %s\n", sum->closing);
	verdict_print(verdict, sizeof(verdict), &file->verdict);
	terminal_print(stdout, inspect_colour(file->verdict.worst), "  %s\n", verdict);
}

/* ---- the command --------------------------------------------------------------------------------- */

static int fail_info(const char *path, int error)
{
	char shown[PATH_MAX], part[PATH_MAX];
	bool is_part = error == -ENOENT && inspect_explain_part(path, part);

	snprintf(shown, sizeof(shown), "%s", path);
	fprintf(stderr, "ibvcap info: %s: %s%s\n", inspect_clean(shown),
	        is_part ? inspect_clean(part) : strerror(-error),
	        error == -ENOENT && !is_part ? "; of a stream 'ibvcap status' and 'ibvcap why' say more" : "");
	return error == -ENOMEM ? EX_OSERR : EX_NOINPUT;
}

/* What is known of all files that were read so far. */
struct info_all {
	struct inspect_set set;
	struct file_lines lines; /* of many files: they have no room for more */
	bool is_many;
	int n_indexes; /* files that are the index of a recording */
	json_t *json;  /* NULL: text */
};

/* An exit code: what is wrong with the file is in the set. */
static int look_at_file(const char *path, const struct info_options *options, struct info_all *all)
{
	struct inspect_file file;
	int r = inspect_file_read(&file, path);

	if (r == 0 && !file.is_index) {
		r = inspect_set_add(&all->set, path, &file.sum, &file.verdict);
		r = r < 0 ? r : file_lines_add(&all->lines, &file);
	}
	all->n_indexes += r == 0 && file.is_index;
	if (r == 0 && !all->json && !all->is_many)
		print_file(&file, options);
	else if (r == 0 && all->json && !file.is_index)
		json_array_append_new(all->json, inspect_file_to_json(&file));
	inspect_file_deinit(&file);
	return r < 0 ? fail_info(path, r) : EX_OK;
}

/* All files together. */
static void print_all(const struct info_all *all, const struct info_options *options, const struct verdict *verdict)
{
	char text[VERDICT_TEXT_BYTES];

	if (all->json) {
		json_t *json = json_pack("{s:o, s:o}", "recordings", inspect_set_to_json(&all->set), "total",
		                         file_lines_to_json(&all->lines));

		inspect_put_verdict(json, verdict);
		json_array_append_new(all->json, json);
		return;
	}
	if (all->is_many)
		file_lines_print(&all->lines, options->files);
	file_lines_print_total(&all->lines);
	inspect_set_print(&all->set);
	verdict_print(text, sizeof(text), verdict);
	terminal_print(stdout, inspect_colour(verdict->worst), "all %u files together: %s\n", all->set.n_files, text);
}

int info_run(char *const *files, int n_files, const struct info_options *options)
{
	struct info_all all = {.json = options->json ? json_array() : NULL, .is_many = n_files > INFO_FILES_IN_FULL};
	struct verdict verdict = {0};
	int failed = EX_OK;

	for (int i = 0; i < n_files; i++) {
		int code = look_at_file(files[i], options, &all);

		failed = failed == EX_OSERR || code == EX_OK ? failed : code;
	}
	verdict_take_all(&verdict, &all.set.files);
	if (all.set.n_files > 1 || (all.is_many && all.set.n_files)) {
		inspect_set_judge(&all.set, &verdict);
		print_all(&all, options, &verdict);
	}
	if (all.json)
		report_json(all.json, JSON_INDENT(2));
	if (all.n_indexes == n_files)
		failed = inspect_refuse_index("info", files[0]);
	file_lines_free(&all.lines);
	inspect_set_free(&all.set);
	return failed == EX_OK ? verdict_exit_status(&verdict) : failed;
}
