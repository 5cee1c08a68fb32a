// SPDX-License-Identifier: Apache-2.0
/* Prints the counts of a tracker: a source in words, its numbers, and the sums over all sources. */
#include "tools/common/report.h"

#include "lib/base/min.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOURCES_MAX  65536
#define SOURCE_BYTES 512 /* of a source in a tracker, without its window; more than it takes */
#define MEMORY_BYTES (UINT64_C(64) << 20)

uint32_t tracker_max_sources(const struct ibvcap_sequence *sequence)
{
	return (uint32_t)u64_min(MEMORY_BYTES / (SOURCE_BYTES + sequence->window / 8), SOURCES_MAX);
}

/* ---- a source in words --------------------------------------------------------------------------- */

/* "10.0.0.1"; "" if it is all 0: it does not tell sources apart. */
static void put_source_address(const uint8_t address[16], char *text, socklen_t bytes)
{
	static const uint8_t none[16], ipv4[12] = {[10] = 0xff, [11] = 0xff};

	*text = '\0';
	if (memcmp(address, ipv4, sizeof(ipv4)) == 0)
		inet_ntop(AF_INET, address + sizeof(ipv4), text, bytes);
	else if (memcmp(address, none, sizeof(none)) != 0)
		inet_ntop(AF_INET6, address, text, bytes);
}

static void put_source_end(const uint8_t address[16], uint16_t port, char *text, size_t bytes)
{
	char name[INET6_ADDRSTRLEN];

	put_source_address(address, name, sizeof(name));
	*text = '\0';
	if (port)
		snprintf(text, bytes, strchr(name, ':') ? "[%s]:%u" : "%s:%u", name, port);
	else
		snprintf(text, bytes, "%s", name);
}

/* "1a2b", of the payload's field; text has room for it. */
static void put_source_field(const struct ibvcap_tracker_source *source, char *text)
{
	*text = '\0';
	for (uint32_t i = 0; i < source->field_bytes && i < sizeof(source->field); i++)
		sprintf(text + (size_t)2 * i, "%02x", source->field[i]);
}

void report_source(const struct ibvcap_tracker_source *source, char text[REPORT_SOURCE_BYTES])
{
	char from[64], to[64], field[2 * IBVCAP_SOURCE_BYTES_MAX + 1];

	put_source_end(source->address, source->port, from, sizeof(from));
	put_source_end(source->destination, source->destination_port, to, sizeof(to));
	put_source_field(source, field);
	snprintf(text, REPORT_SOURCE_BYTES, "%s%s%s%s%s%s", from, to[0] ? " > " : "", to,
	         from[0] && field[0] ? ", " : "", field[0] ? "field " : "", field);
}

/* ---- for people ---------------------------------------------------------------------------------- */

static void print_numbers(const struct ibvcap_tracker_numbers *numbers)
{
	printf("  sent %" PRIu64 " = once %" PRIu64 " + lost %" PRIu64 "; arrived %" PRIu64 " = once %" PRIu64
	       " + repeated %" PRIu64 "\n"
	       "  reordered %" PRIu64 ", late %" PRIu64 ", stray %" PRIu64 ", restarted %" PRIu64 "\n",
	       numbers->sent, numbers->once, numbers->lost, numbers->arrived, numbers->once, numbers->repeated,
	       numbers->reordered, numbers->late, numbers->stray, numbers->restarted);
}

/* A network that lost more than half, or a source that often began anew: a wrong description is more likely. */
static bool is_doubtful(const struct ibvcap_tracker_numbers *numbers, uint64_t unexplained)
{
	return unexplained > numbers->arrived ||
	       numbers->stray + numbers->late + 2 * numbers->restarted > numbers->arrived;
}

/* What is printed first: lost numbers, then those that are in doubt, then those that only came otherwise. */
struct ranked_source {
	uint32_t index;
	uint64_t lost, doubtful, odd;
};

