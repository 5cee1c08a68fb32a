// SPDX-License-Identifier: Apache-2.0
/*
 * What a queue takes its packets from, or sends them to. A backend never sees rings, channels or clients: it is
 * told which slots of memory to fill and says which it filled, or which headers and payloads to send and says
 * which it sent. The tests implement these calls too.
 *
 * Life of a queue, which every implementation may rely on and must check where it can:
 *   open → register_memory → create_queue → post … → start → add_flow … → post/poll …
 *   → remove_flow … → (drain with poll) → destroy_queue → unregister_memory → close
 * and of one that sends:
 *   open → register_memory → create_send_queue → start → send_post/send_reap …
 *   → (drain with send_reap) → destroy_queue → unregister_memory → close
 *
 * Threads: post, poll, send_post, send_reap, arm, clear and reset belong to the queue's worker, and so does start
 * after a reset; memory may be registered and unregistered by any thread, while queues run; everything else belongs to
 * the control thread; all of these may run at the same time. No call keeps a pointer to its arguments unless it says so.
 * Errors: 0/count or -errno; open, register_memory, create_queue and create_send_queue explain themselves in the
 * failure.
 */
#ifndef DAEMON_BACKEND_BACKEND_H
#define DAEMON_BACKEND_BACKEND_H

#include "daemon/base/failure.h"
#include "daemon/flow/flow.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct backend_ops;

/* Embedded first in each implementation's own struct. */
struct backend {
	const struct backend_ops *ops;
};
struct backend_memory {
	struct backend *backend;
};
struct backend_queue {
	const struct backend_ops *ops;
};
struct backend_flow {
	struct backend_queue *queue;
};

struct backend_capabilities {
	char device[64];          /* the backend's name for the device behind the interface */
	uint32_t max_queue_slots; /* deepest receive queue */
	bool oversize_sink;       /* a longer packet can be a truncated row instead of an error */
	bool timestamps;
	uint64_t clock_hz;       /* of raw timestamps; 0 = none */
	uint64_t clock_mask;     /* valid bits of raw timestamps */
	uint32_t max_send_slots; /* deepest send queue */
	bool send_checksums;     /* the device can fill in the checksums of what it sends */
	uint64_t min_rate_bps;   /* of its own pacing */
	uint64_t max_rate_bps;   /* 0: it has none */
};

struct backend_queue_options {
	struct backend_memory *payload;
	struct backend_memory *headers;
	uint32_t slots;         /* depth of the receive queue, a multiple of 64 */
	uint32_t header_bytes;  /* the first so many bytes of a frame go to the slot's header row */
	uint32_t header_stride; /* bytes between header rows */
	uint32_t slot_bytes;    /* S: the next so many go to its payload row; also the stride */
	bool oversize_sink;
	bool timestamps;
	bool completion_events; /* arm() and fd() will be used */
};

struct backend_send_options {
	struct backend_memory *headers; /* the headers of every packet lie in it */
	uint32_t slots;                 /* packets that may be under way: posted, not yet reaped */
	bool checksums;                 /* the device fills in those of IPv4 headers and UDP, which are 0 in memory */
	bool completion_events;         /* arm() and fd() will be used */
	uint64_t rate_bps;              /* the device paces to so many bits a second of frames; 0: at full speed */
	uint32_t burst_bytes;           /* with a rate: so many may leave at once; 0: the device's choice */
};

/* Consecutive slots of one block: slot + i has its rows at payload + i * S and headers + i * header_stride. */
struct backend_run {
	uint32_t slot; /* the caller's number of the first; comes back in the events */
	uint32_t n;
	uint8_t *payload;
	uint8_t *headers;
};

enum backend_status {
	BACKEND_OK = 0,
	BACKEND_LENGTH_ERROR, /* the packet was longer than the slot and is lost; the slot is used up */
	BACKEND_SLOT_ERROR,   /* other error; the slot is used up; its content is undefined */
	BACKEND_FLUSHED,      /* the queue failed: this slot was not used and is not a row. reset() is due */
};

enum backend_event_flag {
	BACKEND_EVENT_CHECKSUM_OK = 1 << 0,  /* the device checked the IP and UDP checksums: right */
	BACKEND_EVENT_CHECKSUM_BAD = 1 << 1, /* … wrong. Neither: not checked */
};

/* Slots come back in the order in which they were posted. */
struct backend_event {
	uint64_t timestamp_raw;
	uint32_t slot;
	uint32_t
		bytes; /* of the frame, without FCS; may exceed header_bytes + S with an oversize sink; 0 unless BACKEND_OK */
	uint8_t status; /* enum backend_status */
	uint8_t flags;  /* enum backend_event_flag */
	uint16_t reserved;
};

/* One to send: a frame without FCS, in two parts. Both stay untouched until it is reaped. */
struct backend_packet {
	const uint8_t *headers;
	const uint8_t *payload;
	const struct backend_memory *payload_memory; /* neither it nor payload is looked at if there are 0 bytes */
	uint32_t header_bytes;
	uint32_t payload_bytes;
};

