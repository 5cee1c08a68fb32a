// SPDX-License-Identifier: Apache-2.0
/*
 * libibvcap: read the UDP packets that ibvcapd captures, where the NIC wrote them; and send, from where it reads them.
 *
 *     struct ibvcap_rx *rx;
 *     int r = ibvcap_rx_open(NULL, "lidar", NULL, &rx);
 *     while ((r = ibvcap_rx_acquire(rx, &batch, UINT32_MAX, 1, 1000)) >= 0) {
 *             for (uint32_t i = 0; i < batch.n; i++)
 *                     use(ibvcap_rx_payload(&batch, i), batch.meta[i].length);
 *             ibvcap_rx_release(rx, &batch);
 *     }
 *     ibvcap_rx_close(rx);
 *
 * Conventions of every function here: 0 or a count on success, a negative errno on failure; pointers
 * handed out are never freed by the caller unless it says so; times are in the unit of their name. A
 * handle may be used by one thread at a time; different handles are independent. The library writes
 * nothing to stdout or stderr, starts no thread and installs no signal handler.
 */
#ifndef IBVCAP_H
#define IBVCAP_H

#include <ibvcap/layout.h>
#include <ibvcap/layout_tx.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define IBVCAP_VERSION_MAJOR  0
#define IBVCAP_VERSION_MINOR  1
#define IBVCAP_CONTROL_SOCKET "/run/ibvcapd/control.sock"

/** Version of the library in use, "MAJOR.MINOR". Any thread, never blocks. */
const char *ibvcap_version(void);

/**
 * One line about the last call of this thread that failed in connecting, attaching (in ibvcap_rx_acquire() and
 * ibvcap_rx_recv() also: again, after a daemon's end), changing or asking for status: what failed, on what, why, and what
 * to do. Valid until the next such call of the thread.
 */
const char *ibvcap_error_text(void);

/* ---- receive ------------------------------------------------------------------------------------- */

/** One attachment to one ring. */
struct ibvcap_rx;

enum ibvcap_start {
	IBVCAP_START_NEWEST = 0,       /* packets published from now on */
	IBVCAP_START_OLDEST = 1,       /* the oldest packet the ring still has */
	IBVCAP_START_PACKETS_BACK = 2, /* so many packets before the newest */
	IBVCAP_START_NS_BACK = 3,      /* packets whose timestamps are no older than so many ns */
};

/** What ibvcap_rx_open() may be told; zero means the default for every field. */
struct ibvcap_rx_options {
	enum ibvcap_start start;
	uint64_t back;         /* for PACKETS_BACK and NS_BACK; where the ring has less, all it has: see attach_back */
	uint32_t queue;        /* which of the stream's queues, 0-based */
	uint32_t lease_blocks; /* blocks held at once; 0 = what the daemon grants by default */
	uint32_t timeout_ms;   /* for the daemon's answer; 0 = 5000 */
	/*
	 * Lossy; lossless, where the stream's configuration lets this user; or tap, for a look at the stream that costs
	 * the daemon nothing and takes no consumer's place: ibvcap_rx_recv() alone, no ibvcap_rx_acquire() and no
	 * ibvcap_rx_fd().
	 */
	enum ibvcap_policy policy;
	uint32_t
		reattach_ms; /* how long the next daemon is looked for after one ends; 0 = 30000; or IBVCAP_NO_REATTACH */
};

#define IBVCAP_NO_REATTACH UINT32_MAX

enum ibvcap_rx_batch_flag {
	IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN =
		1 << 0, /* the first of a new epoch: what came between the two nobody counted */
	IBVCAP_RX_BATCH_FLAG_DEMOTED =
		1 << 1, /* the first since this lossless consumer is lossy: it was too slow for too long */
};

/**
 * A run of consecutive packets of one block. Everything pointed at is read-only and stays as it is
 * until ibvcap_rx_release(): the daemon gives no leased block back to the device.
 */