static int compare_ranked(const void *one_of, const void *other_of)
{
	const struct ranked_source *one = one_of, *other = other_of;

	if (one->lost != other->lost)
		return one->lost > other->lost ? -1 : 1;
	if (one->doubtful != other->doubtful)
		return one->doubtful > other->doubtful ? -1 : 1;
	if (one->odd != other->odd)
		return one->odd > other->odd ? -1 : 1;
	return one->index < other->index ? -1 : 1;
}

/* Without memory they stay in the order in which they came. */
static struct ranked_source *rank_sources(const struct ibvcap_tracker *tracker, uint32_t n)
{
	struct ibvcap_tracker_source source = IBVCAP_INIT(struct ibvcap_tracker_source);
	struct ranked_source *ranked = malloc(n * sizeof(*ranked));

	for (uint32_t i = 0; ranked && i < n && ibvcap_tracker_source(tracker, i, &source) > 0; i++)
		ranked[i] = (struct ranked_source){
			.index = i,
			.lost = source.numbers.lost,
			.doubtful = source.numbers.late + source.numbers.stray + source.numbers.restarted,
			.odd = source.numbers.repeated + source.numbers.reordered,
		};
	if (ranked)
		qsort(ranked, n, sizeof(*ranked), compare_ranked);
	return ranked;
}

static void print_sources(const struct ibvcap_tracker *tracker, uint32_t n_sources, uint64_t most)
{
	struct ibvcap_tracker_source source = IBVCAP_INIT(struct ibvcap_tracker_source);
	struct ranked_source *ranked = rank_sources(tracker, n_sources);
	uint32_t n = (uint32_t)u64_min(n_sources, most);
	char text[REPORT_SOURCE_BYTES];

	for (uint32_t i = 0; i < n; i++) {
		uint32_t index = ranked ? ranked[i].index : i;

		ibvcap_tracker_source(tracker, index, &source);
		report_source(&source, text);
		printf("source %u%s%s\n", index, text[0] ? ": " : "", text);
		print_numbers(&source.numbers);
	}
	if (n_sources > n)
		printf("and %u sources more, %s: --sources all prints them\n", n_sources - n,
		       !ranked                               ? "in no order"
		       : ranked[n].lost                      ? "of which some lost numbers, but no more than these"
		       : ranked[n].doubtful || ranked[n].odd ? "of which none lost a number"
		                                             : "of which all numbers came once and in order");
	free(ranked);
}

void tracker_print(const struct ibvcap_tracker *tracker, uint64_t unexplained, uint64_t most)
{
	struct ibvcap_tracker_counts counts = IBVCAP_INIT(struct ibvcap_tracker_counts);

	ibvcap_tracker_counts(tracker, &counts);
	print_sources(tracker, counts.n_sources, most);
	printf("numbers of %u sources, %" PRIu64 " packets:\n", counts.n_sources, counts.packets);
	print_numbers(&counts.numbers);
	if (counts.unread)
		printf("  unread %" PRIu64
		       ": no number can be read: too short, malformed, in error, or IP fragments behind the "
		       "first one\n",
		       counts.unread);
	if (counts.untracked)
		printf("  untracked %" PRIu64 ": there are more sources than this program has room for\n",
		       counts.untracked);
	if (is_doubtful(&counts.numbers, unexplained))
		puts("  So many? Maybe the stream's sequence does not fit its packets: see offset, bytes, endian, "
		     "shift, bits, step and modulus in ibvcapd.conf(5)");
}

static void print_range(const struct ibvcap_tracker *tracker, const struct ibvcap_missing *range)
{
	struct ibvcap_tracker_source source = IBVCAP_INIT(struct ibvcap_tracker_source);
	char name[REPORT_SOURCE_BYTES];
	char before[REPORT_UTC_BYTES], after[REPORT_UTC_BYTES];

	report_format_utc(range->before_ns, 6, before);
	report_format_utc(range->after_ns, 6, after);
	printf("  %" PRIu64, range->first);
	if (range->n > 1)
		printf(" to %" PRIu64 " (%" PRIu64 ")", range->first + range->n - 1, range->n);
	ibvcap_tracker_source(tracker, range->source, &source);
	report_source(&source, name);
	printf(" of source %u%s%s%s, between %s and %s", range->source, name[0] ? " (" : "", name, name[0] ? ")" : "",
	       before, after);
	if (range->run)
		printf(", after restart %u of the source", range->run);
	putchar('\n');
}

