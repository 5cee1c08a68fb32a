// SPDX-License-Identifier: Apache-2.0
/*
 * A receive queue in the program's memory: part of a raw packet queue pair, or a work queue of its own
 * (ibv_create_wq) to which indirection tables point.
 */
#ifndef SOFTHCA_DEVICE_RQ_H
#define SOFTHCA_DEVICE_RQ_H

#include "cq.h"

#include <endian.h>

struct qp;

/* PRM, RQ and SQ contexts: the states of a queue of the device. */
enum wq_state { WQ_RST, WQ_RDY, WQ_ERR };

struct rq {
	struct device *device;
	const struct pd *pd;
	struct cq *cq;
	const uint8_t *buf;
	const uint32_t *dbrec; /* one word: how many entries were ever posted, modulo 2^16 */
	uint32_t n_wqe, wqe_shift;
	uint32_t uidx, number;
	enum wq_state state;
	uint16_t taken;  /* entries the device has used up */
	uint16_t posted; /* as last read; read again when no entry seems left */
	uint16_t traced; /* entries that a trace has shown */
	bool strip_cvlan;
	bool delay_drop; /* a frame waits for an entry, and all frames behind it wait, too (steer_waits()) */
	uint8_t log_strides, log_stride_bytes; /* of an entry of a striding queue; 0: the queue is not striding */
	uint8_t shift_bytes;                   /* in front of each packet in its first stride */
	uint32_t stride;                       /* the next of the entry in use */
	struct qp *qp;                         /* its queue pair; NULL: a work queue, which is in the device's list */
	TAILQ_ENTRY(rq) link;
	void *owner; /* of a work queue: the uverbs object */
};

/* What a completion says of a packet, beside its length. */
struct rx_info {
	uint64_t timestamp, real_time; /* in both formats */
	uint32_t flow_tag, rx_hash_be;
	uint8_t checked, hdr_type; /* enum hw_cqe_checked, enum hw_cqe_hdr_type */
	uint16_t vlan_tci_be;
};

/* Scatters a frame into the next `times` receive work requests. If `frame` is NULL, everything is done but the
 * copying. */
void rq_receive(struct rq *rq, const uint8_t *frame, uint32_t len, const struct rx_info *info, uint32_t times);
/* The number of frames that it has buffers for; 0 while it drops frames without counting them. */
uint32_t rq_room(struct rq *rq);

/* Would it have a frame wait? Only a ready queue does: others drop frames. */
static inline bool rq_delays(const struct rq *rq)
{
	return rq->delay_drop && rq->state == WQ_RDY;
}

/* ERR flushes what is posted, RST forgets it. */
void rq_set_state(struct rq *rq, enum wq_state state);
/* The device has found an error: goes to the error state and, unless a completion reported the error, sends an
 * asynchronous event. */
void rq_fail(struct rq *rq, bool completed);
/* Completes what is posted with WR_FLUSH_ERR. `rq`: a struct rq, as fault_guard() hands it on. */
void rq_flush(void *rq);

/* The number of entries that were ever posted, modulo 2^16. Pairs with libmlx5's barrier between writing entries and
 * writing the record. */
static inline uint16_t wq_posted(const uint32_t *dbrec)
{
	return (uint16_t)be32toh(__atomic_load_n(dbrec, __ATOMIC_ACQUIRE));
}

#endif
