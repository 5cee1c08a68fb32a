// SPDX-License-Identifier: Apache-2.0
/* A shared receive queue: a list of entries in the program's memory, from which RC and UD queue pairs take. */
#ifndef SOFTHCA_DEVICE_SRQ_H
#define SOFTHCA_DEVICE_SRQ_H

#include "rq.h"

#define RECV_MAX_SEGS 32u

/* A receive work request that was taken: a copy, since the program may post anew where it was. */
struct recv_wqe {
	struct hw_data_seg segs[RECV_MAX_SEGS];
	uint32_t n_segs;
	uint16_t index; /* for its completion */
};

struct srq {
	struct device *device;
	const struct pd *pd;
	const uint8_t *buf;
	const uint32_t *dbrec; /* how many entries were ever posted, modulo 2^16 */
	uint32_t n_wqe, wqe_shift;
	uint32_t number;
	uint16_t head;   /* the entry to be taken next */
	uint16_t taken;  /* how many were ever taken */
	uint16_t traced; /* as many as a trace has shown the doorbells of */
	uint32_t limit;  /* fewer entries than that give an event, once; 0: none */
	TAILQ_ENTRY(srq) link;
	void *owner; /* the uverbs object */
};

/* Takes the next entry. False if there is none. */
bool srq_take(struct srq *srq, struct recv_wqe *wqe);
/* The same of a queue pair's own queue. */
bool rq_take(struct rq *rq, struct recv_wqe *wqe);

#endif
