// SPDX-License-Identifier: Apache-2.0
/*
 * Generates parts of a manual page from the table of a status: print_status_docs < FILE > FILE
 *
 *   .\" @FIELDS streams@     the fields of that list of the JSON follow in mdoc, instead of the lines up to
 *   .\" @COUNTERS streams@   its counters, likewise
 *   .\" @END@
 */
#include "lib/mdoc/mdoc_text.h"
#include "lib/status/status.h"

#include <stdio.h>
#include <string.h>
#include <sysexits.h>

static const struct status_part *find_list(const char *name)
{
	for (unsigned i = 0; i < STATUS_N_PARTS; i++)
		if (strcmp(status_parts[i].list, name) == 0)
			return &status_parts[i];
	return NULL;
}

static void print_status_row(const struct status_field *row)
{
	static const char *const kinds[] = {[STATUS_LEVEL] = "level",
	                                    [STATUS_MAXIMUM] = "maximum",
	                                    [STATUS_TOTAL] = "total",
	                                    [STATUS_TIME] = "time"};

	if (!row->name || row->is_hidden)
		return;
	printf(".It Cm %s", row->name);
	if (row->kind != STATUS_LABEL)
		printf(" Pq No %s%s%s", kinds[row->kind], row->unit ? ", " : "", row->unit ? row->unit : "");
	putchar('\n');
	mdoc_text_print(row->help, ".");
	if (!row->remedy)
		return;
	puts("Remedy:");
	mdoc_text_print(row->remedy, ".");
}

static void print_status_rows(const struct status_part *part, bool are_counters)
{
	puts(".Bl -tag -width Ds");
	for (const struct status_field *field = part->fields; field->name && !are_counters; field++)
		print_status_row(field);
	for (uint32_t i = 0; i < part->n_counters && are_counters; i++)
		print_status_row(&part->counters[i]);
	puts(".El");
}

int main(void)
{
	char line[1024], name[32], end;
	bool is_old = false;

	while (fgets(line, sizeof(line), stdin)) {
		bool are_counters = sscanf(line, ".\\\" @COUNTERS %31[a-z]%c", name, &end) == 2 && end == '@';
		bool are_fields = sscanf(line, ".\\\" @FIELDS %31[a-z]%c", name, &end) == 2 && end == '@';
		const struct status_part *part = are_counters || are_fields ? find_list(name) : NULL;

		is_old = is_old && strcmp(line, ".\\\" @END@\n") != 0;
		if (!is_old)
			fputs(line, stdout);
		if (part) {
			print_status_rows(part, are_counters);
			is_old = true;
		} else if (are_counters || are_fields) {
			fprintf(stderr, "print_status_docs: a status has no list '%s'\n", name);
			return EX_DATAERR;
		}
	}
	return fflush(stdout) || ferror(stdin) ? EX_IOERR : EX_OK;
}
