// SPDX-License-Identifier: Apache-2.0
/*
 * The interface to a device that receives and sends packets. A backend knows no rings, channels or clients: the caller
 * names slots of memory, and the backend fills them and reports which it filled; the caller names headers and payloads,
 * and the backend sends them and reports which it sent. The tests implement these calls too.
 *
 * Life of a receive queue. Every implementation may rely on this order and must check it where it can:
 *   open → register_memory → create_queue (→ create_group) → post … → start → add_flow … → post/poll …
 *   → remove_flow … → (drain with poll) → destroy_queue → unregister_memory → close
 * Life of a send queue:
 *   open → register_memory → create_send_queue → start → send_post/send_reap …
 *   → (drain with send_reap) → destroy_queue → unregister_memory → close
 *
 * Threads: the queue's worker calls post, poll, send_post, send_post_summed, send_reap, arm, clear, reset and give_up,
 * and start after a reset.
 * Any thread may register and unregister memory while queues run. The control thread calls everything else. All of
 * these may run at the same time. No call keeps a pointer to its arguments unless its comment says so.
 * Errors: 0/count or -errno; calls with a failure argument explain the error there.
 */
#ifndef DAEMON_BACKEND_BACKEND_H
#define DAEMON_BACKEND_BACKEND_H

#include "daemon/flow/flow.h"
#include "lib/base/failure.h"
#include "lib/status/drop.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct backend_ops;

enum backend_xdp_mode { BACKEND_XDP_AUTO, BACKEND_XDP_ZERO_COPY, BACKEND_XDP_COPY };

#define BACKEND_QUEUES_MAX 64

struct backend_open_options {
	const char *interface;
	uint32_t queues; /* receive queues that it will have at once, if the backend must know; 0: one */
	/* Depths of the receive queues at start, in any order, likewise; 0: the backend's default. */
	uint32_t slots[BACKEND_QUEUES_MAX];
	enum backend_xdp_mode xdp_mode;
	bool direct;          /* receive without the device's library, where that works */
	bool strict_ordering; /* what the device writes of packets is not reordered on its way to memory */
	bool stamp_packets; /* let the card stamp all packets, if it does not yet: other programs share that setting */
};

/* Embedded first in each implementation's own struct. */
struct backend {
	const struct backend_ops *ops;
};
struct backend_memory {
	struct backend *backend;
};

/*
 * What a receive queue has taken from the device, and what it holds. The queue brings all members up to date once in
 * each post(), poll(), reset() and give_up(); a queue with an event for each slot that it takes calls the functions at
 * the end of this file. Only the queue's worker reads them. The unit is slots of the device, which are frames once they
 * are taken; `held` is a number now, and the others are of all time.
 */
struct backend_use {
	uint64_t posted; /* slots that the device was given; after reset(), those that were taken */
	uint64_t taken;  /* slots that poll() got back: with an event, with none, or flushed */
	/*
	 * `posted`; or `taken` if the last poll() may have left frames in the device, which may fill all of its slots,
	 * and does not tell by returning `max` events.
	 */
	uint64_t given;
	uint64_t held;       /* frames that wait in the queue for others: they will have an event, or be lost */
	uint64_t joined;     /* frames that need no event and are no loss: others stand for their datagram */
	uint64_t ambiguous;  /* frames without an event, of which it cannot be told whether a packet is lost */
	uint64_t unjoined;   /* frames that stand for a lost datagram each; they are in n_dropped, too */
	uint64_t decided_ns; /* if any are held, they came after this CLOCK_MONOTONIC time; else undefined */
};

struct backend_queue {
	const struct backend_ops *ops; /* of calls that take a queue; its backend may have others */
	struct backend_use use;
	/* The queue that this one takes its frames from, which has the members below for both; NULL: none. */
	const struct backend_queue *device;
	_Atomic(const char *) error; /* the device's word for the last error that stopped the queue, static; or NULL */
	/* With counts_drops: of the packets of the last read_matched(), those dropped; and what poll() has dropped. */
	_Atomic uint64_t n_dropped[BACKEND_N_DROPS];
	bool checks_checksums; /* events have BACKEND_EVENT_CHECKSUM_GOOD, because its options asked for it */
	/* Packets beyond the first, of those that the kernel had merged (GRO): read_matched() counts them once. */
	_Atomic uint64_t n_split;
	/*
	 * A send queue: it keeps the packets' times, and wants each packet so much earlier. 0: the caller posts a
	 * packet at its time. For the worker only; send_reap() brings it up to date.
	 */
	uint64_t send_ahead_ns;
};
struct backend_flow {
	struct backend_queue *queue;
};