struct ibvcap_rx_batch {
	const uint8_t *payload;           /* first row; row i at payload + i * stride */
	const uint8_t *headers;           /* Ethernet, IP and UDP headers as received; row i at + i * header_stride */
	const struct ibvcap_meta *meta;   /* row i at meta[i] */
	uint64_t sequence;                /* packet number of row 0 within the epoch */
	uint64_t gap;                     /* packets skipped just before this batch: [sequence - gap, sequence) */
	uint32_t n;                       /* rows, at least 1 */
	uint32_t stride;                  /* bytes */
	uint32_t header_stride;           /* bytes */
	uint32_t lease;                   /* for ibvcap_rx_release() */
	uint32_t flags;                   /* enum ibvcap_rx_batch_flag */
	uint64_t epoch;                   /* in which sequence counts; a new one begins with each run of the daemon */
	const struct ibvcap_block *block; /* for ibvcap_rx_block_losses() */
};

/** Properties of the ring behind a handle; constant within an epoch, but for policy and clock. */
struct ibvcap_rx_info {
	char stream[IBVCAP_STREAM_NAME_MAX];
	uint64_t epoch;
	uint32_t queue;
	uint32_t n_queues;
	uint32_t slot_bytes;
	uint32_t slots_per_block;
	uint32_t history_blocks;
	uint32_t lease_blocks;     /* granted to this consumer */
	enum ibvcap_policy policy; /* in force: the daemon demotes a lossless consumer that is too slow for too long */
	uint32_t page_bytes;
	enum ibvcap_clock_source clock_source;
	uint64_t clock_error_ns; /* bound */
	uint64_t payload_segment_bytes;
	uint64_t attach_sequence; /* the first packet that is this consumer's */
	uint64_t attach_back;     /* so many packets were there already, of the past that was asked for */
};

/**
 * What became of every packet since the attach: published = delivered + skipped + lag, exactly. Over all epochs
 * together; what fell between two of them is in none of these.
 */
struct ibvcap_rx_counts {
	uint64_t published; /* rows put into the ring since this consumer attached */
	uint64_t delivered; /* acquired */
	uint64_t skipped;   /* recycled before they were acquired */
	uint64_t lag;       /* still ahead */
	uint64_t epochs;    /* times the handle went on in a new epoch: so many gaps are unknown */
};

/**
 * Attach to a stream by name. socket_path NULL: the environment's IBVCAP_SOCKET, else
 * IBVCAP_CONTROL_SOCKET. options NULL: defaults. Blocks for at most options->timeout_ms.
 *
 * -ENOENT no socket at that path · -ECONNREFUSED a socket, but nobody behind it · -ESRCH the daemon has
 * no stream of that name · -EACCES the socket, the stream or the policy is not for this user · -EAGAIN no consumer or
 * lease quota left · -EPROTO other protocol or ABI version · -ETIMEDOUT · -ENOMEM · -EMFILE · -EINVAL. On failure
 * *rx is untouched, nothing stays open or mapped, and ibvcap_error_text() says more.
 */
int ibvcap_rx_open(const char *socket_path, const char *stream, const struct ibvcap_rx_options *options,
                   struct ibvcap_rx **rx);

/**
 * Give everything back: leases, mappings, socket. Batches become invalid. NULL is allowed. A child of fork() has the
 * mappings too, and the place is free once it has ended or called execve().
 */
void ibvcap_rx_close(struct ibvcap_rx *rx);

/**
 * Lease the next packets: at most max (0 is -EINVAL), never more than the rest of one block; waits up to
 * timeout_ms (-1 = for ever, 0 = not at all) for at least min (0 or 1: any; clamped to max and to what
 * the block can still hold) and then takes what there is.
 *
 * Returns batch->n, or 0: nothing came in time. -ENOBUFS: as many batches are out as the quota of leases
 * allows, or the epoch has ended and batches of it are out: release, and call again. -ESHUTDOWN: the daemon
 * ended, everything published was delivered, and no next one took its place within reattach_ms, or one listens and
 * never answers. -ENODEV: the administrator removed the stream; likewise. -ECONNABORTED: the daemon disconnected this
 * consumer and goes on. -EINTR: a signal came while it waited. -EPROTO: the ring names a block that it does not have.
 * -EOPNOTSUPP: a tap. -EACCES and others of ibvcap_rx_open(): the next daemon refuses. Of -ESHUTDOWN after reattach_ms,
 * of a refusal and of a disconnected consumer that asked again, ibvcap_error_text() says more.
 *
 * When the daemon ends, restarts or dies, what it published is delivered; then this call waits for the next
 * daemon within timeout_ms, as for packets, and goes on in its epoch from the oldest packet it has. The first batch
 * there has IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN, sequence numbers start again, and the ring's geometry may be another. What may
 * pass (nobody listens yet, no place, no memory or descriptors left here) is tried again until reattach_ms are over.
 * Where the daemon goes on and only this attachment ended (the process that made it did, and a child reads on), no
 * packet comes twice: a consumer gets -ECONNABORTED; a tap goes on where it was, its gap counted.
 */
