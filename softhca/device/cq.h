// SPDX-License-Identifier: Apache-2.0
/* A completion queue: entries in the program's memory, written by the device. Declares cq_compress.c. */
#ifndef SOFTHCA_DEVICE_CQ_H
#define SOFTHCA_DEVICE_CQ_H

#include "../wire/clock_now.h"
#include "clock.h"
#include "device.h"
#include "hw.h"

struct cq {
	struct device *device;
	uint8_t *buf;              /* NULL: the memory has gone */
	uint32_t cqe_bytes, n_cqe; /* n_cqe: a power of two */
	uint32_t *dbrec;
	uint32_t cqn;
	uint32_t producer;
	uint32_t consumer; /* as last read; read again when the queue seems full */
	uint32_t moved;    /* what the program's index is at least, since it copied the entries of an old buffer */
	bool ignore_overrun, failed;
	uint16_t max_compressed; /* completions that one entry may stand for; 0: they are not compressed */
	uint16_t n_held;         /* completions before `producer` that are not given to the program yet */
	enum hw_mini_format mini_format;
	int fired_sn; /* arm sequence number last answered with an event; -1: none */
	/* posted since the last look at the arm record; to be looked at once more */
	bool pending, recheck;
	/* CLOCK_MONOTONIC_RAW: until then the arm record is looked at again, whatever it says */
	uint64_t recheck_ns;
	bool solicited;                               /* one of the completions is, or is an error */
	bool real_time;                               /* timestamps: seconds << 32 | nanoseconds, not cycles */
	bool striding;                                /* has completions of a striding queue */
	bool asks_more;                               /* real_time, checksums or striding */
	uint16_t moderation_count, moderation_us;     /* an event waits for the count or the time; 0: no moderation */
	uint32_t n_moderated;                         /* completions since arming that have not given an event */
	uint64_t moderated_ns;                        /* when the first of these was posted */
	uint32_t traced, traced_consumer, traced_arm; /* what a trace has shown */
	TAILQ_ENTRY(cq) pending_link;
	void *owner; /* the uverbs object */
};

/* The arm record of a new queue. libmlx5 zeroes the record, and zero would read as "armed at index 0". No doorbell
 * has this value: solicited, sequence 3, an index beyond any real one. */
#define CQ_NEVER_ARMED 0xffffffffu

static inline struct hw_cqe *cq_entry(const struct cq *cq, uint32_t index)
{
	/* In a 128-byte entry the completion is the second half. */
	return (struct hw_cqe *)(cq->buf + (size_t)(index & (cq->n_cqe - 1)) * cq->cqe_bytes + cq->cqe_bytes -
	                         sizeof(struct hw_cqe));
}

void cq_init(struct cq *cq);
void cq_deinit(struct cq *cq);

/* The entry to fill, or NULL if the queue has overrun; the queue is in the error state from then on. */
void *cq_next(struct cq *cq);
/* Goes on in another buffer: the last entry of the old one says so. False if one of them has no room for what the
 * program has not read. */
bool cq_move(struct cq *cq, uint8_t *buf, uint32_t cqe_bytes, uint32_t n_cqe);
#define CQ_POISON 0xa5 /* fills fields without a meaning, see injection.h */
/* Posts a completion in error of the queue `number`. */
void cq_post_error(struct cq *cq, uint32_t uidx, uint32_t number, enum hw_cqe_opcode opcode, uint16_t wqe_counter,
                   enum hw_syndrome syndrome);
/* Gives an event when `count` completions are there, or `period_us` after the first. If either is 0, each completion
 * gives one. */
void cq_moderate(struct cq *cq, uint16_t count, uint16_t period_us);
/* Counts an entry, and lets cq_events() look at the queue. */
static inline void cq_posted(struct cq *cq, enum hw_cqe_opcode opcode)
{
	cq->producer++;
	cq->n_moderated++;
	cq->solicited |= opcode == HW_CQE_REQ_ERR || opcode == HW_CQE_RESP_ERR;
	if (cq->pending)
		return;
	if (!cq->recheck)
		TAILQ_INSERT_TAIL(&cq->device->armed_later, cq, pending_link);
	cq->pending = true;
}

/* Of a queue that compresses: the entry waits for others that agree with it, until the end of the turn at most. */
void cq_hold(struct cq *cq, struct hw_cqe *cqe, enum hw_cqe_opcode opcode);
/* Gives the entry to the program. */
static inline void cq_post(struct cq *cq, struct hw_cqe *cqe, enum hw_cqe_opcode opcode)
{
	uint8_t owner = !!(cq->producer & cq->n_cqe);

	if (cq->max_compressed) {
		cq_hold(cq, cqe, opcode);
		return;
	}
	__atomic_store_n(&cqe->op_own, (uint8_t)((unsigned int)opcode << 4 | owner), __ATOMIC_RELEASE);
	cq_posted(cq, opcode);
}

/* Gives the program what waits. */
void cq_release(struct cq *cq);
/* Ends a turn: gives the program what waits, and sends the events for what was posted since the last call. */
void cq_events(struct device *d);

/* The timestamp of a completion that is posted now. */
static inline uint64_t cq_timestamp_now(const struct cq *cq)
{
	return cq->real_time ? clock_real_time_stamp(clock_now_ns(CLOCK_REALTIME))
	                     : clock_cycles(clock_raw_ns(), cq->device->config.profile->core_clock_khz);
}

#endif
