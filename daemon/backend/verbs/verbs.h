// SPDX-License-Identifier: Apache-2.0
/*
 * The verbs backend: RAW_PACKET queue pairs through libibverbs. Only verbs_backend_ops is used outside this room, which
 * turns verbs' positive errno values, and its NULL with errno, into -errno. Declares device.c, direct.c, flow.c,
 * group_queue_pairs.c, match.c, memory.c, queue.c, receive.c, send.c, statistics.c, timestamps.c.
 */
#ifndef DAEMON_BACKEND_VERBS_VERBS_H
#define DAEMON_BACKEND_VERBS_VERBS_H

#include "daemon/backend/backend.h"
#include "lib/base/size.h"
#include "lib/base/time.h"

#include <infiniband/verbs.h>
#include <limits.h>
#include <net/if.h>
#include <stdatomic.h>

#define VERBS_CHAIN      64    /* work requests for one doorbell; a worker posts as many at once */
#define VERBS_SGES_MAX   3     /* header row, payload row, oversize sink */
#define VERBS_SINK_BYTES 65536 /* no frame is longer */

#define VERBS_FLOW_TAG_MASK 0xffffff /* the tag's bits in a completion (libmlx5: MLX5_FLOW_TAG_MASK) */

#define VERBS_NET_RAW_HINT                                                                               \
	"CAP_NET_RAW is missing: AmbientCapabilities=CAP_NET_RAW in the unit, 'ibv_launch COMMAND', or " \
	"'setcap cap_net_raw,cap_ipc_lock+ep' on the program grant it"

enum verbs_timestamps {
	VERBS_TIMESTAMPS_NONE,
	VERBS_TIMESTAMPS_TICKS,     /* ticks of the free-running clock */
	VERBS_TIMESTAMPS_REAL_TIME, /* seconds << 32 | nanoseconds of the precision clock */
};

/* A device counter that wraps earlier than ours. */
struct wide_counter {
	uint64_t last;
	uint64_t total;
};

struct verbs_backend {
	struct backend base;
	char interface[IFNAMSIZ];
	uint8_t port;
	struct ibv_context *context;
	struct ibv_device_attr_ex attr;
	struct ibv_pd *pd;
	struct ibv_mr *sink; /* null MR; NULL: the device has none */
	_Atomic unsigned n_queues_made;
	enum verbs_timestamps timestamps;
	bool strict_ordering;        /* see backend_open_options */
	bool direct;                 /* receive queues have the direct path */
	char how[BACKEND_HOW_BYTES]; /* what receive queues have, and why; see backend_capabilities */
	int ptp_fd;                  /* the precision clock, for real-time timestamps; -1: none */
	struct wide_counter out_of_buffer;
	char out_of_buffer_path[PATH_MAX]; /* "": the device does not show it */
};

struct verbs_memory {
	struct backend_memory base;
	struct ibv_mr *mr;
};

/* A work request of a chain beside the SGEs that it points to. */
struct verbs_slot_wr {
	struct ibv_recv_wr wr;
	struct ibv_sge sges[VERBS_SGES_MAX];
};

/* The common part of both kinds of queue; first member of each. */
struct verbs_queue {
	struct backend_queue base;
	bool sends;    /* it is a struct verbs_send_queue; */
	bool is_group; /* it is a struct verbs_group; else a struct verbs_receive_queue */

	/* The worker's. */
	struct ibv_qp *qp; /* of a member of a group: see group_queue_pairs.c */
	struct ibv_wq *wq; /* of a member of a group; NULL: the queue pair has its receive queue itself */
	struct ibv_cq_ex *cq;
	unsigned n_unacknowledged; /* completion events */
	uint32_t n_cq_events;      /* free-running: completion events that were read */

	/*
	 * The control thread sets these on an asynchronous event and the worker reads them. The worker sets failed too.
	 * Nothing is ordered by them.
	 */
	atomic_bool failed;    /* reset() clears it */
	atomic_bool cq_failed; /* reset() does not clear it */

	/* The control thread's. */
	struct verbs_backend *backend;
	struct ibv_td *thread_domain;
	struct ibv_pd *parent_domain;
	struct ibv_comp_channel *channel;
	struct ibv_counters *counters;
	struct ibv_flow *guard;
	struct ibv_rwq_ind_table
		*table; /* if this is a group or a member of one: the receive queues that qp leads to */
};

