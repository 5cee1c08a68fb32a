// SPDX-License-Identifier: Apache-2.0
/*
 * Sorts the accounts of all files by recording, flow, queue and number of the file. Where two numbers in a row join,
 * the second account begins at the packet at which the first one ends; where a file is missing, the packets between
 * the two are those of the missing file.
 */
#include "tools/inspect/inspect_set.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- pieces -------------------------------------------------------------------------------------- */

int inspect_set_add(struct inspect_set *set, const char *path, const struct inspect_sum *sum,
                    const struct verdict *verdict)
{
	set->n_files++;
	verdict_take_all(&set->files, verdict);
	for (uint32_t i = 0; i < sum->n_sources; i++) {
		struct inspect_piece *pieces;

		set->is_filtered = set->is_filtered || sum->sources[i].is_filtered;
		if (sum->sources[i].account_state != INSPECT_ACCOUNT_READ || inspect_is_extract(sum))
			continue;
		pieces = realloc(set->pieces, (set->n_pieces + (size_t)1) * sizeof(*pieces));
		if (!pieces)
			return -ENOMEM;
		set->pieces = pieces;
		pieces[set->n_pieces++] = (struct inspect_piece){.account = sum->sources[i].account, .path = path};
	}
	return 0;
}

void inspect_set_free(struct inspect_set *set)
{
	free(set->pieces);
	*set = (struct inspect_set){0};
}

static int compare_u64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* Of one recording, and by flow of one flow. */
static int compare_recordings(const struct recording_account *a, const struct recording_account *b)
{
	int r = compare_u64(a->recording, b->recording);

	return r ? r : (a->flow > b->flow) - (a->flow < b->flow);
}

static int compare_queues(const struct recording_account *a, const struct recording_account *b)
{
	int r = compare_recordings(a, b);

	if (r == 0)
		r = strcmp(a->stream, b->stream);
	return r ? r : compare_u64(a->queue, b->queue);
}

static int compare_pieces(const void *a, const void *b)
{
	const struct inspect_piece *one = a, *other = b;
	int r = compare_queues(&one->account, &other->account);

	if (r == 0)
		r = compare_u64(one->account.file, other->account.file);
	return r ? r : strcmp(one->path, other->path);
}

static bool begins_queue(const struct inspect_set *set, uint32_t i)
{
	return i == 0 || compare_queues(&set->pieces[i - 1].account, &set->pieces[i].account) != 0;
}

static bool ends_queue(const struct inspect_set *set, uint32_t i)
{
	return i + 1 == set->n_pieces || begins_queue(set, i + 1);
}

/* ---- joins --------------------------------------------------------------------------------------- */

static bool is_same_end(const struct recording_account_end *a, const struct recording_account_end *b)
{
	return a->epoch == b->epoch && a->sequence == b->sequence;
}

static bool is_same_piece(const struct recording_account *a, const struct recording_account *b)
{
	return is_same_end(&a->from, &b->from) && is_same_end(&a->until, &b->until) && a->sum.written == b->sum.written;
}

/* Rows from before the recording, which came when the earlier file had waited long enough, are in no file. */
static bool is_passed_over(const struct recording_account *before, const struct recording_account *after)
{
	return before->rx.unknown & IBVCAP_UNKNOWN_UNSETTLED && before->until.epoch == after->from.epoch &&
	       before->until.sequence < after->from.sequence;
}

static struct inspect_join contradiction(const char *what)
{
	return (struct inspect_join){.kind = INSPECT_CONTRADICTS, .what = what};
}

static struct inspect_join join_pieces(const struct recording_account *before, const struct recording_account *after)
{
	struct inspect_join missing = {.kind = INSPECT_MISSING};

