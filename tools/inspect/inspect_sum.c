// SPDX-License-Identifier: Apache-2.0
/* Adds up the blocks of a recording, and compares the numbers of its packets with the losses that it names. */
#include "tools/inspect/inspect_sum.h"

#include "lib/base/min.h"
#include "lib/recording/recording_words.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

/* In UTF-8, too: U+0080 to U+009F, of which terminals take U+009B for ESC [. */
static bool is_control(const char *c)
{
	return iscntrl((unsigned char)*c) || ((unsigned char)c[0] == 0xc2 && ((unsigned char)c[1] & 0xe0) == 0x80);
}

char *inspect_clean(char *text)
{
	for (char *c = text; *c; c++) {
		if (!is_control(c))
			continue;
		if (!iscntrl((unsigned char)*c))
			c[1] = ' ';
		*c = ' ';
	}
	return text;
}

bool inspect_explain_part(const char *path, char text[PATH_MAX])
{
	return snprintf(text, PATH_MAX, "%s" RECORDING_PART, path) < PATH_MAX && access(text, F_OK) == 0 &&
	       snprintf(text, PATH_MAX,
	                "It is still being recorded, or its recorder was killed: until it is closed its name is "
	                "%s" RECORDING_PART,
	                path) < PATH_MAX;
}

int inspect_refuse_index(const char *command, const char *path)
{
	char shown[PATH_MAX];
	const char *end;

	snprintf(shown, sizeof(shown), "%s", path);
	end = strrchr(inspect_clean(shown), '.');
	fprintf(stderr, "ibvcap %s: %s is the index of a recording", command, shown);
	if (end && !strcmp(end, RECORDING_INDEX))
		fprintf(stderr, ": name %.*s", (int)(end - shown), shown);
	fputc('\n', stderr);
	return EX_DATAERR;
}

static void keep_text(char to[INSPECT_TEXT_BYTES], const struct pcapng_text *text)
{
	size_t n = text->bytes < INSPECT_TEXT_BYTES - 1 ? text->bytes : INSPECT_TEXT_BYTES - 1;

	if (n)
		memcpy(to, text->at, n);
	to[n] = '\0';
	inspect_clean(to);
}

void *inspect_grow(void *array, uint32_t n, size_t bytes)
{
	if (n & (n - 1) && n)
		return array; /* it grows at powers of two */
	return realloc(array, (n ? 2 * (size_t)n : 1) * bytes);
}

/* With a filter, the flows are behind the description. */
static void note_filter(struct inspect_source *source)
{
	char *filtered = strstr(source->description, RECORDING_FILTERED);

	if (!filtered)
		return;
	source->is_filtered = true;
	memcpy(source->filter, source->flows, sizeof(source->filter));
	snprintf(source->flows, sizeof(source->flows), "%s", filtered + strlen(RECORDING_FILTERED));
	*filtered = '\0';
}

static int add_source(struct inspect_sum *sum, const struct pcapng_interface *interface)
{
	struct inspect_source *source = inspect_grow(sum->sources, sum->n_sources, sizeof(*source));

	if (!source)
		return -ENOMEM;
	sum->sources = source;
	source += sum->n_sources++;
	*source = (struct inspect_source){.section = sum->n_sections, .link_type = interface->link_type};
	keep_text(source->name, &interface->name);
	keep_text(source->description, &interface->description);
	keep_text(source->hardware, &interface->hardware);
	keep_text(source->flows, &interface->filter);
	keep_text(source->comment, &interface->comment);
	source->is_one_flow = strstr(source->description, RECORDING_ONLY_FLOW);
	note_filter(source);
	return 0;
}

/* ---- blocks ---------------------------------------------------------------------------------------- */

