// SPDX-License-Identifier: Apache-2.0
/*
 * The worker's queue of one channel: the device's send queue, the headers of the destinations, and the senders that
 * share it. The packets of a sender stay in order: the worker takes one (it reads the descriptor once and writes the
 * headers to a private row), posts it, and reaps its completion. Control makes and frees a queue; the transmit worker
 * (tx_worker.h) does everything else while the queue is lent to it.
 *
 * Fairness is deficit round robin by bytes of frames, over the senders of a queue and over the queues of a worker. A
 * packet that waits for its time delays its own sender only; the channel's rate delays all senders of the channel.
 *
 * A queue may cut packets that are longer than the MTU into IP fragments. Each fragment has a place in the device's
 * queue, a row of headers and a record of its own. The packet ends with its last fragment, and was sent if all were.
 * Declares tx_queue_send.c, tx_queue_cut.c.
 */
#ifndef DAEMON_WORKER_TX_QUEUE_H
#define DAEMON_WORKER_TX_QUEUE_H

#include "daemon/backend/backend.h"
#include "daemon/base/heartbeat.h"
#include "daemon/packet/packet_fragment.h"
#include "daemon/packet/packet_template.h"
#include "daemon/ring/sender.h"
#include "daemon/worker/mailbox.h"
#include "daemon/worker/pacing.h"

#include <stdbool.h>
#include <stdint.h>

#define TX_QUEUE_SENDERS_MAX   64
#define TX_QUEUE_BATCH         64u /* packets posted at once, at most */
#define TX_QUEUE_HEADER_BYTES  128 /* of a header row: any headers fit, and they touch two cache lines at most */
#define TX_QUEUE_FRAGMENTS_MAX TX_QUEUE_BATCH /* of a packet: they are posted together */
#define TX_QUEUE_NEVER         UINT64_MAX
/* A sleep usually ends late by less than this: the worker wakes so much earlier and spins for the rest. */
#define TX_QUEUE_SPIN_NS UINT64_C(100000)

struct tx_queue_options {
	const char *name;
	struct backend *backend; /* outlives the queue */
	uint32_t queue_slots;    /* at most the backend's max_send_slots */
	uint32_t slot_bytes;     /* payload size of its senders; unless the queue cuts, the caller checks the MTU */
	/*
	 * 0: the queue does not cut; else packets that are longer than this, or than the MTU of their destination, are
	 * cut. It bounds the memory for copies of payloads.
	 */
	uint32_t cut_bytes;
	uint32_t n_destinations; /* packets to one end as -EHOSTUNREACH until its first MAIL_DESTINATION */
	/*
	 * Of whole packets. DEVICE if the device fills in all checksums; SOFTWARE if any needs it (payloads are copied
	 * then); else ZERO. Those of fragments are computed here, but for ZERO.
	 */
	enum packet_checksums checksums;
	uint64_t rate_bps; /* 0: not limited */
	uint32_t burst_bytes;
	bool device_pacing;               /* the device keeps to the rate, so the worker does not pace */
	uint32_t priority;                /* for queueing disciplines, if the backend has send_priorities */
	enum backend_send_time send_time; /* a rate that the worker keeps makes it keep the times, too */
	uint64_t late_after_ns;
	bool completion_events; /* needed unless the worker never sleeps */
};

/* The time that a round goes by. Work takes time: code that needs a newer sample calls look() again. */
struct tx_clock_sample {
	uint64_t monotonic_ns;
	uint64_t utc_ns;
	void (*look)(struct tx_clock_sample *now); /* reads both clocks; NULL in tests: the time does not change */
};

/* Of a fragment, which is for the device. */
enum tx_inflight_fragment {
	TX_INFLIGHT_FRAGMENT = 1,
	TX_INFLIGHT_LAST_FRAGMENT,
};

/* One frame that was taken and is not completed: a packet, or a fragment of one. */
struct tx_inflight {
	struct sender *sender;
	int32_t status; /* 0: for the device; negative: how it ended without being posted; enum tx_inflight_fragment */
	uint32_t payload_bytes; /* of the packet; likewise */
	uint32_t frame_bytes;
};