struct mlx5_cqe64;
struct mlx5_wqe_data_seg;

/* Where libmlx5 has a receive queue and its completion queue, and how far the worker is in them; see direct.c. */
struct verbs_direct {
	const struct mlx5_cqe64 *cqes;
	uint32_t cqe_mask;
	uint32_t n_polled; /* free-running: the completion queue's consumer index */
	uint32_t n_dense;  /* packets that came in a row of polls that found many */
	struct mlx5_wqe_data_seg *entries;
	uint32_t entry_mask;
	uint32_t entry_segments; /* from one entry to the next */
	bool has_headers;        /* the first segment is for the header row */
	uint32_t n_posted;       /* free-running since the last reset */
	uint32_t *doorbell;      /* where n_posted is written: doorbell_record, or withheld before start() */
	uint32_t *doorbell_record;
	uint32_t withheld;
	uint32_t *cq_records;
	uint64_t *cq_doorbell;
	uint32_t cqn;
};

/* Only the worker uses it. */
struct verbs_receive_queue {
	struct verbs_queue queue;
	uint32_t header_stride;
	uint32_t row_stride;
	bool flow_tags;
	bool has_more; /* flow tags, or checks of checksums: what the plain loops do not read */
	enum verbs_timestamps timestamps;
	struct verbs_slot_wr chain[VERBS_CHAIN];
	struct verbs_direct direct;
	uint32_t slots[]; /* direct: of each entry of the receive queue */
};

/* Only the worker uses it. */
struct verbs_send_queue {
	struct verbs_queue queue;
	struct ibv_qp_ex *qp; /* of queue.qp */
	uint32_t slots;
	uint32_t n_posted, n_reaped; /* free-running */
	uint32_t signal_mask;        /* 2^k - 1: one packet in 2^k is signalled */
	uint32_t headers_lkey;
	unsigned flags;                     /* of every packet */
	struct ibv_qp_rate_limit_attr rate; /* rate_limit 0: none */
};

struct verbs_flow {
	struct backend_flow base;
	struct ibv_flow *flow;
};

static inline struct verbs_backend *verbs_backend(const struct backend *backend)
{
	return (struct verbs_backend *)backend;
}

static inline struct verbs_queue *verbs_queue(const struct backend_queue *queue)
{
	return (struct verbs_queue *)queue;
}

static inline struct verbs_receive_queue *verbs_receive_queue(const struct backend_queue *queue)
{
	return (struct verbs_receive_queue *)queue;
}

static inline struct verbs_send_queue *verbs_send_queue(const struct backend_queue *queue)
{
	return (struct verbs_send_queue *)queue;
}

static inline uint32_t verbs_lkey(const struct backend_memory *memory)
{
	return ((const struct verbs_memory *)memory)->mr->lkey;
}

static inline const char *verbs_device_name(const struct verbs_backend *backend)
{
	return ibv_get_device_name(backend->context->device);
}

/* ---- match.c: finds the port of an interface; reads sysfs only -------------------------------------- */

/* The path of sysfs, and the RDMA devices' directories in it ("/sys/class/infiniband/mlx5_0"). */
struct verbs_sysfs {
	const char *root;
	const char *const *devices;
	int n_devices;
};

struct verbs_match {
	int device; /* index into devices */
	uint8_t port;
};

/** -ENODEV: none of the devices is behind the interface. */
int verbs_match(const struct verbs_sysfs *sysfs, const char *interface, struct verbs_match *match);
/** "mlx5_0 port 1 (eth2), mlx5_1 port 1 (no netdev)"; returns buffer. */
const char *verbs_describe_devices(const struct verbs_sysfs *sysfs, char *buffer, size_t bytes);

#define VERBS_STACKING_LAG 1 /* a bond of mlx5 ports with one device, which should be one for all of them */

/** 0: it is stacked on no other interface. VERBS_STACKING_LAG. -EINVAL: its packets cannot be captured through it. */
int verbs_check_stacking(const struct verbs_sysfs *sysfs, const char *interface, struct failure *failure);

/* ---- device.c ------------------------------------------------------------------------------------- */

/**
 * Does this process see the node in the directory nodes ("/dev/infiniband") of the device that is the interface's own?
 * 0: it does, or there is no such device.
 */
int verbs_check_node(const struct verbs_sysfs *sysfs, const char *nodes, const char *interface,
                     struct failure *failure);

