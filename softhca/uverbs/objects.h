// SPDX-License-Identifier: Apache-2.0
/*
 * The objects of an open device, by handle. Everything here needs the device's lock, if nothing else is said. Declares
 * cmd_cq.c, cmd_flow.c, cmd_qp_state.c, device_events.c.
 */
#ifndef SOFTHCA_UVERBS_OBJECTS_H
#define SOFTHCA_UVERBS_OBJECTS_H

#include "../device/clock.h"
#include "../device/flow_match_param.h"
#include "../device/qp.h"
#include "../device/srq.h"
#include "event_channel.h"
#include "memlock.h"

/* The order in which a dying process's objects are destroyed: users come before what they use. */
enum object_type {
	OBJECT_FLOW,
	OBJECT_MATCHER,
	OBJECT_COUNTERS,
	OBJECT_QP,
	OBJECT_AH,
	OBJECT_RWQ_IND_TBL,
	OBJECT_WQ,
	OBJECT_SRQ,
	OBJECT_CQ,
	OBJECT_MR,
	OBJECT_PD,
	OBJECT_UAR,
	OBJECT_N_TYPES,
};

struct object {
	enum object_type type;
	uint32_t handle;
	uint32_t n_users; /* other objects that need this one: destroying it is EBUSY */
	uint64_t user_handle;
	uint64_t n_pinned;       /* pages of the program's memory */
	uint64_t created_ns;     /* CLOCK_REALTIME */
	pid_t creator;           /* thread */
	uint32_t n_async_events; /* that the program will read or has read */
	struct uverbs_file *file;
	void (*destroy)(struct object *o); /* undoes what the type did beside this; NULL: nothing */
};

struct object_table {
	struct object **slots;
	uint32_t size;
};

struct pd {
	struct object object;
	uint32_t pdn;
};

struct mr {
	struct object object;
	struct pd *pd;
	uint32_t lkey;
	uint8_t *dmabuf; /* our own mapping of a dma-buf's memory, or NULL */
	uint64_t dmabuf_bytes;
};

struct ucq {
	struct object object;
	struct cq cq;
	struct event_channel *channel; /* or NULL */
	bool real_time, cycles;        /* formats of timestamps that the program asked for */
	uint32_t n_comp_events;
	uint64_t n_buffer_pages; /* of object.n_pinned, those of the entries */
};

/* A work queue: a receive queue that indirection tables point to. */
struct uwq {
	struct object object;
	struct rq rq;
	struct pd *pd;
	struct ucq *cq;
};

struct usrq {
	struct object object;
	struct srq srq;
	struct pd *pd;
	uint32_t max_wr, max_sge;
};

struct ah {
	struct object object;
	struct pd *pd;
};

struct uind_table {
	struct object object;
	uint32_t n_wqs; /* a power of two */
	struct uwq **wqs;
	struct rq **rqs;
};

struct uqp {
	struct object object;
	struct qp qp;
	struct pd *pd;
	struct ucq *send_cq, *recv_cq;
	struct usrq *srq; /* or NULL */
	uint32_t max_recv_sge, max_inline;
	uint8_t type;       /* enum ib_uverbs_qp_type */
	uint8_t port;       /* 0 until INIT */
	uint8_t sgid_index; /* of RC */
	/* with RSS; the queue pair then has no queues and completion queues of its own */
	struct uind_table *ind_table;
	struct rss rss;
};

struct counter_desc {
	uint32_t what, index;
};

struct counters {
	struct object object;
	struct flow_counter value;
	struct counter_desc *descs;
	uint32_t n_descs;
	uint64_t max_index; /* one more than the highest index, which has 32 bits; 0: not described */
};

struct umatcher {
	struct object object;
	struct flow_matcher match;
	uint8_t type;  /* enum flow_attr_type */
	uint8_t table; /* enum mlx5_ib_uapi_flow_table_type */
};

struct uflow {
	struct object object;
	struct flow_rule rules[FLOW_MAX_RULES];
	unsigned int n_rules;
	struct kernel_dropped dropped;
	struct uqp *qp; /* these three: or NULL */
	struct counters *counters;
	struct umatcher *matcher;
};

struct uar {
	struct object object;
	uint32_t page;
};

/* A process's view of a device: the file behind open("/dev/infiniband/uverbsN"). */
struct uverbs_file {
	struct fd_object fd_object;
	struct device *device;
	struct fdtab *fdtab;
	struct memlock *memlock;
	struct clock *clock;
	struct clock_pages clock_pages;
	bool clock_running;
	int memfd;                    /* our own duplicate of the descriptor */
	pthread_mutex_t context_lock; /* held by GET_CONTEXT, which comes once; taken before the device's lock */
	atomic_bool has_context;      /* GET_CONTEXT was done */
	atomic_bool dead;             /* the device had a fatal error: only destroying and closing work */
	STAILQ_HEAD(event_channels, event_channel) async; /* the first gets what happens to objects */
	struct object_table objects;
	uint32_t n_objects[OBJECT_N_TYPES];
	LIST_ENTRY(uverbs_file) link;
};

/* A command reaches the firmware: 0, -ETIMEDOUT, or -EIO if the device had a fatal error, unless it `destroys`. Lock
 * not held. */
int uverbs_ask_firmware(const struct uverbs_file *f, bool destroys);

/* Enters a new object and gives it its handle. 0; -ENOMEM: there is no memory, or the device has no more of the type;
 * or -EAGAIN: the context may have no more. */
int object_add(struct uverbs_file *file, struct object *o, enum object_type type, void (*destroy)(struct object *o));
/* The object with this handle, or NULL if there is none or it is of another type. */
void *object_find(struct uverbs_file *file, uint32_t handle, enum object_type type);
/* The same for an object that is to be destroyed. NULL if that cannot be; `*error` is then -ENOENT or -EBUSY. */
void *object_find_unused(struct uverbs_file *file, uint32_t handle, enum object_type type, int *error);
/* Takes the object out of the table; the caller frees it. */
void object_remove(struct object *o);
/* Takes the object out of the table, unpins its memory, calls its destroy() and frees it. */
void object_destroy(struct object *o);
/* Finds the object and destroys it; `*n_async_events`, if it is not NULL, becomes the number that the program has read.
 * 0, -ENOENT or -EBUSY. Lock not held. */
int object_destroy_handle(struct uverbs_file *file, uint32_t handle, enum object_type type, uint32_t *n_async_events);
/* Destroys all objects, users before what they use. Lock not held. */
void objects_destroy_all(struct uverbs_file *file);

/* The state of a queue pair of any type, or -EINVAL (qp_query_state). */
int uqp_query_state(struct uqp *u);

/* 0, or -EOPNOTSUPP if a queue that completes here cannot stamp as the CQ wants it (mlx5_ib: get_ts_format). */
int cq_check_timestamps(const struct ucq *u);

/* Removes the rules of all flows from the kernel's packet filter, for a file that is being released. Lock not held,
 * since this waits for the kernel. */
void flows_leave_kernel(struct uverbs_file *file);

/* Removes the object's asynchronous events that the program has not read. Returns the number that it has read. */
uint32_t async_events_read(struct object *o);

extern const struct device_events uverbs_events;

#endif
