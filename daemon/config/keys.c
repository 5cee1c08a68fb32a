// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/keys.h"

#include <assert.h>
#include <ibvcap/ibvcap.h>
#include <ibvcap/layout_tx.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct key top[] = {
    [TOP_CONTROL] = {.name = "control",
		     .type = KEY_GROUP,
		     .group = &control_keys,
		     .description = "the socket that clients connect to"},
    [TOP_STREAMS] = {.name = "streams", .type = KEY_LIST, .group = &stream_keys, .description = "what is captured"},
    [TOP_CHANNELS] = {.name = "channels", .type = KEY_LIST, .group = &channel_keys, .description = "what may be sent"},
};

static const struct key control[] = {
	[CONTROL_SOCKET] = { .name = "socket", .type = KEY_STRING, .string = IBVCAP_CONTROL_SOCKET,
			     .description = "path of the control socket" },
	[CONTROL_MODE] = { .name = "mode", .type = KEY_STRING, .string = "0660",
			   .description = "its permissions, octal: who may write to it may connect" },
	[CONTROL_GROUP] = { .name = "group", .type = KEY_STRING, .string = "",
			    .description = "its group, by name or number; empty: the daemon's" },
	[CONTROL_MAX_CLIENTS] = { .name = "max_clients", .type = KEY_INTEGER, .integer = 64, .min = 1, .max = 4096,
				  .description = "connections at once" },
	[CONTROL_MAX_CLIENTS_PER_USER] = { .name = "max_clients_per_user", .type = KEY_INTEGER, .integer = 32, .min = 1,
					   .max = 4096, .description = "connections of one user at once; root has no limit" },
	[CONTROL_MAX_MESSAGES_PER_S] = { .name = "max_messages_per_s", .type = KEY_INTEGER, .integer = 100, .min = 1,
					 .max = 100000, .description = "requests of one client" },
	[CONTROL_MAX_MESSAGES_PER_S_PER_USER] = { .name = "max_messages_per_s_per_user", .type = KEY_INTEGER,
						  .integer = 400, .min = 1, .max = 100000,
						  .description = "connections and requests of one user; root has no limit" },
	[CONTROL_IDLE_TIMEOUT_S] = { .name = "idle_timeout_s", .type = KEY_INTEGER, .integer = 60, .min = 1, .max = 86400,
				     .description = "seconds until who neither attaches nor asks is hung up" },
	[CONTROL_RESTART_WAIT_S] = { .name = "restart_wait_s", .type = KEY_INTEGER, .integer = 10, .min = 0, .max = 3600,
				     .description = "seconds a restarted daemon waits for hugepages that readers of its "
						    "last run still hold" },
};

static const char *const backends[] = { "verbs", NULL };
static const char *const page_sizes[] = { "4K", "2M", "1G", NULL };
static const char *const polls[] = { "busy", "adaptive", "event", NULL };