int ibvcap_rx_acquire(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min, int timeout_ms);

/**
 * Return a batch. In any order; every batch once. Never blocks. -EINVAL: not a batch that is out.
 * -ECONNABORTED: it is returned, but the daemon had disconnected this consumer and with it ended the lease: what
 * was read of the batch may be newer packets.
 */
int ibvcap_rx_release(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch);

/**
 * The simple way: copy the next packet's payload, at most bytes of it, and its meta (may be NULL). Rows
 * marked IBVCAP_PACKET_FLAG_ERROR are passed over. Returns 1, 0 on time-out, or an error of ibvcap_rx_acquire();
 * *length is set to the payload's length. A tap that waits looks every millisecond. Not to be mixed with a batch that
 * is out when the quota is 1.
 */
int ibvcap_rx_recv(struct ibvcap_rx *rx, void *buffer, size_t bytes, size_t *length, struct ibvcap_meta *meta,
                   int timeout_ms);

/**
 * A descriptor for poll/epoll: readable once there may be packets again after an ibvcap_rx_acquire() that
 * returned 0 (and came after the first call of this; the library empties it), and once ibvcap_rx_acquire() has something
 * else to do or say: the daemon's end, the time to look for the next, its answer, the end of reattach_ms. So a program
 * that calls ibvcap_rx_acquire() with a timeout_ms of 0 whenever it is readable needs no timer. The same in every epoch.
 * Owned by the handle. -EOPNOTSUPP: a tap. Other -errno, with ibvcap_error_text(): none can be had now; ask again.
 */
int ibvcap_rx_fd(struct ibvcap_rx *rx);

/**
 * Packets that the device dropped for want of a buffer, since the stream began, as far as was known when a block's
 * first row was published (before) and its last (after): between two batches, the difference was lost between the
 * times. The device is read some times a second: each count is of the reading at its time (UTC ns; 0: none yet).
 */
struct ibvcap_rx_losses {
	uint64_t before;
	uint64_t before_ns;
	uint64_t after;
	uint64_t after_ns;
};

/**
 * Of the block that a batch is of; the batch is not returned yet. Never blocks. 1: the block is full, and after final;
 * 0: it is still filled, and after is the newest known.
 */
int ibvcap_rx_block_losses(const struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch,
                           struct ibvcap_rx_losses *losses);

/** Never blocks; always 0. */
int ibvcap_rx_info(const struct ibvcap_rx *rx, struct ibvcap_rx_info *info);
int ibvcap_rx_counts(const struct ibvcap_rx *rx, struct ibvcap_rx_counts *counts);

/** First byte of row i's payload. */
static inline const uint8_t *ibvcap_rx_payload(const struct ibvcap_rx_batch *batch, uint32_t i)
{
	return batch->payload + (size_t)i * batch->stride + batch->meta[i].payload_offset;
}

/** First byte of row i's Ethernet header. */
static inline const uint8_t *ibvcap_rx_headers(const struct ibvcap_rx_batch *batch, uint32_t i)
{
	return batch->headers + (size_t)i * batch->header_stride;
}

/* ---- transmit ------------------------------------------------------------------------------------ */
/*
 *     struct ibvcap_tx *tx;
 *     int r = ibvcap_tx_open(NULL, "pulses", NULL, &tx);
 *     while ((r = ibvcap_tx_reserve(tx, &slots, 64, 1, 1000)) > 0) {
 *             for (uint32_t i = 0; i < slots.n; i++)
 *                     slots.packets[i].length = make(slots.payload + (size_t)i * slots.stride, slots.stride);
 *             ibvcap_tx_submit(tx, slots.n);
 *     }
 *     ibvcap_tx_flush(tx, 1000);
 *     ibvcap_tx_close(tx);
 */