static int add_gap(struct inspect_sum *sum, uint32_t number, const struct pcapng_packet *packet, bool *restarted)
{
	struct inspect_source *source = &sum->sources[number];
	struct inspect_gap gap = {.source = number,
	                          .has_id = packet->options & PCAPNG_PACKET_HAS_ID,
	                          .packet_id = packet->packet_id,
	                          .time_ns = packet->time_ns,
	                          .n_lost = packet->options & PCAPNG_PACKET_HAS_DROPS ? packet->drop_count : 0};
	struct pcapng_text text = packet->comment;
	struct recording_losses losses;
	struct inspect_gap *gaps;
	uint64_t no_buffer, counted_after_ns;

	if (!recording_losses_find(text.at, text.bytes, &losses, &text.bytes))
		losses = (struct recording_losses){0};
	keep_text(gap.text, &text);
	no_buffer = losses.n[RECORDING_CAUSE_NO_BUFFER];
	*restarted = losses.n[RECORDING_CAUSE_RESTARTS];
	source->n_lost += gap.n_lost;
	source->n_card += no_buffer;
	counted_after_ns = losses.no_buffer_since_ns ? losses.no_buffer_since_ns : packet->time_ns;
	if (source->n_packets && counted_after_ns > source->first_ns + INSPECT_CARD_NS)
		source->n_card_late += no_buffer;
	if (source->n_packets && !*restarted && gap.n_lost > no_buffer)
		source->n_named += gap.n_lost - no_buffer;
	sum->n_gaps++;
	if (sum->n_gaps_kept == INSPECT_GAPS_MAX)
		return 0;
	gaps = inspect_grow(sum->gaps, sum->n_gaps_kept, sizeof(gap));
	if (!gaps)
		return -ENOMEM;
	sum->gaps = gaps;
	gaps[sum->n_gaps_kept++] = gap;
	return 0;
}

/* Numbers count packets from 0 in each run of the daemon. */
static void add_number(struct inspect_source *source, const struct pcapng_packet *packet, bool restarted)
{
	uint64_t id = packet->packet_id;

	if (restarted) {
		source->n_restarts_before_packets++;
		source->begins_after_restart = source->begins_after_restart || !source->n_packets;
	}
	if (!(packet->options & PCAPNG_PACKET_HAS_ID))
		return;
	if (!source->has_numbers) {
		source->has_numbers = true;
		source->first_id = id;
		source->n_runs = 1;
	} else if (restarted) {
		source->n_runs++;
	} else if (id > source->last_id) {
		source->n_absent += id - source->last_id - 1;
	} else {
		source->n_repeated++;
		return;
	}
	source->last_id = id;
}

static void add_time(struct inspect_source *source, const struct pcapng_packet *packet)
{
	uint64_t ns = packet->time_ns;

	if (packet->options & PCAPNG_PACKET_NO_TIME) {
		source->n_untimed++;
		return;
	}
	if (source->n_packets == source->n_untimed) /* no packet before has a time */
		source->first_ns = source->last_ns = source->previous_ns = ns;
	source->n_backwards += ns < source->previous_ns;
	source->previous_ns = ns;
	source->first_ns = u64_min(source->first_ns, ns);
	source->last_ns = u64_max(source->last_ns, ns);
}

/* What another program writes beside a packet says nothing of losses. */
static bool is_gap(struct inspect_sum *sum, const struct pcapng_packet *packet)
{
	if (packet->comment.bytes && inspect_is_ours(sum))
		return true;
	sum->n_comments += packet->comment.bytes != 0;
	return packet->options & PCAPNG_PACKET_HAS_DROPS && packet->drop_count;
}

static int add_packet(struct inspect_sum *sum, const struct pcapng_packet *packet)
{
	uint32_t number = sum->first_source + packet->interface;
	struct inspect_source *source;
	bool restarted = false;
	int r = 0;

	if (number >= sum->n_sources) /* the reader lets no such block pass */
		return 0;
	source = &sum->sources[number];
	if (is_gap(sum, packet))
		r = add_gap(sum, number, packet, &restarted);
	add_number(source, packet, restarted);
	add_time(source, packet);
	source->n_packets++;
	source->n_bytes += packet->wire_bytes;
	source->n_cut += packet->frame_bytes[0] < packet->wire_bytes;
	sum->n_packets++;
	return r;
}

