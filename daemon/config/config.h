// SPDX-License-Identifier: Apache-2.0
/*
 * The configuration as plain const structs, loaded from a file in libconfig's syntax. Every key is checked and has
 * its default if it is left out. Errors name file:line, what was found and what is accepted. What a key means is in
 * the tables of key_table.c, from which the manual page is generated, too. Declares dump.c, key_table.c, load.c.
 */
#ifndef DAEMON_CONFIG_CONFIG_H
#define DAEMON_CONFIG_CONFIG_H

#include "lib/base/interface_name.h"
#include "lib/base/failure.h"

#include "daemon/clock/sensor_time.h"

#include <ibvcap/layout.h>
#include <ibvcap/layout_tx.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define CONFIG_DEFAULT_FILE "/etc/ibvcapd.conf"

/* The longest UDP payloads: IP packets have 16 bits for their length, in which that of IPv6 has no part. */
#define CONFIG_PAYLOAD_IPV4_MAX 65507
#define CONFIG_PAYLOAD_IPV6_MAX 65527

/* Reassemble IP fragments to whole datagrams? */
enum config_reassemble {
	CONFIG_REASSEMBLE_AUTO, /* if payload_size is more than an IP packet of the interface's MTU holds */
	CONFIG_REASSEMBLE_ON,
	CONFIG_REASSEMBLE_OFF,
};

/* Cut payloads that are longer than the MTU into IP fragments? */
enum config_fragment {
	CONFIG_FRAGMENT_AUTO, /* if payload_size is more than an IP packet of the interface's MTU holds */
	CONFIG_FRAGMENT_OFF,
};

enum config_poll {
	CONFIG_POLL_BUSY,     /* never sleep */
	CONFIG_POLL_ADAPTIVE, /* spin for spin_us after the last packet, then sleep on the completion channel */
	CONFIG_POLL_EVENT,    /* sleep as soon as there is no packet */
};

enum config_timestamps {
	CONFIG_TIMESTAMPS_AUTO,     /* the device's, if it stamps packets */
	CONFIG_TIMESTAMPS_HARDWARE, /* the device's; else the stream does not start */
	CONFIG_TIMESTAMPS_SOFTWARE, /* the worker's clock */
};

enum config_xdp_mode {
	CONFIG_XDP_MODE_AUTO, /* ZERO_COPY if the driver has it, else COPY */
	CONFIG_XDP_MODE_ZERO_COPY,
	CONFIG_XDP_MODE_COPY,
};

/* Those that have a packet earlier come first: the card, the XDP program in its driver, packet sockets. */
enum config_backend {
	CONFIG_BACKEND_AUTO, /* what backend_choice_make() takes for the interface */
	CONFIG_BACKEND_VERBS,
	CONFIG_BACKEND_XDP,
	CONFIG_BACKEND_PACKET,
};

/* The part of a packet that a row of the stream holds. */
enum config_layout {
	CONFIG_LAYOUT_UDP,   /* UDP payloads: the device splits packets behind their UDP header */
	CONFIG_LAYOUT_FRAME, /* frames, from the Ethernet header on */
};

#define CONFIG_QUEUES_MAX 16

enum config_hash {
	CONFIG_HASH_SYMMETRIC, /* both directions of a conversation come to one queue */
	CONFIG_HASH_TOEPLITZ,  /* as other programs compute it, with the key of its first description */
};

/* Input of the hash. For packets without ports, fragments among them, the addresses take the place of the ports. */
enum config_hash_fields {
	CONFIG_HASH_PORTS,     /* addresses and ports */
	CONFIG_HASH_ADDRESSES, /* both addresses */
	CONFIG_HASH_SOURCE,    /* the sender's address */
	CONFIG_HASH_DESTINATION,
};

/* An address of one family; IPv4 in address[0..3], network order. */
struct config_address {
	sa_family_t family; /* AF_INET, AF_INET6, AF_UNSPEC = any */
	uint8_t address[16];
};

enum config_match {
	CONFIG_MATCH_RULE,      /* what its other keys say */
	CONFIG_MATCH_ALL,       /* every packet of the interface */
	CONFIG_MATCH_DEFAULT,   /* packets that no flow and no program of this machine takes */
	CONFIG_MATCH_MULTICAST, /* packets to groups and to all */
};

