// SPDX-License-Identifier: Apache-2.0
/*
 * An emulated device: one netdev, one port, one thread. `lock` protects everything that the device thread uses.
 * Commands take it through device_lock(), which makes the thread give way.
 */
#ifndef SOFTHCA_DEVICE_DEVICE_H
#define SOFTHCA_DEVICE_DEVICE_H

#include "../wire/rough.h"
#include "../wire/wire.h"
#include "fault.h"
#include "flow.h"
#include "injection.h"
#include "kernel_drop.h"
#include "ledger.h"
#include "mkey.h"
#include "profile.h"
#include "trace.h"
#include "warning.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define DEVICE_FIRST_QPN 0x40
#define DEVICE_BURST     64 /* frames that the thread takes from the wire in one turn */

struct clock;
struct cq;
struct device;
struct qp;
struct rq;
struct mcast_filter;
struct roce;
struct sq_batch;
struct srq;
struct wire_frame;

/* Which frames of a send queue come back to the device as received ones. */
enum loopback {
	LOOPBACK_AUTO, /* frames to its own MAC and to groups, while two contexts are open */
	LOOPBACK_OFF,
	LOOPBACK_OWN_MAC,
	LOOPBACK_MULTICAST,
	LOOPBACK_BOTH,
};

/* Formats of timestamps that queues can have (PRM, HCA capabilities: rq_ts_format, sq_ts_format): cycles of the clock;
 * these and seconds << 32 | nanoseconds; or only the latter. */
enum real_time { REAL_TIME_OFF, REAL_TIME_ON, REAL_TIME_ONLY };

/* The mode of the embedded switch (devlink-dev(8), eswitch mode). The last is switchdev with firmware that counts for
 * other vports (mlx5_ib: vport_qcounters_supported). */
enum eswitch { ESWITCH_LEGACY, ESWITCH_SWITCHDEV, ESWITCH_SWITCHDEV_VPORT };

/* A frame longer than the MTU: a completion with LOC_LEN_ERR, or the frame is lost without an error. */
enum long_send { LONG_SEND_IS_ERROR, LONG_SEND_IS_DROPPED };

/* Behaviour that cannot be known without the hardware, and choices of the user. */
struct device_config {
	const char *netdev;
	const char *bond;        /* netdev of the bond; "": none */
	const char *name_prefix; /* of the RDMA device, which a number follows */
	const struct profile *profile;
	struct clock *clock;
	struct trace *trace;        /* NULL: cannot be listened to */
	const char *faults;         /* directory of injection.h; "": none */
	const char *counters;       /* directory of the ledgers; NULL: counters are the process' own */
	struct wire_config wire;    /* all but the netdev's name */
	int cpu;                    /* of the device thread; -1: any */
	unsigned int nap_us;        /* the longest nap of the device thread between two bursts */
	bool l2_filter;             /* take only frames that the netdev would take: own MAC, joined groups */
	bool arm_fires_for_pending; /* arming a queue with unread completions gives an event at once */
	bool length_error_is_fatal; /* LOC_LEN_ERR puts the queue in the error state */
	bool explain;               /* tell the user why commands are refused, and what was lost */
	bool warnings;              /* look for pitfalls */
	bool copies_on_fork;        /* as Linux 5.12 and later: fork() copies registered memory at once */
	bool error_events;          /* a completion in error gives a QP_FATAL event, too */
	enum real_time real_time;
	enum eswitch eswitch;
	bool roce;
	unsigned int n_comp_vectors; /* 0: the profile's */
	unsigned int max_objects;    /* of a context; 0: no limit */
	unsigned int flow_entries;   /* of the flow table of each priority */
	enum long_send long_send;
	enum flow_duplicates duplicates;
	enum kernel_drop_mode kernel_drop;
	enum loopback loopback;
};

/* enum ibv_event_type: kernel-internal names, but ABI. */
enum device_event {
	EVENT_CQ_ERR = 0,
	EVENT_QP_FATAL = 1,
	EVENT_QP_REQ_ERR = 2,
	EVENT_QP_ACCESS_ERR = 3,
	EVENT_COMM_EST = 4,
	EVENT_DEVICE_FATAL = 8,
	EVENT_PORT_ACTIVE = 9,
	EVENT_PORT_ERR = 10,
	EVENT_SRQ_ERR = 14,
	EVENT_SRQ_LIMIT_REACHED = 15,
	EVENT_QP_LAST_WQE_REACHED = 16,
	EVENT_WQ_FATAL = 19
};