static const struct key stream[] = {
    [STREAM_NAME] = {.name = "name",
		     .type = KEY_STRING,
		     .required = true,
		     .description = "what consumers attach to: letters, digits, '.', '_' and '-'"},
    [STREAM_INTERFACE] = {.name = "interface",
			  .type = KEY_STRING,
			  .required = true,
			  .description = "network interface the packets come from"},
    [STREAM_BACKEND] = {.name = "backend",
			.type = KEY_CHOICE,
			.string = "verbs",
			.choices = backends,
			.description = "how they are taken from it"},
    [STREAM_FLOWS] =
	{.name = "flows", .type = KEY_LIST, .group = &flow_keys, .required = true, .description = "which packets"},
    [STREAM_PAYLOAD_SIZE] = {.name = "payload_size",
			     .type = KEY_INTEGER,
			     .required = true,
			     .min = 1,
			     .max = 65507,
			     .description = "bytes of a row: the largest UDP payload expected"},
    [STREAM_SLOTS_PER_BLOCK] = {.name = "slots_per_block",
				.type = KEY_INTEGER,
				.integer = 256,
				.min = 64,
				.max = 1 << 20,
				.multiple_of = 64,
				.description = "rows of a block, the unit of leasing and recycling"},
    [STREAM_HISTORY_BLOCKS] = {.name = "history_blocks",
			       .type = KEY_INTEGER,
			       .integer = 64,
			       .min = 1,
			       .max = 1 << 24,
			       .description = "complete blocks kept for readers that are late"},
    [STREAM_RECEIVE_QUEUE_SLOTS] = {.name = "receive_queue_slots",
				    .type = KEY_INTEGER,
				    .integer = 4096,
				    .min = 64,
				    .max = 32768,
				    .multiple_of = 64,
				    .description = "depth of the device's receive queue"},
    [STREAM_PAGE_SIZE] = {.name = "page_size",
			  .type = KEY_CHOICE,
			  .string = "2M",
			  .choices = page_sizes,
			  .description = "pages of payload and headers; 4K is slow and for trying out"},
    [STREAM_POLL] = {.name = "poll",
		     .type = KEY_CHOICE,
		     .string = "adaptive",
		     .choices = polls,
		     .description = "busy: never sleep; adaptive: after spin_us without a packet; event: at once"},
    [STREAM_SPIN_US] = {.name = "spin_us",
			.type = KEY_INTEGER,
			.integer = 50,
			.min = 0,
			.max = 1000000,
			.description = "microseconds an adaptive worker polls on before it sleeps"},
    [STREAM_CPU] = {.name = "cpu",
		    .type = KEY_INTEGER,
		    .integer = -1,
		    .min = -1,
		    .max = 1023,
		    .description = "the worker's CPU, left to it by all other threads; -1: any other"},
    [STREAM_MAX_CONSUMERS] = {.name = "max_consumers",
			      .type = KEY_INTEGER,
			      .integer = 8,
			      .min = 1,
			      .max = 64,
			      .description = "consumers attached at once"},
    [STREAM_LEASE_BLOCKS] = {.name = "lease_blocks",
			     .type = KEY_INTEGER,
			     .integer = 4,
			     .min = 1,
			     .max = IBVCAP_LEASE_SLOTS_MAX,
			     .description =
				 "blocks one consumer may hold; each consumer's are spare blocks of the ring"},
    [STREAM_MAX_CONSUMERS_PER_USER] = {.name = "max_consumers_per_user",
				       .type = KEY_INTEGER,
				       .integer = 4,
				       .min = 1,
				       .max = 64,
				       .description = "consumers of one user attached at once; root has no limit"},
    [STREAM_MAX_LEASE_BLOCKS_PER_USER] = {.name = "max_lease_blocks_per_user",
					  .type = KEY_INTEGER,
					  .integer = 16,
					  .min = 1,
					  .max = 64 * IBVCAP_LEASE_SLOTS_MAX,
					  .description =
					      "blocks one user's consumers may hold together; root has no limit"},
    [STREAM_OVERSIZE_SINK] = {.name = "oversize_sink",
			      .type = KEY_BOOLEAN,
			      .integer = true,
			      .description = "a packet longer than its row is a truncated row and not an error; "
					     "doubles the device's queue entry"},
    [STREAM_TIMESTAMPS] = {.name = "timestamps",
			   .type = KEY_BOOLEAN,
			   .integer = true,
			   .description = "the device's, where it has them; else the worker's clock"},
    [STREAM_JOIN] = {.name = "join",
		     .type = KEY_BOOLEAN,
		     .integer = true,
		     .description = "join the flows' multicast groups"},
    [STREAM_USERS] = {.name = "users", .type = KEY_NAMES, .description = "who may receive, by name or number"},
    [STREAM_GROUPS] = {.name = "groups",
		       .type = KEY_NAMES,
		       .description = "whose members may receive; neither users nor groups: who can connect"},
    [STREAM_LOSSLESS_DEADLINE_MS] = {.name = "lossless_deadline_ms",
				     .type = KEY_INTEGER,
				     .integer = 0,
				     .min = 0,
				     .max = 3600000,
				     .description =
					 "milliseconds in all that a user's lossless consumers may stop the queue; "
					 "each is repaid by ten without; 0: nobody may be lossless"},
    [STREAM_LOSSLESS_USERS] = {.name = "lossless_users",
			       .type = KEY_NAMES,
			       .description = "who may be lossless, of those who may receive"},
    [STREAM_LOSSLESS_GROUPS] = {.name = "lossless_groups",
				.type = KEY_NAMES,
				.description =
				    "whose members may be lossless; neither users nor groups: who may receive"},
};

