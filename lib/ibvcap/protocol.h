// SPDX-License-Identifier: Apache-2.0
/*
 * Messages on the control socket: SOCK_SEQPACKET, one struct a datagram, in native byte order, with at most
 * PROTOCOL_FDS_MAX descriptors. A client sends a request and the daemon answers, or answers PROTOCOL_ERROR instead:
 *
 *   PROTOCOL_ATTACH         → PROTOCOL_ATTACHED with the ring's descriptors. A member of a group gets PROTOCOL_JOINED
 *                             first, and the ring when there is a queue for it
 *   PROTOCOL_STATUS         → PROTOCOL_DAEMON; any number of PROTOCOL_STREAM, _FLOW, _CONSUMER, _CHANNEL, _SENDER
 *                             and _INTERFACE; PROTOCOL_END
 *   PROTOCOL_RECONFIGURE    → PROTOCOL_DONE
 *   PROTOCOL_OPEN_CHANNEL   → PROTOCOL_OPENED with the sender's descriptors; the client maps arena and page writable
 *   PROTOCOL_MAPPED         → PROTOCOL_READY, after the daemon has sealed the memory and its worker has the sender
 *
 * PROTOCOL_RECALLED comes unasked: it wakes the owner of a queue that the group wants back
 * (IBVCAP_CONNECTION_RECALLED).
 *
 * The daemon closes descriptors that a client sends. A connection carries at most one attachment or sender, which ends
 * with the connection. A status may be asked for on any connection.
 */
#ifndef IBVCAP_PROTOCOL_H
#define IBVCAP_PROTOCOL_H

#include <ibvcap/layout.h>
#include <ibvcap/layout_tx.h>

#include <stdint.h>
#include <sys/types.h>

#define PROTOCOL_MAGIC                UINT32_C(0x50414349) /* "ICAP" */
#define PROTOCOL_VERSION              4
#define PROTOCOL_FDS_MAX              6
#define PROTOCOL_BYTES_MAX            4096
#define PROTOCOL_TEXT_MAX             768
#define PROTOCOL_COUNTERS_MAX         64
#define PROTOCOL_RECONFIGURE_TEXT_MAX 3600

enum protocol_type {
	PROTOCOL_ATTACH = 1,
	PROTOCOL_STATUS = 2,
	PROTOCOL_RECONFIGURE = 3,
	PROTOCOL_OPEN_CHANNEL = 4,
	PROTOCOL_MAPPED = 5,
	PROTOCOL_ATTACHED = 64,
	PROTOCOL_ERROR = 65,
	PROTOCOL_DAEMON = 66,
	PROTOCOL_STREAM = 67,
	PROTOCOL_CONSUMER = 68,
	PROTOCOL_INTERFACE = 69,
	PROTOCOL_END = 70,
	PROTOCOL_DONE = 71,
	PROTOCOL_OPENED = 72,
	PROTOCOL_READY = 73,
	PROTOCOL_CHANNEL = 74,
	PROTOCOL_SENDER = 75,
	PROTOCOL_FLOW = 76,
	PROTOCOL_JOINED = 77,
	PROTOCOL_RECALLED = 78,
};

struct protocol_header {
	uint32_t magic;
	uint16_t version; /* PROTOCOL_VERSION */
	uint16_t type;    /* enum protocol_type */
	uint32_t bytes;   /* of the whole message, including this header */
	uint32_t reserved;
};

struct protocol_attach {
	struct protocol_header header;
	char stream[IBVCAP_STREAM_NAME_MAX];
	uint16_t abi_major;
	uint16_t abi_minor;
	uint32_t queue;
	uint32_t start;        /* enum ibvcap_start */
	uint32_t policy;       /* enum ibvcap_policy */
	uint32_t lease_blocks; /* 0 = the stream's default */
	uint32_t reserved;
	uint64_t start_value;              /* see struct rx_start_position */
	char group[IBVCAP_GROUP_NAME_MAX]; /* not empty: any queue of the stream, as the group's next */
	uint64_t member;                   /* of the group: the same in all its requests, chosen at random */
};

/* Descriptors that come with PROTOCOL_ATTACHED, in this order. */
enum protocol_attached_fd {
	PROTOCOL_FD_PAYLOAD,
	PROTOCOL_FD_HEADERS,
	PROTOCOL_FD_RING,
	PROTOCOL_FD_TAP_N, /* a tap gets those above only */
	PROTOCOL_FD_CONSUMER_STATE = PROTOCOL_FD_TAP_N,
	PROTOCOL_FD_CONSUMER_PAGE,
	PROTOCOL_FD_WAKE_SOCKET, /* readable when the requested packets have come */
	PROTOCOL_FD_N
};
static_assert(PROTOCOL_FD_N <= PROTOCOL_FDS_MAX, "descriptors of one message");

