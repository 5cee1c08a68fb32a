// SPDX-License-Identifier: Apache-2.0
/*
 * Messages on the control socket: SOCK_SEQPACKET, one struct a datagram, in native byte order, with at most
 * PROTOCOL_FDS_MAX descriptors. A client sends a request and the daemon answers, or answers PROTOCOL_ERROR instead:
 *
 *   PROTOCOL_ATTACH         → PROTOCOL_ATTACHED with the ring's descriptors. A member of a group gets PROTOCOL_JOINED
 *                             first, and the ring when there is a queue for it. One that lends memory gets
 *                             PROTOCOL_LEND first, and the ring after PROTOCOL_LENT
 *   PROTOCOL_LENT           → PROTOCOL_ATTACHED
 *   PROTOCOL_STATUS         → any number of PROTOCOL_PART, the daemon's first; PROTOCOL_END
 *   PROTOCOL_RECONFIGURE    → PROTOCOL_DONE
 *   PROTOCOL_OPEN_CHANNEL   → PROTOCOL_OPENED with the sender's descriptors; the client maps arena and page writable
 *   PROTOCOL_MAPPED         → PROTOCOL_READY, after the daemon has sealed the memory and its worker has the sender
 *
 * PROTOCOL_RECALLED comes unasked: it wakes the owner of a queue that the group wants back
 * (IBVCAP_CONNECTION_RECALLED).
 *
 * The daemon closes descriptors that a client sends, but for a dma-buf with PROTOCOL_LENT. A connection carries at most
 * one attachment or sender, which ends with the connection. A status may be asked for on any connection.
 */
#ifndef IBVCAP_PROTOCOL_H
#define IBVCAP_PROTOCOL_H

#include "lib/status/status.h"

#include <ibvcap/layout.h>
#include <ibvcap/layout_tx.h>

#include <stdint.h>
#include <sys/types.h>

#define PROTOCOL_MAGIC                UINT32_C(0x50414349) /* "ICAP" */
#define PROTOCOL_VERSION              5
#define PROTOCOL_FDS_MAX              6
#define PROTOCOL_BYTES_MAX            4096
#define PROTOCOL_TEXT_MAX             768
#define PROTOCOL_RECONFIGURE_TEXT_MAX 3600

enum protocol_type {
	PROTOCOL_ATTACH = 1,
	PROTOCOL_STATUS = 2,
	PROTOCOL_RECONFIGURE = 3,
	PROTOCOL_OPEN_CHANNEL = 4,
	PROTOCOL_MAPPED = 5,
	PROTOCOL_LENT = 6,
	PROTOCOL_ATTACHED = 64,
	PROTOCOL_ERROR = 65,
	PROTOCOL_PART = 66,
	PROTOCOL_END = 70,
	PROTOCOL_DONE = 71,
	PROTOCOL_OPENED = 72,
	PROTOCOL_READY = 73,
	PROTOCOL_JOINED = 77,
	PROTOCOL_RECALLED = 78,
	PROTOCOL_LEND = 79,
};

struct protocol_header {
	uint32_t magic;
	uint16_t version; /* PROTOCOL_VERSION */
	uint16_t type;    /* enum protocol_type */
	uint32_t bytes;   /* of the whole message, including this header */
	uint32_t reserved;
};

/* PROTOCOL_STATUS, _RECALLED, _MAPPED and _READY are a header only. */
struct protocol_bare {
	struct protocol_header header;
};

struct protocol_attach {
	struct protocol_header header;
	char stream[IBVCAP_STREAM_NAME_MAX];
	uint16_t abi_major;
	uint16_t abi_minor;
	uint32_t queue;
	uint32_t start;                    /* enum ibvcap_start */
	uint32_t policy;                   /* enum ibvcap_policy */
	uint32_t lease_blocks;             /* 0 = the stream's default */
	uint32_t lends;                    /* 1: the client lends memory for payload rows; 0 */
	uint64_t start_value;              /* see struct rx_start_position */
	char group[IBVCAP_GROUP_NAME_MAX]; /* not empty: any queue of the stream, as the group's next */
	uint64_t member;                   /* of the group: the same in all its requests, chosen at random */
};

/* Descriptors that come with PROTOCOL_ATTACHED, in this order. */
enum protocol_attached_fd {
	PROTOCOL_FD_PAYLOAD, /* of a ring with IBVCAP_RING_FLAG_LENT: the headers once more */
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

/* The client is to lend so many bytes for the payload rows of the ring. */
struct protocol_lend {
	struct protocol_header header;
	uint64_t bytes;
};

/* With the descriptor of a dma-buf, open for reading and writing. */
struct protocol_lent {
	struct protocol_header header;
	uint64_t offset; /* of the first row, in whole pages */
};

struct protocol_joined {
	struct protocol_header header;
	uint64_t epoch;
	uint32_t n_queues; /* of the stream */
	uint32_t reserved;
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

struct protocol_error {
	struct protocol_header header;
	int32_t error; /* negative errno */
	uint32_t reserved;
	char text[PROTOCOL_TEXT_MAX]; /* what failed, on what, why, and what to do; NUL-terminated */
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

/*
 * A part of a status. The body is the part's public struct (lib/status/status.h), as long as its size says, and without
 * the pointer to its counters; then the values of its counters, by their index, each of 8 bytes.
 */
struct protocol_part {
	struct protocol_header header;
	uint32_t kind; /* enum status_kind_of_part */
	uint32_t reserved;
	uint8_t body[PROTOCOL_BYTES_MAX - sizeof(struct protocol_header) - 2 * sizeof(uint32_t)];
};
#define PROTOCOL_PART_BYTES(body_bytes) (offsetof(struct protocol_part, body) + (body_bytes))

union protocol_message {
	struct protocol_header header;
	struct protocol_attach attach;
	struct protocol_attached attached;
	struct protocol_joined joined;
	struct protocol_lend lend;
	struct protocol_lent lent;
	struct protocol_open_channel open_channel;
	struct protocol_opened opened;
	struct protocol_error error;
	struct protocol_reconfigure change;
	struct protocol_done done;
	struct protocol_part part;
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