#define CONFIG_ANY           (-1) /* of protocol, dscp and ether_type */
#define CONFIG_VLAN_UNTAGGED (-1)
#define CONFIG_VLAN_ANY      0

/* The packets that a stream captures. All keys but copy and priority are CONFIG_MATCH_RULE's. */
struct config_flow {
	enum config_match match;
	struct config_address destination; /* unicast or multicast; AF_UNSPEC = any */
	uint8_t destination_bits;          /* length of the prefix; 32, or 128, for one address */
	struct config_address source; /* AF_UNSPEC = any; with a multicast destination: also a source-specific join */
	uint8_t source_bits;
	uint16_t destination_port; /* host order, 0 = any */
	uint16_t source_port;      /* 0 = any */
	int32_t protocol;          /* IPPROTO_UDP, … or CONFIG_ANY */
	int32_t dscp;
	int32_t vlan; /* 1..4094, CONFIG_VLAN_UNTAGGED or CONFIG_VLAN_ANY */
	int32_t ether_type;
	bool has_destination_mac;
	bool has_source_mac;
	uint8_t destination_mac[6];
	uint8_t source_mac[6];
	uint32_t priority; /* of two flows that match a packet, the one with the higher takes it */
	bool copy;         /* the kernel, and flows of lower priority, get the packets, too */
	int32_t queue;     /* index in the stream; -1: by hash */
	const char *text;  /* its keys as config_dump() writes them, a line each */
	const char *file;  /* the file that it stands in, which may be an included one */
	int line;
};

struct config_stream {
	char name[IBVCAP_STREAM_NAME_MAX];
	char renamed_from[IBVCAP_STREAM_NAME_MAX];  /* "", or its name before the reload that replaces this config */
	char interface[IFNAMSIZ];                   /* as the kernel lists it */
	char interface_alias[INTERFACE_NAME_BYTES]; /* the other name that the file has for it; or "" */
	enum config_backend backend;
	const struct config_flow *flows;
	uint32_t n_flows;
	uint32_t queues;       /* 1..16, each with a ring and a worker */
	enum config_hash hash; /* what shares packets out to the queues */
	enum config_hash_fields hash_fields;
	const uint32_t *cpus; /* to pin the workers to: none, or one for each queue, and then cpu is -1 */
	uint32_t n_cpus;
	enum config_layout layout;
	uint32_t payload_size;             /* the longest UDP payload, or frame: 1..65507 */
	uint32_t application_header_bytes; /* first bytes of the payload, for the header row; less than payload_size */
	uint32_t row_stride;               /* at least payload_size - application_header_bytes, or 0: just that */
	bool zero_rest;                    /* the bytes of a row behind a packet are 0 */
	bool payload_is_lent;              /* payload rows are in memory that the consumer lends, the only one */
	bool flow_numbers;                 /* rows say which flow their packet matched */
	uint32_t slots_per_block;          /* multiple of 64 */
	uint32_t history_blocks;
	uint32_t receive_queue_slots; /* multiple of 64, at most 32768 */
	uint32_t page_bytes;          /* 4096, 2 MiB, 1 GiB */
	enum config_poll poll;
	uint32_t spin_us; /* for adaptive */
	int32_t cpu;      /* -1 = not pinned */
	uint32_t max_consumers;
	uint32_t lease_blocks;       /* lease quota of a consumer that asks for none, and that each can have */
	uint32_t extra_lease_blocks; /* sum of what consumers can get above it */
	uint32_t max_consumers_per_user;
	uint32_t max_lease_blocks_per_user;
	enum config_reassemble reassemble;
	enum config_timestamps timestamps;
	bool verify_checksums;  /* rows whose IP or UDP checksum is wrong are marked */
	uint32_t moderation_us; /* longest time that an event waits for more packets; 0: events do not wait */
	bool delay_drop;        /* the card keeps packets for a while if the queue has no slot */
	bool join;              /* join multicast groups of the flows */
	const uid_t *users; /* allowed to receive; if groups is empty, too, every client that can connect may receive */
	uint32_t n_users;
	const gid_t *groups;
	uint32_t n_groups;
	uint32_t lossless_deadline_ms; /* stall budget of a user; 0 = no consumer may be lossless */
	const uid_t *lossless_users; /* among those allowed to receive; if lossless_groups is empty, too: all of them */
	uint32_t n_lossless_users;
	const gid_t *lossless_groups;
	uint32_t n_lossless_groups;
	struct ibvcap_sequence sequence; /* where the packets have their own number */
	const char *sequence_text;       /* its keys as config_dump() writes them, a line each */
	struct sensor_time sensor_time;  /* where the packets have the sensor's time */
	const char *sensor_time_text;    /* likewise */
	const char *text;                /* its keys but flows, as config_dump() writes them, a line each */
	const char *file;                /* the file that it stands in, which may be an included one */
	int line;
};