struct protocol_attached {
	struct protocol_header header;
	uint64_t epoch;
};

struct protocol_joined {
	struct protocol_header header;
	uint64_t epoch;
	uint32_t n_queues; /* of the stream */
	uint32_t reserved;
};

/* A header only. */
struct protocol_recalled {
	struct protocol_header header;
};

struct protocol_open_channel {
	struct protocol_header header;
	char channel[IBVCAP_CHANNEL_NAME_MAX];
	uint16_t abi_major;
	uint16_t abi_minor;
	uint32_t reserved;
};

/* Descriptors that come with PROTOCOL_OPENED, in this order. */
enum protocol_opened_fd {
	PROTOCOL_FD_ARENA,
	PROTOCOL_FD_SENDER_PAGE,
	PROTOCOL_FD_SENDER_STATE,
	PROTOCOL_FD_SENDER_SOCKET, /* readable when the requested packets completed */
	PROTOCOL_FD_SENDER_KICK,   /* an eventfd: 1 written wakes the worker */
	PROTOCOL_FD_OPENED_N
};
static_assert(PROTOCOL_FD_OPENED_N <= PROTOCOL_FDS_MAX, "descriptors of one message");

struct protocol_opened {
	struct protocol_header header;
	uint64_t epoch;
};

/* Messages that are a header only. */
struct protocol_mapped {
	struct protocol_header header;
};

struct protocol_ready {
	struct protocol_header header;
};

struct protocol_error {
	struct protocol_header header;
	int32_t error; /* negative errno */
	uint32_t reserved;
	char text[PROTOCOL_TEXT_MAX]; /* what failed, on what, why, and what to do; NUL-terminated */
};

struct protocol_status {
	struct protocol_header header;
};

enum protocol_reconfigure_action {
	PROTOCOL_RECONFIGURE_RELOAD = 1,        /* read the configuration file again */
	PROTOCOL_RECONFIGURE_ADD_STREAM = 2,    /* add the streams of text, a configuration file called name */
	PROTOCOL_RECONFIGURE_REMOVE_STREAM = 3, /* remove the stream called name */
};

/* Accepted from root and the daemon's user only. */
struct protocol_reconfigure {
	struct protocol_header header;
	uint32_t what; /* enum protocol_reconfigure_action */
	uint32_t reserved;
	char name[256];
	char text[PROTOCOL_RECONFIGURE_TEXT_MAX];
};

struct protocol_done {
	struct protocol_header header;
	char text[PROTOCOL_TEXT_MAX]; /* what was done */
};

struct protocol_daemon {
	struct protocol_header header;
	int32_t pid;
	uint32_t reserved;
	char version[32];
};

/* The order of counters is that of the enum that n_counters names, in counters.h, layout.h or layout_tx.h. */
struct protocol_stream {
	struct protocol_header header;
	char name[IBVCAP_STREAM_NAME_MAX];
	char interface[16];
	char device[64];
	char backend[16];
	char state[16];
	uint64_t epoch;
	uint64_t clock_error_ns;
	uint32_t clock_source;
	uint32_t queue;
	uint32_t slot_bytes;
	uint32_t slots_per_block;
	uint32_t n_blocks;
	uint32_t history_blocks;
	uint32_t receive_queue_slots;
	uint32_t page_bytes;
	uint32_t reading_age_ms; /* of the flow counter */
	uint32_t n_counters;     /* enum ibvcap_rx_counter, then enum stream_counter */
	uint64_t counters[PROTOCOL_COUNTERS_MAX];
	uint64_t loss_packets; /* of the last loss for want of a buffer; 0: none is known */
	uint64_t loss_from_ns;
	uint64_t loss_to_ns;
	int32_t stall_pid; /* the last consumer that stopped the queue and was then demoted, or left; 0: none */
	uint32_t stall_uid;
	uint64_t stall_until_ns; /* when that was, UTC */
	uint32_t n_queues;
	uint32_t reserved;
};

