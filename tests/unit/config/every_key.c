// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/config/every_key.h"

#include <stdio.h>
#include <string.h>

/* The good ones go with each other, and are not the defaults where there is a choice. */
static const struct every_key_sample samples[] = {
	{&top_keys, TOP_CONTROL, NULL, "5"},
	{&top_keys, TOP_STREAMS, NULL, "5"},
	{&top_keys, TOP_CHANNELS, NULL, "()"},
	{&control_keys, CONTROL_SOCKET, "\"/tmp/x.sock\"", "\"x.sock\""},
	{&control_keys, CONTROL_MODE, "\"0600\"", "\"rw\""},
	{&control_keys, CONTROL_GROUP, "\"root\"", "\"no-such-group-here\""},
	{&control_keys, CONTROL_MAX_CLIENTS, "1", "0"},
	{&control_keys, CONTROL_MAX_CLIENTS_PER_USER, "4096", "0"},
	{&control_keys, CONTROL_MAX_MESSAGES_PER_S, "1", "1000000"},
	{&control_keys, CONTROL_MAX_MESSAGES_PER_S_PER_USER, "1", "0"},
	{&control_keys, CONTROL_IDLE_TIMEOUT_S, "1", "0"},
	{&control_keys, CONTROL_RESTART_WAIT_S, "0", "-1"},
	{&stream_keys, STREAM_NAME, "\"in.1_a-b\"", "\"in 1\""},
	{&stream_keys, STREAM_INTERFACE, "\"eth0\"", "\"sixteen-letters-\""},
	{&stream_keys, STREAM_BACKEND, "\"verbs\"", "\"dpdk\""},
	{&stream_keys, STREAM_FLOWS, NULL, "( 5 )"},
	{&stream_keys, STREAM_PAYLOAD_SIZE, "1000", "65508"},
	{&stream_keys, STREAM_SLOTS_PER_BLOCK, "64", "100"},
	{&stream_keys, STREAM_HISTORY_BLOCKS, "100", "0"},
	{&stream_keys, STREAM_RECEIVE_QUEUE_SLOTS, "64", "32832"},
	{&stream_keys, STREAM_PAGE_SIZE, "\"1G\"", "\"3M\""},
	{&stream_keys, STREAM_POLL, "\"busy\"", "\"often\""},
	{&stream_keys, STREAM_SPIN_US, "0", "-1"},
	{&stream_keys, STREAM_CPU, "0", "-2"},
	{&stream_keys, STREAM_MAX_CONSUMERS, "64", "65"},
	{&stream_keys, STREAM_LEASE_BLOCKS, "64", "65"},
	{&stream_keys, STREAM_MAX_CONSUMERS_PER_USER, "64", "0"},
	{&stream_keys, STREAM_MAX_LEASE_BLOCKS_PER_USER, "4096", "4097"},
	{&stream_keys, STREAM_OVERSIZE_SINK, "false", "0"},
	{&stream_keys, STREAM_TIMESTAMPS, "false", "\"no\""},
	{&stream_keys, STREAM_JOIN, "false", "1.5"},
	{&stream_keys, STREAM_USERS, "[ \"root\", \"0\" ]", "[ \"no-such-user-here\" ]"},
	{&stream_keys, STREAM_GROUPS, "( 0, \"root\" )", "\"root\""},
	{&stream_keys, STREAM_LOSSLESS_DEADLINE_MS, "1000", "-1"},
	{&stream_keys, STREAM_LOSSLESS_USERS, "[ \"root\" ]", "[ \"no-such-user-here\" ]"},
	{&stream_keys, STREAM_LOSSLESS_GROUPS, "[ \"root\" ]", "\"root\""},
	{&flow_keys, FLOW_DESTINATION, "\"ff05::1:2\"", "\"ff05::1/64\""},
	{&flow_keys, FLOW_PORT, "7502", "0"},
	{&flow_keys, FLOW_SOURCE, "\"fe80::1\"", "\"fe80:1\""},
	{&flow_keys, FLOW_SOURCE_PORT, "65535", "65536"},
	{&flow_keys, FLOW_VLAN, "4094", "4095"},
	{&channel_keys, CHANNEL_NAME, "\"out\"", "\"\""},
	{&channel_keys, CHANNEL_INTERFACE, "\"eth1\"", "\"\""},
	{&channel_keys, CHANNEL_BACKEND, "\"verbs\"", "\"dpdk\""},
	{&channel_keys, CHANNEL_DESTINATIONS, NULL, "()"},
	{&channel_keys, CHANNEL_SOURCE, "\"10.0.0.2\"", "\"10.0.0\""},
	{&channel_keys, CHANNEL_SOURCE_PORT, "9", "0"},
	{&channel_keys, CHANNEL_VLAN, "4094", "0"},
	{&channel_keys, CHANNEL_DSCP, "63", "64"},
	{&channel_keys, CHANNEL_TTL, "255", "256"},
	{&channel_keys, CHANNEL_LOOPBACK, "false", "true"},
	{&channel_keys, CHANNEL_PAYLOAD_SIZE, "65507", "65508"},
	{&channel_keys, CHANNEL_SEND_QUEUE_SLOTS, "32768", "63"},
	{&channel_keys, CHANNEL_ARENA_SLOTS, "64", "100"},
	{&channel_keys, CHANNEL_PAGE_SIZE, "\"4K\"", "\"3M\""},
	{&channel_keys, CHANNEL_RATE_LIMIT_MBPS, "1000000", "-1"},
	{&channel_keys, CHANNEL_BURST_BYTES, "1", "-1"},
	{&channel_keys, CHANNEL_PACING, "\"software\"", "\"nic\""},
	{&channel_keys, CHANNEL_LATE_AFTER_US, "0", "-1"},
	{&channel_keys, CHANNEL_UDP_CHECKSUM, "\"zero\"", "\"none\""},
	{&channel_keys, CHANNEL_MAX_SENDERS, "64", "0"},
	{&channel_keys, CHANNEL_MAX_SENDERS_PER_USER, "64", "65"},
	{&channel_keys, CHANNEL_USERS, "( \"root\", 1001 )", "[ \"no-such-user-here\" ]"},
	{&channel_keys, CHANNEL_GROUPS, "( 0, \"root\" )", "\"root\""},
	{&channel_keys, CHANNEL_POLL, "\"busy\"", "\"often\""},
	{&channel_keys, CHANNEL_SPIN_US, "0", "-1"},
	{&channel_keys, CHANNEL_CPU, "0", "-2"},
	{&destination_keys, DESTINATION_ADDRESS, "\"10.0.0.1\"", "\"0.0.0.0\""},
	{&destination_keys, DESTINATION_PORT, "1", "65536"},
	{&destination_keys, DESTINATION_NEXT_HOP_MAC, "\"02:00:00:00:0a:01\"", "\"02-00-00-00-0a-01\""},
};