/* When a ready packet should have left, to measure how late it is posted. */
struct tx_deadline {
	struct sender *sender;  /* NULL: nothing to measure */
	uint64_t not_before_ns; /* UTC; 0: the packet has no time */
	uint64_t paced_ns;      /* CLOCK_MONOTONIC; 0: the packet did not wait for the rate */
};

/* A sender of a queue, with the state that schedules it. */
struct tx_queue_sender {
	struct sender *sender;
	uint32_t deficit_bytes;
	bool leaving;       /* nothing more is taken from it */
	bool removal_asked; /* by mail, which is answered when the sender is gone */
};

struct tx_queue {
	char name[IBVCAP_CHANNEL_NAME_MAX];
	struct backend *backend;
	struct backend_queue *queue;
	struct heartbeat *heartbeat; /* of its worker */
	struct backend_memory *headers_memory;
	struct backend_memory *copies_memory; /* NULL unless checksums are computed in software */
	struct shm headers;                   /* a row for each frame in flight */
	struct shm copies;                    /* likewise, of payloads */
	uint32_t queue_slots;
	uint32_t inflight_mask;
	uint32_t slot_bytes;
	uint32_t cut_bytes;
	uint32_t copy_bytes;   /* of a row of copies */
	uint32_t frames_bytes; /* the most bytes that the frames of a packet have, as a rate counts them */
	uint32_t whole_bytes;  /* payloads of so many bytes are not cut, to any destination */
	/*
	 * Payloads of so many bytes are taken by the short path: whole_bytes, or -1 while fragments are ready. A batch
	 * has fragments or whole packets only, because their checksums are made in different places.
	 */
	int32_t plain_bytes;
	uint32_t n_destinations;
	uint64_t late_after_ns;
	uint64_t ahead_ns; /* so much before its time a packet is taken: send_ahead_ns of the device's queue */
	enum packet_checksums checksums;
	uint32_t quantum_bytes; /* share of a queue in a round, and of a sender in a turn; enough for any packet */
	struct tx_queue_destination *destinations;

	struct tx_inflight *inflight; /* by number & inflight_mask: [first, next) are taken and not completed */
	uint64_t first;
	uint64_t next;
	uint32_t n_posted;  /* of these, with the device */
	uint32_t n_ready;   /* of these, for the device and not posted yet: the last in order */
	bool has_deadlines; /* any of deadlines has a sender */
	struct backend_packet ready[TX_QUEUE_BATCH];
	struct tx_deadline deadlines[TX_QUEUE_BATCH]; /* of each ready packet */
	uint32_t n_ended_fragments;                   /* of a packet of which the last one has not ended */
	int32_t ended_error;                          /* the first of these that was not sent has this status */

	struct tx_queue_sender senders[TX_QUEUE_SENDERS_MAX];
	uint32_t n_senders;
	uint32_t turn;         /* index of the sender whose turn it is */
	uint32_t n_leaving;    /* senders */
	int64_t deficit_bytes; /* of the queue, against the worker's other queues */
	struct pacing pacing;
	bool paced;      /* a packet waits for the rate, or waited until this round */
	int32_t error;   /* not 0: every packet ends so; from MAIL_TX_QUEUE_ERROR */
	uint64_t due_ns; /* CLOCK_MONOTONIC: when the rate allows the next packet; TX_QUEUE_NEVER: none waits for it */
	uint64_t due_utc_ns; /* the earliest time that a packet waits for; TX_QUEUE_NEVER: none waits for a time */
	uint32_t restarts;   /* since the last completion without an error */
	bool leaving;
	uint64_t leaving_at_ns;
	bool removal_asked; /* by mail, which is answered when the queue is empty */
	int fatal;          /* not 0: the device's queue failed and could not be reset; it is not used any more */
	bool to_wake;       /* a sender is to be woken: ring the doorbell */

	_Atomic uint64_t counters[IBVCAP_TX_COUNTER_N]; /* the worker writes; any thread may read */
};

