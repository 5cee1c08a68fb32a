// SPDX-License-Identifier: Apache-2.0
/* Checks of streams that concern several keys at once. */
#include "daemon/config/config_reader.h"

#include <errno.h>
#include <stdio.h>

static int refuse_lossless_user(const struct config_reader *reader, const config_setting_t *stream, uint32_t i)
{
	const config_setting_t *user = config_setting_get_elem(config_setting_get_member(stream, "lossless_users"), i);
	const char *name = config_setting_get_string(user); /* NULL: it is a number */
	char number[24];

	snprintf(number, sizeof(number), "%lld", config_setting_get_int64(user));
	return config_reader_failure(reader, user,
	                             "lossless_users names '%s', and users, who may receive, does not: accepted are "
	                             "users that both name",
	                             name ? name : number);
}

/* With groups, a user that users does not name may have the right as a member. root always has it. */
static int check_lossless(const struct config_reader *reader, const config_setting_t *setting,
                          const struct config_stream *stream)
{
	const char *key = stream->n_lossless_users ? "lossless_users" : "lossless_groups";

	if (!stream->lossless_deadline_ms && stream->n_lossless_users + stream->n_lossless_groups)
		return config_reader_failure(
			reader, config_reader_find(setting, key),
			"%s without lossless_deadline_ms, without which nobody can be lossless: accepted is "
			"lossless_deadline_ms = 1 or more with it",
			key);
	for (uint32_t i = 0; i < stream->n_lossless_users && stream->n_users && !stream->n_groups; i++)
		if (stream->lossless_users[i] != 0 &&
		    !config_is_user_in(stream->users, stream->n_users, stream->lossless_users[i]))
			return refuse_lossless_user(reader, setting, i);
	return 0;
}

/* Checks the keys about the layout of a row against each other. */
static int check_row(const struct config_reader *reader, const config_setting_t *setting,
                     const struct config_stream *stream)
{
	bool is_frame = stream->layout == CONFIG_LAYOUT_FRAME;
	uint32_t row_bytes = stream->payload_size - stream->application_header_bytes;

	if (stream->application_header_bytes >= stream->payload_size)
		return config_reader_failure(
			reader, config_reader_find(setting, "application_header_bytes"),
			"application_header_bytes = %u of payload_size = %u leave nothing for a row: accepted is less "
			"than payload_size, which counts these bytes too",
			stream->application_header_bytes, stream->payload_size);
	if (stream->row_stride && stream->row_stride < row_bytes)
		return config_reader_failure(
			reader, config_reader_find(setting, "row_stride"),
			"row_stride = %u is less than the %u bytes of a row (payload_size less "
			"application_header_bytes): accepted is %u or more, or 0 for rows without a gap",
			stream->row_stride, row_bytes, row_bytes);
	if (is_frame && stream->reassemble == CONFIG_REASSEMBLE_ON)
		return config_reader_failure(
			reader, config_reader_find(setting, "reassemble"),
			"reassemble = \"on\" with layout = \"frame\", whose rows hold frames as they came: accepted is "
			"layout = \"udp\" with it");
	return 0;
}

/* An XDP program gives a packet to a socket or to the kernel, and does not know which ones a program waits for. */
static int check_xdp_flows(const struct config_reader *reader, const config_setting_t *setting,
                           const struct config_stream *stream)
{
	for (uint32_t i = 0; i < stream->n_flows && stream->backend == CONFIG_BACKEND_XDP; i++) {
		const config_setting_t *flow = config_setting_get_elem(config_setting_get_member(setting, "flows"), i);
		const char *key = stream->flows[i].copy ? "copy" : "match";

		if (config_flow_leaves_packets(&stream->flows[i]))
			return config_reader_failure(
				reader, config_reader_find(flow, key),
				"%s in a stream with backend = \"xdp\", which takes the packets of its flows from the "
				"kernel: accepted is backend = \"packet\" with it; other streams of the interface may "
				"have backend = \"xdp\"",
				stream->flows[i].copy ? "copy = true" : "match = \"default\"");
	}
	return 0;
}