/* The device reports events to uverbs through these, with the lock held. */
struct device_events {
	void (*cq_completion)(struct cq *cq);
	void (*cq_error)(struct cq *cq);
	void (*qp_fatal)(struct qp *qp);
	void (*wq_fatal)(struct rq *rq);
	void (*qp_event)(struct qp *qp, enum device_event event);
	void (*srq_event)(struct srq *srq, enum device_event event);
	void (*port)(struct device *device, bool active);
	void (*fatal)(struct device *device); /* contexts that are open do not work any more */
};

struct device {
	struct device_config config;
	const struct device_events *events;
	char name[64];
	unsigned int index;
	unsigned int n_contexts;
	bool sniffed, hears_sent, told_missing_csum;
	uint8_t short_frame[16 + 60]; /* the frame being received, if it had to be padded; with headroom */
	uint8_t *sent_copy;           /* buffer in which a sent frame becomes a received one; allocated at first use */

	pthread_mutex_t lock;
	atomic_uint n_waiting; /* commands that wait for the lock */
	struct mkey_table mkeys;
	struct flow_steering steering;
	struct kernel_drop kernel_drop;
	struct lost_pages lost_pages;
	void (*recover)(void *loss); /* lost_memory_recover(); fault_guard() calls it */
	TAILQ_HEAD(qps, qp) qps;
	TAILQ_HEAD(, rq) wqs; /* receive queues that belong to no queue pair */
	TAILQ_HEAD(, srq) srqs;
	LIST_HEAD(, uverbs_file) files;  /* that have the device open; kept by uverbs */
	TAILQ_HEAD(, cq) armed_later;    /* queues with a recent completion: their arm record is looked at again */
	struct device_counters counters; /* of this process */
	struct warning_given warnings[N_WARNINGS];
	uint64_t n_error_completions; /* without those that are flushed */
	uint64_t wire_discards;       /* those of the open wire that are in `counters` */
	struct ledger ledger;
	uint32_t next_qpn, next_cqn, next_pdn;
	bool port_active;
	bool halted; /* an error of the whole device: queues do nothing until the contexts of that time are closed */
	fault_told faults_told[N_FAULTS];
	int n_strange_files; /* in the directory of faults, when it was last looked at */
	struct injected injected;
	uint64_t next_look_ns;  /* when injection_look() is due */
	uint32_t n_delay_drop;  /* work queues that delay drops */
	uint64_t delayed_at_ns; /* since when the frame in front waits; 0: none does */
	bool starves;           /* some receive queue has too few entries for another burst */

	/* Takes a frame from the wire: steer() or, while there are RC or UD queue pairs, a function of `roce`. */
	uint32_t (*take)(struct device *d, struct wire_frame *f, uint64_t now_ns);
	struct roce *roce; /* NULL before the first RC or UD queue pair */

	pthread_mutex_t wire_lock; /* taken before `lock` */
	struct wire *wire;         /* the engine, or what stands in front of it */
	struct wire *engine;       /* NULL: not open */
	struct rough rough;        /* makes a bad wire of the engine */
	struct wire tap;           /* shows a trace the frames of `tapped` */
	struct wire *tapped;
	struct device_trace *tracing; /* NULL: nobody listens */
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

/* Size of the port's GID table. A representor has none, and neither has a port without RoCE (mlx5_ib:
 * mlx5_query_port_roce). */
static inline uint16_t device_n_gids(const struct device *d)
{
	return d->config.roce && d->config.eswitch == ESWITCH_LEGACY ? d->config.profile->gid_table_len : 0;
}

/* The netdev that the port shows: its addresses are the GIDs, its state is the port's (mlx5_ib: mlx5_query_port_roce
 * takes the master of a bond). */
static inline const char *device_port_netdev(const struct device *d)
{
	return d->config.bond && *d->config.bond ? d->config.bond : d->config.netdev;
}

static inline uint32_t device_n_comp_vectors(const struct device *d)
{
	return d->config.n_comp_vectors ? d->config.n_comp_vectors : d->config.profile->n_comp_vectors;
}

/* The port that is the netdev. In switchdev mode ports are vports, and the uplink is the last (mlx5_core:
 * mlx5_esw_vports_init; mlx5_ib: mlx5_ib_vport_rep_load). The others here have no representor. */
static inline unsigned int device_port(const struct device *d)
{
	return d->config.eswitch == ESWITCH_LEGACY ? 1 : 2;
}

/* The wire and the thread exist while a raw packet queue pair does. 0 or negative errno. */
int device_get_wire(struct device *d);
void device_put_wire(struct device *d);

/* Begins (or ceases) to tell config.trace what the device does. 0 or -ENOMEM. */
int device_start_trace(struct device *d);
void device_stop_trace(struct device *d);

/* The current values of the device, with those of other processes. Any thread; lock not held. */
void device_read_counters(struct device *d, struct device_counters *c);

#endif
