// SPDX-License-Identifier: Apache-2.0
/*
 * A file of a recording in pcapng format, and FILE.index beside it. Without an index it is read from its beginning. The
 * loss sum is at the end three times: as numbers in the statistics of each interface, as the comment of the statistics,
 * with the account for programs, and as the comment of a section of its own, which capinfos prints.
 */
#include "lib/recording/account_json.h"
#include "lib/recording/pcapng.h"
#include "lib/recording/recording_index.h"
#include "lib/recording/recording_words.h"
#include "lib/recording/row_frame.h"
#include "lib/recording/verdict.h"
#include "tools/record/record_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

/* ---- blocks in which a recording describes itself ------------------------------------------------ */

#define SUM_TEXT_BYTES      400
#define SEQUENCE_TEXT_BYTES 1024 /* more than all keys of a sequence take as JSON */

static struct pcapng_text text_unless_empty(const char *string)
{
	struct pcapng_text text = {.at = string, .bytes = strlen(string)};

	return text.bytes ? text : (struct pcapng_text){0};
}

size_t contents_write_head(uint8_t *to, size_t room, const char *why, const struct source *sources, unsigned n_sources,
                           int32_t flow)
{
	struct utsname system;
	char flow_text[RECORD_FLOW_TEXT_BYTES] = "";
	char os[sizeof(system.sysname) + sizeof(system.release) + 2];
	struct pcapng_section section = {.application = pcapng_text_of("ibvcap " IBVCAP_BUILD_VERSION)};
	char *sequence;
	size_t used;

	uname(&system);
	snprintf(os, sizeof(os), "%s %s", system.sysname, system.release);
	section.os = pcapng_text_of(os);
	section.hardware = pcapng_text_of(system.machine);
	if (why)
		section.comment = pcapng_text_of(why);
	if (flow != RECORDING_ACCOUNT_NO_FLOW)
		snprintf(flow_text, sizeof(flow_text), RECORDING_ONLY_FLOW "%d", flow);
	used = pcapng_write_section(to, room, &section);
	for (unsigned i = 0; i < n_sources; i++) {
		char description[sizeof(sources[i].interface) + RECORD_FLOW_TEXT_BYTES + sizeof(RECORDING_FILTERED) +
		                 sizeof(sources[i].flows)];
		char comment[sizeof(sources[i].clock) + SEQUENCE_TEXT_BYTES];
		struct pcapng_interface interface = {
			.link_type = PCAPNG_LINK_ETHERNET,
			.name = text_unless_empty(sources[i].name),
			.hardware = text_unless_empty(sources[i].device),
			.filter = text_unless_empty(sources[i].filter ? sources[i].filter : sources[i].flows),
		};

		/* The clock, and the place of the packets' own number. */
		sequence = sources[i].sequence ? json_dumps(sources[i].sequence, JSON_COMPACT) : NULL;
		snprintf(comment, sizeof(comment), "%s%s%s", sources[i].clock, sequence ? RECORDING_SEQUENCE : "",
		         sequence ? sequence : "");
		free(sequence);
		interface.comment = text_unless_empty(comment);
		snprintf(description, sizeof(description), "%s%s%s%s%s", sources[i].interface,
		         sources[i].interface[0] && flow_text[0] ? ", " : "", flow_text,
		         sources[i].filter ? RECORDING_FILTERED : "", sources[i].filter ? sources[i].flows : "");
		interface.description = text_unless_empty(description);
		used += pcapng_write_interface(to + used, room - used, &interface);
	}
	return used;
}

/* ---- the end ------------------------------------------------------------------------------------- */

static size_t write_statistics(uint8_t *to, size_t room, const struct record_end *end, unsigned source)
{
	const struct recording_account *account = &end->accounts[source];
	const struct recording_sum *sum = &account->sum;
	uint64_t no_buffer = account->rx.no_buffer;
	char text[SUM_TEXT_BYTES + RECORDING_ACCOUNT_TEXT_SIZE];
	struct pcapng_statistics statistics = {.interface = source,
	                                       .time_ns = end->end_ns,
	                                       .start_ns = end->start_ns,
	                                       .end_ns = end->end_ns,
	                                       .values_set = (1u << PCAPNG_STATISTIC_N) - 1};

	statistics.values[PCAPNG_STATISTIC_RECEIVED] = record_sum_published(sum) + no_buffer;
	statistics.values[PCAPNG_STATISTIC_DROPPED] = no_buffer + sum->errored;
	statistics.values[PCAPNG_STATISTIC_FILTER_ACCEPTED] =
		record_sum_published(sum) + no_buffer - sum->other_files - sum->filtered;
	statistics.values[PCAPNG_STATISTIC_OS_DROPPED] = sum->skipped + sum->disk_wait + sum->unwritten;
	statistics.values[PCAPNG_STATISTIC_DELIVERED] = sum->written;
	record_print_sum(text, SUM_TEXT_BYTES, account);
	recording_account_append(text, sizeof(text), account);
	statistics.comment = pcapng_text_of(text);
	return pcapng_write_statistics(to, room, &statistics);
}