/* ---- memory.c ----------------------------------------------------------------------------------- */

/** ": the cause, and what mends it", if the errno says that a limit was reached or the device is gone; else "". */
const char *verbs_explain_limit(int error);
/** The same for every errno of ibv_create_flow(). */
const char *verbs_explain_flow(int error, const struct flow_rule *rule);

int verbs_register_memory(struct backend *backend, void *address, size_t bytes, struct backend_memory **memory,
                          struct failure *failure);
void verbs_unregister_memory(struct backend_memory *memory);
int verbs_register_dmabuf(struct backend *backend, const struct backend_dmabuf *dmabuf, struct backend_memory **memory,
                          struct failure *failure);

/* ---- queue.c -------------------------------------------------------------------------------------- */

/** A zeroed queue of either kind without any object of the device. NULL: no memory. */
struct verbs_queue *verbs_queue_new(struct verbs_backend *backend, size_t bytes, struct failure *failure);
/** Create the thread domain, the completion queue and, for completion events, the channel. */
int verbs_queue_create_cq(struct verbs_queue *queue, uint32_t n_cqe, uint64_t wc_flags, bool completion_events,
                          struct failure *failure);
/** Create the queue pair, in state INIT. capabilities: the wanted ones; becomes those that the device gave. */
int verbs_queue_create_qp(struct verbs_queue *queue, struct ibv_qp_cap *capabilities, struct failure *failure);
int verbs_queue_modify(struct verbs_queue *queue, enum ibv_qp_state state);
void verbs_destroy_queue(struct backend_queue *queue);
int verbs_start(struct backend_queue *queue);
int verbs_reset(struct backend_queue *queue);
int verbs_fd(const struct backend_queue *queue);
int verbs_arm(struct backend_queue *queue);
void verbs_clear(struct backend_queue *queue);
/** The event of a failed completion. The queue has failed unless its packet was too long. */
void verbs_take_receive_error(struct verbs_queue *queue, uint32_t slot, enum ibv_wc_status status,
                              struct backend_event *event);

/* ---- group_queue_pairs.c ------------------------------------------------------------------------------ */

#define VERBS_GROUP_QUEUES_MAX 16

enum verbs_group_kind {
	VERBS_GROUP_IPV4, /* of addresses; also packets without any: these come to the first queue */
	VERBS_GROUP_IPV6,
	VERBS_GROUP_IPV4_UDP, /* of addresses and ports */
	VERBS_GROUP_IPV6_UDP,
	VERBS_GROUP_N_KINDS
};

/* Several queue pairs lead to the same receive queues, because one hashes packets of one kind only. */
struct verbs_group {
	struct verbs_queue queue;
	struct backend_group_options options;    /* without queues */
	struct ibv_qp *qps[VERBS_GROUP_N_KINDS]; /* made with their first flow; queue.qp is that of VERBS_GROUP_IPV4 */
};

static inline struct verbs_group *verbs_group(struct verbs_queue *queue)
{
	return (struct verbs_group *)queue;
}

/** How many queues a group can have; 0: the device has none. */
uint32_t verbs_max_group_queues(const struct verbs_backend *backend);
/** A receive queue that can be a member of a group, and the queue pair that flows of it alone are attached to. */
int verbs_create_member(struct verbs_queue *queue, const struct backend_queue_options *options,
                        struct failure *failure);
int verbs_group_create_table(struct verbs_queue *queue, struct ibv_wq *const *members, uint32_t n);
/** Make the queue pair for packets of this kind, unless that was done. 0 or -errno. */
int verbs_group_make_kind(struct verbs_group *group, enum verbs_group_kind kind);
/** The queue pair that a flow of this rule is attached to. -errno: it cannot be made. */
int verbs_group_qp(struct verbs_queue *queue, const struct flow_rule *rule, struct ibv_qp **qp);
/** Free the objects that this file made for a queue of any kind. */
void verbs_group_release(struct verbs_queue *queue);
int verbs_group_modify(struct verbs_queue *queue, enum ibv_wq_state state);

/* ---- receive.c ---------------------------------------------------------------------------------- */

/** Have the events of a queue wait for others, as its options say. */
int verbs_moderate(const struct verbs_queue *queue, const struct backend_queue_options *options,
                   struct failure *failure);
