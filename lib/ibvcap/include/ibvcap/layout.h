// SPDX-License-Identifier: Apache-2.0
/*
 * The layout of the memory that ibvcapd shares with its consumers. No functions.
 *
 * A ring is three segments, and each consumer of it has two more. Every segment is an anonymous memfd; the consumer
 * gets its file descriptor over the control socket. Positions inside are offsets and indices, never pointers.
 *
 *   payload          hugepages  daemon RW, consumer RO   blocks of slots, a slot = one row of S bytes each row_stride
 *   headers          hugepages  daemon RW, consumer RO   header_stride bytes a slot; 0: the segment has no rows
 *   ring             4 KiB      daemon RW, consumer RO   struct ibvcap_ring, block table, packet meta
 *   consumer state   4 KiB      daemon RW, consumer RO   struct ibvcap_consumer_state
 *   consumer page    4 KiB      daemon RW, consumer RW   struct ibvcap_consumer_page
 *
 * The worker is the only thread that writes to the payload (through the device) and headers segments. It and the
 * control thread write the ring segment and the consumer state. Only the consumer writes to its consumer page.
 *
 * A sequence number counts a ring's packets from 0 within an epoch. Packet s is slot s mod N of block number s div N;
 * the block table says which physical block holds a block number. Packet numbers and block numbers are u64 and never
 * wrap.
 *
 * A frame is split: its first header_bytes go to the header row, up to S following ones to the payload row. The former
 * are the network's headers and application_header_bytes of the application's, side by side. With
 * IBVCAP_RING_FLAG_FRAMES no network headers are split off: the payload row has the frame from its Ethernet header on,
 * but for the first application_header_bytes.
 *
 * Compatibility: a reader refuses another major version. A minor version only appends: to reserved tails of structs, to
 * counters, to flags. Before the first release, library and daemon must be of the same build.
 *
 * Multi-byte fields are in host byte order; packet headers are as received.
 */
#ifndef IBVCAP_LAYOUT_H
#define IBVCAP_LAYOUT_H

#if defined(__cplusplus) ? __cplusplus < 201103L : __STDC_VERSION__ < 201112L
#error "libibvcap needs C11 or C++11, or a later standard: -std=c11, -std=c++11"
#endif

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* C and C++ have the same layout. */
#ifdef __cplusplus
#include <atomic>
#define IBVCAP_ATOMIC(type) std::atomic<type>
#else
#include <stdalign.h>
#include <stdatomic.h>
#define IBVCAP_ATOMIC(type) _Atomic type
#endif

#define IBVCAP_ABI_MAJOR 1
#define IBVCAP_ABI_MINOR 2

#define IBVCAP_RING_MAGIC     UINT64_C(0x474e495250414349) /* "ICAPRING" */
#define IBVCAP_STATE_MAGIC    UINT64_C(0x5453534e4f434349) /* "ICCONSST" */
#define IBVCAP_CONSUMER_MAGIC UINT64_C(0x4750534e4f434349) /* "ICCONSPG" */

/* Two cache lines, since the adjacent-line prefetcher of x86 fetches 64 B lines in pairs. */
#define IBVCAP_CURSOR_ALIGN 128

#define IBVCAP_STREAM_NAME_MAX 64 /* with the closing NUL */
#define IBVCAP_GROUP_NAME_MAX  32 /* likewise */
#define IBVCAP_LEASE_SLOTS_MAX 64 /* the most blocks that one consumer can hold */
#define IBVCAP_QUEUES_MAX      16 /* of a stream; each has a ring of its own */
#define IBVCAP_RX_COUNTERS_MAX 64 /* room in the ring segment; see enum ibvcap_rx_counter */
#define IBVCAP_BLOCK_SLOTS_MIN 64 /* N is a multiple of this: the chunk in which slots are posted */

/* ---- common head of the 4 KiB-page segments ------------------------------------------------------ */