/* What keeps the send times of packets. */
enum config_send_time {
	CONFIG_SEND_TIME_AUTO,
	CONFIG_SEND_TIME_WORKER,
	CONFIG_SEND_TIME_QDISC,
};

enum config_udp_checksum {
	CONFIG_UDP_CHECKSUM_AUTO,     /* DEVICE if it can; else ZERO, or SOFTWARE if a destination is IPv6 */
	CONFIG_UDP_CHECKSUM_DEVICE,   /* computed by the device; refused at start if it cannot */
	CONFIG_UDP_CHECKSUM_ZERO,     /* no checksum; IPv4 only */
	CONFIG_UDP_CHECKSUM_SOFTWARE, /* computed by the worker over a copy of the payload */
};

/* An address that a channel may send to. A descriptor names it by its index in the list. */
struct config_destination {
	struct config_address address; /* unicast or multicast */
	uint16_t port;                 /* host order */
	bool has_next_hop_mac;         /* unicast only; the next hop is not looked up */
	uint8_t next_hop_mac[6];
	const char *text; /* its keys as config_dump() writes them, a line each */
	const char *file;
	int line;
};

/* Channels of one interface share a worker thread, so their poll, spin_us and cpu are the same. */
struct config_channel {
	char name[IBVCAP_CHANNEL_NAME_MAX];
	char interface[IFNAMSIZ];                   /* as the kernel lists it */
	char interface_alias[INTERFACE_NAME_BYTES]; /* the other name that the file has for it; or "" */
	enum config_backend backend;
	const struct config_destination *destinations;
	uint32_t n_destinations;
	struct config_address source; /* AF_UNSPEC: that of the interface; if set, all destinations are of its family */
	uint16_t source_port;
	int32_t vlan; /* 1..4094, and unicast destinations have a next_hop_mac; or -1: no tag */
	uint8_t dscp;
	uint8_t ttl; /* 0: see config_ttl() */
	/* Bytes of a slot: 1..65527, with an IPv4 destination 65507. At start it is checked against the MTU. */
	uint32_t payload_size;
	enum config_fragment fragment;
	uint32_t send_queue_slots;
	uint32_t arena_slots;            /* of each sender; a power of two */
	uint32_t page_bytes;             /* 4096, 2 MiB, 1 GiB */
	uint64_t rate_limit_bps;         /* of frames with FCS; 0 = none */
	uint32_t burst_bytes;            /* 0: as much as a late worker needs to catch up */
	bool device_pacing;              /* only with a limit; whether the device can is checked at start */
	enum config_send_time send_time; /* CONFIG_SEND_TIME_QDISC: without a limit that the worker keeps */
	uint32_t priority;
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
	const char *file; /* the file that it stands in, which may be an included one */
	int line;
};

