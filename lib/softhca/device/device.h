// SPDX-License-Identifier: Apache-2.0
/*
 * An emulated device: one netdev, one port, one thread. `lock` covers everything the device
 * thread touches; commands take it through device_lock(), which makes the thread give way.
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

#define DEVICE_BURST 64 /* frames from the wire before the thread looks up */

struct clock;
struct cq;
struct device;
struct qp;
struct rq;
struct mcast_filter;
struct sq_batch;
struct uverbs_file;

/* Which of the frames that a send queue sends come back as received ones. */
enum loopback {
	LOOPBACK_AUTO, /* own MAC and groups, while there is a second context */
	LOOPBACK_OFF,
	LOOPBACK_OWN_MAC,
	LOOPBACK_MULTICAST,
	LOOPBACK_BOTH,
};

/* A frame longer than the MTU: LOC_LEN_ERR, or sent and never seen. */
enum long_send { LONG_SEND_IS_ERROR, LONG_SEND_IS_DROPPED };

/* What nobody can know without the hardware, and what a user may want to trade. */
struct device_config {
	const char *netdev;
	const struct profile *profile;
	struct clock *clock;
	struct wire_config wire;    /* but for the netdev's name */
	int cpu;                    /* of the device thread; -1: any */
	unsigned int nap_us;        /* longest sleep of the device thread between two bursts */
	bool l2_filter;             /* take only what the netdev would: own MAC, joined groups */
	bool arm_fires_for_pending; /* arming with completions unread: event at once */
	bool length_error_is_fatal; /* LOC_LEN_ERR puts the queue in the error state */
	bool error_events;          /* completions in error give a QP_FATAL, too */
	bool real_time;             /* timestamps of wall-clock CQs in real-time format */
	enum long_send long_send;
	enum flow_duplicates duplicates;
	enum kernel_drop_mode kernel_drop;
	enum loopback loopback;
};

struct device_counters {
	uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes;
	uint64_t out_of_buffer;
	uint64_t discards; /* of wires already closed */
};

/* How the device tells uverbs of events; called with the lock held. */
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
	uint8_t *sent_copy; /* where a sent frame becomes a received one; there when first needed */

	pthread_mutex_t lock;
	atomic_uint n_waiting; /* commands that want the lock */
	struct mkey_table mkeys;
	struct flow_steering steering;
	struct kernel_drop kernel_drop;
	struct lost_pages lost_pages;
	void (*recover)(void *loss); /* lost_memory_recover(); fault_guard() calls it */
	TAILQ_HEAD(, qp) qps;
	TAILQ_HEAD(, rq) wqs;           /* receive queues that are no queue pair's */
	LIST_HEAD(, uverbs_file) files; /* who has it open; kept by uverbs */
	TAILQ_HEAD(, cq) armed_later;   /* completed a moment ago: look at the arm record once more */
	struct device_counters counters;
	uint32_t next_qpn, next_cqn, next_pdn;
	bool port_active;
	bool starves; /* a receive queue would not last for another burst */

	pthread_mutex_t wire_lock; /* taken before `lock` */
	struct wire *wire;
	unsigned int n_wire_users;
	pthread_t thread;
	atomic_bool stop;
	int64_t realtime_offset_ns;
	uint64_t last_arrival_ns; /* of a frame that some flow took */
	uint32_t mtu;             /* the netdev's, as last looked at */
	struct sq_batch *sq_batch;
	struct mcast_filter *mcast;
};

void device_init(struct device *d, const struct device_config *config, unsigned int index,
                 const struct device_events *events);

void device_lock(struct device *d);
void device_unlock(struct device *d);

/* Is the link up? Tells every context when that has changed. Without the lock. */
void device_watch_port(struct device *d);

/* The wire and the thread live while a raw packet queue pair does. 0 or negative errno. */
int device_get_wire(struct device *d);
void device_put_wire(struct device *d);

/* Live values, wire included; any thread, lock not held. */
void device_read_counters(struct device *d, struct device_counters *c);

#endif
