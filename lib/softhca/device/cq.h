// SPDX-License-Identifier: Apache-2.0
/* A completion queue: entries in the program's memory, written by the device. */
#ifndef SOFTHCA_DEVICE_CQ_H
#define SOFTHCA_DEVICE_CQ_H

#include "device.h"
#include "hw.h"

struct cq {
	struct device *device;
	uint8_t *buf;
	uint32_t cqe_bytes, n_cqe; /* n_cqe: a power of two */
	uint32_t *dbrec;
	uint32_t cqn;
	uint32_t producer;
	uint32_t consumer; /* as last read: looked at anew when the queue seems full */
	bool ignore_overrun, failed;
	int fired_sn;                             /* arm sequence number last answered with an event; -1: none */
	bool pending, recheck;                    /* completions since the last look at the arm record */
	uint64_t recheck_ns;                      /* CLOCK_MONOTONIC_RAW: until then, whatever the arm record says */
	bool has_error;                           /* one of them is an error: it counts as solicited */
	bool real_time;                           /* timestamps: seconds << 32 | nanoseconds, not cycles */
	uint16_t moderation_count, moderation_us; /* an event waits for either; 0: none does */
	uint32_t n_moderated;                     /* completions since arming that gave no event yet */
	uint64_t moderated_ns;                    /* since when the first of them waits */
	TAILQ_ENTRY(cq) pending_link;
	void *owner; /* the uverbs object */
};

/* No doorbell looks like this: solicited, sequence 3, index beyond any real one. libmlx5 zeroes
 * the record, and zero would read as "armed at 0"; so a new queue's arm record is set to it. */
#define CQ_NEVER_ARMED 0xffffffffu

void cq_init(struct cq *cq);
void cq_deinit(struct cq *cq);

/* The entry to fill, or NULL when the queue has overrun (it is in error from then on). */
void *cq_next(struct cq *cq);
/* Hands the entry over to the program. */
void cq_post(struct cq *cq, void *cqe, enum hw_cqe_opcode opcode);
/* A completion in error of the queue `number`. */
void cq_post_error(struct cq *cq, uint32_t uidx, uint32_t number, enum hw_cqe_opcode opcode, uint16_t wqe_counter,
                   enum hw_syndrome syndrome);
/* An event when `count` completions are there, or `period_us` after the first: 0 for each. */
void cq_moderate(struct cq *cq, uint16_t count, uint16_t period_us);
/* Fire events for what was posted since the last call. */
void cq_events(struct device *d);

#endif
