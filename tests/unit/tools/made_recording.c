// SPDX-License-Identifier: Apache-2.0
#include "made_recording.h"

#include "lib/recording/pcapng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES 42 /* Ethernet, IPv4 and UDP */
#define FRAME_BYTES  60

static uint8_t file_bytes[1 << 16];
static size_t used;

struct made_source made_source(const char *name, uint64_t first, uint64_t until)
{
	struct made_source source = {.name = name,
	                             .has_statistics = true,
	                             .has_account = true,
	                             .sum = "published",
	                             .n_packets = (unsigned)(until - first)};
	uint64_t n = until - first;

	for (uint64_t i = 0; i < n; i++)
		source.packets[i] = (struct made_packet){.id = first + i, .number = first + i, .port = 4000};
	source.delivered = source.received = source.accepted = n;
	source.account = (struct recording_account){.recording = 0x1234,
	                                            .flow = RECORDING_ACCOUNT_NO_FLOW,
	                                            .n_queues = 1,
	                                            .from = {MADE_TIME_NS, MADE_EPOCH, first},
	                                            .until = {MADE_TIME_NS, MADE_EPOCH, until},
	                                            .sum.written = n,
	                                            .rx.interface_counts_all = true,
	                                            .is_last = true};
	snprintf(source.account.stream, sizeof(source.account.stream), "%.*s", (int)strcspn(name, "/"), name);
	return source;
}

struct made_recording made_recording(void)
{
	return (struct made_recording){.application = "ibvcap 0.2.0",
	                               .sources = {made_source("lidar", 10, 14)},
	                               .n_sources = 1,
	                               .closing = "Complete: no packet is missing."};
}

static void put_packet(uint32_t interface, const struct made_packet *packet)
{
	uint8_t frame[FRAME_BYTES] = {[12] = 0x08, [14] = 0x45, [23] = 17, [26] = 10, [29] = 1, [30] = 10, [33] = 2};
	bool has_payload = packet->number != UINT64_MAX;
	struct pcapng_packet block = {.interface = interface,
	                              .options = PCAPNG_PACKET_HAS_ID | (packet->drops ? PCAPNG_PACKET_HAS_DROPS : 0u),
	                              .packet_id = packet->id,
	                              .drop_count = packet->drops,
	                              .time_ns = MADE_TIME_NS + packet->id * 1000000 + packet->later_ns,
	                              .frame = {frame},
	                              .frame_bytes = {has_payload ? FRAME_BYTES : HEADER_BYTES},
	                              .wire_bytes = has_payload ? FRAME_BYTES : HEADER_BYTES,
	                              .comment = pcapng_text_of(packet->comment)};

	frame[17] = (uint8_t)(block.wire_bytes - 14);
	frame[22] = 64;
	frame[34] = (uint8_t)(packet->port >> 8);
	frame[35] = (uint8_t)packet->port;
	frame[36] = 0x1d;
	frame[37] = 0x4e;
	frame[39] = (uint8_t)(block.wire_bytes - 34);
	for (unsigned i = 0; i < 4; i++)
		frame[HEADER_BYTES + i] = (uint8_t)(packet->number >> (24 - 8 * i));
	used += pcapng_write_packet(file_bytes + used, sizeof(file_bytes) - used, &block);
}

static void put_statistics(uint32_t interface, const struct made_source *source)
{
	char text[RECORDING_ACCOUNT_TEXT_SIZE + 4096];
	struct pcapng_statistics statistics = {.interface = interface, .values_set = (1u << PCAPNG_STATISTIC_N) - 1};

	snprintf(text, sizeof(text), "%s", source->sum);
	if (source->account_text)
		snprintf(text, sizeof(text), "%s\naccount %s", source->sum, source->account_text);
	else if (source->has_account && !recording_account_append(text, sizeof(text), &source->account))
		abort();
	statistics.values[PCAPNG_STATISTIC_RECEIVED] = source->received;
	statistics.values[PCAPNG_STATISTIC_DROPPED] = source->dropped;
	statistics.values[PCAPNG_STATISTIC_FILTER_ACCEPTED] = source->accepted;
	statistics.values[PCAPNG_STATISTIC_OS_DROPPED] = source->os_dropped;
	statistics.values[PCAPNG_STATISTIC_DELIVERED] = source->delivered;
	statistics.comment = pcapng_text_of(text);
	used += pcapng_write_statistics(file_bytes + used, sizeof(file_bytes) - used, &statistics);
}

static void put_section(const char *application, const char *comment)
{
	const struct pcapng_section section = {.application = pcapng_text_of(application),
	                                       .comment = pcapng_text_of(comment)};

	used += pcapng_write_section(file_bytes + used, sizeof(file_bytes) - used, &section);
}

static void put_interface(const struct made_source *source)
{
	const struct pcapng_interface interface = {.link_type = PCAPNG_LINK_ETHERNET,
	                                           .name = pcapng_text_of(source->name),
	                                           .description = pcapng_text_of(source->description),
	                                           .hardware = pcapng_text_of(source->device),
	                                           .filter = pcapng_text_of(source->flows),
	                                           .comment = pcapng_text_of(source->comment)};

	used += pcapng_write_interface(file_bytes + used, sizeof(file_bytes) - used, &interface);
}

void made_write_bytes(const char *path, const void *bytes, size_t n)
{
	FILE *file = fopen(path, "we");

	if (!file || fwrite(bytes, 1, n, file) != n || fclose(file) != 0)
		abort();
}

size_t made_write(const struct made_recording *recording, const char *path)
{
	used = 0;
	put_section(recording->application, NULL);
	for (unsigned i = 0; i < recording->n_sources; i++)
		put_interface(&recording->sources[i]);
	for (unsigned i = 0; i < recording->n_sources; i++)
		for (unsigned j = 0; j < recording->sources[i].n_packets; j++)
			put_packet(i, &recording->sources[i].packets[j]);
	for (unsigned i = 0; i < recording->n_sources; i++)
		if (recording->sources[i].has_statistics)
			put_statistics(i, &recording->sources[i]);
	if (recording->closing)
		put_section(recording->application, recording->closing);
	if (recording->has_packet_behind)
		put_interface(&recording->sources[0]);
	made_write_bytes(path, file_bytes, used);
	return used;
}