#define BACKEND_HOW_BYTES 256
#define BACKEND_WHY_BYTES 256

struct backend_capabilities {
	char device[64];             /* the backend's name for the device behind the interface */
	char how[BACKEND_HOW_BYTES]; /* how it works on this interface, if not as on others; for the log; or "" */
	/* Why packets have no timestamps of the device, and the command that gives them some; "": they have. */
	char no_device_time[BACKEND_WHY_BYTES];
	uint32_t max_queue_slots;  /* deepest receive queue */
	uint32_t max_group_queues; /* queues in a group at most; 0: it has no groups */
	bool toeplitz;             /* a group can have BACKEND_HASH_TOEPLITZ, and HASH_SYMMETRIC by it */
	bool hashes_addresses;     /* the hash of a group can be without BACKEND_HASH_PORTS */
	bool oversize_sink;        /* a longer packet can be a truncated row instead of an error */
	bool flow_tags;            /* events can have the tag of the flow that matched */
	bool timestamps;
	uint64_t clock_hz;   /* of raw timestamps; 0 = none */
	uint64_t clock_mask; /* valid bits of raw timestamps */
	bool clock_can_step; /* it is set from outside, as real time is; else it runs freely */
	bool counts_drops;   /* n_dropped of a receive queue is exact; else losses follow from what was matched */
	bool clock_is_utc;   /* raw timestamps are CLOCK_REALTIME in ns: no clock has to be fitted */
	bool kernel_times;   /* events may have BACKEND_EVENT_KERNEL_TIME */
	uint32_t max_moderation_us; /* the longest moderation_us of a queue; 0: its events never wait */
	bool delay_drop;            /* the device has delay_drop of a queue */
	uint64_t settle_ns;         /* latest time at which poll() has a packet after its flow matched it; 0: 2 ms */
	bool naps; /* each event costs the receiving CPU more than a packet does: sleep for a time at high rates */
	uint32_t max_send_slots; /* deepest send queue */
	bool send_checksums;     /* the device can fill in the checksums of packets that it sends */
	bool send_priorities;    /* packets pass queueing disciplines, which know priorities and may keep times */
	uint64_t min_rate_bps;   /* of its own pacing */
	uint64_t max_rate_bps;   /* 0: it has none */
	bool no_vlans; /* its packets have no Ethernet header: that of a row is made up, that to send unused */
};

/* Memory behind a dma-buf: of a GPU, or of another device. No CPU reads or writes it. */
struct backend_dmabuf {
	int fd;          /* the registration outlives it */
	uint64_t offset; /* of the first byte that is registered, in whole pages */
	/* What runs have for that byte: the first of so many addresses at which nothing else is. */
	void *address;
	size_t bytes;
};

struct backend_queue_options {
	struct backend_memory *payload;
	struct backend_memory *headers;
	uint32_t slots;         /* depth of the receive queue, a multiple of 64 */
	uint32_t header_bytes;  /* the first bytes of a frame, which go to the slot's header row; may be 0 */
	uint32_t header_stride; /* bytes between header rows */
	uint32_t slot_bytes;    /* S: the most of the following bytes that go to its payload row */
	uint32_t row_stride;    /* bytes between payload rows, at least S */
	bool flow_tags;         /* events have the tag of the flow that matched */
	bool oversize_sink;
	bool timestamps;
	bool completion_events; /* arm() and fd() will be used */
	bool in_group;          /* it will be a member of a group */
	bool copies;            /* a flow with copy will lead to it */
	bool checksums;         /* events say which packets' checksums the device has found right, if it can */
	uint32_t moderation_us; /* an event waits so long for more packets, or for a quarter of the slots */
	bool delay_drop;        /* without a slot the device keeps packets for a while, and other queues wait */
};

/* The hash that says which queue of a group gets a packet. All packets of a fragmented datagram come to one queue. */
enum backend_hash {
	BACKEND_HASH_SYMMETRIC, /* a packet and one with its addresses and ports exchanged come to one queue */
	BACKEND_HASH_TOEPLITZ,  /* that of the RSS specification, with its key */
};

enum backend_hash_field {
	BACKEND_HASH_SOURCE = 1 << 0,
	BACKEND_HASH_DESTINATION = 1 << 1,
	BACKEND_HASH_PORTS = 1 << 2, /* both ports of UDP packets that are no fragments */
};

struct backend_group_options {
	struct backend_queue *const *queues; /* read during the call only */
	uint32_t n_queues;
	enum backend_hash hash;
	uint32_t fields; /* enum backend_hash_field; symmetric: both addresses or neither */
};