struct config {
	const char *file;
	const char *text;      /* keys that are in no group, as config_dump() writes them, a line each */
	int log_level;         /* syslog(3)'s: LOG_ERR to LOG_DEBUG */
	bool direct;           /* backend verbs: receive without the device's library where that works */
	bool relaxed_ordering; /* backend verbs: the machine may reorder the card's writes of packets */
	enum config_xdp_mode xdp_mode;
	uint32_t xdp_queues; /* of streams, that an interface with backend xdp has room for */
	const char *control_text;
	char socket_path[108];
	gid_t socket_group; /* (gid_t)-1: leave it as it is */
	mode_t socket_mode;
	uint32_t max_clients;
	uint32_t max_clients_per_user;
	uint32_t max_messages_per_s; /* of one client */
	uint32_t max_messages_per_s_per_user;
	uint32_t idle_timeout_s;
	uint32_t restart_wait_s;
	const gid_t *observer_groups; /* whose members see everything in a status */
	uint32_t n_observer_groups;
	bool observers_receive; /* streams that name nobody */
	const struct config_stream *streams;
	uint32_t n_streams;
	const struct config_channel *channels;
	uint32_t n_channels;
	bool is_merged;       /* made by config_merge(): differs from the file */
	uint64_t written_ns;  /* UTC, when the last of the file and those that it includes was written; 0: not known */
	void *memory;         /* owns everything that the config points at */
	struct config *older; /* for the owner: the configuration that this one replaced, which may still be in use */
};

/**
 * Read and check a file. On error *config is untouched and failure holds "file:line: …", EX_CONFIG (or EX_NOINPUT if
 * the file cannot be read). Paths of included files start from the directory of the file; since libconfig 1.7 they
 * may be absolute. Blocks while it reads the files and the user database, which may be a directory service.
 */
int config_load(const char *path, struct config **config, struct failure *failure);

/** The same with a text that was read before. path is its name in messages; paths of included files start from it. */
int config_load_text(const char *path, const char *text, struct config **config, struct failure *failure);

/**
 * Read and check a file with the keys of 'sequence' alone, such as those in conf/sequence; likewise. The description is
 * one of a consumer, and so no stream has to fit it.
 */
int config_load_sequence(const char *path, struct ibvcap_sequence *sequence, struct failure *failure);

/**
 * Write the configuration as one file with every key, defaults included. Names and addresses have one form, so that the
 * output, loaded and dumped again, is the same.
 */
void config_dump(const struct config *config, FILE *to);

bool config_is_user_in(const uid_t *users, uint32_t n_users, uid_t user);
bool config_is_same_address(const struct config_address *a, const struct config_address *b);

/** Is it the address of a multicast group? Pure. */
bool config_is_multicast(const struct config_address *address);

/** TTL of packets to this destination: the ttl of the channel, or else 1 for a group and 64 for a host. Pure. */
uint8_t config_ttl(const struct config_channel *channel, const struct config_destination *destination);

/** The CPU of the worker of a queue; -1: any. Pure. */
int32_t config_queue_cpu(const struct config_stream *stream, uint32_t queue);

/** How long a worker spins before it sleeps; UINT64_MAX: it never sleeps. Pure. */
uint64_t config_spin_ns(enum config_poll poll, uint32_t spin_us);

/** Does the flow leave its packets to the kernel, too, or only take what that leaves? Pure. */
bool config_flow_leaves_packets(const struct config_flow *flow);

/** Some flow does, of a stream of the interface whose backend is AUTO. Pure. */
bool config_interface_leaves_packets(const struct config *config, const char *interface);

/** Has some stream of the interface whose backend is AUTO the timestamps HARDWARE? Pure. */
bool config_interface_wants_card_time(const struct config *config, const char *interface);

/** On one interface: are they the same, or may AUTO become the other one? Pure. */
bool config_may_share_backend(enum config_backend a, enum config_backend b);

/** "packet"; as in the configuration. Pure. */
const char *config_backend_name(enum config_backend backend);

/** NULL: the config has no stream, or channel, of that name. Pure. */
const struct config_stream *config_find_stream(const struct config *config, const char *name);
const struct config_channel *config_find_channel(const struct config *config, const char *name);

/** An interface that is configured by one of its other names is there: the kernel calls it to. */
void config_rename_interface(struct config *config, const char *from, const char *to);
void config_undo_rename(struct config *config, const char *from, const char *to);

/** NULL is fine. */
void config_free(struct config *config);
/** Free it and all older ones. */
void config_free_chain(struct config *config);

/** Zeroed memory that is freed with the config. NULL: out of memory. Inside the config room only. */
void *config_allocate(struct config *config, size_t n, size_t bytes);

#endif
