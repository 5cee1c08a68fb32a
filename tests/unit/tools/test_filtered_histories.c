// SPDX-License-Identifier: Apache-2.0
/*
 * Random recordings with a filter: of rows that match and rows that do not, which are lost in all ways and put into
 * files by size, by flow and by time. No file may be called complete in which a row is missing that matches, nor one
 * incomplete that lost none, and each sum must add up. IBVCAP_HISTORY_SEED: only this one.
 */
#include "lib/base/time.h"
#include "tests/unit/tools/recorded.h"
#include "tools/inspect/inspect_file.h"
#include "tools/record/row_filter.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HISTORIES 80
#define ROWS_MAX  1200
#define FLOWS     3
#define DIVISOR   3

static unsigned seed;
/* Of each row of a source: was it written, and to which flow does it belong? */
static struct row {
	bool is_error;
	uint8_t flow;
} rows[RECORDED_SOURCES_MAX][ROWS_MAX];
static uint64_t n_published[RECORDED_SOURCES_MAX];
static unsigned n_calls_left;
static bool is_calm; /* no row is in error, and the recorder keeps up */
static unsigned n_complete;

static uint32_t up_to(uint32_t n)
{
	return (uint32_t)random() % (n + 1);
}

/* recorded_publish_kind() writes the row's number behind the headers. */
static bool matches(uint64_t number)
{
	return number % 256 % DIVISOR == 1;
}

static void publish_some(unsigned source)
{
	bool is_error = !is_calm && up_to(3) == 0;
	unsigned n = 1 + up_to(is_error ? 2 : is_calm || up_to(7) ? 10 : 300);
	uint8_t flow = (uint8_t)up_to(FLOWS - 1);

	if (n_published[source] + n > ROWS_MAX)
		return;
	for (unsigned i = 0; i < n; i++)
		rows[source][n_published[source] + i] = (struct row){.is_error = is_error, .flow = flow};
	recorded_publish_kind(source, n, time_utc_ns(), 0, is_error ? IBVCAP_PACKET_FLAG_ERROR : 0, flow);
	n_published[source] += n;
}

/* More rows at once than the ring has are skipped. */
static void live(unsigned call)
{
	(void)call;
	for (unsigned i = 0; i < recorder.n_sources; i++)
		for (unsigned j = up_to(4); j > 0; j--)
			publish_some(i);
	if (up_to(3) == 0)
		recorded_pass_ns(up_to(2000000000));
	if (is_calm || up_to(1))
		recorded_settle_all();
	if (--n_calls_left == 0)
		recorded_stop();
}

/* ---- judging --------------------------------------------------------------------------------------- */

/* Is the packet in the file? Its text has "INTERFACE:ID", and maybe "+N". */
static bool has_packet(const struct recorded_file *file, unsigned interface, uint64_t number)
{
	char text[40];
	size_t n = (size_t)snprintf(text, sizeof(text), " %u:%lu", interface, number);

	if (!strncmp(file->packets, text + 1, n - 1) && strchr(" +", file->packets[n - 1]))
		return true;
	for (const char *at = strstr(file->packets, text); at; at = strstr(at + 1, text))
		if (strchr(" +", at[n])) /* or the closing NUL */
			return true;
	return false;
}

static void judge_source(const struct recorded_file *file, unsigned source)
{
	const struct recording_account *account = &file->accounts[source];
	uint64_t n_missing = 0, n_others = 0, n_here = 0, n_left_out = 0, gone;

	for (uint64_t i = account->from.sequence; i < account->until.sequence; i++) {
		const struct row *row = &rows[source][i];
		bool is_here = has_packet(file, source, i), is_other = account->flow >= 0 && row->flow != account->flow;

		cr_expect(!is_here || (matches(i) && !row->is_error && !is_other), "seed %u, %s: row %lu", seed,
		          file->name, i);
		n_here += is_here;
		n_others += matches(i) && !row->is_error && is_other;
		n_left_out += !matches(i) && !row->is_error;
		n_missing += row->is_error || (matches(i) && !is_here && !is_other);
	}
	gone = account->sum.errored + account->sum.skipped + account->sum.disk_wait;
	cr_expect_eq(account->sum.written + account->sum.other_files + account->sum.filtered + gone,
	             account->until.sequence - account->from.sequence, "seed %u, %s", seed, file->name);
	cr_expect_eq(account->sum.written, n_here, "seed %u, %s: written %lu, not %lu", seed, file->name,
	             account->sum.written, n_here);
	cr_expect(n_missing <= gone, "seed %u, %s: %lu rows are missing, and %lu are named", seed, file->name,
	          n_missing, gone);
	cr_expect(recording_account_verdict(account) != IBVCAP_VERDICT_COMPLETE || n_missing == 0,
	          "seed %u, %s: complete, and %lu rows that match are missing", seed, file->name, n_missing);
	if (gone == 0) {
		cr_expect_eq(account->sum.filtered, n_left_out, "seed %u, %s", seed, file->name);
		cr_expect_eq(account->sum.other_files, n_others, "seed %u, %s", seed, file->name);
		cr_expect_neq(recording_account_verdict(account), IBVCAP_VERDICT_INCOMPLETE, "seed %u, %s", seed,
		              file->name);
	}
}