int verbs_create_queue(struct backend *backend, const struct backend_queue_options *options,
                       struct backend_queue **queue, struct failure *failure);
int verbs_create_group(struct backend *backend, const struct backend_group_options *options,
                       struct backend_queue **queue, struct failure *failure);
int verbs_post(struct backend_queue *queue, const struct backend_run *run);
int verbs_poll(struct backend_queue *queue, struct backend_event *events, uint32_t max);
/** The most entries of a receive queue: the provider rounds its slots up. */
static inline uint32_t verbs_n_entries(const struct backend_queue_options *options)
{
	return round_up_to_power_of_two(options->slots);
}

static inline uint64_t verbs_real_time_ns(uint64_t raw)
{
	return (raw >> 32) * TIME_SECOND_NS + (uint32_t)raw;
}

/* ---- direct.c ----------------------------------------------------------------------------------- */

/** Can the device's receive queues have the direct path? */
bool verbs_direct_works(const struct verbs_backend *backend, char why_not[BACKEND_HOW_BYTES]);
/** Give the queue, which is complete and was never posted to, the direct path. */
int verbs_direct_init(struct verbs_receive_queue *receive, const struct backend_queue_options *options,
                      struct failure *failure);

/* ---- send.c ------------------------------------------------------------------------------------- */

int verbs_create_send_queue(struct backend *backend, const struct backend_send_options *options,
                            struct backend_queue **queue, struct failure *failure);

int verbs_send_post(struct backend_queue *queue, const struct backend_packet *packets, uint32_t n);
int verbs_send_post_summed(struct backend_queue *queue, const struct backend_packet *packets, uint32_t n);
int verbs_send_reap(struct backend_queue *queue, struct backend_sent *sent, uint32_t max);

/* ---- flow.c --------------------------------------------------------------------------------------- */

/* A flow attribute and the specs that must follow it without a gap. */
struct verbs_flow_attr {
	struct ibv_flow_attr attr;
	uint8_t specs[sizeof(struct ibv_flow_spec_eth) + sizeof(struct ibv_flow_spec_ipv6) +
	              sizeof(struct ibv_flow_spec_tcp_udp) + sizeof(struct ibv_flow_spec_action_tag) +
	              sizeof(struct ibv_flow_spec_counter_action)];
};

/** Translate the rule. counters NULL: its packets are not counted. Pure. */
void verbs_flow_attr_build(struct verbs_flow_attr *flow, const struct flow_rule *rule, uint8_t port,
                           struct ibv_counters *counters);
int verbs_add_flow(struct backend_queue *queue, const struct flow_rule *rule, struct backend_flow **flow,
                   struct failure *failure);
void verbs_remove_flow(struct backend_flow *flow);

/* ---- statistics.c ------------------------------------------------------------------------------- */

/** The rule of a queue pair's guard flow: different from all other rules, and no packet matches it. Pure. */
void verbs_guard_rule(struct flow_rule *rule, uint32_t qp_num);
/** The counters object of a queue, with its guard flow. */
int verbs_counters_create(struct verbs_queue *queue, struct failure *failure);
/** To be called after the last flow is removed. They may be half-built. */
void verbs_counters_destroy(struct verbs_queue *queue);
int verbs_read_matched(struct backend_queue *queue, uint64_t *packets);

/** Add a reading of a counter that is 32 bits wide until it shows a larger value. Returns the total. Pure. */
uint64_t wide_counter_add(struct wide_counter *counter, uint64_t reading);
/** The path of a counter of a port, given the device's directory in sysfs. False: there is none, and path is "". */
bool verbs_find_counter(const char *device, unsigned port, const char *name, char *path, size_t bytes);
/** The present values of the counters count as 0. */
void verbs_statistics_init(struct verbs_backend *backend);
int verbs_read_port(struct backend *backend, struct backend_port_statistics *statistics);
int verbs_notice_fd(const struct backend *backend);
int verbs_read_notice(struct backend *backend, struct backend_notice *notice);

/* ---- timestamps.c --------------------------------------------------------------------------------- */

/** Find out which timestamps the device has. Needs the protection domain. */
void verbs_timestamps_init(struct verbs_backend *backend);
void verbs_timestamps_deinit(struct verbs_backend *backend);
/** The clock that the timestamps are of. */
int verbs_read_clock(struct backend *backend, struct backend_clock_reading *reading);

extern const struct backend_ops verbs_backend_ops;

#endif