/* Packets that a stream captures. */
struct protocol_flow {
	struct protocol_header header;
	char stream[IBVCAP_STREAM_NAME_MAX];
	uint32_t queue;
	int32_t vlan;              /* -1: untagged; 0: any */
	char destination[48];      /* an address or prefix as text; empty: any */
	char source[48];           /* likewise */
	uint16_t destination_port; /* 0: any */
	uint16_t source_port;      /* 0: any */
	uint32_t reserved;
	char text[256]; /* all that the flow compares, and how it takes its packets */
};

struct protocol_consumer {
	struct protocol_header header;
	char stream[IBVCAP_STREAM_NAME_MAX];
	uint32_t queue;
	uint32_t policy;
	int32_t pid;
	uint32_t uid;
	uint32_t n_counters; /* enum consumer_counter; 0: a tap */
	uint32_t reserved;
	char group[IBVCAP_GROUP_NAME_MAX]; /* empty: of none */
	uint64_t counters[PROTOCOL_COUNTERS_MAX];
};

struct protocol_channel {
	struct protocol_header header;
	char name[IBVCAP_CHANNEL_NAME_MAX];
	char interface[16];
	char device[64];
	char backend[16];
	char state[16];
	uint64_t epoch;
	uint64_t rate_bps;
	uint32_t burst_bytes;
	uint32_t slot_bytes;
	uint32_t arena_slots;
	uint32_t page_bytes;
	uint32_t send_queue_slots;
	uint32_t n_destinations;
	uint32_t n_unresolved; /* destinations without a known next hop */
	uint32_t max_senders;
	uint32_t n_counters; /* enum ibvcap_tx_counter, then enum channel_counter */
	uint32_t reserved;
	uint64_t counters[PROTOCOL_COUNTERS_MAX];
};

struct protocol_sender {
	struct protocol_header header;
	char channel[IBVCAP_CHANNEL_NAME_MAX];
	int32_t pid;
	uint32_t uid;
	uint32_t n_counters; /* enum sender_counter */
	uint32_t reserved;
	uint64_t counters[PROTOCOL_COUNTERS_MAX];
};

struct protocol_interface {
	struct protocol_header header;
	char interface[16];
	char device[64];
	uint32_t n_counters;       /* enum interface_counter */
	uint32_t reading_age_ms;   /* of the older one */
	char backend[16];          /* of its streams and channels */
	char backend_why[256];     /* why it is this one */
	char backend_how[256];     /* what it does there that it does not do everywhere, or empty */
	char backend_better[256];  /* what would be faster, and what it takes; empty: nothing */
	char backend_command[256]; /* for the shell, that brings it; empty: none */
	uint32_t is_second_best;   /* 1: what would be faster is another backend */
	uint32_t is_auto;          /* 1: the backend of its streams and channels with backend = "auto" */
	uint64_t counters[PROTOCOL_COUNTERS_MAX];
};

union protocol_message {
	struct protocol_header header;
	struct protocol_attach attach;
	struct protocol_attached attached;
	struct protocol_joined joined;
	struct protocol_recalled recalled;
	struct protocol_open_channel open_channel;
	struct protocol_opened opened;
	struct protocol_mapped mapped;
	struct protocol_ready ready;
	struct protocol_error error;
	struct protocol_status status;
	struct protocol_reconfigure change;
	struct protocol_done done;
	struct protocol_daemon daemon;
	struct protocol_stream stream;
	struct protocol_flow flow;
	struct protocol_consumer consumer;
	struct protocol_channel channel;
	struct protocol_sender sender;
	struct protocol_interface interface;
	uint8_t bytes[PROTOCOL_BYTES_MAX];
};

/** Fill the header for a message of that size. */
void protocol_init(struct protocol_header *header, enum protocol_type type, size_t bytes);

/**
 * Check a received datagram of n bytes: magic, version, the exact size of its type, terminated strings, counts within
 * bounds. 0 or -EPROTO. Pure, so that a fuzzer can drive it.
 */
int protocol_check(const union protocol_message *message, size_t n);

/** Send one message with descriptors, which stay open. Blocks as the socket does. 0 or -errno; no SIGPIPE. */
int protocol_send(int socket, const struct protocol_header *header, const int *fds, unsigned n_fds);

/**
 * Receive and check one message. *n_fds in: room in fds; out: how many came, close-on-exec. On failure all descriptors
 * that came are closed: -EPROTO the message is malformed or has more descriptors than there is room for; -EMFILE this
 * process may open no more. 1 a message, 0 the peer closed, -EAGAIN, -errno.
 */
int protocol_recv(int socket, union protocol_message *message, int *fds, unsigned *n_fds);

#endif