struct ibvcap_segment {
	uint64_t magic;
	uint16_t abi_major;
	uint16_t abi_minor;
	IBVCAP_ATOMIC(uint32_t) ready; /* 1, stored last with release when the segment is complete */
	uint64_t bytes;                /* of the whole segment */
	uint64_t epoch;                /* random; the same in all segments of one daemon's run */
};
static_assert(sizeof(struct ibvcap_segment) == 32, "shared layout");

/* ---- packet meta --------------------------------------------------------------------------------- */

/* Flags of a row. Without a flag, an ordinary packet fills the row. */
enum ibvcap_packet_flag {
	/* The payload ends before the row does: the rest holds old bytes, or 0 with IBVCAP_RING_FLAG_ZERO_REST. */
	IBVCAP_PACKET_FLAG_SHORT = 1 << 0,
	IBVCAP_PACKET_FLAG_TRUNCATED =
		1 << 1, /* the payload was longer than its row, and only length bytes of it are there */
	IBVCAP_PACKET_FLAG_IRREGULAR = 1 << 2,    /* the headers are not of the stream's layout: see header_length */
	IBVCAP_PACKET_FLAG_FRAGMENT = 1 << 3,     /* an IP fragment: the row holds length of wire_length bytes */
	IBVCAP_PACKET_FLAG_BAD_CHECKSUM = 1 << 4, /* the IP or UDP checksum is wrong; see the key verify_checksums */
	IBVCAP_PACKET_FLAG_ERROR = 1 << 5, /* the device reported an error: the contents of the row are undefined */
	IBVCAP_PACKET_FLAG_UNUSABLE =
		1 << 6, /* the headers could not be parsed, or the packet ends in them: the row is not its payload */
	/* With IBVCAP_CLOCK_SOURCE_DEVICE: the device did not stamp this packet, and the timestamp is the kernel's. */
	IBVCAP_PACKET_FLAG_KERNEL_TIME = 1 << 7,
	/*
	 * With UNUSABLE: the lengths in the headers contradict each other, or the frame is shorter than they say. A
	 * socket gets nothing of such a packet. The row has the frame's next length of wire_length bytes.
	 */
	IBVCAP_PACKET_FLAG_MALFORMED = 1 << 8,
	/*
	 * The sender's machine left the checksum of UDP or TCP to a card, but the packet has passed none: the field
	 * holds the sum of the pseudo header alone.
	 */
	IBVCAP_PACKET_FLAG_PARTIAL_CHECKSUM = 1 << 9,

	/* Only in the copies that ibvcap_rx_recv() makes: what happened just before this packet. */
	IBVCAP_PACKET_FLAG_GAP = 1 << 13,         /* packets were skipped; ibvcap_rx_counts() has their number */
	IBVCAP_PACKET_FLAG_GAP_UNKNOWN = 1 << 14, /* a new epoch began: packets before it were lost uncounted */
	IBVCAP_PACKET_FLAG_DEMOTED = 1 << 15,     /* the daemon made this consumer lossy: it was too slow too long */
};

/*
 * One for each slot; four share a cache line. The worker writes it before it publishes head. The payload is what
 * follows the network's and the application's headers; it begins in the payload row at header_length -
 * (header_bytes - application_header_bytes), which is 0 unless the row is irregular.
 */
struct ibvcap_meta {
	/* Since 1970-01-01 UTC, of the clock named in struct ibvcap_ring; 0 = none. A row in error has that of the row
	 * before it. */
	uint64_t timestamp_ns;
	uint16_t length; /* bytes of payload present in the row */
	uint16_t flags;  /* enum ibvcap_packet_flag */
	/* Bytes of the network's headers, as received: the application's begin there. 0 with IBVCAP_RING_FLAG_FRAMES.
	 * At least header_bytes - application_header_bytes. */
	uint8_t header_length;
	uint8_t flow;         /* number of the flow that the packet matched, with IBVCAP_RING_FLAG_FLOWS; else 0 */
	uint16_t wire_length; /* bytes of payload that the sender sent; in a later fragment, in the fragment */
};
static_assert(sizeof(struct ibvcap_meta) == 16, "shared layout");

/* ---- the ledger of losses ------------------------------------------------------------------------ */