/* The next n of those posted, in the order of posting, ended so. */
struct backend_sent {
	uint32_t n;
	uint8_t status; /* enum backend_status, never BACKEND_LENGTH_ERROR */
};

struct backend_port_statistics {
	uint64_t out_of_buffer; /* drops for want of a slot, device-wide, since open; widened */
	uint64_t discards;      /* dropped by the port before steering, since open */
	bool has_discards;
	bool port_active; /* the device's own view of its link */
};

enum backend_notice_type {
	BACKEND_NOTICE_PORT_UP = 1,
	BACKEND_NOTICE_PORT_DOWN,
	BACKEND_NOTICE_QUEUE_FAILED,  /* poll() or send_reap() of this queue says so too: reset() is the worker's */
	BACKEND_NOTICE_DEVICE_FAILED, /* nothing more will come from it: close and open again */
	BACKEND_NOTICE_OTHER,         /* worth a line in the log */
};

/* What a device reports of itself, apart from packets. */
struct backend_notice {
	enum backend_notice_type type;
	struct backend_queue *queue; /* of QUEUE_FAILED, else NULL */
	const char *text;            /* static; what the device calls it */
};

struct backend_ops {
	const char *name;

	/** Find and open the device behind a network interface. */
	int (*open)(const char *interface, struct backend **backend, struct failure *failure);
	void (*close)(struct backend *backend);
	void (*capabilities)(const struct backend *backend, struct backend_capabilities *capabilities);

	/** The memory stays the caller's and must outlive the registration. */
	int (*register_memory)(struct backend *backend, void *address, size_t bytes, struct backend_memory **memory,
	                       struct failure *failure);
	void (*unregister_memory)(struct backend_memory *memory);

	/** A queue that accepts post() but receives nothing until start(). */
	int (*create_queue)(struct backend *backend, const struct backend_queue_options *options,
	                    struct backend_queue **queue, struct failure *failure);
	void (*destroy_queue)(struct backend_queue *queue);
	int (*start)(struct backend_queue *queue);

	/**
	 * Hand a run to the device. Returns how many of run->n it took (fewer: queue full), or -errno. What the caller stored
	 * before (the ring's floor) is seen by others before anything that the device, or the backend itself, writes to the slots.
	 */
	int (*post)(struct backend_queue *queue, const struct backend_run *run);
	/** Up to max events, at least 1. Never blocks. -errno: the queue failed, reset() is due. */
	int (*poll)(struct backend_queue *queue, struct backend_event *events, uint32_t max);
	/** Descriptor that becomes readable after arm() and a completion. -ENOTSUP without completion_events. */
	int (*fd)(const struct backend_queue *queue);
	/** Ask for one event at the next completion; poll once more before sleeping. */
	int (*arm)(struct backend_queue *queue);
	/** Take the events off the descriptor. Never blocks. */
	void (*clear)(struct backend_queue *queue);
	/**
	 * After a failure: everything posted is forgotten; post again from the first unpublished slot, then start().
	 * Of a send queue: start(), then post. What was posted to it and not reaped may have been sent or not; the
	 * device reads no more of it.
	 */
	int (*reset)(struct backend_queue *queue);

	/** A queue that sends once it is started. start, fd, arm, clear, reset and destroy_queue are for it too. */
	int (*create_send_queue)(struct backend *backend, const struct backend_send_options *options,
	                         struct backend_queue **queue, struct failure *failure);
	/**
	 * Hand packets to the device, in order. Returns how many of n, from the first, it took: fewer when `slots`
	 * are under way; or -errno and none: reset() is due. What was taken is reaped in the end, though nothing more
	 * is posted.
	 */
	int (*send_post)(struct backend_queue *queue, const struct backend_packet *packets, uint32_t n);
	/**
	 * Up to max (at least 2) runs of packets that are done; their memory is the caller's again. Never blocks.
	 * -errno: the queue failed, and all that it had to say of its packets was reaped; reset() is due.
	 */
	int (*send_reap)(struct backend_queue *queue, struct backend_sent *sent, uint32_t max);

	/** Only after start(): what matches before is dropped without a name. */
	int (*add_flow)(struct backend_queue *queue, const struct flow_rule *rule, struct backend_flow **flow,
	                struct failure *failure);
	void (*remove_flow)(struct backend_flow *flow);

	/** Packets steering gave the queue, before any drop. A command to the device: not for the hot path. */
	int (*read_matched)(struct backend_queue *queue, uint64_t *packets);
	int (*read_port)(struct backend *backend, struct backend_port_statistics *statistics);
	/** The device's clock now, raw. -ENOTSUP without timestamps. */
	int (*read_clock)(struct backend *backend, uint64_t *raw);
	/** Descriptor that is readable while read_notice() has something to say. Optional, as is the next. */
	int (*notice_fd)(const struct backend *backend);
	/** 1: *notice is the next one; 0: there is none. Never blocks. Control thread, as the one above. */
	int (*read_notice)(struct backend *backend, struct backend_notice *notice);
};

/** The backends of this build, NULL-terminated by name lookup. NULL: not built in. */
const struct backend_ops *backend_find(const char *name);

#endif