/** One sender on one channel: an arena of payload rows, of which those that are submitted are sent, in order. */
struct ibvcap_tx;

/** What ibvcap_tx_open() may be told; zero means the default for every field. */
struct ibvcap_tx_options {
	/* For the daemon's answers; 0 = 5000. Making an arena of several GiB takes longer: about 0.1 s for each 64 MiB. */
	uint32_t timeout_ms;
};

/** Properties of the channel behind a handle; constant. */
struct ibvcap_tx_info {
	char channel[IBVCAP_CHANNEL_NAME_MAX];
	uint64_t epoch;
	uint32_t n_slots;        /* rows of the arena: so many packets may be reserved and not yet completed */
	uint32_t slot_bytes;     /* the longest payload */
	uint32_t n_destinations; /* as configured, from 0 */
	uint32_t page_bytes;     /* of the arena */
	uint64_t rate_bps;       /* of the whole channel, in bits of Ethernet frames with FCS; 0 = not limited */
	uint32_t burst_bytes;    /* with a rate: so many may leave at once; 0: as many as it takes to be on time */
	uint64_t late_after_ns;  /* a packet with a time is late when it leaves so long after it */
};

/** Rows to be written; consecutive ones. Nobody else writes to them, and nobody reads them until they are submitted. */
struct ibvcap_tx_slots {
	uint8_t *payload;                     /* first row; row i at payload + i * stride */
	struct ibvcap_tx_descriptor *packets; /* of row i: packets[i]; preset: length = stride, all else 0 */
	uint64_t sequence;                    /* number of the first among all packets of this handle, from 0 */
	uint32_t n;                           /* rows, at least 1 */
	uint32_t stride;                      /* bytes */
};

/**
 * What became of every packet: submitted = completed + errored + flushed + late_dropped + pending, exactly. pending
 * ends as 0, unless the daemon has died: then nobody knows of those that are left whether they were sent.
 */
struct ibvcap_tx_counts {
	uint64_t submitted;
	uint64_t completed;    /* sent, as the device says */
	uint64_t errored;      /* not sent; the status says why */
	uint64_t flushed;      /* not sent, or unknown: the channel ended, or its device had to be reset (-ECANCELED) */
	uint64_t late_dropped; /* not sent: late, and IBVCAP_TX_FLAG_DROP_LATE was set (-ETIME) */
	uint64_t pending;
	uint64_t late;                  /* of all: more than late_after_ns after their time */
	uint64_t completed_bytes;       /* payload bytes of completed ones */
	uint64_t wire_bytes;            /* of completed ones: Ethernet frames with FCS */
	uint64_t timed;                 /* given to the device that had a time, */
	uint64_t timed_lateness_ns;     /* … so long after it, in sum, */
	uint64_t timed_lateness_max_ns; /* … and at most */
};

/**
 * Open a channel to send on. Paths, options and blocking as ibvcap_rx_open().
 *
 * -ENOENT no socket at that path · -ECONNREFUSED a socket, but nobody behind it · -ESRCH the daemon has no channel of
 * that name · -EACCES the socket or the channel is not for this user · -EAGAIN no sender's place left · -EPROTO other
 * protocol or ABI version · -ETIMEDOUT · -ENOMEM · -EINVAL. On failure *tx is untouched and ibvcap_error_text() says
 * more.
 */
int ibvcap_tx_open(const char *socket_path, const char *channel, const struct ibvcap_tx_options *options,
                   struct ibvcap_tx **tx);

/**
 * Give everything back; waits for nothing: what the daemon has taken is sent, what it has not taken is not
 * (ibvcap_tx_flush() waits). NULL is allowed. Of children the same holds as with ibvcap_rx_close().
 */
void ibvcap_tx_close(struct ibvcap_tx *tx);