#define IBVCAP_LEDGER_ENTRIES 256 /* the newest ones are kept */

#define IBVCAP_LEDGER_WORDS 19

/* Words of struct ledger_entry (lib/losses/ledger.h). */
struct ibvcap_ledger_entry {
	IBVCAP_ATOMIC(uint64_t) version; /* odd: it is being written */
	IBVCAP_ATOMIC(uint64_t) words[IBVCAP_LEDGER_WORDS];
	uint64_t reserved[4];
};
static_assert(sizeof(struct ibvcap_ledger_entry) == 192, "shared layout");

/*
 * The ledger of a stream. Each ring of the stream has a copy with the heads and marks of its own queue; the rest is the
 * same in all of them. Written by the control thread. As long as it finds no loss, it renews the newest entry:
 * until_ns, until_utc_ns, matched and no_buffer_most. Else it appends one.
 */
struct ibvcap_ledger {
	IBVCAP_ATOMIC(uint64_t) n_entries; /* appended so far; entry i is entries[i % IBVCAP_LEDGER_ENTRIES] */
	uint64_t reserved[15];
	struct ibvcap_ledger_entry entries[IBVCAP_LEDGER_ENTRIES];
};
static_assert(sizeof(struct ibvcap_ledger) == 128 + IBVCAP_LEDGER_ENTRIES * 192, "shared layout");

/* ---- the packets' own number --------------------------------------------------------------------- */

#define IBVCAP_SOURCE_BYTES_MAX 16

/* By which parts of its headers a packet belongs to a source; a field of the payload can be added to each. */
enum ibvcap_source {
	IBVCAP_SOURCE_FLOW = 0,    /* addresses and ports of sender and destination */
	IBVCAP_SOURCE_PORT = 1,    /* address and port of the sender */
	IBVCAP_SOURCE_ADDRESS = 2, /* address of the sender */
	IBVCAP_SOURCE_NONE = 3,    /* nothing */
};

/*
 * Where the packets of a stream have their number, as the configuration describes it. Offsets count from the first byte
 * of the UDP payload; without one, from the frame's first byte. ibvcapd.conf(5) says what each field means, and
 * ibvcap_tracker_new() in ibvcap.h what is counted by it.
 */
struct ibvcap_sequence {
	uint16_t offset;
	uint8_t bytes; /* of the field with the number, 1 to 8; 0: the packets have no number */
	uint8_t shift; /* bits of the field below the number */
	uint8_t bits;  /* of the number; 0: all above shift */
	uint8_t little_endian;
	uint8_t upper_bytes; /* of the field that counts cycles of the number; 0: there is none */
	uint8_t upper_bits;  /* of it, the low ones; 0: all */
	uint16_t upper_offset;
	uint16_t count_offset;
	uint16_t source_offset;
	uint8_t count_bytes;  /* of the field that says how many numbers the packet takes; 0: it takes 1 */
	uint8_t source_bytes; /* of the field that is the source's, too; 0: there is none */
	uint8_t source;       /* enum ibvcap_source */
	uint8_t frame_bytes;  /* of the field that changes when a frame begins; 0: there is none */
	uint16_t frame_offset;
	uint8_t frame_bits; /* of it, the low ones; 0: all */
	uint8_t reserved0[3];
	uint32_t step;    /* by which the number grows from packet to packet; one in between is the higher */
	uint32_t window;  /* numbers behind the highest in which a packet is reordered or repeated; a power of two */
	uint64_t modulus; /* the number begins again at 0 after modulus - 1; 0: after its bits are all 1 */
	uint64_t upper_step;
	uint64_t jump; /* numbers ahead up to which a gap is a loss; beyond it, the source was restarted */
	uint8_t source_mask[IBVCAP_SOURCE_BYTES_MAX]; /* bits of the source's field, in the order of its bytes */
};
static_assert(sizeof(struct ibvcap_sequence) == 72, "shared layout");

/* ---- the ring segment ---------------------------------------------------------------------------- */