/* Which part sends each packet at its send time. */
enum backend_send_time {
	BACKEND_SEND_TIME_AUTO,   /* the device or the kernel, where they can */
	BACKEND_SEND_TIME_WORKER, /* the caller */
	BACKEND_SEND_TIME_QDISC,  /* the device or the kernel, or there is no queue; only with send_priorities */
};

struct backend_send_options {
	struct backend_memory *headers; /* the headers of all packets lie in it */
	uint32_t slots;                 /* packets that may be posted and not reaped */
	bool checksums;                 /* the device fills in the checksums of IPv4 and UDP, which are 0 in memory */
	bool completion_events;         /* arm() and fd() will be used */
	uint64_t rate_bps;              /* the device paces frames to this rate; 0: it does not pace */
	uint32_t burst_bytes;           /* with a rate: bytes that may leave at once; 0: the device's choice */
	uint32_t priority;              /* of its packets, for queueing disciplines; only with send_priorities */
	enum backend_send_time send_time;
};

/* Consecutive slots of one block: slot + i has its rows at payload + i * row_stride and headers + i * header_stride. */
struct backend_run {
	uint32_t slot; /* the caller's number of the first slot; events carry such numbers */
	uint32_t n;
	uint8_t *payload;
	uint8_t *headers;
};

enum backend_status {
	BACKEND_OK = 0,
	BACKEND_LENGTH_ERROR, /* the packet was longer than the slot and is lost; the slot is used up */
	BACKEND_SLOT_ERROR,   /* another error; the slot is used up and its content is undefined */
	BACKEND_FLUSHED,      /* the queue failed and did not use this slot; reset() is due */
	BACKEND_LATE,         /* of packets to send: it could not leave at its time, and was dropped */
};

enum backend_event_flag {
	BACKEND_EVENT_CHECKSUM_BAD = 1 << 0, /* the device found the IP or UDP checksum wrong; else unknown or right */
	/* The device has no time of this packet: timestamp_raw is CLOCK_REALTIME in ns, as the kernel read it. */
	BACKEND_EVENT_KERNEL_TIME = 1 << 1,
	/* The sender's machine left the UDP or TCP checksum to a card, and the field has the pseudo header's sum. */
	BACKEND_EVENT_CHECKSUM_PARTIAL = 1 << 2,
	/*
	 * The checksums of IP and UDP are right: the device has found that, or the reassembly that joined the datagram.
	 * Without this flag it is not known.
	 */
	BACKEND_EVENT_CHECKSUM_GOOD = 1 << 3,
};

/* Slots come back in the order in which they were posted. The worker compares bytes, status and flags at once. */
struct backend_event {
	uint64_t timestamp_raw;
	/* Length of the frame, without FCS; above header_bytes + S only with an oversize sink; 0 unless BACKEND_OK. */
	uint32_t bytes;
	uint8_t status;    /* enum backend_status */
	uint8_t flags;     /* enum backend_event_flag */
	uint16_t reserved; /* 0 */
	uint32_t slot;
	uint32_t tag; /* the tag of the flow's rule; undefined without flow_tags */
};
static_assert(offsetof(struct backend_event, slot) - offsetof(struct backend_event, bytes) == sizeof(uint64_t),
              "the worker reads them as one word");

/* A packet to send: a frame without FCS in two parts, which the caller leaves untouched until the packet is reaped. */
struct backend_packet {
	const uint8_t *headers;
	const uint8_t *payload;
	uint64_t not_before_ns;                      /* UTC; 0: none. Read only by a queue with send_ahead_ns */
	const struct backend_memory *payload_memory; /* this and payload are not read if payload_bytes is 0 */
	uint32_t header_bytes;
	uint32_t payload_bytes;
};

/* One reading of the device's clock. */
struct backend_clock_reading {
	uint64_t raw;
	/* CLOCK_REALTIME, which the device's driver read before and after; both 0: it does not do that. */
	uint64_t utc_before_ns;
	uint64_t utc_after_ns;
};

/* How the next n posted packets ended, in the order of posting. */
struct backend_sent {
	uint32_t n;
	uint8_t status;   /* enum backend_status, never BACKEND_LENGTH_ERROR */
	bool is_measured; /* late_ns is known, and n is 1 */
	uint32_t late_ns; /* so long after its not_before_ns it left */
};

struct backend_port_statistics {
	uint64_t out_of_buffer; /* packets that the device dropped because a queue had no slot, since open */
	bool has_out_of_buffer;
	bool port_active; /* the device's own view of its link */
};