/* Only a program that is bound to its interface could ask the driver, and such a program can crash the kernel. */
static int check_xdp_timestamps(const struct config_reader *reader, const config_setting_t *setting,
                                const struct config_stream *stream)
{
	if (stream->backend != CONFIG_BACKEND_XDP || stream->timestamps != CONFIG_TIMESTAMPS_HARDWARE)
		return 0;
	return config_reader_failure(
		reader, config_reader_find(setting, "timestamps"),
		"timestamps = \"hardware\" in a stream with backend = \"xdp\": AF_XDP gives packets the kernel's time "
		"of "
		"arrival: accepted is backend = \"packet\" with it, which gives the card's, or timestamps = \"auto\"");
}

/* A worker that never sleeps waits for no event. */
static int check_moderation(const struct config_reader *reader, const config_setting_t *setting,
                            const struct config_stream *stream)
{
	if (!stream->moderation_us || stream->poll != CONFIG_POLL_BUSY)
		return 0;
	return config_reader_failure(reader, config_reader_find(setting, "moderation_us"),
	                             "moderation_us = %u with poll = \"busy\", whose worker never sleeps: accepted is "
	                             "poll = \"adaptive\" or \"event\" with it",
	                             stream->moderation_us);
}

/* A backend for which the CPU copies packets, and no queue of the card is the stream's alone; NULL: it may be verbs. */
static const char *find_copying_backend(const struct config_stream *stream)
{
	return stream->backend == CONFIG_BACKEND_XDP      ? "xdp"
	       : stream->backend == CONFIG_BACKEND_PACKET ? "packet"
	                                                  : NULL;
}

static int check_copied(const struct config_reader *reader, const config_setting_t *setting,
                        const struct config_stream *stream)
{
	const char *backend = find_copying_backend(stream);

	if (!backend)
		return 0;
	if (stream->delay_drop)
		return config_reader_failure(reader, config_reader_find(setting, "delay_drop"),
		                             "delay_drop = true with backend = \"%s\", which cannot make a card hold "
		                             "packets: accepted is backend = \"verbs\", or delay_drop = false",
		                             backend);
	if (stream->moderation_us)
		return config_reader_failure(
			reader, config_reader_find(setting, "moderation_us"),
			"moderation_us = %u with backend = \"%s\", which has no events of its own "
			"that could wait: accepted is moderation_us = 0; ibvcapd.conf(5) says what a card may have "
			"in its place",
			stream->moderation_us, backend);
	return 0;
}

static int check_queues(const struct config_reader *reader, const config_setting_t *setting,
                        const struct config_stream *stream)
{
	bool is_one_sided = stream->hash_fields == CONFIG_HASH_SOURCE || stream->hash_fields == CONFIG_HASH_DESTINATION;

	if (stream->n_cpus && (stream->n_cpus != stream->queues || stream->cpu >= 0))
		return config_reader_failure(
			reader, config_reader_find(setting, "cpus"),
			"cpus has %u numbers, for queues = %u and cpu = %d: accepted is one number for each queue, "
			"without cpu",
			stream->n_cpus, stream->queues, stream->cpu);
	if (stream->queues > 1 && stream->cpu >= 0)
		return config_reader_failure(reader, config_reader_find(setting, "cpu"),
		                             "cpu = %d with queues = %u: accepted is cpus with %u numbers", stream->cpu,
		                             stream->queues, stream->queues);
	if (stream->hash == CONFIG_HASH_SYMMETRIC && is_one_sided)
		return config_reader_failure(
			reader, config_reader_find(setting, "hash_fields"),
			"hash_fields of one side with hash = \"symmetric\": accepted are \"ports\" and "
			"\"addresses\", or hash = \"toeplitz\"");
	for (uint32_t i = 0; i < stream->n_flows; i++)
		if (stream->flows[i].queue >= (int32_t)stream->queues)
			return config_reader_failure(
				reader, config_setting_get_elem(config_setting_get_member(setting, "flows"), i),
				"queue = %d of a flow, and the stream has queues = %u: accepted is 0 to %u, or -1",
				stream->flows[i].queue, stream->queues, stream->queues - 1);
	return 0;
}

/* The first byte of the payload behind all fields of the packets' number. 0: there are none. */
static uint32_t find_end_of_sequence(const struct ibvcap_sequence *sequence)
{
	const uint32_t fields[][2] = {
		{sequence->offset, sequence->bytes},
		{sequence->upper_offset, sequence->upper_bytes},
		{sequence->count_offset, sequence->count_bytes},
		{sequence->source_offset, sequence->source_bytes},
		{sequence->frame_offset, sequence->frame_bytes},
	};
	uint32_t end = 0;

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (fields[i][1] && fields[i][0] + fields[i][1] > end)
			end = fields[i][0] + fields[i][1];
	return end;
}