static struct pcapng_text first_line(const struct pcapng_text *text)
{
	const char *end = text->bytes ? memchr(text->at, '\n', text->bytes) : NULL;

	return (struct pcapng_text){.at = text->at, .bytes = end ? (size_t)(end - text->at) : text->bytes};
}

static void add_account(struct inspect_source *source, const struct pcapng_text *comment)
{
	const struct pcapng_text for_people = first_line(comment);

	keep_text(source->sum, &for_people);
	source->account_state = INSPECT_ACCOUNT_NONE;
	if (comment->bytes && recording_account_find(comment->at, comment->bytes, &source->account))
		source->account_state = INSPECT_ACCOUNT_READ;
	else if (comment->bytes > for_people.bytes)
		source->account_state = INSPECT_ACCOUNT_UNREADABLE;
	if (source->account_state != INSPECT_ACCOUNT_READ)
		source->account = (struct recording_account){0};
	inspect_clean(source->account.stream);
}

static void add_statistics(struct inspect_sum *sum, const struct pcapng_statistics *statistics)
{
	uint32_t number = sum->first_source + statistics->interface;
	struct inspect_source *source;

	if (number >= sum->n_sources)
		return;
	source = &sum->sources[number];
	source->has_statistics = true;
	source->n_delivered = statistics->values[PCAPNG_STATISTIC_DELIVERED];
	source->n_elsewhere =
		statistics->values[PCAPNG_STATISTIC_RECEIVED] - statistics->values[PCAPNG_STATISTIC_FILTER_ACCEPTED];
	source->n_dropped =
		statistics->values[PCAPNG_STATISTIC_DROPPED] + statistics->values[PCAPNG_STATISTIC_OS_DROPPED];
	add_account(source, &statistics->comment);
}

int inspect_sum_add(struct inspect_sum *sum, const struct pcapng_block *block)
{
	switch (block->type) {
	case PCAPNG_BLOCK_SECTION:
		sum->n_sections++;
		sum->first_source = sum->n_sources;
		sum->has_closing = sum->n_sources;
		if (!sum->application[0])
			keep_text(sum->application, &block->section.application);
		keep_text(sum->n_sources ? sum->closing : sum->opening, &block->section.comment);
		return 0;
	case PCAPNG_BLOCK_INTERFACE:
		sum->has_closing = false;
		return add_source(sum, &block->interface);
	case PCAPNG_BLOCK_PACKET:
		return add_packet(sum, &block->packet);
	case PCAPNG_BLOCK_STATISTICS:
		add_statistics(sum, &block->statistics);
		return 0;
	}
	return 0;
}

void inspect_sum_free(struct inspect_sum *sum)
{
	free(sum->sources);
	free(sum->gaps);
	*sum = (struct inspect_sum){0};
}

bool inspect_is_explained(const struct inspect_source *source)
{
	if (source->n_repeated || (source->has_numbers && source->n_named > source->n_absent))
		return false;
	if (!source->has_numbers || inspect_elsewhere(source) == 0)
		return true;
	return (source->is_one_flow || source->is_filtered) &&
	       (!source->has_statistics || inspect_elsewhere(source) <= source->n_elsewhere);
}

bool inspect_is_extract(const struct inspect_sum *sum)
{
	return !strncmp(sum->closing, RECORDING_EXTRACTED, strlen(RECORDING_EXTRACTED));
}

bool inspect_is_closed(const struct inspect_sum *sum)
{
	for (uint32_t i = 0; i < sum->n_sources; i++)
		if (!sum->sources[i].has_statistics)
			return false;
	return sum->n_sources && sum->has_closing;
}

bool inspect_is_ours(const struct inspect_sum *sum)
{
	return !strncmp(sum->application, "ibvcap ", strlen("ibvcap "));
}