	if (before->file == after->file)
		return is_same_piece(before, after) ? (struct inspect_join){.kind = INSPECT_TWICE}
		                                    : contradiction("both have the same number");
	if (before->is_last)
		return contradiction("the recording ended with the earlier file");
	if (after->file - before->file == 1)
		return is_same_end(&before->until, &after->from) || is_passed_over(before, after)
		               ? (struct inspect_join){.kind = INSPECT_WHOLE}
		               : contradiction("the later file does not begin where the earlier ends");
	if (!before->until.epoch || before->until.epoch != after->from.epoch)
		return missing; /* numbers begin again at 0 */
	if (after->from.sequence < before->until.sequence)
		return contradiction("the later file begins before the earlier ends");
	missing.is_one_epoch = true;
	missing.n_packets = after->from.sequence - before->until.sequence;
	/* By flow, these are those of all flows. */
	missing.is_counted = before->flow == RECORDING_ACCOUNT_NO_FLOW;
	return missing;
}

static void sort_and_join(struct inspect_set *set)
{
	if (set->n_pieces)
		qsort(set->pieces, set->n_pieces, sizeof(*set->pieces), compare_pieces);
	for (uint32_t i = 1; i < set->n_pieces; i++)
		if (!begins_queue(set, i))
			set->pieces[i].join = join_pieces(&set->pieces[i - 1].account, &set->pieces[i].account);
}

void inspect_set_judge(struct inspect_set *set, struct verdict *verdict)
{
	uint64_t n_missing = 0;
	bool has_missing = false, is_uncounted = false;

	*verdict = set->files;
	sort_and_join(set);
	for (uint32_t i = 1; i < set->n_pieces; i++) {
		const struct inspect_join *join = &set->pieces[i].join;
		char text[2 * PATH_MAX + 64];

		if (join->kind == INSPECT_CONTRADICTS) {
			snprintf(text, sizeof(text), "%s and %s: %s", set->pieces[i - 1].path, set->pieces[i].path,
			         join->what);
			verdict_find(verdict, FINDING_DAMAGE, "do not agree with each other: %s", inspect_clean(text));
		}
		has_missing = has_missing || join->kind == INSPECT_MISSING;
		is_uncounted = is_uncounted || (join->kind == INSPECT_MISSING && !join->is_counted);
		n_missing += join->is_counted ? join->n_packets : 0;
	}
	if (n_missing)
		verdict_find(verdict, FINDING_LOSS, "%" PRIu64 " packets are missing, of files that are not here",
		             n_missing);
	if (is_uncounted)
		verdict_find(verdict, FINDING_LOSS,
		             "packets are missing, of files that are not here; how many is not known");
	if (has_missing && !n_missing && !is_uncounted)
		verdict_find(verdict, FINDING_DOUBT, "files without packets are not here");
	if (set->files.worst > FINDING_NOTE)
		verdict_find(verdict, FINDING_NOTE, "see the verdicts of the files");
	else if (verdict->worst == FINDING_NOTE)
		verdict_find(verdict, FINDING_NOTE, "no packet%s is missing in these files%s",
		             set->files.is_of_sources ? " of the sources that the files have" : "",
		             set->is_filtered ? ", but for those that the filter left out" : "");
}

/* ---- text ---------------------------------------------------------------------------------------- */

/* For people, files count from 1. */
static void print_queue_head(const struct inspect_set *set, uint32_t first)
{
	const struct recording_account *account = &set->pieces[first].account;
	const struct recording_account *last;
	uint32_t i = first;

	while (!ends_queue(set, i))
		i++;
	last = &set->pieces[i].account;
	printf("recording %016" PRIx64 ", ", account->recording);
	if (account->flow != RECORDING_ACCOUNT_NO_FLOW)
		printf("flow %d, ", account->flow);
	printf("%s, queue %u: ", account->stream, account->queue);
	if (account->file == last->file)
		printf("file %" PRIu64 "\n", account->file + 1);
	else
		printf("files %" PRIu64 " to %" PRIu64 "\n", account->file + 1, last->file + 1);
	if (account->file)
		printf("  files before %" PRIu64 " are not here\n", account->file + 1);
	if (!last->is_last)
		printf("  files behind %" PRIu64 " are not here, if there are any\n", last->file + 1);
}