enum backend_notice_type {
	BACKEND_NOTICE_PORT_UP = 1,
	BACKEND_NOTICE_PORT_DOWN,
	BACKEND_NOTICE_QUEUE_FAILED,  /* poll() or send_reap() of this queue fails too, and its worker resets it */
	BACKEND_NOTICE_DEVICE_FAILED, /* the device gives no more packets: close and open it again */
	BACKEND_NOTICE_OTHER,         /* to be logged */
};

/* An event of a device that is not about a packet. */
struct backend_notice {
	enum backend_notice_type type;
	struct backend_queue *queue; /* for QUEUE_FAILED, else NULL */
	const char *text;            /* static; the device's name for the event */
};

/* A capability of the process (CAP_NET_RAW, … of <linux/capability.h>) that a backend uses. */
struct backend_privilege {
	int capability;
	bool required;       /* open() fails without it; else the backend does without, and logs what that costs */
	bool at_start;       /* used until the queues of the start exist, and not by those that are added later */
	const char *purpose; /* for messages: "to open packet sockets" */
};

struct backend_ops {
	const char *name;
	const struct backend_privilege *privileges; /* the last has the purpose NULL; NULL: none */
	/* The device writes to memory itself, and register_memory() locks it; else poll() copies packets to slots. */
	bool pins_memory;
	/** The kernel's own memory that a receive queue takes. NULL: none. */
	uint64_t (*kernel_bytes)(uint32_t slots, uint32_t frame_bytes);

	/** Is there such a device behind the interface? 0 or -errno. Opens nothing. NULL: it takes any interface. */
	int (*find)(const char *interface, struct failure *failure);
	/**
	 * Do queueing disciplines of the interface keep the times of packets of this priority, for a send queue with
	 * BACKEND_SEND_TIME_QDISC? 0, or the failure. Opens nothing. NULL: packets pass no disciplines.
	 */
	int (*check_send_time)(const char *interface, uint32_t priority, struct failure *failure);
	/**
	 * Is a program kept that was loaded for the interface, so that open() needs no capability with at_start? NULL:
	 * never.
	 */
	bool (*keeps_program)(const char *interface);
	/** Find and open the device behind a network interface. */
	int (*open)(const struct backend_open_options *options, struct backend **backend, struct failure *failure);
	void (*close)(struct backend *backend);
	/** Memory that open() locked, and that belongs to no queue. NULL: none. */
	uint64_t (*locked_bytes)(const struct backend *backend);
	void (*capabilities)(const struct backend *backend, struct backend_capabilities *capabilities);

	/** The memory belongs to the caller and must outlive the registration. Several threads may call it at once. */
	int (*register_memory)(struct backend *backend, void *address, size_t bytes, struct backend_memory **memory,
	                       struct failure *failure);
	void (*unregister_memory)(struct backend_memory *memory);
	/** Likewise, of payload rows that only the device writes. NULL: the backend copies packets, and cannot. */
	int (*register_dmabuf)(struct backend *backend, const struct backend_dmabuf *dmabuf,
	                       struct backend_memory **memory, struct failure *failure);

	/** The queue accepts post() and receives nothing until start(). Several threads may call it at once. */
	int (*create_queue)(struct backend *backend, const struct backend_queue_options *options,
	                    struct backend_queue **queue, struct failure *failure);
	void (*destroy_queue)(struct backend_queue *queue);
	int (*start)(struct backend_queue *queue);

	/**
	 * Hand a run to the device. Returns how many of run->n it accepted (fewer: the queue is full), or -errno. Other
	 * threads see the caller's earlier stores (the ring's floor) before anything that the device or the backend
	 * writes to the slots.
	 */
	int (*post)(struct backend_queue *queue, const struct backend_run *run);
	/**
	 * Takes up to max frames (max is at least 1), and returns the number of events. Frames without an event show in
	 * use.taken alone. Never blocks. -errno: the queue failed, reset() is due.
	 */
	int (*poll)(struct backend_queue *queue, struct backend_event *events, uint32_t max);
	/**
	 * The descriptor that becomes readable at a completion after arm(), until clear() or, with packet, until poll()
	 * has taken it. -ENOTSUP without completion_events; -EAGAIN while a receive queue has no posted slot: there
	 * will be no completion.
	 */
	int (*fd)(const struct backend_queue *queue);
	/** Ask for one event at the next completion. The caller polls once more before it sleeps. */
	int (*arm)(struct backend_queue *queue);
	/** Read the events from the descriptor. Never blocks. */
	void (*clear)(struct backend_queue *queue);
	/**
	 * After a failure the device forgets all posted slots; post again from the first unpublished slot, then
	 * start(). A send queue: start(), then post. Packets that were posted and not reaped may have been sent or not;
	 * the device does not read them any more.
	 */
	int (*reset)(struct backend_queue *queue);
	/** No packet comes any more: the frames that are held are lost. NULL: the queue holds none. */
	void (*give_up)(struct backend_queue *queue);

