// SPDX-License-Identifier: Apache-2.0
/*
 * Messages on the control socket: SOCK_SEQPACKET, one struct a datagram, native byte order, at most
 * WIRE_FDS_MAX descriptors with it. The client sends a request, the daemon answers it: attach with one
 * WIRE_ATTACHED (or WIRE_ERROR), status with any number of WIRE_STREAM, WIRE_CONSUMER, WIRE_CHANNEL, WIRE_SENDER and
 * WIRE_INTERFACE and a WIRE_END; change with one WIRE_DONE. Descriptors from a client are closed unread. One
 * connection carries at most one attachment or sender and lives as long as it; status may be asked on any connection.
 *
 * A sender: WIRE_OPEN_CHANNEL → WIRE_OPENED with its descriptors; it maps them, arena and page writable, and says
 * WIRE_MAPPED; the daemon seals them, and when its worker has taken the sender over, says WIRE_READY. Instead of either
 * answer WIRE_ERROR.
 */
#ifndef IBVCAP_WIRE_H
#define IBVCAP_WIRE_H

#include <ibvcap/layout.h>
#include <ibvcap/layout_tx.h>

#include <stdint.h>
#include <sys/types.h>

#define WIRE_MAGIC           UINT32_C(0x50414349) /* "ICAP" */
#define WIRE_VERSION         1
#define WIRE_FDS_MAX         6
#define WIRE_BYTES_MAX       4096
#define WIRE_TEXT_MAX        768
#define WIRE_COUNTERS_MAX    64
#define WIRE_CHANGE_TEXT_MAX 3600

enum wire_type {
	WIRE_ATTACH = 1,
	WIRE_STATUS = 2,
	WIRE_CHANGE = 3,
	WIRE_OPEN_CHANNEL = 4,
	WIRE_MAPPED = 5,
	WIRE_ATTACHED = 64,
	WIRE_ERROR = 65,
	WIRE_DAEMON = 66,
	WIRE_STREAM = 67,
	WIRE_CONSUMER = 68,
	WIRE_INTERFACE = 69,
	WIRE_END = 70,
	WIRE_DONE = 71,
	WIRE_OPENED = 72,
	WIRE_READY = 73,
	WIRE_CHANNEL = 74,
	WIRE_SENDER = 75,
};

struct wire_header {
	uint32_t magic;
	uint16_t version; /* WIRE_VERSION */
	uint16_t type;    /* enum wire_type */
	uint32_t bytes;   /* of the whole message, this header included */
	uint32_t reserved;
};

struct wire_attach {
	struct wire_header header;
	char stream[IBVCAP_STREAM_NAME_MAX];
	uint16_t abi_major;
	uint16_t abi_minor;
	uint32_t queue;
	uint32_t start;        /* enum ibvcap_start */
	uint32_t policy;       /* enum ibvcap_policy */
	uint32_t lease_blocks; /* 0 = the stream's default */
	uint32_t reserved;
	uint64_t start_value; /* see struct start */
};

/* Descriptors that come with WIRE_ATTACHED, in this order. */
enum wire_attached_fd {
	WIRE_FD_PAYLOAD,
	WIRE_FD_HEADERS,
	WIRE_FD_RING,
	WIRE_FD_TAP_N, /* a tap gets no more */
	WIRE_FD_CONSUMER_STATE = WIRE_FD_TAP_N,
	WIRE_FD_CONSUMER_PAGE,
	WIRE_FD_WAKE_SOCKET, /* readable when the packets asked for have come */
	WIRE_FD_N
};
static_assert(WIRE_FD_N <= WIRE_FDS_MAX, "descriptors of one message");

struct wire_attached {
	struct wire_header header;
	uint64_t epoch;
};

struct wire_open_channel {
	struct wire_header header;
	char channel[IBVCAP_CHANNEL_NAME_MAX];
	uint16_t abi_major;
	uint16_t abi_minor;
	uint32_t reserved;
};

/* Descriptors that come with WIRE_OPENED, in this order. */
enum wire_opened_fd {
	WIRE_FD_ARENA,
	WIRE_FD_SENDER_PAGE,
	WIRE_FD_SENDER_STATE,
	WIRE_FD_SENDER_SOCKET, /* kicks go into it; readable when what was asked for has come */
	WIRE_FD_OPENED_N
};
static_assert(WIRE_FD_OPENED_N <= WIRE_FDS_MAX, "descriptors of one message");

struct wire_opened {
	struct wire_header header;
	uint64_t epoch;
};