static const struct key flow[] = {
	[FLOW_DESTINATION] = { .name = "destination", .type = KEY_ADDRESS, .required = true,
			       .description = "IPv4 or IPv6 address, the interface's own or a multicast group's" },
	[FLOW_PORT] = { .name = "port", .type = KEY_INTEGER, .required = true, .min = 1, .max = 65535,
			.description = "UDP destination port" },
	[FLOW_SOURCE] = { .name = "source", .type = KEY_ADDRESS, .string = "",
			  .description = "sender's address; empty: any. With a group: a source-specific join" },
	[FLOW_SOURCE_PORT] = { .name = "source_port", .type = KEY_INTEGER, .integer = 0, .min = 0, .max = 65535,
			       .description = "sender's UDP port; 0: any" },
	[FLOW_VLAN] = { .name = "vlan", .type = KEY_INTEGER, .integer = -1, .min = -1, .max = 4094,
			.description = "VLAN id; -1: none is looked for, a tagged packet is an irregular row" },
};

static const char *const udp_checksums[] = { "auto", "device", "zero", "software", NULL };
static const char *const pacings[] = { "software", "device", NULL };

static const struct key channel[] = {
    [CHANNEL_NAME] = {.name = "name",
		      .type = KEY_STRING,
		      .required = true,
		      .description = "what senders open: letters, digits, '.', '_' and '-'"},
    [CHANNEL_INTERFACE] = {.name = "interface",
			   .type = KEY_STRING,
			   .required = true,
			   .description = "network interface the packets leave by"},
    [CHANNEL_BACKEND] = {.name = "backend",
			 .type = KEY_CHOICE,
			 .string = "verbs",
			 .choices = backends,
			 .description = "how they are given to it"},
    [CHANNEL_DESTINATIONS] = {.name = "destinations",
			      .type = KEY_LIST,
			      .group = &destination_keys,
			      .required = true,
			      .description = "where to; a sender picks one by its number, from 0"},
    [CHANNEL_SOURCE] = {.name = "source",
			.type = KEY_ADDRESS,
			.string = "",
			.description = "address the packets come from; empty: the interface's"},
    [CHANNEL_SOURCE_PORT] = {.name = "source_port",
			     .type = KEY_INTEGER,
			     .required = true,
			     .min = 1,
			     .max = 65535,
			     .description = "UDP port they come from"},
    [CHANNEL_VLAN] = {.name = "vlan",
		      .type = KEY_INTEGER,
		      .integer = -1,
		      .min = -1,
		      .max = 4094,
		      .description = "VLAN id; -1: no tag"},
    [CHANNEL_DSCP] = {.name = "dscp",
		      .type = KEY_INTEGER,
		      .integer = 0,
		      .min = 0,
		      .max = 63,
		      .description = "differentiated services code point"},
    [CHANNEL_TTL] = {.name = "ttl",
		     .type = KEY_INTEGER,
		     .integer = 0,
		     .min = 0,
		     .max = 255,
		     .description = "time to live, or hop limit; 0: 1 to groups, 64 to others"},
    [CHANNEL_LOOPBACK] = {.name = "loopback",
			  .type = KEY_BOOLEAN,
			  .integer = false,
			  .description = "programs of this machine get what is sent to a group, too"},
    [CHANNEL_PAYLOAD_SIZE] = {.name = "payload_size",
			      .type = KEY_INTEGER,
			      .required = true,
			      .min = 1,
			      .max = 65507,
			      .description = "bytes of a slot: the largest UDP payload; the MTU must allow it"},
    [CHANNEL_SEND_QUEUE_SLOTS] = {.name = "send_queue_slots",
				  .type = KEY_INTEGER,
				  .integer = 1024,
				  .min = 64,
				  .max = 32768,
				  .description = "depth of the device's send queue"},
    [CHANNEL_ARENA_SLOTS] = {.name = "arena_slots",
			     .type = KEY_INTEGER,
			     .integer = 4096,
			     .min = IBVCAP_TX_SLOTS_MIN,
			     .max = IBVCAP_TX_SLOTS_MAX,
			     .power_of_two = true,
			     .description = "payload slots of each sender"},
    [CHANNEL_PAGE_SIZE] = {.name = "page_size",
			   .type = KEY_CHOICE,
			   .string = "2M",
			   .choices = page_sizes,
			   .description = "pages of the senders' payloads; 4K is slow and for trying out"},
    [CHANNEL_RATE_LIMIT_MBPS] = {.name = "rate_limit_mbps",
				 .type = KEY_INTEGER,
				 .integer = 0,
				 .min = 0,
				 .max = 1000000,
				 .description = "megabits a second of frames, FCS included; 0: no limit"},
    [CHANNEL_BURST_BYTES] = {.name = "burst_bytes",
			     .type = KEY_INTEGER,
			     .integer = 0,
			     .min = 0,
			     .max = 1 << 24,
			     .description = "bytes that may leave at once under a limit; 0: what a late worker needs"},
    [CHANNEL_PACING] = {.name = "pacing",
			.type = KEY_CHOICE,
			.string = "software",
			.choices = pacings,
			.description = "who keeps to the limit: software, the worker; or the device, where it can"},
    [CHANNEL_LATE_AFTER_US] = {.name = "late_after_us",
			       .type = KEY_INTEGER,
			       .integer = 100,
			       .min = 0,
			       .max = 60000000,
			       .description = "microseconds after its time from which a packet is late"},
    [CHANNEL_UDP_CHECKSUM] = {.name = "udp_checksum",
			      .type = KEY_CHOICE,
			      .string = "auto",
			      .choices = udp_checksums,
			      .description = "auto: the device's; if it has none: zero, or software with IPv6"},
    [CHANNEL_MAX_SENDERS] = {.name = "max_senders",
			     .type = KEY_INTEGER,
			     .integer = 8,
			     .min = 1,
			     .max = 64,
			     .description = "senders that have it open at once"},
    [CHANNEL_MAX_SENDERS_PER_USER] = {.name = "max_senders_per_user",
				      .type = KEY_INTEGER,
				      .integer = 4,
				      .min = 1,
				      .max = 64,
				      .description = "senders of one user at once; root has no limit"},
    [CHANNEL_USERS] = {.name = "users", .type = KEY_NAMES, .description = "who may send, by name or number"},
    [CHANNEL_GROUPS] = {.name = "groups",
			.type = KEY_NAMES,
			.description = "whose members may send; neither users nor groups: root only"},
    [CHANNEL_POLL] = {.name = "poll",
		      .type = KEY_CHOICE,
		      .string = "adaptive",
		      .choices = polls,
		      .description = "busy: never sleep; adaptive: after spin_us without a packet; event: at once"},
    [CHANNEL_SPIN_US] = {.name = "spin_us",
			 .type = KEY_INTEGER,
			 .integer = 50,
			 .min = 0,
			 .max = 1000000,
			 .description = "microseconds an adaptive worker polls on before it sleeps"},
    [CHANNEL_CPU] = {.name = "cpu",
		     .type = KEY_INTEGER,
		     .integer = -1,
		     .min = -1,
		     .max = 1023,
		     .description = "the worker's CPU; -1: any"},
};

