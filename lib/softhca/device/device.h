// SPDX-License-Identifier: Apache-2.0
/*
 * An emulated device: one netdev, one port, one thread. `lock` protects everything that the device thread uses.
 * Commands take it through device_lock(), which makes the thread give way.
 */
#ifndef SOFTHCA_DEVICE_DEVICE_H
#define SOFTHCA_DEVICE_DEVICE_H

#include "../wire/wire.h"
#include "fault.h"
#include "flow.h"
#include "kernel_drop.h"
#include "mkey.h"
#include "profile.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define DEVICE_BURST 64 /* frames that the thread takes from the wire in one turn */

struct clock;
struct cq;
struct device;
struct qp;
struct rq;
struct mcast_filter;
struct sq_batch;
struct uverbs_file;

/* Which frames of a send queue come back to the device as received ones. */
enum loopback {
	LOOPBACK_AUTO, /* frames to its own MAC and to groups, while two contexts are open */
	LOOPBACK_OFF,
	LOOPBACK_OWN_MAC,
	LOOPBACK_MULTICAST,
	LOOPBACK_BOTH,
};

/* A frame longer than the MTU: a completion with LOC_LEN_ERR, or the frame is lost without an error. */
enum long_send { LONG_SEND_IS_ERROR, LONG_SEND_IS_DROPPED };

/* Behaviour that cannot be known without the hardware, and choices of the user. */
struct device_config {
	const char *netdev;
	const struct profile *profile;
	struct clock *clock;
	struct wire_config wire;    /* all but the netdev's name */
	int cpu;                    /* of the device thread; -1: any */
	unsigned int nap_us;        /* the longest nap of the device thread between two bursts */
	bool l2_filter;             /* take only frames that the netdev would take: own MAC, joined groups */
	bool arm_fires_for_pending; /* arming a queue with unread completions gives an event at once */
	bool length_error_is_fatal; /* LOC_LEN_ERR puts the queue in the error state */
	bool error_events;          /* a completion in error gives a QP_FATAL event, too */
	bool real_time;             /* wall-clock CQs have timestamps in the real-time format */
	enum long_send long_send;
	enum flow_duplicates duplicates;
	enum kernel_drop_mode kernel_drop;
	enum loopback loopback;
};

struct device_counters {
	uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes;
	uint64_t out_of_buffer;
	uint64_t discards; /* of wires that are closed */
};

/* The device reports events to uverbs through these, with the lock held. */
struct device_events {
	void (*cq_completion)(struct cq *cq);
	void (*cq_error)(struct cq *cq);
	void (*qp_fatal)(struct qp *qp);
	void (*wq_fatal)(struct rq *rq);
	void (*port)(struct device *device, bool active);
};

struct device {
	struct device_config config;
	const struct device_events *events;
	char name[64];
	unsigned int index;
	unsigned int n_contexts;
	bool sniffed;
	uint8_t *sent_copy; /* buffer in which a sent frame becomes a received one; allocated at first use */

	pthread_mutex_t lock;
	atomic_uint n_waiting; /* commands that wait for the lock */
	struct mkey_table mkeys;
	struct flow_steering steering;
	struct kernel_drop kernel_drop;
	struct lost_pages lost_pages;
	void (*recover)(void *loss); /* lost_memory_recover(); fault_guard() calls it */
	TAILQ_HEAD(, qp) qps;
	TAILQ_HEAD(, rq) wqs;           /* receive queues that belong to no queue pair */
	LIST_HEAD(, uverbs_file) files; /* that have the device open; kept by uverbs */
	TAILQ_HEAD(, cq) armed_later;   /* queues with a recent completion: their arm record is looked at again */
	struct device_counters counters;
	uint32_t next_qpn, next_cqn, next_pdn;
	bool port_active;
	bool starves; /* some receive queue has too few entries for another burst */

	pthread_mutex_t wire_lock; /* taken before `lock` */
	struct wire *wire;
	unsigned int n_wire_users;
	pthread_t thread;
	atomic_bool stop;
	int64_t realtime_offset_ns;
	uint64_t last_arrival_ns; /* of the last frame that a flow took */
	uint32_t mtu;             /* of the netdev, as last read */
	struct sq_batch *sq_batch;
	struct mcast_filter *mcast;
};

void device_init(struct device *d, const struct device_config *config, unsigned int index,
                 const struct device_events *events);

void device_lock(struct device *d);
void device_unlock(struct device *d);

/* Reads whether the link is up and reports a change to every context. Lock not held. */
void device_watch_port(struct device *d);

/* The wire and the thread exist while a raw packet queue pair does. 0 or negative errno. */
int device_get_wire(struct device *d);
void device_put_wire(struct device *d);

/* The current values, with those of the wire. Any thread; lock not held. */
void device_read_counters(struct device *d, struct device_counters *c);

#endif