/* ---- for control ---------------------------------------------------------------------------------- */

/** Bytes of memory that a queue with these options locks, if its backend locks any. Pure. */
uint64_t tx_queue_bytes(const struct tx_queue_options *options);
/**
 * Makes memory, registrations and a started send queue. The failure names the lack and the key that lowers the need.
 */
int tx_queue_new(struct tx_queue **txq, const struct tx_queue_options *options, struct failure *failure);
/**
 * Destroy the device's queue: the device reads no memory of it or of its senders any more. Not while the worker has it.
 */
void tx_queue_close(struct tx_queue *txq);
/** Closes it first. Not while the worker has it. NULL is fine. */
void tx_queue_free(struct tx_queue *txq);

/* ---- for the worker ------------------------------------------------------------------------------- */

/** -EAGAIN: too many senders, or the queue is leaving. */
int tx_queue_add_sender(struct tx_queue *txq, struct sender *sender);

/**
 * Apply MAIL_DESTINATION; control does it, too, as long as the worker does not have the queue. A destination whose kind
 * of checksum the queue was not made for ends packets as -EINVAL.
 */
void tx_queue_set_destination(struct tx_queue *txq, uint32_t index, const struct tx_queue_destination *destination);

/** Stop taking packets from the sender (or from all). It stays until tx_queue_take_gone() returns it. */
void tx_queue_dismiss_sender(struct tx_queue *txq, struct tx_queue_sender *member);
void tx_queue_dismiss(struct tx_queue *txq, uint64_t now_ns);

/** The queue's record of this sender; NULL: it is not in the queue, whatever is at that address by now. */
struct tx_queue_sender *tx_queue_find_sender(struct tx_queue *txq, const struct sender *sender);

/**
 * One round, in tx_queue_send.c: reap, read the senders' cursors, take and post up to the queue's share. Resets a queue
 * that failed, or gives it up and sets fatal. Returns the work done.
 */
int tx_queue_serve(struct tx_queue *txq, const struct tx_clock_sample *now);

/** In tx_queue_cut.c: the destinations have changed, so find out which payloads are cut. */
void tx_queue_find_whole_bytes(struct tx_queue *txq);
/** How the packet is cut. Its destination exists. */
void tx_queue_cut(const struct tx_queue *txq, const struct ibvcap_tx_descriptor *descriptor, struct packet_cut *cut);
/** What a packet of more than whole_bytes costs, as a rate counts it: the bytes of all of its frames. */
uint32_t tx_queue_long_frame_bytes(const struct tx_queue *txq, const struct ibvcap_tx_descriptor *descriptor);
/** Make the fragments of a packet the last ready frames: headers, copies and records. The caller has made room. */
void tx_queue_make_fragments(struct tx_queue *txq, struct sender *sender, const uint8_t *payload,
                             const struct ibvcap_tx_descriptor *descriptor, const struct packet_cut *cut,
                             uint32_t cost_bytes);
/** A fragment ended with this status. With the last one the packet ends. */
void tx_queue_end_fragment(struct tx_queue *txq, const struct tx_inflight *fragment, int32_t status);

/**
 * The small epoll of a sender woke the worker: count the kick. Returns the sender; NULL: it is none of the queue's. The
 * next round dismisses a sender that kicked too often.
 */
struct tx_queue_sender *tx_queue_kicked(struct tx_queue *txq, int kick_epoll);

/**
 * Before the last round ahead of a sleep: ask the senders for kicks and the device for an event. Disarm withdraws it.
 */
void tx_queue_arm(struct tx_queue *txq);
void tx_queue_disarm(struct tx_queue *txq);

/** After a round without work: how long no packet is due. TX_QUEUE_NEVER: until a descriptor wakes the worker. */
uint64_t tx_queue_idle_ns(const struct tx_queue *txq, const struct tx_clock_sample *now);

/**
 * Take the next dismissed sender of which the device has nothing out of the queue, with its remaining packets flushed.
 * False: there is none.
 */
bool tx_queue_take_gone(struct tx_queue *txq, struct tx_queue_sender *gone);

#endif
