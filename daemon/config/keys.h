// SPDX-License-Identifier: Apache-2.0
/*
 * The one table of what a configuration file may say: what is checked, what messages name, what --dump-config and a
 * reload's log show, what the shipped file, the man page and the shells' completion list.
 */
#ifndef DAEMON_CONFIG_KEYS_H
#define DAEMON_CONFIG_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum key_type {
	KEY_INTEGER,
	KEY_BOOLEAN,
	KEY_STRING,
	KEY_ADDRESS, /* a string, an IPv4 or IPv6 address; empty: none */
	KEY_CHOICE,  /* a string, one of choices */
	KEY_NAMES,   /* an array of strings and integers */
	KEY_GROUP,   /* { … } */
	KEY_LIST,    /* ( { … }, … ) */
};

struct key_group;

struct key {
	const char *name;
	enum key_type type;
	bool required;
	int64_t integer; /* default of an integer or boolean */
	int64_t min;
	int64_t max;
	int64_t multiple_of; /* 0 = any */
	bool power_of_two;
	const char *string;            /* default of a string or choice; NULL = none */
	const char *const *choices;    /* NULL-terminated */
	const struct key_group *group; /* of a group, and of each entry of a list */
	const char *description;
};

/* A kind of group and the keys it takes; key i is at keys[i], i of the group's enum below. */
struct key_group {
	const char *what; /* for messages: "a stream" */
	const struct key *keys;
	unsigned n_keys;
};

enum { TOP_CONTROL, TOP_STREAMS, TOP_CHANNELS, TOP_N };
enum {
	CONTROL_SOCKET,
	CONTROL_MODE,
	CONTROL_GROUP,
	CONTROL_MAX_CLIENTS,
	CONTROL_MAX_CLIENTS_PER_USER,
	CONTROL_MAX_MESSAGES_PER_S,
	CONTROL_MAX_MESSAGES_PER_S_PER_USER,
	CONTROL_IDLE_TIMEOUT_S,
	CONTROL_RESTART_WAIT_S,
	CONTROL_N
};
enum {
	STREAM_NAME,
	STREAM_INTERFACE,
	STREAM_BACKEND,
	STREAM_FLOWS,
	STREAM_PAYLOAD_SIZE,
	STREAM_SLOTS_PER_BLOCK,
	STREAM_HISTORY_BLOCKS,
	STREAM_RECEIVE_QUEUE_SLOTS,
	STREAM_PAGE_SIZE,
	STREAM_POLL,
	STREAM_SPIN_US,
	STREAM_CPU,
	STREAM_MAX_CONSUMERS,
	STREAM_LEASE_BLOCKS,
	STREAM_MAX_CONSUMERS_PER_USER,
	STREAM_MAX_LEASE_BLOCKS_PER_USER,
	STREAM_OVERSIZE_SINK,
	STREAM_TIMESTAMPS,
	STREAM_JOIN,
	STREAM_USERS,
	STREAM_GROUPS,
	STREAM_LOSSLESS_DEADLINE_MS,
	STREAM_LOSSLESS_USERS,
	STREAM_LOSSLESS_GROUPS,
	STREAM_N
};
enum { FLOW_DESTINATION, FLOW_PORT, FLOW_SOURCE, FLOW_SOURCE_PORT, FLOW_VLAN, FLOW_N };
enum {
	CHANNEL_NAME,
	CHANNEL_INTERFACE,
	CHANNEL_BACKEND,
	CHANNEL_DESTINATIONS,
	CHANNEL_SOURCE,
	CHANNEL_SOURCE_PORT,
	CHANNEL_VLAN,
	CHANNEL_DSCP,
	CHANNEL_TTL,
	CHANNEL_LOOPBACK,
	CHANNEL_PAYLOAD_SIZE,
	CHANNEL_SEND_QUEUE_SLOTS,
	CHANNEL_ARENA_SLOTS,
	CHANNEL_PAGE_SIZE,
	CHANNEL_RATE_LIMIT_MBPS,
	CHANNEL_BURST_BYTES,
	CHANNEL_PACING,
	CHANNEL_LATE_AFTER_US,
	CHANNEL_UDP_CHECKSUM,
	CHANNEL_MAX_SENDERS,
	CHANNEL_MAX_SENDERS_PER_USER,
	CHANNEL_USERS,
	CHANNEL_GROUPS,
	CHANNEL_POLL,
	CHANNEL_SPIN_US,
	CHANNEL_CPU,
	CHANNEL_N
};
enum { DESTINATION_ADDRESS, DESTINATION_PORT, DESTINATION_NEXT_HOP_MAC, DESTINATION_N };

extern const struct key_group top_keys;
extern const struct key_group control_keys;
extern const struct key_group stream_keys;
extern const struct key_group flow_keys;
extern const struct key_group channel_keys;
extern const struct key_group destination_keys;

/** "an integer from 64 to 32768, a multiple of 64"; returns buffer. */
const char *key_accepted(const struct key *key, char *buffer, size_t bytes);

/** As it would be written in the file: "4096", "\"2M\"", "[]". What is required has none: "". Returns buffer. */
const char *key_default(const struct key *key, char *buffer, size_t bytes);

/** "name, interface, …"; returns buffer. */
const char *key_group_names(const struct key_group *group, char *buffer, size_t bytes);

/** Index in the group, or -1. */
int key_find(const struct key_group *group, const char *name);

#endif
