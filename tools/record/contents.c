// SPDX-License-Identifier: Apache-2.0
/*
 * What a recording says about itself. The loss sum is at the end three times: as numbers in the statistics of each
 * interface, for programs; as their comment; and as the comment of a section of its own, which capinfos prints.
 */
#include "tools/record/contents.h"

#include "tools/json/sequence_json.h"
#include "tools/pcapng/pcapng_write.h"
#include "tools/pcapng/recording_words.h"
#include "tools/record/row_frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#define SUM_TEXT_BYTES      400
#define SEQUENCE_TEXT_BYTES 1024 /* more than all keys of a sequence take as JSON */

static struct pcapng_text text_unless_empty(const char *string)
{
	struct pcapng_text text = {.at = string, .bytes = strlen(string)};

	return text.bytes ? text : (struct pcapng_text){0};
}

/* The clock, and where the packets have their own number. */
static void print_comment(char *text, size_t bytes, const struct source *source)
{
	char *sequence = source->sequence ? json_dumps(source->sequence, JSON_COMPACT) : NULL;

	snprintf(text, bytes, "%s%s%s", source->clock, sequence ? RECORDING_SEQUENCE : "", sequence ? sequence : "");
	free(sequence);
}

size_t contents_write_head(uint8_t *to, size_t room, const char *why, const struct source *sources, unsigned n_sources,
                           const char *flow)
{
	struct utsname system;
	char os[sizeof(system.sysname) + sizeof(system.release) + 2];
	struct pcapng_section section = {.application = pcapng_text_of("ibvcap " IBVCAP_BUILD_VERSION)};
	size_t used;

	uname(&system);
	snprintf(os, sizeof(os), "%s %s", system.sysname, system.release);
	section.os = pcapng_text_of(os);
	section.hardware = pcapng_text_of(system.machine);
	if (why)
		section.comment = pcapng_text_of(why);
	used = pcapng_write_section(to, room, &section);
	for (unsigned i = 0; i < n_sources; i++) {
		char description[sizeof(sources[i].interface) + RECORD_FLOW_TEXT_BYTES];
		char comment[sizeof(sources[i].clock) + SEQUENCE_TEXT_BYTES];
		struct pcapng_interface interface = {
			.link_type = PCAPNG_LINK_ETHERNET,
			.name = text_unless_empty(sources[i].name),
			.hardware = text_unless_empty(sources[i].device),
			.filter = text_unless_empty(sources[i].filter),
		};

		print_comment(comment, sizeof(comment), &sources[i]);
		interface.comment = text_unless_empty(comment);
		snprintf(description, sizeof(description), "%s%s%s", sources[i].interface,
		         sources[i].interface[0] && flow[0] ? ", " : "", flow);
		interface.description = text_unless_empty(description);
		used += pcapng_write_interface(to + used, room - used, &interface);
	}
	return used;
}

/* ---- the end ------------------------------------------------------------------------------------- */

static size_t write_statistics(uint8_t *to, size_t room, const struct contents_end *end, unsigned source)
{
	const struct record_sum *sum = &end->sums[source];
	char text[SUM_TEXT_BYTES];
	struct pcapng_statistics statistics = {.interface = source,
	                                       .time_ns = end->end_ns,
	                                       .start_ns = end->start_ns,
	                                       .end_ns = end->end_ns,
	                                       .values_set = (1u << PCAPNG_STATISTIC_N) - 1};

	statistics.values[PCAPNG_STATISTIC_RECEIVED] = sum->published + sum->no_buffer;
	statistics.values[PCAPNG_STATISTIC_DROPPED] = sum->no_buffer + sum->errored;
	statistics.values[PCAPNG_STATISTIC_FILTER_ACCEPTED] = sum->published + sum->no_buffer - sum->other_files;
	statistics.values[PCAPNG_STATISTIC_OS_DROPPED] = sum->skipped + sum->disk_wait + sum->unwritten;
	statistics.values[PCAPNG_STATISTIC_DELIVERED] = sum->written;
	record_sum_print(text, sizeof(text), sum);
	statistics.comment = pcapng_text_of(text);
	return pcapng_write_statistics(to, room, &statistics);
}

/* "complete", or how much is missing. */
static void print_verdict(char *text, size_t bytes, const struct contents_end *end)
{
	struct record_sum all = {0};
	char why[160] = "";

	for (unsigned i = 0; i < end->n_sources; i++)
		record_sum_add(&all, &end->sums[i]);
	if (end->error)
		snprintf(why, sizeof(why), "the recording ended because the file could not be written: %s. ",
		         strerror(end->error));
	if (record_sum_missing(&all) == 0 && all.restarts == 0)
		snprintf(text, bytes, "%sComplete: no packet is missing.", why);
	else
		snprintf(text, bytes, "%s%" PRIu64 " packets are missing%s.", why, record_sum_missing(&all),
		         all.restarts ? ", and an unknown number while ibvcapd was away" : "");
}

size_t contents_write_end(uint8_t *to, size_t room, const struct contents_end *end)
{
	static char text[RECORD_SOURCES_MAX * (SUM_TEXT_BYTES + 96) + LOSSES_TEXT_BYTES + 600];
	struct pcapng_section section = {.application = pcapng_text_of("ibvcap " IBVCAP_BUILD_VERSION)};
	size_t used = 0, length;

	for (unsigned i = 0; i < end->n_sources; i++)
		used += write_statistics(to + used, room - used, end, i);
	print_verdict(text, sizeof(text), end);
	for (unsigned i = 0; i < end->n_sources; i++) {
		length = strlen(text);
		length += (size_t)snprintf(text + length, sizeof(text) - length, "\n%s: ", end->names[i]);
		record_sum_print(text + length, sizeof(text) - length, &end->sums[i]);
	}
	length = strlen(text);
	if (end->note[0])
		snprintf(text + length, sizeof(text) - length, "\nAfter the last packet: %s", end->note);
	section.comment = pcapng_text_of(text);
	return used + pcapng_write_section(to + used, room - used, &section);
}