static const struct key destination[] = {
	[DESTINATION_ADDRESS] = { .name = "address", .type = KEY_ADDRESS, .required = true,
				  .description = "IPv4 or IPv6 address, a host's or a multicast group's" },
	[DESTINATION_PORT] = { .name = "port", .type = KEY_INTEGER, .required = true, .min = 1, .max = 65535,
			       .description = "UDP destination port" },
	[DESTINATION_NEXT_HOP_MAC] = { .name = "next_hop_mac", .type = KEY_STRING, .string = "",
				       .description = "Ethernet address of the next hop; empty: as the kernel routes" },
};

#define GROUP(what, keys) { what, keys, sizeof(keys) / sizeof((keys)[0]) }

const struct key_group top_keys = GROUP("the file", top);
const struct key_group control_keys = GROUP("control", control);
const struct key_group stream_keys = GROUP("a stream", stream);
const struct key_group flow_keys = GROUP("a flow", flow);
const struct key_group channel_keys = GROUP("a channel", channel);
const struct key_group destination_keys = GROUP("a destination", destination);

static_assert(sizeof(top) / sizeof(top[0]) == TOP_N, "one table, one enum");
static_assert(sizeof(control) / sizeof(control[0]) == CONTROL_N, "one table, one enum");
static_assert(sizeof(stream) / sizeof(stream[0]) == STREAM_N, "one table, one enum");
static_assert(sizeof(flow) / sizeof(flow[0]) == FLOW_N, "one table, one enum");
static_assert(sizeof(channel) / sizeof(channel[0]) == CHANNEL_N, "one table, one enum");
static_assert(sizeof(destination) / sizeof(destination[0]) == DESTINATION_N, "one table, one enum");

