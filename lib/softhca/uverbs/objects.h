// SPDX-License-Identifier: Apache-2.0
/* The objects of an open device, by handle. Everything here is under the device's lock. */
#ifndef SOFTHCA_UVERBS_OBJECTS_H
#define SOFTHCA_UVERBS_OBJECTS_H

#include "../device/clock.h"
#include "../device/qp.h"
#include "channel.h"
#include "memlock.h"

/* In the order in which a dying process's objects are destroyed: users before the used. */
enum object_type {
	OBJECT_FLOW,
	OBJECT_COUNTERS,
	OBJECT_QP,
	OBJECT_RWQ_IND_TBL,
	OBJECT_WQ,
	OBJECT_CQ,
	OBJECT_MR,
	OBJECT_PD,
	OBJECT_UAR,
	OBJECT_N_TYPES,
};

struct object {
	enum object_type type;
	uint32_t handle;
	uint32_t n_users; /* destroying a used object is EBUSY */
	uint64_t user_handle;
	struct uverbs_file *file;
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
	uint64_t pinned;
};

struct ucq {
	struct object object;
	struct cq cq;
	struct channel *channel; /* or NULL */
	uint32_t n_comp_events, n_async_events;
	uint64_t pinned;
};

/* A work queue: a receive queue that indirection tables point to. */
struct uwq {
	struct object object;
	struct rq rq;
	struct pd *pd;
	struct ucq *cq;
	uint32_t n_async_events;
	uint64_t pinned;
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
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
	uint32_t n_async_events;
	uint64_t pinned;
	struct uind_table *ind_table; /* with RSS: no queues and completion queues of its own */
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
	uint64_t max_index; /* one past the highest of 32 bits; 0: not described */
};

struct uflow {
	struct object object;
	struct flow_rule rules[FLOW_MAX_RULES];
	unsigned int n_rules;
	struct kernel_dropped dropped;
	struct uqp *qp;
	struct counters *counters; /* or NULL */
};

struct uar {
	struct object object;
	uint32_t page;
};

/* A process's view of a device: what open("/dev/infiniband/uverbsN") gives. */
struct uverbs_file {
	struct fd_object fd_object;
	struct device *device;
	struct fdtab *fdtab;
	struct memlock *memlock;
	struct clock *clock;
	struct clock_pages clock_pages;
	bool clock_running;
	int memfd;                    /* our own hold on the file behind the descriptor */
	pthread_mutex_t context_lock; /* of GET_CONTEXT, which comes once; taken first */
	atomic_bool has_context;      /* GET_CONTEXT was done */
	struct channel *async;
	struct object_table objects;
	uint32_t n_objects[OBJECT_N_TYPES];
	LIST_ENTRY(uverbs_file) link;
};

/* Enter a new object; gives it its handle. 0, or -ENOMEM: also where the device has no more. */
int object_add(struct uverbs_file *file, struct object *o, enum object_type type);
/* The object with this handle, or NULL if there is none or it is of another type. */
void *object_find(struct uverbs_file *file, uint32_t handle, enum object_type type);
/* Takes it out of the table; the caller frees it. */
void object_remove(struct object *o);

/* mlx5_ib: get_ts_format. 0, or -EOPNOTSUPP where a queue that completes here cannot stamp so. */
int cq_check_timestamps(const struct ucq *u);

/* Destroyers by type: 0, or -EBUSY. They free the object. */
int pd_destroy(struct object *o);
int mr_destroy(struct object *o);
int cq_destroy(struct object *o);
int qp_destroy(struct object *o);
int wq_destroy(struct object *o);
int ind_table_destroy(struct object *o);
int flow_destroy(struct object *o);
int counters_destroy(struct object *o);
int uar_destroy(struct object *o);
int object_destroy(struct object *o);

/* Takes all flows' rules from the kernel's packet filter, which the flows' destroyer does not:
 * the kernel is waited for without the lock. */
void flows_leave_kernel(struct uverbs_file *file);

/* Destroy all of them, users first. Lock not held. */
void objects_destroy_all(struct uverbs_file *file);

/* To the program's asynchronous event file. */
void async_event(struct uverbs_file *file, uint64_t element, uint32_t type, uint32_t *counter);

extern const struct device_events uverbs_events;

#endif