enum ibvcap_clock_source {
	IBVCAP_CLOCK_SOURCE_NONE = 0,
	IBVCAP_CLOCK_SOURCE_SOFTWARE = 1, /* read by the worker when it polled the packet */
	IBVCAP_CLOCK_SOURCE_DEVICE = 2,   /* the NIC's, at reception; mapped to UTC by the daemon's clock fit */
	IBVCAP_CLOCK_SOURCE_KERNEL = 3,   /* CLOCK_REALTIME, read by the kernel when the driver gave it the packet */
};

/* Does a program keep CLOCK_REALTIME right, as adjtimex(2) has it? */
enum ibvcap_system_clock {
	IBVCAP_SYSTEM_CLOCK_UNKNOWN = 0,        /* the daemon may not ask */
	IBVCAP_SYSTEM_CLOCK_SYNCHRONISED = 1,   /* a program does */
	IBVCAP_SYSTEM_CLOCK_UNSYNCHRONISED = 2, /* none does: STA_UNSYNC */
};

/* Of an error or a delay: nothing has measured it. An offset that is not known is -1. */
#define IBVCAP_NOT_KNOWN UINT64_MAX

/* What rows hold, as the stream's keys say. */
enum ibvcap_ring_flag {
	IBVCAP_RING_FLAG_FRAMES = 1 << 0,    /* layout = "frame": whole frames, not UDP payloads */
	IBVCAP_RING_FLAG_ZERO_REST = 1 << 1, /* zero_rest: a payload row is 0 behind what its packet filled */
	IBVCAP_RING_FLAG_FLOWS = 1 << 2,     /* flow_numbers: meta has the number of the flow */
	/* payload_memory = "consumer": payload rows are in memory that the consumer lent. */
	IBVCAP_RING_FLAG_LENT = 1 << 3,
};

/* Indices of the ring segment's counters; labels are in counters.h. Append only. Units: packets unless said. */
enum ibvcap_rx_counter {
	IBVCAP_RX_COUNTER_MATCHED,   /* the device's flow counter: packets steered to the queue, before any drop */
	IBVCAP_RX_COUNTER_PUBLISHED, /* rows with a packet */
	IBVCAP_RX_COUNTER_NO_BUFFER, /* matched, but no slot was posted or the queue was being reset */
	IBVCAP_RX_COUNTER_ERRORED,   /* rows marked IBVCAP_PACKET_FLAG_ERROR */
	IBVCAP_RX_COUNTER_PUBLISHED_BYTES, /* payload bytes in published rows */
	IBVCAP_RX_COUNTER_TRUNCATED,       /* of published: longer than their row */
	IBVCAP_RX_COUNTER_SHORT,           /* of published: shorter than their row */
	IBVCAP_RX_COUNTER_IRREGULAR,       /* of published: VLAN tag, IP options or fragment where none was expected */
	IBVCAP_RX_COUNTER_BAD_CHECKSUM,    /* of published; without verify_checksums: of joined datagrams only */
	IBVCAP_RX_COUNTER_BATCHES,         /* polls that returned at least one completion */
	IBVCAP_RX_COUNTER_EMPTY_POLLS,     /* polls that returned none */
	IBVCAP_RX_COUNTER_SPARES_USED,     /* blocks due for reuse that were leased, so that a spare took their place */
	IBVCAP_RX_COUNTER_POSTED,          /* slots handed to the device */
	IBVCAP_RX_COUNTER_QUEUE_RESETS,    /* times the device's queue was reset after an error */
	IBVCAP_RX_COUNTER_WAKES,    /* times that the worker asked for consumers to be woken, a system call each */
	IBVCAP_RX_COUNTER_FILL_MAX, /* the most rows that a consumer had not acquired; updated once a block */
	/* Of no_buffer: between the two readings of the device that show the loss, a lossless consumer stopped the
	 * queue. */
	IBVCAP_RX_COUNTER_NO_BUFFER_LOSSLESS,
	IBVCAP_RX_COUNTER_FRAGMENTS,           /* of irregular: IP fragments, each a part of a datagram */
	IBVCAP_RX_COUNTER_FRAGMENT_LOST_BYTES, /* payload bytes of their datagrams that are not in their rows */
	/*
	 * With reassembly: packets without a row that are no loss: fragments of a datagram but for one, which has its
	 * row or is lost, and what is for ports of no flow. matched = published + no_buffer + errored + joined +
	 * ambiguous + in flight.
	 */
	IBVCAP_RX_COUNTER_JOINED,
	IBVCAP_RX_COUNTER_REASSEMBLED,          /* of published: datagrams that came in fragments */
	IBVCAP_RX_COUNTER_INCOMPLETE_DATAGRAMS, /* given up, since a fragment did not come */
	IBVCAP_RX_COUNTER_INCOMPLETE_BYTES,     /* of their UDP datagrams that had come */
	IBVCAP_RX_COUNTER_AMBIGUOUS,            /* fragments: repeats, or of datagrams that are lost */
	IBVCAP_RX_COUNTER_MALFORMED,            /* of published: the lengths in the headers are wrong */
	/* Of no_buffer: the daemon did not read the device for a second or more, between the two readings that show the
	 * loss. */
	IBVCAP_RX_COUNTER_NO_BUFFER_STANDSTILL,
	IBVCAP_RX_COUNTER_N
};
static_assert(IBVCAP_RX_COUNTER_N <= IBVCAP_RX_COUNTERS_MAX, "shared layout");

