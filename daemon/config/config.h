// SPDX-License-Identifier: Apache-2.0
/*
 * The configuration as plain const structs: loaded from libconfig's syntax, every key checked, defaults
 * filled in. Knows nobody else in the daemon. Errors name file:line, what was found, what is accepted.
 */
#ifndef DAEMON_CONFIG_CONFIG_H
#define DAEMON_CONFIG_CONFIG_H

#include "daemon/base/failure.h"

#include <ibvcap/layout.h>
#include <ibvcap/layout_tx.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum config_poll {
	CONFIG_POLL_BUSY,     /* never sleep */
	CONFIG_POLL_ADAPTIVE, /* spin for spin_us after the last packet, then sleep on the completion channel */
	CONFIG_POLL_EVENT,    /* sleep as soon as nothing is there */
};

enum config_backend { CONFIG_BACKEND_VERBS };

/* An address of one family; IPv4 in address[0..3], network order. */
struct config_address {
	sa_family_t family; /* AF_INET, AF_INET6, AF_UNSPEC = any */
	uint8_t address[16];
};

/* What a stream wants off the wire. Exact: no prefixes, no ranges. */
struct config_flow {
	struct config_address destination; /* unicast or multicast; required */
	struct config_address source; /* AF_UNSPEC = any; with a multicast destination: also a source-specific join */
	uint16_t destination_port;    /* required, host order */
	uint16_t source_port;         /* 0 = any */
	int32_t vlan;                 /* 1..4094, or -1: untagged */
	const char *text;             /* its keys as config_dump() writes them, a line each */
	const char *file;             /* where it stands: may be an included one */
	int line;
};

struct config_stream {
	char name[IBVCAP_STREAM_NAME_MAX];
	char interface[IFNAMSIZ];
	enum config_backend backend;
	const struct config_flow *flows;
	uint32_t n_flows;
	uint32_t payload_size;    /* S, bytes: 1..65507 */
	uint32_t slots_per_block; /* N, multiple of 64 */
	uint32_t history_blocks;
	uint32_t receive_queue_slots; /* multiple of 64, at most 32768 */
	uint32_t page_bytes;          /* 4096, 2 MiB, 1 GiB */
	enum config_poll poll;
	uint32_t spin_us; /* for adaptive */
	int32_t cpu;      /* -1 = not pinned */
	uint32_t max_consumers;
	uint32_t lease_blocks; /* quota a consumer gets by default, and the most it can ask for */
	uint32_t max_consumers_per_user;
	uint32_t max_lease_blocks_per_user;
	bool oversize_sink;
	bool timestamps;    /* ask the device for them */
	bool join;          /* join multicast groups of the flows */
	const uid_t *users; /* allowed to receive; with groups both empty: everybody who can open the socket */
	uint32_t n_users;
	const gid_t *groups;
	uint32_t n_groups;
	uint32_t lossless_deadline_ms; /* 0 = nobody may be lossless */
	const uid_t *lossless_users;   /* of those allowed to receive; with groups both empty: all of them */
	uint32_t n_lossless_users;
	const gid_t *lossless_groups;
	uint32_t n_lossless_groups;
	const char *text; /* its keys but flows, as config_dump() writes them, a line each */
	const char *file; /* where it stands: may be an included one */
	int line;
};

enum config_udp_checksum {
	CONFIG_UDP_CHECKSUM_AUTO,     /* the device's, where it can; else none, or software if a destination is IPv6 */
	CONFIG_UDP_CHECKSUM_DEVICE,   /* refused at start where it cannot */
	CONFIG_UDP_CHECKSUM_ZERO,     /* none: IPv4 only */
	CONFIG_UDP_CHECKSUM_SOFTWARE, /* over a copy of the payload */
};

/* Where a channel's packets may go: a descriptor names one by its place in the list. */
struct config_destination {
	struct config_address address; /* unicast or multicast */
	uint16_t port;                 /* host order */
	bool has_next_hop_mac;         /* unicast only: the kernel is not asked for the next hop */
	uint8_t next_hop_mac[6];
	const char *text; /* its keys as config_dump() writes them, a line each */
	const char *file;
	int line;
};