/**
 * The next rows to write: at most max (0 is -EINVAL), never past the arena's end; waits up to timeout_ms (-1 = for
 * ever, 0 = not at all) for at least min (0 or 1: any; clamped to max and to what is left until the arena's end) and
 * then takes what there is. Rows that were reserved before and not submitted are reserved anew, and their packets[]
 * reset.
 *
 * Returns slots->n, or 0: none was free in time. -ESHUTDOWN: the daemon has ended; what was submitted is counted as
 * far as is known, open again. -ENODEV: the administrator removed the channel. -EIO: its device failed. -ECONNABORTED:
 * the daemon disconnected this sender. -EINTR: a signal came while it waited.
 */
int ibvcap_tx_reserve(struct ibvcap_tx *tx, struct ibvcap_tx_slots *slots, uint32_t max, uint32_t min, int timeout_ms);

/**
 * Have the first n of the reserved rows sent, in order; the rest stays reserved. Until they are completed their memory
 * is not to be touched: what is written to it may be sent or not. Never blocks. -EINVAL: more than are reserved (none
 * is submitted). Errors of ibvcap_tx_reserve() when the handle can send no more.
 */
int ibvcap_tx_submit(struct ibvcap_tx *tx, uint32_t n);

/**
 * The simple way: copy one payload into the next row and submit it. Waits up to timeout_ms for room. Returns 1, 0: no
 * room in time, -EMSGSIZE: longer than slot_bytes, or an error of ibvcap_tx_reserve(). Rows that are reserved are given
 * up.
 */
int ibvcap_tx_send(struct ibvcap_tx *tx, const void *payload, size_t bytes, uint32_t destination, int timeout_ms);

/**
 * Wait up to timeout_ms (-1 = for ever) until all that was submitted is completed. 0; -ETIMEDOUT; errors of
 * ibvcap_tx_reserve().
 */
int ibvcap_tx_flush(struct ibvcap_tx *tx, int timeout_ms);

/**
 * What became of packets since this was asked last, in order: the statuses of *sequence and the next, at most max.
 * 0 sent, -EMSGSIZE longer than slot_bytes, or the MTU is too little for slot_bytes now, -EINVAL no such destination or
 * flag, -EHOSTUNREACH no way to the destination is known yet, -ENETDOWN the link is down, -EIO the device reported an
 * error, -ETIME late and dropped, -ECANCELED see flushed. Returns how many, 0: none. A status is there until its row is
 * submitted again: who is not in time finds *sequence further on, and the others in ibvcap_tx_counts() only.
 * Never blocks.
 */
int ibvcap_tx_results(struct ibvcap_tx *tx, int32_t *statuses, uint32_t max, uint64_t *sequence);

/**
 * A descriptor for poll/epoll: readable once there may be what an ibvcap_tx_reserve() that returned 0, or an
 * ibvcap_tx_flush() that returned -ETIMEDOUT, waited for (and that came after the first call of this; the library empties
 * it). Owned by the handle.
 */
int ibvcap_tx_fd(struct ibvcap_tx *tx);

/** Never blocks; always 0. */
int ibvcap_tx_info(const struct ibvcap_tx *tx, struct ibvcap_tx_info *info);
int ibvcap_tx_counts(const struct ibvcap_tx *tx, struct ibvcap_tx_counts *counts);

/* ---- status -------------------------------------------------------------------------------------- */

/** A snapshot of the daemon: streams and consumers, channels and senders, each with labelled counters. */
struct ibvcap_status;

struct ibvcap_counter {
	const char *label; /* snake_case; also the JSON key */
	uint64_t value;
};

struct ibvcap_status_stream {
	char name[IBVCAP_STREAM_NAME_MAX];
	char interface[16]; /* netdev */
	char device[64];    /* of the backend: RDMA device name, or empty */
	char backend[16];
	char state[16]; /* "capturing", "link_down" */
	uint64_t epoch;
	uint32_t queue;
	uint32_t slot_bytes;
	uint32_t slots_per_block;
	uint32_t n_blocks;
	uint32_t history_blocks; /* kept for late readers; so many blocks behind, a lossy one begins to skip */
	uint32_t receive_queue_slots;
	uint32_t page_bytes;
	enum ibvcap_clock_source clock_source;
	uint64_t clock_error_ns;
	uint64_t loss_packets; /* the last that found no buffer, 0: none that the ring still tells of: */
	uint64_t loss_from_ns; /* … lost between these, UTC; 0: before the first reading */
	uint64_t loss_to_ns;
	const struct ibvcap_counter *counters;
	uint32_t n_counters;
};