/* Why no packet comes to a ring any more. */
enum ibvcap_ring_end {
	IBVCAP_RING_END_NONE = 0,    /* packets may come */
	IBVCAP_RING_END_STOPPED = 1, /* the daemon or the stream ends */
	IBVCAP_RING_END_FAILED = 2,  /* the device's queue failed, and cannot be reset; other queues may go on */
};

/*
 * At offset 0 of the ring segment. The first part is constant once ready. head and floor have cache lines of their own,
 * since the worker writes them at different rates.
 */
struct ibvcap_ring {
	struct ibvcap_segment segment;

	/* Geometry, constant. */
	uint32_t slots_per_block;  /* N, a multiple of 64 */
	uint32_t slot_bytes;       /* S, the most bytes of a packet in its payload row */
	uint32_t header_stride;    /* distance between header rows: a multiple of 64, at least header_bytes */
	uint32_t header_bytes;     /* so many bytes from the start of a frame are in its header row */
	uint32_t n_blocks;         /* physical */
	uint32_t history_blocks;   /* complete blocks kept for late readers */
	uint32_t table_entries;    /* of the block table; a power of two */
	uint32_t lease_blocks_max; /* the largest quota of a consumer */
	uint64_t block_bytes;      /* distance between blocks in the payload segment, a multiple of 4096 */
	uint64_t payload_segment_bytes;
	uint64_t headers_segment_bytes;
	uint64_t table_offset; /* in this segment: table_entries × _Atomic uint32_t physical block */
	uint64_t meta_offset;  /* in this segment: n_blocks × N × struct ibvcap_meta */
	uint64_t reserved2;
	uint32_t queue_index; /* from 0 */
	uint32_t n_queues;    /* of the stream, each with a ring */
	uint32_t page_bytes;  /* of the payload and headers segments */
	uint32_t counters_n;  /* entries of counters[] in use by the writer */
	uint32_t row_stride;  /* distance between payload rows of a block, at least S; bytes between rows are 0 */
	uint32_t application_header_bytes; /* of header_bytes: the last so many are the application's */
	uint32_t flags;                    /* enum ibvcap_ring_flag */
	uint32_t reserved1;
	char stream[IBVCAP_STREAM_NAME_MAX];

