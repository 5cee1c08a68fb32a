// SPDX-License-Identifier: Apache-2.0
/* A good and a bad value of every key, and a file made of the good ones. */
#include "tests/unit/config/every_key.h"

#include <stdio.h>
#include <string.h>

/* The good values fit together, and differ from the defaults if the key has other values. */
static const struct every_key_sample samples[] = {
	{&top_keys, "log_level", "\"debug\"", "\"verbose\""},
	{&top_keys, "direct", "false", "1"},
	{&top_keys, "relaxed_ordering", "false", "\"auto\""},
	{&top_keys, "xdp_mode", "\"copy\"", "\"fast\""},
	{&top_keys, "xdp_queues", "64", "0"},
	{&top_keys, "control", NULL, "5"},
	{&top_keys, "streams", NULL, "5"},
	{&top_keys, "channels", NULL, "()"},
	{&control_keys, "socket", "\"/tmp/x.sock\"", "\"x.sock\""},
	{&control_keys, "mode", "\"0600\"", "\"rw\""},
	{&control_keys, "group", "\"root\"", "\"no-such-group-here\""},
	{&control_keys, "max_clients", "1", "0"},
	{&control_keys, "max_clients_per_user", "4096", "0"},
	{&control_keys, "max_messages_per_s", "1", "1000000"},
	{&control_keys, "max_messages_per_s_per_user", "1", "0"},
	{&control_keys, "idle_timeout_s", "1", "0"},
	{&control_keys, "restart_wait_s", "0", "-1"},
	{&control_keys, "observer_groups", "[ \"root\" ]", "\"root\""},
	{&control_keys, "observers_receive", "true", "1"},
	{&stream_keys, "name", "\"in.1_a-b\"", "\"in 1\""},
	{&stream_keys, "interface", "\"eth0\"", "\"\""},
	{&stream_keys, "backend", "\"verbs\"", "\"dpdk\""},
	{&stream_keys, "flows", NULL, "( 5 )"},
	{&stream_keys, "layout", "\"frame\"", "\"tcp\""},
	{&stream_keys, "payload_size", "1000", "65508"},
	{&stream_keys, "queues", "4", "17"},
	{&stream_keys, "application_header_bytes", "40", "65507"},
	{&stream_keys, "row_stride", "1024", "131073"},
	{&stream_keys, "zero_rest", "true", "1"},
	{&stream_keys, "payload_memory", "\"daemon\"", "\"device\""},
	{&stream_keys, "flow_numbers", "true", "\"on\""},
	{&stream_keys, "hash", "\"toeplitz\"", "\"crc\""},
	{&stream_keys, "hash_fields", "\"addresses\"", "\"mac\""},
	{&stream_keys, "cpus", "[ 0, 1, 2, 3 ]", "[ 1024 ]"},
	{&stream_keys, "slots_per_block", "64", "100"},
	{&stream_keys, "history_blocks", "100", "0"},
	{&stream_keys, "receive_queue_slots", "64", "32832"},
	{&stream_keys, "page_size", "\"1G\"", "\"3M\""},
	{&stream_keys, "poll", "\"busy\"", "\"often\""},
	{&stream_keys, "spin_us", "0", "-1"},
	{&stream_keys, "cpu", "-1", "-2"},
	{&stream_keys, "max_consumers", "1024", "1025"},
	{&stream_keys, "lease_blocks", "64", "65"},
	{&stream_keys, "extra_lease_blocks", "65536", "-1"},
	{&stream_keys, "max_consumers_per_user", "1024", "0"},
	{&stream_keys, "max_lease_blocks_per_user", "65536", "65537"},
	{&stream_keys, "reassemble", "\"off\"", "1"},
	{&stream_keys, "timestamps", "\"software\"", "\"no\""},
	{&stream_keys, "verify_checksums", "true", "1"},
	{&stream_keys, "moderation_us", "0", "65536"},
	{&stream_keys, "delay_drop", "true", "\"on\""},
	{&stream_keys, "join", "false", "1.5"},
	{&stream_keys, "users", "[ \"root\", \"0\" ]", "[ \"no-such-user-here\" ]"},
	{&stream_keys, "groups", "( 0, \"root\" )", "\"root\""},
	{&stream_keys, "lossless_deadline_ms", "1000", "-1"},
	{&stream_keys, "lossless_users", "[ \"root\" ]", "[ \"no-such-user-here\" ]"},
	{&stream_keys, "lossless_groups", "[ \"root\" ]", "\"root\""},
	{&stream_keys, "sequence", NULL, "5"},
	{&sequence_keys, "offset", "24", "-1"},
	{&sequence_keys, "bytes", "8", "9"},
	{&sequence_keys, "endian", "\"little\"", "\"host\""},
	{&sequence_keys, "shift", "8", "64"},
	{&sequence_keys, "bits", "40", "65"},
	{&sequence_keys, "step", "512", "0"},
	{&sequence_keys, "modulus", "8192", "-1"},
	{&sequence_keys, "upper_offset", "8", "65508"},
	{&sequence_keys, "upper_bytes", "4", "9"},
	{&sequence_keys, "upper_bits", "30", "65"},
	{&sequence_keys, "upper_step", "2", "0"},
	{&sequence_keys, "count_offset", "0", "-1"},
	{&sequence_keys, "count_bytes", "0", "3"},
	{&sequence_keys, "source", "\"address\"", "\"mac\""},
	{&sequence_keys, "source_offset", "2", "-1"},
	{&sequence_keys, "source_bytes", "4", "17"},
	{&sequence_keys, "source_mask", "\"ffffff03\"", "\"fff\""},
	{&sequence_keys, "frame_offset", "4", "-1"},
	{&sequence_keys, "frame_bytes", "4", "9"},
	{&sequence_keys, "frame_bits", "30", "65"},
	{&sequence_keys, "window", "1024", "1000"},
	{&sequence_keys, "jump", "3000", "0"},
	{&stream_keys, "sensor_time", NULL, "5"},
	{&sensor_time_keys, "offset", "8", "65508"},
	{&sensor_time_keys, "bytes", "8", "13"},
	{&sensor_time_keys, "endian", "\"little\"", "\"host\""},
	{&sensor_time_keys, "format", "\"count\"", "\"ptp\""},
	{&sensor_time_keys, "hz", "1000000", "0"},
	{&sensor_time_keys, "period_s", "3600", "-1"},
	{&sensor_time_keys, "epoch", "\"tai\"", "\"1970\""},
	{&flow_keys, "match", "\"rule\"", "\"some\""},
	{&flow_keys, "destination", "\"ff05::/16\"", "\"ff05::1/64\""},
	{&flow_keys, "port", "7502", "65536"},
	{&flow_keys, "source", "\"fe80::1\"", "\"fe80:1\""},
	{&flow_keys, "source_port", "65535", "65536"},
	{&flow_keys, "protocol", "\"tcp\"", "256"},
	{&flow_keys, "dscp", "46", "64"},
	{&flow_keys, "vlan", "4094", "4095"},
	{&flow_keys, "destination_mac", "\"33:33:00:01:00:02\"", "\"33-33-00-01-00-02\""},
	{&flow_keys, "source_mac", "\"02:00:00:00:0a:01\"", "\"02:00\""},
	{&flow_keys, "ether_type", "34525", "1500"},
	{&flow_keys, "priority", "3", "4"},
	{&flow_keys, "copy", "true", "1"},
	{&flow_keys, "queue", "3", "16"},
	{&channel_keys, "name", "\"out\"", "\"\""},
	{&channel_keys, "interface", "\"eth1\"", "\"\""},
	{&channel_keys, "backend", "\"verbs\"", "\"dpdk\""},
	{&channel_keys, "destinations", NULL, "()"},
	{&channel_keys, "source", "\"10.0.0.2\"", "\"10.0.0\""},
	{&channel_keys, "source_port", "9", "0"},
	{&channel_keys, "vlan", "4094", "0"},
	{&channel_keys, "dscp", "63", "64"},
	{&channel_keys, "ttl", "255", "256"},
	{&channel_keys, "payload_size", "65507", "65528"},
	{&channel_keys, "fragment", "\"off\"", "\"on\""},
	{&channel_keys, "send_queue_slots", "32768", "63"},
	{&channel_keys, "arena_slots", "64", "100"},
	{&channel_keys, "page_size", "\"4K\"", "\"3M\""},
	{&channel_keys, "rate_limit_mbps", "1000000", "-1"},
	{&channel_keys, "burst_bytes", "1", "-1"},
	{&channel_keys, "pacing", "\"software\"", "\"nic\""},
	{&channel_keys, "send_time", "\"worker\"", "\"card\""},
	{&channel_keys, "priority", "15", "16"},
	{&channel_keys, "late_after_us", "0", "-1"},
	{&channel_keys, "udp_checksum", "\"zero\"", "\"none\""},
	{&channel_keys, "max_senders", "64", "0"},
	{&channel_keys, "max_senders_per_user", "64", "65"},
	{&channel_keys, "users", "( \"root\", 1001 )", "[ \"no-such-user-here\" ]"},
	{&channel_keys, "groups", "( 0, \"root\" )", "\"root\""},
	{&channel_keys, "poll", "\"busy\"", "\"often\""},
	{&channel_keys, "spin_us", "0", "-1"},
	{&channel_keys, "cpu", "0", "-2"},
	{&destination_keys, "address", "\"10.0.0.1\"", "\"0.0.0.0\""},
	{&destination_keys, "port", "1", "65536"},
	{&destination_keys, "next_hop_mac", "\"02:00:00:00:0a:01\"", "\"02-00-00-00-0a-01\""},
};

const struct every_key_sample *every_key_find(const struct key_group *group, const struct key *key)
{
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
		if (samples[i].group == group && strcmp(samples[i].key, key->name) == 0)
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