/* Nothing but their header. */
struct wire_mapped {
	struct wire_header header;
};

struct wire_ready {
	struct wire_header header;
};

struct wire_error {
	struct wire_header header;
	int32_t error; /* negative errno */
	uint32_t reserved;
	char text[WIRE_TEXT_MAX]; /* what, on what, and what to do; NUL-terminated */
};

struct wire_status {
	struct wire_header header;
};

enum wire_change_what {
	WIRE_CHANGE_RELOAD = 1,        /* the file again */
	WIRE_CHANGE_ADD_STREAM = 2,    /* those of text, a configuration file called name */
	WIRE_CHANGE_REMOVE_STREAM = 3, /* name */
};

/* Of administrators only. */
struct wire_change {
	struct wire_header header;
	uint32_t what; /* enum wire_change_what */
	uint32_t reserved;
	char name[256];
	char text[WIRE_CHANGE_TEXT_MAX];
};

struct wire_done {
	struct wire_header header;
	char text[WIRE_TEXT_MAX]; /* what was done */
};

struct wire_daemon {
	struct wire_header header;
	int32_t pid;
	uint32_t reserved;
	char version[32];
};

/* label_set says whose labels the values have: their order is that of the enum in counters.h. */
struct wire_stream {
	struct wire_header header;
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
	uint32_t reserved;
	uint32_t n_counters; /* enum ibvcap_ring_counter, then enum stream_counter */
	uint64_t counters[WIRE_COUNTERS_MAX];
	uint64_t loss_packets; /* the last for want of a buffer; 0: none that is known of */
	uint64_t loss_from_ns;
	uint64_t loss_to_ns;
};

struct wire_consumer {
	struct wire_header header;
	char stream[IBVCAP_STREAM_NAME_MAX];
	uint32_t queue;
	uint32_t policy;
	int32_t pid;
	uint32_t uid;
	uint32_t n_counters; /* enum consumer_counter */
	uint32_t reserved;
	uint64_t counters[WIRE_COUNTERS_MAX];
};

struct wire_channel {
	struct wire_header header;
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
	uint32_t n_unresolved; /* destinations whose next hop is not known */
	uint32_t max_senders;
	uint32_t n_counters; /* enum ibvcap_tx_counter, then enum channel_counter */
	uint32_t reserved;
	uint64_t counters[WIRE_COUNTERS_MAX];
};

struct wire_sender {
	struct wire_header header;
	char channel[IBVCAP_CHANNEL_NAME_MAX];
	int32_t pid;
	uint32_t uid;
	uint32_t n_counters; /* enum sender_counter */
	uint32_t reserved;
	uint64_t counters[WIRE_COUNTERS_MAX];
};

struct wire_interface {
	struct wire_header header;
	char interface[16];
	char device[64];
	uint32_t n_counters; /* enum interface_counter */
	uint32_t reserved;
	uint64_t counters[WIRE_COUNTERS_MAX];
};

union wire_message {
	struct wire_header header;
	struct wire_attach attach;
	struct wire_attached attached;
	struct wire_open_channel open_channel;
	struct wire_opened opened;
	struct wire_mapped mapped;
	struct wire_ready ready;
	struct wire_error error;
	struct wire_status status;
	struct wire_change change;
	struct wire_done done;
	struct wire_daemon daemon;
	struct wire_stream stream;
	struct wire_consumer consumer;
	struct wire_channel channel;
	struct wire_sender sender;
	struct wire_interface interface;
	uint8_t bytes[WIRE_BYTES_MAX];
};

/** Fill the header for a message of that size. */
void wire_init(struct wire_header *header, enum wire_type type, size_t bytes);

/**
 * Check a received datagram of n bytes: magic, version, type's exact size, strings terminated, counts
 * within bounds. 0 or -EPROTO. Pure: the fuzzers drive this.
 */
int wire_check(const union wire_message *message, size_t n);

/** Send one message with descriptors (not closed). Blocks no longer than the socket does. 0 or -errno; no SIGPIPE. */
int wire_send(int socket, const struct wire_header *header, const int *fds, unsigned n_fds);

/**
 * Receive and check one message. *n_fds in: room in fds, out: how many came (close-on-exec); more than
 * there is room for are closed and -EPROTO; fewer than were sent, since this process has room for no more, are closed
 * and -EMFILE. 1 a message, 0 the peer closed, -EAGAIN, -EPROTO, -errno.
 */
int wire_recv(int socket, union wire_message *message, int *fds, unsigned *n_fds);

#endif