	/* The clock of the timestamps; renewed about once a second. */
	IBVCAP_ATOMIC(uint32_t) clock_source; /* enum ibvcap_clock_source */
	IBVCAP_ATOMIC(uint32_t) system_clock; /* enum ibvcap_system_clock */
	/*
	 * Bound on |timestamp − CLOCK_REALTIME of this host when the packet came| of the rows between the last two
	 * renewals, and of the newest rows as long as no program sets or slews that clock or the card's: what such a
	 * program did is in the bound after the next renewal. IBVCAP_NOT_KNOWN: the kernel or the worker took the
	 * timestamp, at some time after that. It does not hold for a row with IBVCAP_PACKET_FLAG_KERNEL_TIME.
	 */
	IBVCAP_ATOMIC(uint64_t) clock_error_ns;
	/* By how much the settings of the interface let the kernel's timestamps be late; a hint. IBVCAP_NOT_KNOWN. */
	IBVCAP_ATOMIC(uint64_t) clock_delay_ns;
	IBVCAP_ATOMIC(uint64_t) system_clock_error_ns; /* maximum error of CLOCK_REALTIME, or IBVCAP_NOT_KNOWN */
	IBVCAP_ATOMIC(int32_t) tai_offset_s;           /* TAI - UTC as the kernel has it; -1: it is not told */
	/* By how much the card's clock is faster than CLOCK_REALTIME; -1: not known. */
	IBVCAP_ATOMIC(int32_t) clock_drift_ppb;

	/* Packets published. The worker stores it with release once per batch; readers load it with acquire. */
	alignas(IBVCAP_CURSOR_ALIGN) IBVCAP_ATOMIC(uint64_t) head;
	/* The oldest block number that a consumer may still lease. Stored and loaded seq_cst; see ring.h. */
	alignas(IBVCAP_CURSOR_ALIGN) IBVCAP_ATOMIC(uint64_t) floor;
	/* enum ibvcap_ring_end. Not 0: the daemon publishes no more packets in this epoch, and head is final. */
	alignas(IBVCAP_CURSOR_ALIGN) IBVCAP_ATOMIC(uint32_t) closed;

	/* enum ibvcap_rx_counter. Written by the worker; matched and both of no_buffer by the control thread. */
	alignas(IBVCAP_CURSOR_ALIGN) IBVCAP_ATOMIC(uint64_t) counters[IBVCAP_RX_COUNTERS_MAX];

	/* Constant. */
	alignas(IBVCAP_CURSOR_ALIGN) struct ibvcap_sequence sequence;

	/* Written by the control thread. */
	/* Grows when the interface goes down, is renamed or goes away, and when it is back: odd while it is down. */
	alignas(IBVCAP_CURSOR_ALIGN) IBVCAP_ATOMIC(uint64_t) outages;
	IBVCAP_ATOMIC(uint64_t) outage_from_ns;  /* of the last one, UTC: stored before outages */
	IBVCAP_ATOMIC(uint64_t) outage_until_ns; /* likewise */
	/*
	 * Packets that the interface, or the kernel, has dropped before the flow rules in this epoch: of any stream and
	 * program. All that it had counted by the CLOCK_MONOTONIC time interface_read_ns, which is stored last.
	 */
	IBVCAP_ATOMIC(uint64_t) interface_lost;
	IBVCAP_ATOMIC(uint64_t) interface_lost_from_ns;  /* UTC: the last ones were dropped since that time, … */
	IBVCAP_ATOMIC(uint64_t) interface_lost_until_ns; /* … and before that; stored before interface_lost */
	IBVCAP_ATOMIC(uint64_t) interface_read_ns;
	/*
	 * Grows when the interface may drop packets that nothing counts, and when it counts all again: odd while it
	 * may. 0: it has counted all in this epoch. The upper half grows when the flow rules change while it counts
	 * all: packets may pass these uncounted. Stored before interface_read_ns.
	 */
	IBVCAP_ATOMIC(uint64_t) interface_uncounted;
	/*
	 * Timestamp minus the sensor's own time, of packets of the newest second that had one: least, median and
	 * greatest. -1: not known.
	 */
	IBVCAP_ATOMIC(int64_t) sensor_offset_min_ns;
	IBVCAP_ATOMIC(int64_t) sensor_offset_ns;
	IBVCAP_ATOMIC(int64_t) sensor_offset_max_ns;