/* What may be sent, where to, by whom. Channels of one interface share a worker: poll, spin_us and cpu are the same. */
struct config_channel {
	char name[IBVCAP_CHANNEL_NAME_MAX];
	char interface[IFNAMSIZ];
	enum config_backend backend;
	const struct config_destination *destinations;
	uint32_t n_destinations;
	struct config_address source; /* AF_UNSPEC: the interface's; else all destinations are of its family */
	uint16_t source_port;
	int32_t vlan; /* 1..4094, and unicast destinations have a next_hop_mac; or -1: no tag */
	uint8_t dscp;
	uint8_t ttl;           /* 0: see config_ttl() */
	bool loopback;         /* always false: no device can */
	uint32_t payload_size; /* bytes of a slot: 1..65507; that the MTU allows it is checked at start */
	uint32_t send_queue_slots;
	uint32_t arena_slots;    /* of each sender; a power of two */
	uint32_t page_bytes;     /* 4096, 2 MiB, 1 GiB */
	uint64_t rate_limit_bps; /* of frames with FCS; 0 = none */
	uint32_t burst_bytes;    /* 0: what a worker may be late by */
	bool device_pacing;      /* only with a limit; that the device can is checked at start */
	uint32_t late_after_us;
	enum config_udp_checksum udp_checksum;
	uint32_t max_senders;
	uint32_t max_senders_per_user;
	const uid_t *users; /* allowed to send; with groups both empty: root only */
	uint32_t n_users;
	const gid_t *groups;
	uint32_t n_groups;
	enum config_poll poll;
	uint32_t spin_us;
	int32_t cpu;
	const char *text; /* its keys but destinations, as config_dump() writes them, a line each */
	const char *file; /* where it stands: may be an included one */
	int line;
};

struct config {
	const char *file;
	const char *text; /* keys that are in no group, as config_dump() writes them, a line each */
	int log_level;    /* syslog(3)'s: LOG_ERR to LOG_DEBUG */
	const char *control_text;
	char socket_path[108];
	gid_t socket_group; /* (gid_t)-1: leave */
	mode_t socket_mode;
	uint32_t max_clients;
	uint32_t max_clients_per_user;
	uint32_t max_messages_per_s; /* of one client */
	uint32_t max_messages_per_s_per_user;
	uint32_t idle_timeout_s;
	uint32_t restart_wait_s;
	const struct config_stream *streams;
	uint32_t n_streams;
	const struct config_channel *channels; /* streams, channels or both */
	uint32_t n_channels;
	void *memory;         /* of everything above; owned */
	struct config *older; /* its owner's: what it took the place of, and is still looked at */
};

/**
 * Read and check a file. On error *config is untouched and failure holds "file:line: …", EX_CONFIG (or
 * EX_NOINPUT where the file can't be read). Pure but for reading the file, those it includes (by a path that
 * is absolute or from the file's own directory) and the user database.
 */
int config_load(const char *path, struct config **config, struct failure *failure);

/** The same with a text that was read elsewhere; path is its name in messages, and where its includes start from. */
int config_load_text(const char *path, const char *text, struct config **config, struct failure *failure);

/**
 * As a file with every key in it, defaults filled in, what was included in its place; of names and addresses one form.
 * Loaded and dumped again it is the same.
 */
void config_dump(const struct config *config, FILE *to);

bool config_is_same_address(const struct config_address *a, const struct config_address *b);

/** Is it a group's? Pure. */
bool config_is_multicast(const struct config_address *address);

/** Of packets to this destination: 1 to a group and 64 to others, unless the channel says what. Pure. */
uint8_t config_ttl(const struct config_channel *channel, const struct config_destination *destination);

/** How long a worker spins before it sleeps; UINT64_MAX: it never sleeps. Pure. */
uint64_t config_spin_ns(enum config_poll poll, uint32_t spin_us);

/** NULL: the config has no stream, or channel, of that name. Pure. */
const struct config_stream *config_find_stream(const struct config *config, const char *name);
const struct config_channel *config_find_channel(const struct config *config, const char *name);

/** NULL is fine. */
void config_free(struct config *config);
/** And those that are older, too. */
void config_free_chain(struct config *config);

#endif
