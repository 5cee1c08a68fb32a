// SPDX-License-Identifier: Apache-2.0
/*
 * libibvcap: receive the UDP packets that ibvcapd captures, in the memory that the network card wrote them to, and send
 * packets from memory that the network card reads. libibvcap(3) has an example of each.
 *
 * Three parties touch the shared memory. A thread of the daemon, the stream's worker, gives memory to the card and
 * publishes the packets that the card wrote there. The program only reads them. When the program sends, it writes the
 * packets itself and a worker of the daemon hands them to the card.
 *
 * Conventions of all functions:
 * - 0 or a count on success, a negative errno on failure. errno is not set.
 * - Only a function with a timeout_ms blocks. The unit of a time is in its name.
 * - The caller frees a pointer that it was given only if the function says so.
 * - A handle may be used by one thread at a time. Different handles are independent.
 * - A handle is for the process that opened it. In a child of fork(), calls that write to shared memory fail with
 *   -ECHILD, and ibvcap_rx_close() and ibvcap_tx_close() free the child's copy only; the parent's session goes on. The
 *   child opens a handle of its own. It may read the rows of batches that the parent holds, and go on with its copy of
 *   a tap. All this holds if no other thread was in a call on the handle at the fork().
 * - The library starts no thread, installs no signal handler and writes nothing to stdout or stderr.
 *
 * Sizes. A struct that may get new fields in later versions begins with its size. The caller sets it to its own
 * sizeof, and 0 in all other fields, by IBVCAP_INIT. So a program and a library of different versions work together:
 * the library takes fields that the program does not know as 0, and does not write past the end of the program's
 * struct. A function that fills in a struct sets its size to the bytes that it wrote. -EINVAL: the size is not set: it
 * is less than the call needs, or more than 4096. -E2BIG: the program set a field that this library does not know.
 */
#ifndef IBVCAP_H
#define IBVCAP_H

#include <ibvcap/layout.h>
#include <ibvcap/layout_tx.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/**
 * Initialise a struct that begins with its size: struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);
 * In C++, write "struct", too: there is a function ibvcap_rx_info().
 */
#ifdef __cplusplus
template <typename T> inline T ibvcap_initialized()
{
	T value = T();

	value.size = sizeof(T);
	return value;
}
#define IBVCAP_INIT(type) ibvcap_initialized<type>()
#else
#define IBVCAP_INIT(type)             \
	{                             \
		.size = sizeof(type), \
	}