	alignas(IBVCAP_CURSOR_ALIGN) struct ibvcap_ledger ledger;
};
static_assert(offsetof(struct ibvcap_ring, slots_per_block) == 32, "shared layout");
static_assert(offsetof(struct ibvcap_ring, stream) == 144, "shared layout");
static_assert(offsetof(struct ibvcap_ring, head) == 256, "shared layout");
static_assert(offsetof(struct ibvcap_ring, floor) == 384, "shared layout");
static_assert(offsetof(struct ibvcap_ring, closed) == 512, "shared layout");
static_assert(offsetof(struct ibvcap_ring, counters) == 640, "shared layout");
static_assert(offsetof(struct ibvcap_ring, sequence) == 1152, "shared layout");
static_assert(offsetof(struct ibvcap_ring, outages) == 1280, "shared layout");
static_assert(offsetof(struct ibvcap_ring, ledger) == 1408, "shared layout");

/* ---- a consumer's two pages ---------------------------------------------------------------------- */

enum ibvcap_policy {
	IBVCAP_POLICY_LOSSY = 0,    /* never stalls the ring; skips packets that are recycled before it acquires them */
	IBVCAP_POLICY_LOSSLESS = 1, /* the worker keeps its packets until a deadline, if the configuration permits it */
	IBVCAP_POLICY_TAP = 2,      /* unknown to the daemon, has no page: copies a row, then checks the floor */
};

enum ibvcap_connection {
	IBVCAP_CONNECTION_OPEN = 0,
	IBVCAP_CONNECTION_ENDED = 1, /* the daemon ended it: see reason */
	/* A member of the group is to get the queue: acquire no more, release what is held, and hang up. */
	IBVCAP_CONNECTION_RECALLED = 2,
};

enum ibvcap_disconnect {
	IBVCAP_DISCONNECT_NONE = 0,
	IBVCAP_DISCONNECT_SHUTDOWN = 1,   /* the daemon ends or restarts */
	IBVCAP_DISCONNECT_BAD_CURSOR = 2, /* the consumer's page named a block that never existed */
	IBVCAP_DISCONNECT_REMOVED = 4,    /* the stream or channel was removed; published packets can still be read */
	IBVCAP_DISCONNECT_HUNG_UP = 5,    /* its connection ended: its leases protect nothing any more */
	IBVCAP_DISCONNECT_PAGE_LOST = 6,  /* the client punched a hole into its page, whose contents are lost */
	IBVCAP_DISCONNECT_RIGHTS = 7, /* a right was taken back; it may attach again with the rights that are left */
	IBVCAP_DISCONNECT_CHANNEL_FAILED = 8, /* of a sender: the channel's send queue failed and cannot be restarted */
	IBVCAP_DISCONNECT_IDLE_KICKS = 10,    /* of a sender: it woke the worker more often than it submitted packets */
	IBVCAP_DISCONNECT_RECALLED = 11,      /* of a group: it did not give the queue up in time */
};

/* The connection of a consumer or a sender. It lies in the daemon's segment about that client. */
struct ibvcap_client_link {
	IBVCAP_ATOMIC(uint32_t) connection; /* enum ibvcap_connection */
	IBVCAP_ATOMIC(uint32_t) reason;     /* enum ibvcap_disconnect */
	/* Futex word of this client alone. The notifier changes and wakes it when its wake request is due. */
	IBVCAP_ATOMIC(uint32_t) wake_word;
};

/* In a client's own page: wake it when head, or a sender's completed, is at least this. */
struct ibvcap_wake_request {
	IBVCAP_ATOMIC(uint64_t) at;        /* 0: no request */
	IBVCAP_ATOMIC(uint32_t) by_socket; /* by a byte on its socket, else by the wake word */
	uint32_t reserved;
};