static void print_missing(const struct inspect_piece *piece)
{
	const struct recording_account *before = &piece[-1].account, *after = &piece->account;
	const struct inspect_join *join = &piece->join;
	uint64_t first = before->file + 2, last = after->file;

	if (first == last)
		printf("  file %" PRIu64 " is missing: ", first);
	else
		printf("  files %" PRIu64 " to %" PRIu64 " are missing: ", first, last);
	if (join->is_one_epoch && !join->n_packets)
		puts("no packets");
	else if (join->is_one_epoch)
		printf("%spackets %" PRIu64 " to %" PRIu64 "\n", join->is_counted ? "" : "of this flow, some of ",
		       before->until.sequence, after->from.sequence - 1);
	else
		printf("packets from %" PRIu64 " on, and ibvcapd was restarted before packet %" PRIu64 "\n",
		       before->until.sequence, after->from.sequence);
}

void inspect_set_print(const struct inspect_set *set)
{
	for (uint32_t i = 0; i < set->n_pieces; i++) {
		const struct inspect_piece *piece = &set->pieces[i];
		char text[2 * PATH_MAX + 64];

		if (begins_queue(set, i)) {
			print_queue_head(set, i);
		} else if (piece->join.kind == INSPECT_MISSING) {
			print_missing(piece);
		} else if (piece->join.kind == INSPECT_TWICE) {
			snprintf(text, sizeof(text), "  file %" PRIu64 " is given twice: %s and %s",
			         piece->account.file + 1, piece[-1].path, piece->path);
			puts(inspect_clean(text));
		}
	}
}

/* ---- JSON ---------------------------------------------------------------------------------------- */

static json_t *missing_to_json(const struct inspect_piece *piece)
{
	const struct recording_account *before = &piece[-1].account, *after = &piece->account;

	return json_pack("{s:I, s:I, s:I, s:I, s:o}", "first_file", (json_int_t)before->file + 1, "last_file",
	                 (json_int_t)after->file - 1, "from", (json_int_t)before->until.sequence, "until",
	                 (json_int_t)after->from.sequence, "packets",
	                 piece->join.is_counted ? json_integer((json_int_t)piece->join.n_packets) : json_null());
}

/* The queue whose first piece is at *i, which is moved to its last one. */
static json_t *queue_to_json(const struct inspect_set *set, uint32_t *i)
{
	const struct recording_account *first = &set->pieces[*i].account, *last;
	json_t *missing = json_array(), *twice = json_array();

	while (!ends_queue(set, *i)) {
		const struct inspect_piece *piece = &set->pieces[++*i];

		if (piece->join.kind == INSPECT_MISSING)
			json_array_append_new(missing, missing_to_json(piece));
		else if (piece->join.kind == INSPECT_TWICE)
			json_array_append_new(twice, json_integer((json_int_t)piece->account.file));
	}
	last = &set->pieces[*i].account;
	return json_pack("{s:s, s:i, s:I, s:I, s:b, s:o, s:o}", "stream", first->stream, "queue", (int)first->queue,
	                 "first_file", (json_int_t)first->file, "last_file", (json_int_t)last->file, "has_last",
	                 last->is_last, "missing", missing, "twice", twice);
}

json_t *inspect_set_to_json(const struct inspect_set *set)
{
	json_t *recordings = json_array(), *queues = NULL;

	for (uint32_t i = 0; i < set->n_pieces; i++) {
		const struct recording_account *account = &set->pieces[i].account;
		json_t *recording;

		if (i == 0 || compare_recordings(&set->pieces[i - 1].account, account) != 0) {
			recording = json_object();
			queues = json_array();
			json_object_set_new(recording, "recording", json_sprintf("%016" PRIx64, account->recording));
			if (account->flow != RECORDING_ACCOUNT_NO_FLOW)
				json_object_set_new(recording, "flow", json_integer(account->flow));
			json_object_set_new(recording, "queues", queues);
			json_array_append_new(recordings, recording);
		}
		json_array_append_new(queues, queue_to_json(set, &i));
	}
	return recordings;
}