#endif

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* a function and a struct with the same name */
extern "C" {
#endif

#define IBVCAP_VERSION_MAJOR  0
#define IBVCAP_VERSION_MINOR  2
#define IBVCAP_CONTROL_SOCKET "/run/ibvcapd/control.sock"

/** Version of the library in use, "MAJOR.MINOR". Any thread, never blocks. */
const char *ibvcap_version(void);

/**
 * One line about the last call of this thread that failed: what failed, on what, why, and what to do. Each function
 * that returns a negative errno sets it. Valid until the thread's next call that fails.
 */
const char *ibvcap_error_text(void);

/* ---- receive ------------------------------------------------------------------------------------- */
/*
 * Losses: what the program sees, what happened, and where it is counted (ibvcap(1) explains the counters).
 *
 *   gap of a batch; IBVCAP_PACKET_FLAG_GAP   this consumer was too slow            skipped; before it goes on, gone
 *   IBVCAP_RX_BATCH_FLAG_DEMOTED             a lossless consumer was too slow      it is lossy from now on: skipped
 *   ibvcap_rx_add_losses() returns 1         it came and got no row, for anyone    no_buffer of the stream
 *   failed_queues of the info                a queue of the card failed            no_buffer; failures of the counts
 *   IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN         the daemon was restarted              nowhere; epochs of the counts
 *   IBVCAP_RX_BATCH_FLAG_TAKEN_OVER          a member of the group left its queue  abandoned of the counts
 *   IBVCAP_PACKET_FLAG_ERROR                 the card could not write the packet   errored of the stream
 *   IBVCAP_PACKET_FLAG_TRUNCATED             payload of wire_length > its row      truncated of the stream
 *   IBVCAP_PACKET_FLAG_FRAGMENT              the sender's datagram was fragmented  fragments, fragment_lost_bytes
 *   IBVCAP_PACKET_FLAG_MALFORMED             the lengths in its headers are wrong  malformed of the stream
 *   nothing                                  the network or the port dropped it    port_discards of the interface
 *
 * Each consumer gets every packet of its queue. A stream may have several queues (n_queues of ibvcap_rx_info()), each
 * with a ring, a worker and packet numbers of its own; a handle reads one of them, or all.
 *
 * Processes that share the work form a group: handles of one user that name the same group share the queues of the
 * stream out among themselves, so that one member gets each packet. The daemon assigns the queues. A member that joins
 * gets queues of those that have more: they give a queue up when they have released its batches. If a member leaves or
 * dies, others go on with its queues where it stopped, at once. What was recycled meanwhile is skipped (gap, counts).
 * What it had acquired and not released is delivered to nobody else and counted as abandoned: only the application
 * knows how far it came. A member beyond the number of queues waits for one. The group ends with its last member.
 */

/** A receiver of one ring, the memory of a stream. */
struct ibvcap_rx;

enum ibvcap_start {
	IBVCAP_START_NEWEST = 0,       /* packets published from now on */
	IBVCAP_START_OLDEST = 1,       /* the oldest packet that the ring still has */
	IBVCAP_START_PACKETS_BACK = 2, /* this many packets before the newest */
	IBVCAP_START_NS_BACK = 3,      /* packets with timestamps of the last so many ns */
};

#define IBVCAP_NO_REATTACH UINT32_MAX
#define IBVCAP_QUEUE_ALL   UINT32_MAX /* one handle and one descriptor for all queues of the stream */

/** Memory of a device that a consumer lends: see lend of struct ibvcap_rx_options. */
struct ibvcap_rx_lent {
	size_t size;
	uint64_t offset; /* of the first payload row in the dma-buf, in whole pages */
	/*
	 * Where the program has that byte, on its device. The library only computes with it, so that payload in batches
	 * points to the rows there. Not NULL.
	 */
	void *address;
	int fd; /* of the dma-buf, open for reading and writing; the caller may close it after ibvcap_rx_open() */
	uint32_t reserved;
};

/**
 * Fill in lent, whose size is set: a dma-buf with at least so many bytes from offset on. Called in ibvcap_rx_open(),
 * and in the calls that find the next daemon, which may want another number of bytes: the caller then holds no batch,
 * and nothing is written any more to what it lent before. 0; -errno: the call that wanted memory fails with it.
 */
typedef int (*ibvcap_rx_lend_function)(void *context, uint64_t bytes, struct ibvcap_rx_lent *lent);

/** Options of ibvcap_rx_open(). 0 means the default for every field. */
struct ibvcap_rx_options {
	size_t size;
	enum ibvcap_start start;
	enum ibvcap_policy
		policy;        /* a tap can use ibvcap_rx_recv() only, and takes no consumer's place in the daemon */
	uint64_t back;         /* for PACKETS_BACK and NS_BACK; a ring with less history gives all that it has */
	uint32_t queue;        /* from 0, or IBVCAP_QUEUE_ALL; a group chooses itself */
	uint32_t lease_blocks; /* blocks that the caller may hold at once; 0 = the stream's default */
	uint32_t timeout_ms;   /* for the daemon's answer; 0 = 5000 */
	uint32_t reattach_ms;  /* to search for the next daemon after one ends; 0 = 30000, or IBVCAP_NO_REATTACH */
	/*
	 * Not empty: share the stream's queues with the other members of this group. start counts for the first member;
	 * the others go on where it is. Not with a tap.
	 */
	char group[IBVCAP_GROUP_NAME_MAX];
	/*
	 * Not NULL: be the only consumer of a stream with payload_memory = "consumer", and lend it memory for its
	 * payload rows, to which the card writes. Headers and meta are in memory of the host, as always. Not with a
	 * tap, a group or IBVCAP_QUEUE_ALL. The stream captures from ibvcap_rx_open() to ibvcap_rx_close().
	 */
	ibvcap_rx_lend_function lend;
	void *lend_context;
};

enum ibvcap_rx_batch_flag {
	/*
	 * First of a new epoch: packets before it were lost uncounted, from the end of one daemon until the next has
	 * made its rings, some tenths of a second. The timestamps before and after say how long it was.
	 */
	IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN = 1 << 0,
	IBVCAP_RX_BATCH_FLAG_DEMOTED = 1 << 1, /* the daemon made this consumer lossy: it was too slow too long */
	/* First of a queue that another member of the group has left: this handle goes on where that one stopped. */
	IBVCAP_RX_BATCH_FLAG_TAKEN_OVER = 1 << 2,
};

/**
 * A run of consecutive packets of one block, filled in by ibvcap_rx_acquire(). The caller may read what the pointers
 * point at until ibvcap_rx_release(). It does not change until then, since the daemon gives no leased block back to the
 * card. A batch is two arrays of n rows: payload, whose rows are stride bytes apart, and headers, whose rows are
 * header_stride bytes apart. A header row has the first header_bytes of its frame: the headers of the network
 * (Ethernet, IP and UDP), and behind them the first application_header_bytes of what the sender sent. A payload row has
 * the rest.
 * With IBVCAP_RING_FLAG_FRAMES (in the info) header_bytes is application_header_bytes, and the two rows are the frame.
 */
struct ibvcap_rx_batch {
	size_t size;
	const uint8_t *payload;            /* first row; row i at payload + i * stride */
	const struct ibvcap_meta *meta;    /* of row i: meta[i] */
	uint64_t sequence;                 /* packet number of row 0 within the queue and the epoch */
	uint32_t n;                        /* rows, at least 1 */
	uint32_t stride;                   /* bytes */
	uint32_t lease;                    /* for ibvcap_rx_release() */
	uint32_t header_stride;            /* bytes */
	const uint8_t *headers;            /* first header row; row i at + i * header_stride */
	uint64_t gap;                      /* packets skipped just before this batch: [sequence - gap, sequence) */
	uint64_t epoch;                    /* number of the daemon's run; packet numbers count within it */
	uint32_t flags;                    /* enum ibvcap_rx_batch_flag */
	uint32_t queue;                    /* that the packets came by, from 0 */
	uint32_t header_bytes;             /* of a frame that are in its header row: at most header_stride */
	uint32_t application_header_bytes; /* the last so many of these are the application's */
};

/**
 * Properties of the ring behind a handle. Constant within an epoch, except for policy, clock and disconnected. Of
 * several queues: those of the first one that the handle has now; attach_back is their sum. A member of a group that
 * has no queue yet knows stream, epoch and n_queues only, the rest is 0.
 */
struct ibvcap_rx_info {
	size_t size;
	char stream[IBVCAP_STREAM_NAME_MAX];
	uint64_t epoch;
	uint32_t queue;      /* from 0; IBVCAP_QUEUE_ALL: of a group or of all queues */
	uint32_t n_queues;   /* of the stream */
	uint32_t slot_bytes; /* the most bytes of a packet in its payload row */
	uint32_t slots_per_block;
	uint32_t history_blocks;
	uint32_t lease_blocks;     /* granted to this consumer */
	enum ibvcap_policy policy; /* in force: the daemon demotes a lossless consumer that is too slow for too long */
	uint32_t page_bytes;
	enum ibvcap_clock_source clock_source;
	uint32_t n_attached;     /* queues that this handle reads now */
	uint64_t clock_error_ns; /* bound of the timestamps' error against CLOCK_REALTIME; IBVCAP_NOT_KNOWN */
	uint64_t payload_segment_bytes;
	uint64_t attach_sequence; /* the first packet of this consumer */
	uint64_t attach_back;     /* packets of the past that it got, of those that options->back asked for */
	uint32_t row_stride;      /* distance between payload rows: the stride of batches */
	uint32_t header_stride;   /* … and these three are as in batches */
	uint32_t header_bytes;
	uint32_t application_header_bytes;
	uint32_t flags;        /* enum ibvcap_ring_flag */
	uint32_t disconnected; /* 1: the daemon, or its connection for a queue, has ended: packets are missed */
	/* Bit k: queue k, which this handle read, has failed in this epoch; failures of the counts has more. */
	uint32_t failed_queues;
	enum ibvcap_system_clock system_clock; /* whether a program keeps CLOCK_REALTIME right */
	/* By how much the settings of the interface let the kernel's timestamps be late: a hint. IBVCAP_NOT_KNOWN. */
	uint64_t clock_delay_ns;
	uint64_t system_clock_error_ns; /* maximum error of CLOCK_REALTIME, by that program; IBVCAP_NOT_KNOWN */
	int32_t tai_offset_s;           /* TAI - UTC, by the kernel; -1: it is not told */
	int32_t clock_drift_ppb;        /* by which the card's clock is faster than CLOCK_REALTIME; -1: not known */
	/* Timestamp minus the sensor's time, in the newest second: least, median and greatest; -1: not known. */
	int64_t sensor_offset_min_ns;
	int64_t sensor_offset_ns;
	int64_t sensor_offset_max_ns;
};

/**
 * Counts of packets since the attach: published = delivered + skipped + lag, exactly. Over all epochs and queues
 * together; of a queue that the handle has given up, until then. Packets lost between two epochs are in none of these.
 */
struct ibvcap_rx_counts {
	size_t size;
	uint64_t published; /* rows that the worker published since this consumer attached */
	uint64_t delivered; /* acquired */
	uint64_t skipped;   /* recycled before they were acquired */
	uint64_t lag;       /* published, not acquired yet; if it is longer than the ring, some are lost already */
	uint64_t epochs;    /* times that the handle went on in a new epoch */
	/* Packets that members of the group had acquired and not released when this handle got their queues. */
	uint64_t abandoned;
	/* Times that a queue of this handle failed in its device: what came to it since is no_buffer of the stream. */
	uint64_t failures;
};

/**
 * Packets of one stream that came and got no row (its counter no_buffer), for all consumers: from the first batch that
 * ibvcap_rx_add_losses() was given, on, over all epochs. Begin with IBVCAP_INIT. One serves all handles that read the
 * stream, since each queue shows the losses of the whole stream.
 */
struct ibvcap_rx_losses {
	size_t size;
	uint64_t packets;   /* lost before the batch that was added last */
	uint64_t before;    /* of packets: those that the last batch told of */
	uint64_t before_ns; /* when the daemon read from the card that they were lost, UTC; it reads often */
	uint64_t after;     /* not in packets: known by now, but maybe lost after that batch */
	uint64_t after_ns;
	/* For ibvcap_rx_add_losses() only. */
	uint64_t epoch;
	uint64_t epoch_before;
	uint64_t counted;
	uint64_t known;
	uint64_t counted_ns;
	/* For all again: when the daemon had last read from the card without these `before`. */
	uint64_t since_ns;
	uint64_t unjoined; /* of before: datagrams of which a fragment did not come, or does not fit to the others */
	uint64_t counted_unjoined; /* for ibvcap_rx_add_losses() only */
};

/**
 * Attach to a stream by name. socket_path NULL: the environment's IBVCAP_SOCKET, else IBVCAP_CONTROL_SOCKET. options
 * NULL: defaults. Blocks for at most options->timeout_ms.
 *
 * -ENOENT no socket at that path · -ECONNREFUSED no process listens on the socket · -ESRCH the daemon has no stream of
 * that name · -EACCES this user may not use the socket, the stream or the policy · -EAGAIN all consumer places or
 * leases are taken · -EIO the device's queue has failed · -EPROTO another protocol or ABI version · -ETIMEDOUT ·
 * -ENOMEM · -EMFILE · -EINVAL, -E2BIG options. On failure *rx is unchanged, nothing stays open or mapped, and
 * ibvcap_error_text() says more.
 */
int ibvcap_rx_open(const char *socket_path, const char *stream, const struct ibvcap_rx_options *options,
                   struct ibvcap_rx **rx);

/**
 * Let handles that were opened for one queue each begin at one moment, before a packet is acquired from any: the
 * earliest timestamp from which on each has all packets of its queue. Packets with an older one are passed over: they
 * are in no batch and in no count. ibvcap_rx_open() does this for all queues of a handle. 0; -EPROTO.
 */
int ibvcap_rx_begin_together(struct ibvcap_rx *const *handles, uint32_t n);

/**
 * Give back leases, mappings and socket, and free the handle. Its batches become invalid. NULL is allowed. A child of
 * fork() has the mappings too: the daemon frees the consumer's place when the child has closed its copy of the handle,
 * ended, or called execve().
 */
void ibvcap_rx_close(struct ibvcap_rx *rx);

/**
 * Lease the next packets: at most max (0 is -EINVAL), never more than the rest of one block. Waits up to timeout_ms (-1
 * = for ever, 0 = not at all) for at least min packets (0 or 1: any; limited to max and to the rest of the block), then
 * takes all that are there, up to max. batch->size must be set, to at least the fields up to lease.
 *
 * Returns batch->n, or 0: no packets in time. -ENOBUFS: the caller holds as many blocks as its quota of leases allows,
 * or the epoch has ended and the caller holds batches of it: release them, and call again. -ESHUTDOWN: the daemon
 * ended, all that it published was delivered, and no other daemon answered within reattach_ms. -ENODEV: the
 * administrator removed the stream. -EIO: the device's queue has failed, all that it published was delivered, and no
 * next daemon answered within reattach_ms. -ECONNABORTED: the daemon disconnected this consumer and still runs. -EINTR:
 * a signal came during the wait. -EPROTO: the ring names a block that it does not have. -EOPNOTSUPP: a tap. -EACCES and
 * other errors of ibvcap_rx_open(): the next daemon refuses. ibvcap_error_text() says more about a failed search for
 * the next daemon.
 *
 * When the daemon ends, restarts or dies, all that it published is delivered first. Then this call waits for the next
 * daemon, within timeout_ms as for packets, and goes on with the oldest packet of its epoch. The first batch there has
 * IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN, packet numbers start again, and the ring's geometry may be another. Failures that
 * may pass (no listener yet, no place in the daemon, no memory or descriptors in this process) are retried until
 * reattach_ms are over. If one of several queues fails, a handle that has others goes on with these, and has the failed
 * one again from the next daemon on: see failures of ibvcap_rx_counts(). If only this connection ended while the daemon
 * runs on, no packet is delivered twice: a consumer gets -ECONNABORTED; a tap (of a child whose parent has ended, for
 * example) goes on where it was, its gap counted.
 */
int ibvcap_rx_acquire(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min, int timeout_ms);

/**
 * Return a batch, each once, in any order. Never blocks. -EINVAL: the caller does not hold this batch. -ECONNABORTED:
 * it is returned, but the daemon disconnected this consumer before, which ended the lease: the rows may have held
 * newer packets while the caller read them.
 */
int ibvcap_rx_release(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch);

/**
 * Copy the next packet's payload, at most bytes of it, and its meta (may be NULL). Rows marked IBVCAP_PACKET_FLAG_ERROR
 * are left out. Returns 1, 0: no packet in time, or an error of ibvcap_rx_acquire(). *length is the payload's length.
 * meta->flags also says what happened just before this packet: IBVCAP_PACKET_FLAG_GAP, _GAP_UNKNOWN (the daemon was
 * restarted), _DEMOTED. A waiting tap looks every millisecond. A consumer with a quota of 1 lease must release its
 * batch first. -EOPNOTSUPP: the handle lends memory, which is read on its device.
 */
int ibvcap_rx_recv(struct ibvcap_rx *rx, void *buffer, size_t bytes, size_t *length, struct ibvcap_meta *meta,
                   int timeout_ms);

/**
 * A descriptor for poll() or epoll. It becomes readable when ibvcap_rx_acquire(), after it returned 0, may have
 * something new: packets, the end of the daemon, the time to search for the next one, its answer, or the end of
 * reattach_ms. So a program that calls ibvcap_rx_acquire() with timeout_ms 0 until it returns 0, and then polls,
 * needs no timer. Call this once before the first poll; the descriptor stays the same in every epoch. The library
 * reads from it and closes it. -EOPNOTSUPP: a tap. Another -errno: no descriptor is available now.
 */
int ibvcap_rx_fd(struct ibvcap_rx *rx);

/**
 * Add what a batch that the caller holds tells of the card's losses. For each batch, in the order in which they were
 * acquired. Never blocks. 1: losses->before packets were lost since the batch that told of some before; 0: none were;
 * -EINVAL: the caller does not hold the batch, or the size is not set.
 */
int ibvcap_rx_add_losses(const struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch,
                         struct ibvcap_rx_losses *losses);

/** Never blocks. 0; -EINVAL: the size is not set. */
int ibvcap_rx_info(const struct ibvcap_rx *rx, struct ibvcap_rx_info *info);
/** Never blocks. 0; -EINVAL: the size is not set. */
int ibvcap_rx_counts(const struct ibvcap_rx *rx, struct ibvcap_rx_counts *counts);

/* What a mapping of a handle holds. */
enum ibvcap_rx_memory_kind {
	IBVCAP_RX_MEMORY_PAYLOAD = 0, /* payload rows */
	IBVCAP_RX_MEMORY_HEADERS = 1, /* header rows */
	IBVCAP_RX_MEMORY_RING = 2,    /* the ring itself; the meta of all rows is in it */
};

/**
 * A mapping of a handle: shared with the daemon, and read-only to this process. For a program that registers the memory
 * of its batches with a device, which it must undo before the mapping goes: see ibvcap_rx_on_unmap().
 */
struct ibvcap_rx_memory {
	size_t size;
	const void *address;
	uint64_t bytes;
	uint64_t generation; /* a number of this mapping alone: no other one of the handle ever has it */
	uint64_t epoch;      /* of the ring */
	uint32_t page_bytes; /* 4096, or the size of the hugepages */
	uint32_t queue;      /* of the stream */
	enum ibvcap_rx_memory_kind kind;
	uint32_t reserved;
};

/**
 * Describe the mapping of that index, from 0. Each queue that is attached now has three, one of each kind, in that
 * order; a tap has them, too. Batches point into them. Never blocks. 1; 0: there is no such index; -EINVAL: the size is
 * not set.
 */
int ibvcap_rx_memory(const struct ibvcap_rx *rx, uint32_t index, struct ibvcap_rx_memory *memory);

/* For ibvcap_rx_on_unmap(). */
typedef void (*ibvcap_rx_unmap_function)(void *context, const struct ibvcap_rx_memory *memory);

/**
 * Have function called before a mapping goes: when the handle leaves an epoch or gives a queue up, in
 * ibvcap_rx_acquire(), ibvcap_rx_recv() and ibvcap_rx_release(), by the thread that called these; and in
 * ibvcap_rx_close(). The caller then holds no batch that points into the mapping, but in ibvcap_rx_close() it may. The
 * function must not call the handle. It may hear of a mapping that ibvcap_rx_memory() never described. It is not called
 * in a child of fork(), whose copies of the mappings are no device's. NULL: no more. Never blocks. 0; -EBUSY: there is
 * a function already; -ECHILD.
 */
int ibvcap_rx_on_unmap(struct ibvcap_rx *rx, ibvcap_rx_unmap_function function, void *context);

/** First byte of row i's payload. In an ordinary row it is the row's first byte, in an irregular one a later one. */
inline const uint8_t *ibvcap_rx_payload(const struct ibvcap_rx_batch *batch, uint32_t i)
{
	return batch->payload + (size_t)i * batch->stride + batch->meta[i].header_length +
	       batch->application_header_bytes - batch->header_bytes;
}

/** First byte of row i's header row: of its Ethernet header. The frame's application header is at + header_length. */
inline const uint8_t *ibvcap_rx_headers(const struct ibvcap_rx_batch *batch, uint32_t i)
{
	return batch->headers + (size_t)i * batch->header_stride;
}

/* ---- what is known of the losses ------------------------------------------------------------------ */
/*
 * What a receiver got between two moments is complete, incomplete, or not proven. Take a moment before the first packet
 * and one behind the last, settle both, and compare them. A moment is settled when the daemon has accounted for every
 * packet that came before it, which takes some 0.1 s.
 */

enum ibvcap_verdict {
	IBVCAP_VERDICT_COMPLETE = 0,   /* every packet that the device gave to the stream was delivered */
	IBVCAP_VERDICT_INCOMPLETE = 1, /* packets are missing */
	IBVCAP_VERDICT_NOT_PROVEN = 2, /* none is known to be missing, but something cannot be known */
};

/* Why the losses of an interval cannot be known. */
enum ibvcap_unknown {
	IBVCAP_UNKNOWN_RESTART = 1 << 0,   /* the daemon was restarted, or its interface made anew: nobody counts */
	IBVCAP_UNKNOWN_AWAY = 1 << 1,      /* the daemon was away at an end of the interval */
	IBVCAP_UNKNOWN_FAILED = 1 << 2,    /* a queue of the device had failed */
	IBVCAP_UNKNOWN_OUTAGE = 1 << 3,    /* the interface was down, renamed or gone */
	IBVCAP_UNKNOWN_UNSETTLED = 1 << 4, /* the moment at the end is not settled */
	IBVCAP_UNKNOWN_EDGE = 1 << 5,      /* packets got no row near an end of the interval, inside or outside */
	IBVCAP_UNKNOWN_QUEUES = 1 << 6,    /* the stream had queues that were not read */
	IBVCAP_UNKNOWN_REMOVED = 1 << 7,   /* the administrator removed the stream */
	IBVCAP_UNKNOWN_ABANDONED = 1 << 8, /* a member of the group left with packets that it had acquired */
	IBVCAP_UNKNOWN_INTERFACE = 1 << 9, /* packets, of this stream or others, were lost before the flow rules */
	/* No packet has come since the handle was opened, so nothing shows that packets of the stream can come. */
	IBVCAP_UNKNOWN_NO_PACKETS = 1 << 10,
	IBVCAP_UNKNOWN_FRAGMENTS = 1 << 11, /* IP fragments came again, without the first one, or do not fit */
};

/* What a queue lost in an epoch until some moment: see struct ibvcap_ledger in layout.h. */
struct ibvcap_settled_losses {
	uint64_t marks;
	uint64_t least;
	uint64_t most;
	uint64_t outages;
	uint64_t ambiguous;
	uint64_t unjoined;
};

/** A moment between two packets of a handle. Begin with IBVCAP_INIT. The fields from state on are the library's. */
struct ibvcap_rx_moment {
	size_t size;
	uint64_t utc_ns;
	uint64_t epoch;      /* 0: the handle is not attached now */
	uint64_t sequence;   /* of the next packet in that epoch; of a handle of several queues: 0 */
	uint32_t n_queues;   /* of the stream, in that epoch */
	uint32_t is_settled; /* 1: ibvcap_rx_settle_moment() has returned 1 */
	uint32_t state;
	uint32_t queues; /* bit k: the handle reads queue k */
	uint64_t monotonic_ns;
	uint64_t epochs;
	uint64_t delivered;
	uint64_t skipped;
	uint64_t abandoned;
	uint64_t failures;
	uint64_t outage_from_ns;
	uint64_t outage_until_ns;
	/* Packets that the interface lost before the flow rules in the epoch: surely before it, and until it. */
	uint64_t interface_before;
	uint64_t interface_after;
	uint64_t interface_from_ns; /* the last ones, UTC */
	uint64_t interface_until_ns;
	/* These grow when it may lose packets that nothing counts, and when it counts all again: odd while it may. */
	uint64_t interface_uncounted_before;
	uint64_t interface_uncounted_after;
	uint64_t interface_quiet_ns; /* UTC: it had lost none of the epoch's but interface_before then; 0: not known */
	struct ibvcap_settled_losses past; /* of earlier epochs: least and outages */
	struct ibvcap_settled_losses before;
	struct ibvcap_settled_losses after;
};

/** What is known of the packets between two moments. Begin with IBVCAP_INIT. */
/* Why packets may have been lost before the flow rules without a count. */
enum ibvcap_uncounted {
	IBVCAP_UNCOUNTED_INTERFACE = 1 << 0,  /* the interface did not count all, at the end or for a time */
	IBVCAP_UNCOUNTED_FLOW_RULES = 1 << 1, /* the flow rules changed */
};

struct ibvcap_rx_account {
	size_t size;
	uint64_t from_ns;  /* UTC */
	uint64_t until_ns; /* UTC */
	uint64_t delivered;
	uint64_t skipped;
	uint64_t abandoned;
	/*
	 * Lost by the card, for all consumers and all queues of the stream. A loss near a moment is counted in one of
	 * the two intervals that meet there: this one has lost at least no_buffer_least, at most no_buffer_most.
	 */
	uint64_t no_buffer;
	uint64_t no_buffer_least;
	uint64_t no_buffer_most;  /* 0: the queue has lost nothing. UINT64_MAX: not known */
	uint64_t restarts;        /* of the daemon */
	uint64_t failures;        /* of queues */
	uint64_t outages;         /* times that the interface was down, one that lasts included */
	uint64_t outage_from_ns;  /* of the last one, UTC */
	uint64_t outage_until_ns; /* 0: it lasts */
	uint64_t missing; /* skipped + no_buffer_least. Add to it what else is missing: rows in error, for example */
	uint32_t unknown; /* enum ibvcap_unknown */
	/* 0: packets may have been lost before the flow rules, in the interval or up to 2 s before it, uncounted. */
	uint32_t interface_counts_all;
	/*
	 * Packets that the card, its driver or the kernel dropped before the flow rules, of any stream or program, in
	 * the interval or up to 2 s before it. 0 after a restart of the daemon.
	 */
	uint64_t interface_lost;
	uint64_t interface_from_ns; /* the last ones were dropped between these times, UTC */
	uint64_t interface_until_ns;
	/* UTC: the first ones were counted after that time. 0: not known. See ibvcap_rx_settle_moment(). */
	uint64_t interface_quiet_ns;
	/*
	 * Of no_buffer, with reassembly: datagrams of which a fragment did not come, or does not fit to the others. All
	 * others of no_buffer found no free row, or ibvcap(1) has their reason.
	 */
	uint64_t unjoined;
	uint64_t interface_uncounted; /* enum ibvcap_uncounted: why interface_counts_all is 0. 0: it is not known */
};

/**
 * The moment before the next packet that the handle will acquire. Between the batches of a handle that holds one, the
 * losses before it are known less exactly. Never blocks. 0; -EINVAL: the size is not set.
 */
int ibvcap_rx_take_moment(struct ibvcap_rx *rx, struct ibvcap_rx_moment *moment);

/**
 * Ask what the daemon has settled since the moment was taken. Never blocks. 1: the moment is settled, or cannot be any
 * more, which the account says; 0: not yet, call again some ms later; -EINVAL: the size is not set. Each call notes
 * until when the interface has lost nothing, too: a program that wants interface_quiet_ns calls this now and then, for
 * the first of its two moments.
 */
int ibvcap_rx_settle_moment(const struct ibvcap_rx *rx, struct ibvcap_rx_moment *moment);

/** Compare two moments of one handle. Pure. 0; -EINVAL: a size is not set, or they are not in this order. */
int ibvcap_rx_account_between(const struct ibvcap_rx_moment *from, const struct ibvcap_rx_moment *until,
                              struct ibvcap_rx_account *account);

/**
 * Add the settled moment of one queue to that of a stream, for a program with a handle for each queue. The first queue
 * is added to a moment of IBVCAP_INIT. Losses of the card are counted by the stream: an account between two such
 * moments says more of them than the accounts of the queues. Pure. 0; -EINVAL: a size is not set.
 */
int ibvcap_moment_add_queue(struct ibvcap_rx_moment *stream, const struct ibvcap_rx_moment *queue);

/** missing: incomplete; otherwise unknown: not proven; otherwise complete. Pure. */
enum ibvcap_verdict ibvcap_account_verdict(const struct ibvcap_rx_account *account);

/** "complete", "incomplete", "not proven". NULL: there is no such verdict. Pure. */
const char *ibvcap_verdict_word(enum ibvcap_verdict verdict);
/** "restart", "away", … of one bit of enum ibvcap_unknown. NULL: there is no such bit. Pure. */
const char *ibvcap_unknown_word(uint32_t bit);
/** A sentence about it, without a full stop. NULL likewise. Pure. */
const char *ibvcap_unknown_text(uint32_t bit);

/* ---- the packets' own number --------------------------------------------------------------------- */
/*
 * Most protocols number their packets. A tracker counts by these numbers what was lost, wherever it was lost: in the
 * sender, the network, the card, or because this consumer was too slow. The stream's configuration says where the
 * number is ("sequence" in ibvcapd.conf(5)), and ibvcap_rx_sequence() returns that.
 *
 * Each source has numbers of its own. A packet with the key count_bytes takes as many numbers as it says, from its own
 * number on (MoldUDP64 numbers messages); any other packet takes one. All counts are of numbers. For each source:
 *
 * - run: what came from the first packet of the source on, or from a restart on, until the next restart. Numbers from
 *   before the first packet of a run are not known to be sent, unless they come later.
 * - arrived: numbers of packets that came = once + repeated.
 * - once: numbers of the run that came at least once.
 * - repeated: numbers that came although they had come before.
 * - sent: numbers from the first to the highest of each run = once + lost, exactly, at any time.
 * - lost: numbers of sent that did not come so far. A missing number counts as lost as soon as a higher one comes, as
 *   in the cumulative loss of RFC 3550 (6.4.1, A.3), and no longer when it comes after all. So a number that is only
 *   late by a few packets is among lost until it comes, and lost may shrink.
 * - reordered: of once, numbers that came after a higher one, as in RFC 4737, 3.3 (Type-P-Reordered); each of them was
 *   lost before, unless it is from before the run's first.
 * - window: numbers behind the highest that the tracker remembers; at most half of all values that a number has, as in
 *   RFC 1982. In the window, a number is known as reordered or repeated. Behind it, a packet is late.
 * - late: numbers of packets behind the window. They are too late to tell whether they came before: they are not in
 *   arrived, and stay what they are. RFC 3550 calls these misordered by more than MAX_MISORDER.
 * - stray: numbers ahead of the highest by more than jump. They are not in arrived, and change nothing: a single packet
 *   has a damaged number (RFC 3550, A.1: MAX_DROPOUT). A gap of up to jump is a loss. The packets that this
 *   consumer skipped since the source's last packet are added to jump, since they explain a longer gap.
 * - restarted: times that a new run began: two packets of the source in a row were late or stray, and had two numbers
 *   near each other (at most a window apart), as in RFC 3550, A.1, where they are consecutive. Both then count as
 *   arrived in the new run, and no longer as late or stray.
 *
 * Limits that no tracker can pass: a loss of as many packets as the number has values, or a multiple, is invisible (16
 * for the 4-bit counters of VITA 49); a restart to within the jump or the window is a loss or a repetition; what was
 * lost before the first packet or after the last is unknown.
 *
 * A tracker takes its memory when it is made. One thread at a time uses it.
 */

/** The account of the sources of one stream. */
struct ibvcap_tracker;

/** Options of ibvcap_tracker_new(). 0 means the default for every field. */
struct ibvcap_tracker_options {
	size_t size;
	uint32_t max_sources; /* room for so many, at most 65536; 0 = 256. The packets of others are untracked */
	uint32_t own;         /* 1: the description is the program's own, whatever that of a stream says */
	uint32_t max_missing; /* ranges of missing numbers that it lists: see ibvcap_tracker_missing() */
	uint32_t reserved;
};

/** This struct does not grow. */
struct ibvcap_tracker_numbers {
	uint64_t arrived;
	uint64_t once;
	uint64_t repeated;
	uint64_t sent;
	uint64_t lost;
	uint64_t reordered;
	uint64_t late;
	uint64_t stray;
	uint64_t restarted;
};

/** The counts cover all sources, and packets that belong to none. */
struct ibvcap_tracker_counts {
	size_t size;
	struct ibvcap_tracker_numbers numbers;
	uint64_t packets; /* all that the tracker was given */
	/* Of packets: no number can be read: too short, malformed, in error, or an IP fragment behind the first one. */
	uint64_t unread;
	uint64_t untracked; /* of packets: of sources for which there was no room */
	/*
	 * Of numbers.lost, by where they were lost: lost = lost_after_card + lost_in_card + lost_unread +
	 * lost_in_absence + lost_before_card. What was sent twice and lost once is counted at the last place that lost
	 * it; all are 0 if a packet takes several numbers, since the other counts are of packets.
	 */
	uint64_t lost_after_card;  /* by this consumer, which skipped them */
	uint64_t lost_in_card;     /* came and got no row: no_buffer of the stream since the tracker's first block */
	uint64_t lost_unread;      /* in packets that came, but whose number cannot be read */
	uint64_t lost_before_card; /* in the sender, the network, or the port: the rest */
	uint32_t n_sources;
	uint32_t reserved;
	/*
	 * Around a restart of the daemon, an outage of the interface, or the end of a member of the group: then, or in
	 * the sender or the network. Which, cannot be told.
	 */
	uint64_t lost_in_absence;
};

/** A source: what its packets have in common, and its counts. What does not tell the stream's sources apart is 0. */
struct ibvcap_tracker_source {
	size_t size;
	struct ibvcap_tracker_numbers numbers;
	uint64_t packets;
	uint8_t address[16]; /* of the sender; IPv4 as ::ffff:a.b.c.d */
	uint8_t destination[16];
	uint16_t port;
	uint16_t destination_port;
	uint32_t field_bytes;
	uint8_t field[IBVCAP_SOURCE_BYTES_MAX]; /* of the payload, masked; its first byte first */
};

/** What a packet is by its number; enum order is no rank. */
enum ibvcap_tracked_kind {
	IBVCAP_TRACKED_IN_ORDER = 0,   /* the number after the highest, or the first packet of its source */
	IBVCAP_TRACKED_AFTER_LOSS = 1, /* numbers before it are missing so far */
	IBVCAP_TRACKED_REORDERED = 2,
	IBVCAP_TRACKED_REPEATED = 3,
	IBVCAP_TRACKED_LATE = 4,
	IBVCAP_TRACKED_STRAY = 5,
	IBVCAP_TRACKED_RESTARTED = 6, /* the packet that confirms a restart, after one that was late or stray */
	IBVCAP_TRACKED_UNREAD = 7,    /* number and source are not known */
	IBVCAP_TRACKED_UNTRACKED = 8, /* likewise: there was no room for its source */
};

/** This struct does not grow. */
struct ibvcap_tracked {
	uint64_t number; /* the first that the packet takes, in steps, counted on when the number begins again at 0 */
	uint32_t source; /* index for ibvcap_tracker_source() */
	uint32_t kind;   /* enum ibvcap_tracked_kind */
};

/** A packet in two pieces; for packets that do not come in batches. This struct does not grow. */
struct ibvcap_packet {
	const uint8_t *headers; /* the frame's first bytes; NULL if header_bytes is 0 */
	const uint8_t *row;     /* the bytes after these */
	uint32_t header_bytes;
	uint32_t row_bytes;
	uint32_t payload_at;   /* bytes from the first one to the payload, from which the offsets of a sequence count */
	bool has_headers;      /* the first byte is that of the Ethernet header; false: it may be that of the payload */
	uint64_t timestamp_ns; /* for the list of missing numbers alone */
};

/** Numbers of a source that are missing, without one between them that came. This struct does not grow. */
struct ibvcap_missing {
	uint64_t first;     /* counted on, as the number in struct ibvcap_tracked */
	uint64_t n;         /* numbers */
	uint64_t before_ns; /* timestamp of the source's packet before them */
	uint64_t after_ns;  /* and of the one that came next, after which they are missing */
	uint32_t source;    /* index for ibvcap_tracker_source() */
	uint32_t run;       /* of the source: 0, and one more after each restart */
};

/**
 * Where the stream's packets have their number. Never blocks. 1; 0: the configuration does not say, and *sequence is
 * all 0. It changes only when the handle goes on in a new epoch. -EAGAIN: a member of a group has no queue yet: ask
 * after the first batch.
 */
int ibvcap_rx_sequence(const struct ibvcap_rx *rx, struct ibvcap_sequence *sequence);

/** Make a tracker. options NULL: defaults. 0; -EINVAL: the description is unsound or empty; -E2BIG; -ENOMEM. */
int ibvcap_tracker_new(const struct ibvcap_sequence *sequence, const struct ibvcap_tracker_options *options,
                       struct ibvcap_tracker **tracker);

/** NULL is allowed. */
void ibvcap_tracker_free(struct ibvcap_tracker *tracker);

/**
 * Count the rows of a batch that the caller holds, once, in the order in which they were acquired. tracked, if not
 * NULL, gets what each row is: batch->n entries. The daemon's status shows the counts of all sources from now on.
 * Never blocks and allocates nothing. 0; -EINVAL: the caller does not hold the batch; -ESTALE: since a restart of the
 * daemon the stream has another sequence, and the tracker has not one of its own: make a new tracker.
 */
int ibvcap_rx_track(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch, struct ibvcap_tracker *tracker,
                    struct ibvcap_tracked *tracked);

/**
 * Count a packet from elsewhere: a tap's copy, a file. tracked may be NULL. 0; -EINVAL: sources differ by headers,
 * which the packet does not have.
 */
int ibvcap_tracker_add(struct ibvcap_tracker *tracker, const struct ibvcap_packet *packet,
                       struct ibvcap_tracked *tracked);

/** Never blocks. 0; -EINVAL: the size is not set. */
int ibvcap_tracker_counts(const struct ibvcap_tracker *tracker, struct ibvcap_tracker_counts *counts);
/**
 * Copy ranges of missing numbers, max at most, from that index on, in the order in which they were found to be missing.
 * A number that comes after all leaves the list. The list keeps the first max_missing ranges of the options; the lost
 * numbers of the counts that it lacks are in later ones. Returns how many ranges there are from that index on, which
 * may be more than max. Never blocks.
 */
uint32_t ibvcap_tracker_missing(const struct ibvcap_tracker *tracker, uint32_t first, struct ibvcap_missing *missing,
                                uint32_t max);
/** Copy the source of that index, from 0, in the order in which they came. 1; 0: there is none; -EINVAL. */
int ibvcap_tracker_source(const struct ibvcap_tracker *tracker, uint32_t index, struct ibvcap_tracker_source *source);

/* ---- transmit ------------------------------------------------------------------------------------ */

/** One sender on one channel. It owns an arena of payload rows; the daemon sends the submitted rows in order. */
struct ibvcap_tx;

/** Options of ibvcap_tx_open(). 0 means the default for every field. */
struct ibvcap_tx_options {
	size_t size;
	uint32_t timeout_ms; /* for the daemon's answers; 0 = 5000. The daemon needs about 0.1 s for 64 MiB of arena */
	uint32_t reserved;   /* must be 0 */
};

/** Properties of the channel behind a handle. Constant. */
struct ibvcap_tx_info {
	size_t size;
	char channel[IBVCAP_CHANNEL_NAME_MAX];
	uint64_t epoch;
	uint32_t n_slots;        /* rows of the arena, so the most packets that can be reserved or submitted at once */
	uint32_t slot_bytes;     /* the longest payload */
	uint32_t n_destinations; /* as configured; a packet names one by its index, from 0 */
	uint32_t page_bytes;     /* of the arena */
	uint64_t rate_bps;       /* limit of the whole channel, in bits of Ethernet frames with FCS; 0 = no limit */
	uint64_t late_after_ns;  /* a packet with a send time is late when it leaves so long after it */
	uint32_t burst_bytes;    /* of a channel with a limit: bytes that may leave at once; 0 = chosen by the daemon */
	uint32_t reserved;
};

/** Reserved rows, consecutive in the arena. Only the caller writes to them; the device reads them once submitted. */
struct ibvcap_tx_slots {
	size_t size;
	uint8_t *payload;                     /* first row; row i at payload + i * stride */
	struct ibvcap_tx_descriptor *packets; /* of row i: packets[i]; preset to length = stride, all else 0 */
	uint64_t sequence;                    /* number of the first row's packet among all of this handle, from 0 */
	uint32_t n;                           /* rows, at least 1 */
	uint32_t stride;                      /* bytes */
};

/**
 * Counts of packets: submitted = completed + errored + flushed + late_dropped + pending, exactly. pending becomes 0
 * unless the daemon dies. Whether a packet that is pending then was sent is not known.
 */
struct ibvcap_tx_counts {
	size_t size;
	uint64_t submitted;
	uint64_t completed;    /* sent, as the device reports */
	uint64_t errored;      /* not sent; the packet's status says why */
	uint64_t flushed;      /* not sent, or unknown: the channel ended, or its device had to be reset (-ECANCELED) */
	uint64_t late_dropped; /* not sent: late, and IBVCAP_TX_FLAG_DROP_LATE was set, or etf dropped it (-ETIME) */
	uint64_t pending;
	uint64_t late;                  /* of all: more than late_after_ns after their send time */
	uint64_t completed_bytes;       /* payload bytes of completed packets */
	uint64_t wire_bytes;            /* of completed packets: Ethernet frames with FCS */
	uint64_t timed;                 /* handed to the device, with a send time */
	uint64_t timed_lateness_ns;     /* sum over timed: how long after its send time */
	uint64_t timed_lateness_max_ns; /* the longest of these */
};

/**
 * Open a channel to send on. socket_path, options and blocking as with ibvcap_rx_open().
 *
 * -ENOENT no socket at that path · -ECONNREFUSED no process listens on the socket · -ESRCH the daemon has no channel of
 * that name · -EACCES this user may not use the socket or the channel · -EAGAIN all senders' places are taken · -EPROTO
 * another protocol or ABI version · -ETIMEDOUT · -ENOMEM · -EINVAL, -E2BIG options. On failure *tx is unchanged and
 * ibvcap_error_text() says more.
 */
int ibvcap_tx_open(const char *socket_path, const char *channel, const struct ibvcap_tx_options *options,
                   struct ibvcap_tx **tx);

/**
 * Give everything back and free the handle, without waiting: packets that the worker has taken are sent, later ones are
 * not. ibvcap_tx_flush() waits. NULL is allowed. A child of fork() keeps the place as with ibvcap_rx_close().
 */
void ibvcap_tx_close(struct ibvcap_tx *tx);

/**
 * Reserve the next rows: at most max (0 is -EINVAL), never past the arena's end. Waits up to timeout_ms (-1 = for ever,
 * 0 = not at all) until at least min rows are free (0 or 1: any; limited to max and to the arena's end), then takes all
 * that are, up to max. Rows that were reserved before and not submitted are reserved again, and their packets[] reset.
 * slots->size must be set, to at least the fields up to stride.
 *
 * Returns slots->n, or 0: no row became free in time. -ESHUTDOWN: the daemon has ended; open the channel again.
 * -ENODEV: the administrator removed the channel. -EIO: the channel's device failed. -ECONNABORTED: the daemon
 * disconnected this sender. -EINTR: a signal came during the wait.
 */
int ibvcap_tx_reserve(struct ibvcap_tx *tx, struct ibvcap_tx_slots *slots, uint32_t max, uint32_t min, int timeout_ms);

/**
 * Submit the first n of the reserved rows; the rest stays reserved. The worker sends them in order. The caller must
 * not write to them until they are completed: the device may send the old bytes or the new ones. Never blocks.
 * -EINVAL: n is more than are reserved, or the first has a not_before_ns before 2001, which is of another clock or in
 * other units than ns since 1970; none is submitted. An error of ibvcap_tx_reserve() when the handle can send no more.
 */
int ibvcap_tx_submit(struct ibvcap_tx *tx, uint32_t n);

/**
 * Copy one payload into the next row and submit it. Waits up to timeout_ms for a free row. Rows that are reserved are
 * no longer. Returns 1, 0: no row became free in time. -EMSGSIZE: longer than slot_bytes. -EINVAL: no such
 * destination. Errors of ibvcap_tx_reserve().
 */
int ibvcap_tx_send(struct ibvcap_tx *tx, const void *payload, size_t bytes, uint32_t destination, int timeout_ms);

/**
 * Wait up to timeout_ms (-1 = for ever) until all submitted packets are completed. 0; -ETIMEDOUT; errors of
 * ibvcap_tx_reserve().
 */
int ibvcap_tx_flush(struct ibvcap_tx *tx, int timeout_ms);

/**
 * Statuses of the packets that completed since the last call of this, in order, at most max: statuses[0] is of packet
 * *sequence. Returns how many, 0: none. A status is 0: sent, -EMSGSIZE: longer than slot_bytes, or the MTU is too
 * small for slot_bytes now, and the channel does not cut packets into IP fragments or would make more than 64,
 * -EINVAL: no such destination or flag, -EHOSTUNREACH: the Ethernet address of the destination's next hop is not known
 * yet, -ENETDOWN: the link is down, -EIO: the device reported an error, -ETIME: late and dropped, -ECANCELED: counted
 * as flushed. The daemon overwrites a status when its row is submitted again. *sequence then jumps ahead, and the lost
 * statuses are in ibvcap_tx_counts() only. Never blocks.
 */
int ibvcap_tx_results(struct ibvcap_tx *tx, int32_t *statuses, uint32_t max, uint64_t *sequence);

/**
 * A descriptor for poll() or epoll. It becomes readable when an ibvcap_tx_reserve() that returned 0, or an
 * ibvcap_tx_flush() that returned -ETIMEDOUT, may succeed. Call this once before them. The library reads from it and
 * closes it.
 */
int ibvcap_tx_fd(struct ibvcap_tx *tx);

/** Never blocks. 0; -EINVAL: the size is not set. */
int ibvcap_tx_info(const struct ibvcap_tx *tx, struct ibvcap_tx_info *info);
/** Never blocks. 0; -EINVAL: the size is not set. */
int ibvcap_tx_counts(const struct ibvcap_tx *tx, struct ibvcap_tx_counts *counts);

/* ---- status -------------------------------------------------------------------------------------- */

/** A snapshot of the daemon: its streams and consumers, channels and senders, each with labelled counters. */
struct ibvcap_status;

/** This struct does not grow. */
struct ibvcap_counter {
	const char *label; /* snake_case; also the JSON key */
	uint64_t value;
};

/** The daemon, and how many parts of each kind the snapshot has. */
struct ibvcap_status_daemon {
	size_t size;
	char version[32];
	pid_t pid;
	uint32_t n_streams;
	uint32_t n_consumers;
	uint32_t n_channels;
	uint32_t n_senders;
	uint32_t n_interfaces;
	uint32_t n_flows; /* of all streams */
	uint32_t reserved;
	uint64_t config_written_ns; /* UTC, of the last of the configuration's files; 0: not known */
};

struct ibvcap_status_stream {
	size_t size;
	char name[IBVCAP_STREAM_NAME_MAX];
	char interface[16]; /* of the kernel */
	char device[64];    /* of the backend: RDMA device name, or empty */
	char backend[16];
	char state[16]; /* "capturing", "link_down", "interface_gone", "awaits_memory", "failed", "ending" */
	uint64_t epoch;
	uint32_t queue; /* from 0: a stream with several queues has one such entry for each */
	uint32_t slot_bytes;
	uint32_t slots_per_block;
	uint32_t n_blocks;
	uint32_t history_blocks; /* kept for late readers; a lossy consumer this many blocks behind begins to skip */
	uint32_t receive_queue_slots;
	uint32_t page_bytes;
	enum ibvcap_clock_source clock_source;
	uint64_t clock_error_ns;
	uint64_t loss_packets; /* of the last loss for want of a buffer that the ring still records; 0: none */
	uint64_t loss_from_ns; /* it happened after this time, UTC; 0: before the counter's first reading */
	uint64_t loss_to_ns;   /* … and before this one */
	const struct ibvcap_counter *counters;
	uint32_t n_counters;
	uint32_t reading_age_ms; /* since the device was asked for matched; if more than some 100, it does not answer */
	pid_t stall_pid;         /* the last consumer that stopped the queue and was then demoted, or left; 0: none */
	uid_t stall_uid;
	uint64_t stall_until_ns; /* when that was, UTC */
	uint32_t n_queues;       /* of the stream */
	/* These are as in struct ibvcap_rx_info. */
	enum ibvcap_system_clock system_clock;
	uint64_t clock_delay_ns;
	uint64_t system_clock_error_ns;
	int32_t tai_offset_s;
	int32_t clock_drift_ppb;
	int64_t sensor_offset_min_ns;
	int64_t sensor_offset_ns;
	int64_t sensor_offset_max_ns;
	char offloads[256];   /* what the stream asked of its card and got, beyond plain receiving; "": nothing */
	char closed_why[512]; /* why the stream is not open: its interface is not there, …; "": it is open */
};

/* Packets that a stream captures, on all its queues. */
struct ibvcap_status_flow {
	size_t size;
	char stream[IBVCAP_STREAM_NAME_MAX];
	uint32_t queue;            /* 0; of no meaning any more */
	int32_t vlan;              /* -1: untagged; 0: any */
	char destination[48];      /* an address or prefix as text; empty: any */
	char source[48];           /* likewise */
	uint16_t destination_port; /* 0: any */
	uint16_t source_port;      /* 0: any */
	uint32_t reserved;
	char text[256]; /* for people: all that the flow compares, and how: "10.1.0.0/16 protocol 6 priority 1 copy" */
};

struct ibvcap_status_consumer {
	size_t size;
	char stream[IBVCAP_STREAM_NAME_MAX];
	uint32_t queue;
	enum ibvcap_policy policy;
	pid_t pid;
	uid_t uid;
	const struct ibvcap_counter *counters;
	uint32_t n_counters;   /* 0: a tap, which counts for itself; the daemon knows that it is connected */
	uint32_t lease_blocks; /* that it may hold at once; 0: of a tap, or the daemon is older */
	char group[IBVCAP_GROUP_NAME_MAX]; /* whose member it is; empty: of none */
};

struct ibvcap_status_channel {
	size_t size;
	char name[IBVCAP_CHANNEL_NAME_MAX];
	char interface[16];
	char device[64];
	char backend[16];
	char state[16]; /* "sending", "link_down", "unresolved", "failed", "ending" */
	uint64_t epoch;
	uint64_t rate_bps; /* in bits of Ethernet frames with FCS; 0 = no limit */
	uint32_t burst_bytes;
	uint32_t slot_bytes;  /* the longest payload */
	uint32_t arena_slots; /* of each sender */
	uint32_t page_bytes;
	uint32_t send_queue_slots;
	uint32_t n_destinations;
	uint32_t n_unresolved; /* destinations without a known next hop: their packets end as -EHOSTUNREACH */
	uint32_t max_senders;
	const struct ibvcap_counter *counters; /* sums over all senders so far: layout_tx.h; and pending, senders */
	uint32_t n_counters;
	uint32_t reserved;
	char send_time[16];      /* what keeps the packets' send times: "worker", "qdisc", "card" */
	char send_time_why[192]; /* "": no queueing discipline on the way of its packets keeps times */
	char closed_why[512];    /* as of a stream */
};

struct ibvcap_status_sender {
	size_t size;
	char channel[IBVCAP_CHANNEL_NAME_MAX];
	pid_t pid;
	uid_t uid;
	const struct ibvcap_counter *counters; /* layout_tx.h; and pending */
	uint32_t n_counters;
	uint32_t reserved;
};

struct ibvcap_status_interface {
	size_t size;
	char interface[16];
	char device[64];
	const struct ibvcap_counter *counters; /* of the whole port: out_of_buffer, port_discards, … */
	uint32_t n_counters;
	uint32_t reading_age_ms;    /* since device and kernel were asked for them; the older of both */
	char backend[16];           /* "verbs", "xdp", "packet"; an interface with several has an entry for each */
	char backend_why[256];      /* why it is this one */
	char backend_better[256];   /* what would be faster, and what it takes; "": nothing */
	char backend_how[256];      /* what it does there that it does not do everywhere; "": nothing */
	char backend_command[256];  /* for the shell, that brings what is faster; "": there is no such command */
	uint32_t is_second_best;    /* 1: what would be faster is another backend */
	uint32_t is_auto;           /* 1: the backend of its streams and channels with backend = "auto" */
	uint32_t counts_all_losses; /* 1: its driver counts all packets that are lost before the flow rules */
	uint32_t reserved;
	char uncounted[16];    /* "nothing", or what may lose some that nobody counts: ibvcap(1) has the words */
	uint64_t loss_packets; /* that were lost before the flow rules last; 0: none */
	uint64_t loss_from_ns; /* they were counted after this time, UTC; 0: before the counters' first reading */
	uint64_t loss_to_ns;
};

/**
 * Ask the daemon for a snapshot. Root and members of the daemon's own group see all streams and channels, other users
 * those that they may attach to or open. Blocks for at most timeout_ms (0 = 5000). Errors as ibvcap_rx_open(). Free the
 * snapshot with ibvcap_status_free().
 */
int ibvcap_status(const char *socket_path, uint32_t timeout_ms, struct ibvcap_status **status);

/** NULL is allowed. Counters and labels that were copied out of the snapshot become invalid. */
void ibvcap_status_free(struct ibvcap_status *status);

/** Copy the part about the daemon. 0; -EINVAL: the size is not set. */
int ibvcap_status_daemon(const struct ibvcap_status *status, struct ibvcap_status_daemon *daemon);
/** Copy the part of that index, from 0. 1; 0: the snapshot has no such part; -EINVAL: the size is not set. */
int ibvcap_status_stream(const struct ibvcap_status *status, uint32_t index, struct ibvcap_status_stream *stream);
/** As ibvcap_status_stream(). -EINVAL: the size is not set. */
int ibvcap_status_flow(const struct ibvcap_status *status, uint32_t index, struct ibvcap_status_flow *flow);
/** As ibvcap_status_stream(). -EINVAL: the size is not set. */
int ibvcap_status_consumer(const struct ibvcap_status *status, uint32_t index, struct ibvcap_status_consumer *consumer);
/** As ibvcap_status_stream(). -EINVAL: the size is not set. */
int ibvcap_status_channel(const struct ibvcap_status *status, uint32_t index, struct ibvcap_status_channel *channel);
/** As ibvcap_status_stream(). -EINVAL: the size is not set. */
int ibvcap_status_sender(const struct ibvcap_status *status, uint32_t index, struct ibvcap_status_sender *sender);
/** As ibvcap_status_stream(). -EINVAL: the size is not set. */
int ibvcap_status_interface(const struct ibvcap_status *status, uint32_t index,
                            struct ibvcap_status_interface *interface);

/* ---- administration ------------------------------------------------------------------------------ */

enum ibvcap_reconfigure {
	IBVCAP_RECONFIGURE_RELOAD = 1,        /* read the configuration file again; name and text are not used */
	IBVCAP_RECONFIGURE_ADD_STREAM = 2,    /* add the streams of text, a configuration file called name */
	IBVCAP_RECONFIGURE_REMOVE_STREAM = 3, /* remove the stream called name */
};

/**
 * Change the configuration of the running daemon: all of the change, or on any error nothing. Streams that are added or
 * removed stay so until the daemon reads its file again. answer, if not NULL, gets one line about what was done. Blocks
 * for at most timeout_ms (0 = 60000: the daemon may have to zero memory).
 *
 * -EACCES the caller is neither root nor the daemon's user · -EINVAL, -EEXIST the text or the file is wrong · -EBUSY
 * the change cannot be made while the daemon runs · -ENOENT no such stream · -E2BIG text is too long · errors of
 * ibvcap_rx_open() and of starting a stream. ibvcap_error_text() says file:line and more.
 */
int ibvcap_reconfigure(const char *socket_path, enum ibvcap_reconfigure what, const char *name, const char *text,
                       char *answer, size_t answer_bytes, uint32_t timeout_ms);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif

#endif