size_t contents_write_end(uint8_t *to, size_t room, const struct record_end *end)
{
	static char text[RECORD_SOURCES_MAX * (SUM_TEXT_BYTES + 96) + LOSSES_TEXT_BYTES + 200 + VERDICT_TEXT_BYTES];
	struct pcapng_section section = {.application = pcapng_text_of("ibvcap " IBVCAP_BUILD_VERSION)};
	struct verdict verdict = {0};
	size_t used = 0, length = 0;

	for (unsigned i = 0; i < end->n_sources; i++)
		used += write_statistics(to + used, room - used, end, i);
	if (end->error)
		length = (size_t)snprintf(text, sizeof(text),
		                          "the recording ended because the file could not be written: %s. ",
		                          strerror(end->error));
	verdict_find_accounts(&verdict, end->accounts, end->n_sources, end->sources[0].filter);
	verdict_print_sentences(text + length, sizeof(text) - length, &verdict);
	for (unsigned i = 0; i < end->n_sources; i++) {
		length = strlen(text);
		length += (size_t)snprintf(text + length, sizeof(text) - length, "\n%s: ", end->sources[i].name);
		record_print_sum(text + length, sizeof(text) - length, &end->accounts[i]);
	}
	length = strlen(text);
	if (end->note[0])
		snprintf(text + length, sizeof(text) - length, "\nAfter the last packet: %s", end->note);
	section.comment = pcapng_text_of(text);
	return used + pcapng_write_section(to + used, room - used, &section);
}

/* ---- the file ------------------------------------------------------------------------------------ */

static struct part_file *index_of(struct record_file *file)
{
	return &file->parts[1];
}

static void drop_index(struct record_file *file, int error)
{
	fprintf(stderr, "ibvcap record: %s" RECORDING_INDEX ": %s; the file has no index\n", file->path,
	        strerror(-error));
	part_file_discard(index_of(file));
}

static int open_index(struct record_file *file)
{
	static const char head[] =
		RECORDING_INDEX_HEAD " offset bytes packets first_ns last_ns first_sequence last_sequence\n";
	const struct record_file_options *options = file->options;
	int r;

	if (!options->index || options->zstd_level || !part_file_is_regular(&file->parts[0]))
		return 0;
	r = part_file_open_beside(index_of(file), &file->parts[0], RECORDING_INDEX);
	return r < 0 ? r : part_file_write(index_of(file), head, sizeof(head) - 1, PART_FILE_CACHED);
}

static void write_index_line(struct record_file *file, const struct record_piece *piece)
{
	char line[160];
	int n, r;

	if (index_of(file)->fd < 0 || !piece->n_packets)
		return;
	n = snprintf(line, sizeof(line),
	             "%" PRIu64 " %zu %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
	             file->parts[0].bytes - piece->bytes, piece->bytes, piece->n_packets, piece->first_ns,
	             piece->last_ns, piece->first_sequence, piece->last_sequence);
	r = part_file_write(index_of(file), line, (size_t)n, PART_FILE_CACHED);
	if (r < 0)
		drop_index(file, r);
}

static int write_blocks(struct record_file *file, const struct record_piece *piece)
{
	enum part_file_way way = piece->is_late ? PART_FILE_CACHED : PART_FILE_TO_DISK;
	int r = record_file_make_room(file, piece->bytes);

	if (r == 0)
		r = part_file_write(&file->parts[0], piece->at, piece->bytes, way);
	if (r == 0)
		write_index_line(file, piece);
	return r;
}

static int end_blocks(struct record_file *file, const struct record_end *end)
{
	const struct record_piece piece = {.at = end->scratch,
	                                   .bytes = contents_write_end(end->scratch, CONTENTS_END_BYTES_MAX, end)};

	return record_file_write(file, &piece);
}

/* The index says which file it is of: another one may get the name. */
static void finish_index(struct record_file *file)
{
	struct recording_stamp stamp;
	char line[80];
	int n, r;

	if (index_of(file)->fd < 0)
		return;
	r = recording_stamp_of(file->parts[0].fd, &stamp);
	if (r == 0) {
		n = snprintf(line, sizeof(line), RECORDING_INDEX_END "%" PRIu64 " %016" PRIx64 "\n", stamp.bytes,
		             stamp.hash);
		r = part_file_write(index_of(file), line, (size_t)n, PART_FILE_CACHED);
	}
	if (r == 0)
		r = part_file_finish(index_of(file), false);
	if (r < 0)
		drop_index(file, r);
}

const struct record_format pcapng_format = {.n_needed = 1,
                                            .write_head = contents_write_head,
                                            .open = open_index,
                                            .write = write_blocks,
                                            .end = end_blocks,
                                            .finish = finish_index};