void tracker_print_missing(const struct ibvcap_tracker *tracker, uint64_t max)
{
	struct ibvcap_tracker_counts counts = IBVCAP_INIT(struct ibvcap_tracker_counts);
	struct ibvcap_missing range;
	uint64_t n_left;

	ibvcap_tracker_counts(tracker, &counts);
	n_left = counts.numbers.lost;
	if (!n_left || !max)
		return;
	puts("missing numbers:");
	for (uint32_t i = 0; i < max && ibvcap_tracker_missing(tracker, i, &range, 1); i++) {
		print_range(tracker, &range);
		n_left -= range.n;
	}
	if (n_left)
		printf("  and %" PRIu64 " numbers more\n", n_left);
}

/* ---- JSON ---------------------------------------------------------------------------------------- */

static json_t *numbers_to_json(const struct ibvcap_tracker_numbers *numbers)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "arrived", (json_int_t)numbers->arrived,
	                 "once", (json_int_t)numbers->once, "repeated", (json_int_t)numbers->repeated, "sent",
	                 (json_int_t)numbers->sent, "lost", (json_int_t)numbers->lost, "reordered",
	                 (json_int_t)numbers->reordered, "late", (json_int_t)numbers->late, "stray",
	                 (json_int_t)numbers->stray, "restarted", (json_int_t)numbers->restarted);
}

static json_t *source_to_json(const struct ibvcap_tracker_source *source)
{
	char from[INET6_ADDRSTRLEN], to[INET6_ADDRSTRLEN], field[2 * IBVCAP_SOURCE_BYTES_MAX + 1];
	char name[REPORT_SOURCE_BYTES];
	json_t *object = numbers_to_json(&source->numbers);

	put_source_address(source->address, from, sizeof(from));
	put_source_address(source->destination, to, sizeof(to));
	put_source_field(source, field);
	report_source(source, name);
	json_object_update_new(object,
	                       json_pack("{s:s, s:s, s:i, s:s, s:i, s:s, s:I}", "name", name, "address", from, "port",
	                                 source->port, "destination", to, "destination_port", source->destination_port,
	                                 "field", field, "packets", (json_int_t)source->packets));
	return object;
}

static json_t *missing_ranges_to_json(const struct ibvcap_tracker *tracker)
{
	json_t *ranges = json_array();
	struct ibvcap_missing range;

	for (uint32_t i = 0; ibvcap_tracker_missing(tracker, i, &range, 1); i++)
		json_array_append_new(ranges,
		                      json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "first", (json_int_t)range.first, "n",
		                                (json_int_t)range.n, "before_ns", (json_int_t)range.before_ns,
		                                "after_ns", (json_int_t)range.after_ns, "source",
		                                (json_int_t)range.source, "run", (json_int_t)range.run));
	return ranges;
}

json_t *tracker_to_json(const struct ibvcap_tracker *tracker)
{
	struct ibvcap_tracker_counts counts = IBVCAP_INIT(struct ibvcap_tracker_counts);
	struct ibvcap_tracker_source source = IBVCAP_INIT(struct ibvcap_tracker_source);
	json_t *object, *sources = json_array();

	ibvcap_tracker_counts(tracker, &counts);
	object = numbers_to_json(&counts.numbers);
	for (uint32_t i = 0; ibvcap_tracker_source(tracker, i, &source) > 0; i++)
		json_array_append_new(sources, source_to_json(&source));
	json_object_update_new(object,
	                       json_pack("{s:I, s:I, s:I, s:o, s:o}", "packets", (json_int_t)counts.packets, "unread",
	                                 (json_int_t)counts.unread, "untracked", (json_int_t)counts.untracked,
	                                 "sources", sources, "missing", missing_ranges_to_json(tracker)));
	return object;
}
