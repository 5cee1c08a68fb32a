// SPDX-License-Identifier: Apache-2.0
/* Says of many files in a line each what they have, the worst ones first, and adds them up. */
#include "tools/inspect/file_lines.h"

#include "lib/base/min.h"
#include "tools/common/report.h"
#include "tools/common/terminal.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_times(struct file_lines *lines, const struct inspect_source *source)
{
	if (source->n_packets <= source->n_untimed)
		return;
	lines->first_ns = lines->first_ns ? u64_min(lines->first_ns, source->first_ns) : source->first_ns;
	lines->last_ns = u64_max(lines->last_ns, source->last_ns);
}

int file_lines_add(struct file_lines *lines, const struct inspect_file *file)
{
	struct file_line *grown = inspect_grow(lines->lines, lines->n, sizeof(*grown)), *line;
	char text[VERDICT_TEXT_BYTES];

	if (!grown)
		return -ENOMEM;
	lines->lines = grown;
	verdict_print(text, sizeof(text), &file->verdict);
	line = &grown[lines->n];
	*line = (struct file_line){.path = file->path,
	                           .verdict = strdup(text),
	                           .worst = file->verdict.worst,
	                           .number = lines->n,
	                           .n_packets = file->sum.n_packets};
	if (!line->verdict)
		return -ENOMEM;
	lines->n++;
	lines->n_packets += line->n_packets;
	for (uint32_t i = 0; i < file->sum.n_sources; i++) {
		lines->n_bytes += file->sum.sources[i].n_bytes;
		add_times(lines, &file->sum.sources[i]);
	}
	return 0;
}

void file_lines_free(struct file_lines *lines)
{
	for (uint32_t i = 0; i < lines->n; i++)
		free(lines->lines[i].verdict);
	free(lines->lines);
	*lines = (struct file_lines){0};
}

static int compare_lines(const void *one_of, const void *other_of)
{
	const struct file_line *one = one_of, *other = other_of;

	if (one->worst != other->worst)
		return one->worst > other->worst ? -1 : 1;
	return one->number < other->number ? -1 : 1;
}

void file_lines_print(const struct file_lines *lines, uint64_t most)
{
	uint32_t n = (uint32_t)u64_min(most, lines->n), n_bad = 0;

	if (lines->n)
		qsort(lines->lines, lines->n, sizeof(*lines->lines), compare_lines);
	for (uint32_t i = 0; i < n; i++) {
		const struct file_line *line = &lines->lines[i];
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s", line->path);
		printf("%s: %" PRIu64 " packets: ", inspect_clean(path), line->n_packets);
		terminal_print(stdout, inspect_colour(line->worst), "%s\n", line->verdict);
	}
	for (uint32_t i = n; i < lines->n; i++)
		n_bad += lines->lines[i].worst > FINDING_NOTE;
	if (lines->n > n && n_bad)
		printf("and %u files more, of which %u are not proven complete: --files all prints them\n",
		       lines->n - n, n_bad);
	else if (lines->n > n)
		printf("and %u files more, which are complete: --files all prints them\n", lines->n - n);
	puts("'ibvcap info FILE' says all of one file");
}

void file_lines_print_total(const struct file_lines *lines)
{
	char first[REPORT_UTC_BYTES], last[REPORT_UTC_BYTES];

	printf("in all files: %" PRIu64 " packets, %" PRIu64 " bytes of frames", lines->n_packets, lines->n_bytes);
	if (lines->first_ns) {
		report_format_utc(lines->first_ns, 9, first);
		report_format_utc(lines->last_ns, 9, last);
		printf(", %s to %s (%.3f s)", first, last, (double)(lines->last_ns - lines->first_ns) / 1e9);
	}
	putchar('\n');
}

json_t *file_lines_to_json(const struct file_lines *lines)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "files", (json_int_t)lines->n, "packets",
	                 (json_int_t)lines->n_packets, "bytes", (json_int_t)lines->n_bytes, "first_ns",
	                 (json_int_t)lines->first_ns, "last_ns", (json_int_t)lines->last_ns);
}