/* `ibvcap info` has the same opinion, and finds no contradiction. */
static void judge_as_info(const char *path)
{
	struct inspect_file file;
	const struct inspect_sum *sum = &file.sum;
	bool is_complete = true;

	cr_assert_eq(inspect_file_read(&file, path), 0);
	for (uint32_t i = 0; i < sum->n_sources; i++)
		is_complete =
			is_complete && recording_account_verdict(&sum->sources[i].account) == IBVCAP_VERDICT_COMPLETE;
	cr_expect_eq(file.verdict.worst == FINDING_NOTE, is_complete, "seed %u, %s: %s", seed, path,
	             file.verdict.reasons);
	n_complete += is_complete;
	cr_expect_neq(file.verdict.worst, FINDING_DAMAGE, "seed %u, %s: %s", seed, path, file.verdict.reasons);
	cr_expect(!is_complete || strstr(file.verdict.reasons, "every packet that matches 'ether[42] % 3 = 1'"), "%s",
	          file.verdict.reasons);
	inspect_file_deinit(&file);
}

static void judge_files(void)
{
	char pattern[80];
	glob_t found = {0};

	for (unsigned i = 0; i < n_files; i++)
		for (unsigned j = 0; j < recorder.n_sources; j++)
			judge_source(&files[i], j);
	snprintf(pattern, sizeof(pattern), "%s/a*.pcapng", recorded_folder);
	cr_assert_eq(glob(pattern, 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++)
		judge_as_info(found.gl_pathv[i]);
	globfree(&found);
}

static void judge_recording(void)
{
	for (unsigned i = 0; i < recorder.n_sources; i++) {
		const struct recording_account *account = &recorder.accounts[i];
		uint64_t end = account->until.sequence, n_left_out = 0;

		for (uint64_t j = 0; j < end; j++)
			n_left_out += !matches(j) && !rows[i][j].is_error;
		cr_expect(account->sum.filtered <= n_left_out, "seed %u: %lu of %lu", seed, account->sum.filtered,
		          n_left_out);
		cr_expect_eq(account->sum.written + account->sum.filtered + account->sum.errored +
		                     account->sum.skipped + account->sum.disk_wait,
		             end, "seed %u", seed);
		cr_expect_eq(account->sum.lag, n_published[i] - end, "seed %u", seed);
	}
}

/* ---- histories ------------------------------------------------------------------------------------- */

ParameterizedTestParameters(filtered_histories, no_file_claims_more_than_it_has)
{
	static unsigned seeds[HISTORIES];
	const char *wanted = getenv("IBVCAP_HISTORY_SEED");

	for (unsigned i = 0; i < HISTORIES; i++)
		seeds[i] = wanted ? (unsigned)atoi(wanted) : i + 1;
	return cr_make_param_array(unsigned, seeds, wanted ? 1 : HISTORIES);
}

ParameterizedTest(const unsigned *parameter, filtered_histories, no_file_claims_more_than_it_has,
                  .fini = recorded_clean_up, .timeout = 60)
{
	char error[PACKET_FILTER_ERROR_BYTES];
	struct record_options *options = &recorder.options;

	seed = *parameter;
	srandom(seed);
	is_calm = seed % 2;
	n_calls_left = 20 + up_to(150);
	recorded_prepare(1 + up_to(1), true);
	options->filter = "ether[42] % 3 = 1";
	options->row_filter = row_filter_new(options->filter, error);
	cr_assert(options->row_filter, "%s", error);
	for (unsigned i = 0; i < recorder.n_sources; i++)
		recorder.sources[i].filter = options->filter;
	options->by_flow = up_to(3) == 0;
	if (up_to(1))
		options->file_packets = 70 + up_to(100);
	if (up_to(3) == 0)
		options->count = 1 + up_to(300);
	recorded_script = live;
	cr_expect_eq(recorded_run(NULL), 0);
	judge_recording();
	judge_files();
	cr_expect(!is_calm || n_complete == n_files, "seed %u: %u of %u files are complete", seed, n_complete, n_files);
	row_filter_free(options->row_filter);
}