static void append(char *buffer, size_t bytes, const char *text)
{
	size_t used = strlen(buffer);

	snprintf(buffer + used, bytes - used, "%s", text);
}

static void append_choices(const struct key *key, char *buffer, size_t bytes)
{
	for (unsigned i = 0; key->choices[i]; i++) {
		append(buffer, bytes, i == 0 ? "\"" : key->choices[i + 1] ? "\", \"" : "\" or \"");
		append(buffer, bytes, key->choices[i]);
	}
	append(buffer, bytes, "\"");
}

const char *key_accepted(const struct key *key, char *buffer, size_t bytes)
{
	buffer[0] = '\0';
	switch (key->type) {
	case KEY_INTEGER:
		snprintf(buffer, bytes, "an integer from %" PRId64 " to %" PRId64, key->min, key->max);
		if (key->multiple_of) {
			size_t used = strlen(buffer);

			snprintf(buffer + used, bytes - used, ", a multiple of %" PRId64, key->multiple_of);
		}
		if (key->power_of_two)
			append(buffer, bytes, ", a power of two");
		break;
	case KEY_BOOLEAN:
		append(buffer, bytes, "true or false");
		break;
	case KEY_STRING:
		append(buffer, bytes, "a string in double quotes");
		break;
	case KEY_ADDRESS:
		append(buffer, bytes, "an IPv4 or IPv6 address, \"239.1.2.3\" or \"ff05::1:2\"");
		break;
	case KEY_CHOICE:
		append_choices(key, buffer, bytes);
		break;
	case KEY_NAMES:
		append(buffer, bytes, "an array of names and numbers, [ \"anna\", \"1001\" ]");
		break;
	case KEY_GROUP:
		append(buffer, bytes, "a group, { key = value; … }");
		break;
	case KEY_LIST:
		append(buffer, bytes, "a list of groups, ( { key = value; … }, … )");
		break;
	}
	return buffer;
}

const char *key_default(const struct key *key, char *buffer, size_t bytes)
{
	buffer[0] = '\0';
	if (key->required)
		return buffer;
	if (key->type == KEY_INTEGER)
		snprintf(buffer, bytes, "%" PRId64, key->integer);
	else if (key->type == KEY_BOOLEAN)
		append(buffer, bytes, key->integer ? "true" : "false");
	else if (key->type == KEY_NAMES)
		append(buffer, bytes, "[]");
	else if (key->string)
		snprintf(buffer, bytes, "\"%s\"", key->string);
	return buffer;
}

const char *key_group_names(const struct key_group *group, char *buffer, size_t bytes)
{
	buffer[0] = '\0';
	for (unsigned i = 0; i < group->n_keys; i++) {
		append(buffer, bytes, i ? ", " : "");
		append(buffer, bytes, group->keys[i].name);
	}
	return buffer;
}

int key_find(const struct key_group *group, const char *name)
{
	for (unsigned i = 0; i < group->n_keys; i++)
		if (strcmp(group->keys[i].name, name) == 0)
			return (int)i;
	return -1;
}