/* The daemon's page about one consumer. The consumer maps it read-only. */
struct ibvcap_consumer_state {
	struct ibvcap_segment segment;
	IBVCAP_ATOMIC(uint32_t) policy; /* enum ibvcap_policy in force: a demotion makes lossless lossy */
	uint32_t lease_blocks;          /* quota: how many lease slots may be used */
	uint64_t attach_sequence;       /* the first packet that is this consumer's */
	uint64_t attach_head;           /* head when it attached: packets between the two were there before */
	struct ibvcap_client_link link;
	/* Constant. 1: it goes on where another member of its group stopped. */
	uint32_t taken_over;
	uint64_t abandoned; /* packets that this member had acquired and not released */
	uint8_t reserved[48];
};
static_assert(offsetof(struct ibvcap_consumer_state, link) == 56, "shared layout");
static_assert(sizeof(struct ibvcap_consumer_state) == 128, "shared layout");

/* What a consumer's trackers say about the packets' own numbers, summed over all sources: see ibvcap_tracker_new(). */
enum ibvcap_tracked_counter {
	IBVCAP_TRACKED_COUNTER_SOURCES, /* 0: the consumer has no tracker */
	IBVCAP_TRACKED_COUNTER_ONCE,
	IBVCAP_TRACKED_COUNTER_LOST,
	IBVCAP_TRACKED_COUNTER_REPEATED,
	IBVCAP_TRACKED_COUNTER_REORDERED,
	IBVCAP_TRACKED_COUNTER_LATE,
	IBVCAP_TRACKED_COUNTER_STRAY,
	IBVCAP_TRACKED_COUNTER_RESTARTED,
	IBVCAP_TRACKED_COUNTER_UNREAD,
	IBVCAP_TRACKED_COUNTER_UNTRACKED,
	IBVCAP_TRACKED_COUNTER_NO_BUFFER, /* of the stream, from the tracker's first packet to its last */
	IBVCAP_TRACKED_COUNTER_SKIPPED,   /* of the consumer, likewise */
	IBVCAP_TRACKED_COUNTER_ABSENCE,   /* numbers that were lost around a time for which nobody counts packets */
	IBVCAP_TRACKED_COUNTER_N
};
#define IBVCAP_TRACKED_COUNTERS_MAX 16 /* room in the consumer page */
static_assert(IBVCAP_TRACKED_COUNTER_N <= IBVCAP_TRACKED_COUNTERS_MAX, "shared layout");

/*
 * The consumer's own page. The daemon reads it, checks the bounds of all that it read, and trusts none of it. Both
 * counts only grow, and each packet is counted in one of them: attach_sequence + delivered + skipped, read in any
 * order, is never past the next packet to be acquired, which is never past head.
 */
struct ibvcap_consumer_page {
	struct ibvcap_segment segment; /* its magic is 0 once the client has punched a hole into the page */
	struct ibvcap_wake_request wake;
	uint8_t reserved0[80];
	/* Packets acquired since the attach. A lossless consumer pins those that are neither acquired nor skipped. */
	alignas(IBVCAP_CURSOR_ALIGN) IBVCAP_ATOMIC(uint64_t) delivered;
	IBVCAP_ATOMIC(uint64_t) skipped;  /* packets that were recycled before they could be acquired */
	IBVCAP_ATOMIC(uint64_t) released; /* of delivered */
	/* Each block number + 1, 0 = free. Stored seq_cst; see ring.h for the handshake with floor. */
	alignas(IBVCAP_CURSOR_ALIGN) IBVCAP_ATOMIC(uint64_t) leases[IBVCAP_LEASE_SLOTS_MAX];
	/* enum ibvcap_tracked_counter */
	alignas(IBVCAP_CURSOR_ALIGN) IBVCAP_ATOMIC(uint64_t) tracked[IBVCAP_TRACKED_COUNTERS_MAX];
};
static_assert(offsetof(struct ibvcap_consumer_page, wake) == 32, "shared layout: the magic's cache line");
static_assert(offsetof(struct ibvcap_consumer_page, delivered) == 128, "shared layout");
static_assert(offsetof(struct ibvcap_consumer_page, leases) == 256, "shared layout");
static_assert(offsetof(struct ibvcap_consumer_page, tracked) == 768, "shared layout");
static_assert(sizeof(struct ibvcap_consumer_page) == 896, "shared layout");

#endif