const struct every_key_sample *every_key_find(const struct key_group *group, const struct key *key)
{
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
		if (samples[i].group == group && &group->keys[samples[i].key] == key)
			return &samples[i];
	return NULL;
}

struct writer {
	char *text;
	const struct key *other;
	const char *value;
	unsigned line;
	unsigned line_of_other;
};

static void add(struct writer *writer, const char *text)
{
	size_t used = strlen(writer->text);

	snprintf(writer->text + used, EVERY_KEY_BYTES - used, "%s", text);
	for (; *text; text++)
		writer->line += *text == '\n';
}

static void add_group(struct writer *writer, const struct key_group *group);

static void add_value(struct writer *writer, const struct key_group *group, const struct key *key)
{
	const struct every_key_sample *sample = every_key_find(group, key);

	if (key == writer->other) {
		add(writer, writer->value);
	} else if (key->group) {
		add(writer, key->type == KEY_LIST ? "(\n{\n" : "{\n");
		add_group(writer, key->group);
		add(writer, key->type == KEY_LIST ? "}\n)" : "}");
	} else {
		add(writer, sample ? sample->good : "no sample");
	}
}

static void add_group(struct writer *writer, const struct key_group *group)
{
	for (unsigned i = 0; i < group->n_keys; i++) {
		const struct key *key = &group->keys[i];

		if (key == writer->other)
			writer->line_of_other = writer->line;
		if (key == writer->other && !writer->value)
			continue;
		add(writer, key->name);
		add(writer, " = ");
		add_value(writer, group, key);
		add(writer, ";\n");
	}
}

unsigned every_key_write(char text[EVERY_KEY_BYTES], const struct key *other, const char *value)
{
	struct writer writer = {.text = text, .other = other, .value = value, .line = 1};

	text[0] = '\0';
	add_group(&writer, &top_keys);
	return writer.line_of_other;
}