	/** A queue that sends once it is started. start, fd, arm, clear, reset and destroy_queue apply to it too. */
	int (*create_send_queue)(struct backend *backend, const struct backend_send_options *options,
	                         struct backend_queue **queue, struct failure *failure);
	/**
	 * Hand packets to the device, in order. Returns how many of n, from the first on, it accepted: fewer when
	 * `slots` are not reaped, or when it has no room for a reason of its own; or -errno and none was accepted:
	 * reset() is due. Every accepted packet can be reaped later, even if no more are posted.
	 */
	int (*send_post)(struct backend_queue *queue, const struct backend_packet *packets, uint32_t n);
	/**
	 * Likewise, but these packets have all of their checksums already, whatever the queue was made for: fragments
	 * of IP packets, over which no device can sum. They leave as they are.
	 */
	int (*send_post_summed)(struct backend_queue *queue, const struct backend_packet *packets, uint32_t n);
	/**
	 * Up to max (at least 2) runs of packets that ended; their memory belongs to the caller again. Never blocks.
	 * -errno: the queue failed and has no more completions; reset() is due.
	 */
	int (*send_reap)(struct backend_queue *queue, struct backend_sent *sent, uint32_t max);

	/**
	 * What keeps the times of a send queue's packets: "worker", "qdisc", "card"; and why, or "". Static texts. Any
	 * thread. NULL: the worker.
	 */
	const char *(*read_send_time)(const struct backend_queue *queue, const char **why);

	/**
	 * A group of queues to which a hash shares packets out, as a target of flows: of the calls that take a queue
	 * only add_flow, read_matched and destroy_queue apply to it. It is destroyed before its queues. NULL: the
	 * device has no groups.
	 */
	int (*create_group)(struct backend *backend, const struct backend_group_options *options,
	                    struct backend_queue **group, struct failure *failure);
	/** Only after start(): packets that match before are dropped and not counted as losses. */
	int (*add_flow)(struct backend_queue *queue, const struct flow_rule *rule, struct backend_flow **flow,
	                struct failure *failure);
	void (*remove_flow)(struct backend_flow *flow);

	/**
	 * Packets that steering gave the queue, before any drop; if packets of a group count for the group or for the
	 * queue, is the backend's choice, and none counts twice. This and read_port send commands to the device, which
	 * may take a minute if its firmware hangs: not for the hot path, nor for the control thread. One thread at a
	 * time.
	 */
	int (*read_matched)(struct backend_queue *queue, uint64_t *packets);
	int (*read_port)(struct backend *backend, struct backend_port_statistics *statistics);
	/**
	 * Packets that all queues of the device had no room for, and that its driver may count as dropped by the
	 * interface, too, a little later. wait: until it has counted all of them. They only grow. Any thread, until
	 * close(). May be NULL: a driver counts none of them.
	 */
	uint64_t (*read_refused)(struct backend *backend, bool wait);
	/**
	 * Since the last call, may packets have passed the backend by, or been lost, that nothing counts? Any thread,
	 * one at a time, until close(). May be NULL: none. Only with read_refused.
	 */
	bool (*may_lose_uncounted)(struct backend *backend);
	/** The device's clock now. -ENOTSUP without timestamps; -ENODEV: it has gone. */
	int (*read_clock)(struct backend *backend, struct backend_clock_reading *reading);
	/** The descriptor that is readable while there is a notice. This and read_notice may be NULL. */
	int (*notice_fd)(const struct backend *backend);
	/** 1: *notice is the next one; 0: there is none. Never blocks. Control thread, like notice_fd. */
	int (*read_notice)(struct backend *backend, struct backend_notice *notice);
};

/* ---- for queues that hold nothing ------------------------------------------------------------------ */

static inline void backend_use_post(struct backend_use *use, uint32_t n)
{
	use->given = use->posted += n;
}

static inline void backend_use_take(struct backend_use *use, uint32_t n)
{
	use->taken += n;
}

static inline void backend_use_reset(struct backend_use *use)
{
	use->given = use->posted = use->taken;
}

#endif