struct ibvcap_status_consumer {
	char stream[IBVCAP_STREAM_NAME_MAX];
	uint32_t queue;
	uint32_t policy; /* enum ibvcap_policy */
	pid_t pid;
	uid_t uid;
	const struct ibvcap_counter *counters;
	uint32_t n_counters;
};

struct ibvcap_status_channel {
	char name[IBVCAP_CHANNEL_NAME_MAX];
	char interface[16];
	char device[64];
	char backend[16];
	char state[16]; /* "sending", "link_down", "unresolved", "failed", "ending" */
	uint64_t epoch;
	uint64_t rate_bps; /* 0 = not limited; bits of Ethernet frames with FCS */
	uint32_t burst_bytes;
	uint32_t slot_bytes;  /* the most a payload may have */
	uint32_t arena_slots; /* of each sender */
	uint32_t page_bytes;
	uint32_t send_queue_slots;
	uint32_t n_destinations;
	uint32_t n_unresolved; /* of them: the next hop's Ethernet address is not known, packets end as -EHOSTUNREACH */
	uint32_t max_senders;
	const struct ibvcap_counter *counters; /* of all senders so far: layout_tx.h; and pending, senders */
	uint32_t n_counters;
};

struct ibvcap_status_sender {
	char channel[IBVCAP_CHANNEL_NAME_MAX];
	pid_t pid;
	uid_t uid;
	const struct ibvcap_counter *counters; /* layout_tx.h; and pending */
	uint32_t n_counters;
};

struct ibvcap_status_interface {
	char interface[16];
	char device[64];
	const struct ibvcap_counter *counters; /* port wide: out_of_buffer, port_discards */
	uint32_t n_counters;
};

/**
 * What the caller may see: root and members of the daemon's own group all streams and channels, others those they may
 * attach to or open.
 * Ask the daemon; blocks for at most timeout_ms (0 = 5000). Errors as ibvcap_rx_open(). Free with
 * ibvcap_status_free().
 */
int ibvcap_status(const char *socket_path, uint32_t timeout_ms, struct ibvcap_status **status);
void ibvcap_status_free(struct ibvcap_status *status);

/** The parts; pointers live as long as status. Return the count. */
int ibvcap_status_streams(const struct ibvcap_status *status, const struct ibvcap_status_stream **streams);
int ibvcap_status_consumers(const struct ibvcap_status *status, const struct ibvcap_status_consumer **consumers);
int ibvcap_status_channels(const struct ibvcap_status *status, const struct ibvcap_status_channel **channels);
int ibvcap_status_senders(const struct ibvcap_status *status, const struct ibvcap_status_sender **senders);
int ibvcap_status_interfaces(const struct ibvcap_status *status, const struct ibvcap_status_interface **interfaces);
/** Version string and pid of the daemon. */
const char *ibvcap_status_daemon(const struct ibvcap_status *status, pid_t *pid);

/* ---- administration ------------------------------------------------------------------------------ */

enum ibvcap_reconfigure {
	IBVCAP_RECONFIGURE_RELOAD = 1,        /* the daemon's configuration file again; name and text are not used */
	IBVCAP_RECONFIGURE_ADD_STREAM = 2,    /* the streams of text, a configuration file called name */
	IBVCAP_RECONFIGURE_REMOVE_STREAM = 3, /* the stream called name */
};

/**
 * Change what a running daemon does: all of it, or on any error nothing. What is added or removed lasts until the
 * file is read again. said, if not NULL, gets a line about what was done. timeout_ms 0 = 60000: memory may have to be
 * zeroed.
 *
 * -EACCES not root nor the daemon's user · -EINVAL, -EEXIST the text or the file is wrong · -EBUSY a change that
 * cannot be made while it runs · -ENOENT no such stream · -E2BIG text is too long · others as ibvcap_rx_open() and as
 * a stream's start. ibvcap_error_text() says file:line and more.
 */
int ibvcap_reconfigure(const char *socket_path, enum ibvcap_reconfigure what, const char *name, const char *text,
                       char *said, size_t said_bytes, uint32_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