/* Only the device writes to lent memory, and nothing of this machine's CPU reads it. */
static int check_lent(const struct config_reader *reader, const config_setting_t *setting,
                      const struct config_stream *stream)
{
	const uint32_t application_bytes = stream->application_header_bytes;
	const struct sensor_time *time = &stream->sensor_time;
	const struct {
		const char *key;
		bool is_refused;
		const char *why;
		const char *accepted;
	} rules[] = {
		{"backend", find_copying_backend(stream) != NULL,
	         "the CPU copies packets to the rows, and cannot reach memory of a device", "backend = \"verbs\""},
		{"queues", stream->queues > 1, "the consumer lends the memory of one queue", "queues = 1"},
		{"max_consumers", stream->max_consumers > 1, "the memory is of one consumer", "max_consumers = 1"},
		{"zero_rest", stream->zero_rest, "the worker cannot write to the rows", "zero_rest = false"},
		{"verify_checksums", stream->verify_checksums, "the worker cannot sum the rows",
	         "verify_checksums = false"},
		{"reassemble", stream->reassemble == CONFIG_REASSEMBLE_ON,
	         "the worker cannot copy fragments to the rows", "reassemble = \"off\""},
		{"sequence", find_end_of_sequence(&stream->sequence) > application_bytes,
	         "no CPU reads the fields in payload rows", "application_header_bytes that has all fields"},
		{"sensor_time", time->bytes && (uint32_t)time->offset + time->bytes > application_bytes,
	         "no CPU reads the field in payload rows", "application_header_bytes that has the field"},
	};

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]) && stream->payload_is_lent; i++)
		if (rules[i].is_refused)
			return config_reader_failure(reader, config_reader_find(setting, rules[i].key),
			                             "%s with payload_memory = \"consumer\": %s: accepted is %s",
			                             rules[i].key, rules[i].why, rules[i].accepted);
	return 0;
}

int config_check_stream(const struct config_reader *reader, const config_setting_t *setting, const void *entry)
{
	const struct config_stream *stream = entry;
	uint32_t queue_blocks = (stream->receive_queue_slots + stream->slots_per_block - 1) / stream->slots_per_block;
	uint64_t spare_blocks = (uint64_t)stream->max_consumers * stream->lease_blocks + stream->extra_lease_blocks;
	uint64_t slots = (stream->history_blocks + spare_blocks + queue_blocks + 1) * stream->slots_per_block;
	int r;

	if (stream->history_blocks < queue_blocks)
		return config_reader_failure(
			reader, config_reader_find(setting, "history_blocks"),
			"history_blocks = %u of %u slots are less than receive_queue_slots = %u: accepted is "
			"history_blocks = %u or more",
			stream->history_blocks, stream->slots_per_block, stream->receive_queue_slots, queue_blocks);
	if (slots > UINT32_MAX)
		return config_reader_failure(
			reader, config_reader_find(setting, "history_blocks"),
			"history_blocks = %u makes a ring of %llu slots: accepted are %u at most, spares for "
			"max_consumers, lease_blocks and extra_lease_blocks included",
			stream->history_blocks, (unsigned long long)slots, UINT32_MAX);
	r = check_row(reader, setting, stream);
	if (r == 0)
		r = check_queues(reader, setting, stream);
	if (r == 0)
		r = check_lossless(reader, setting, stream);
	if (r == 0)
		r = check_moderation(reader, setting, stream);
	if (r == 0)
		r = check_copied(reader, setting, stream);
	if (r == 0)
		r = check_lent(reader, setting, stream);
	if (r == 0)
		r = check_xdp_flows(reader, setting, stream);
	if (r == 0)
		r = config_check_sensor_time(reader, setting, stream);
	return r < 0 ? r : check_xdp_timestamps(reader, setting, stream);
}

int config_check_stream_among(const struct config *config, const void *entry, struct failure *failure)
{
	const struct config_stream *stream = entry, *other = config_find_stream(config, stream->name);

	if (!other)
		return 0;
	return failure_set(failure, EX_CONFIG, EEXIST,
	                   "%s:%d: name = \"%s\" is that of the stream at %s:%d too: accepted is a name of its own",
	                   stream->file, stream->line, stream->name, other->file, other->line);
}
