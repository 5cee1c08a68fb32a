// SPDX-License-Identifier: Apache-2.0
/*
 * The work requests of an RC queue pair that were begun and are not complete. With the device's lock. Declares
 * requester_progress.c.
 */
#ifndef SOFTHCA_ROCE_REQUESTER_H
#define SOFTHCA_ROCE_REQUESTER_H

#include "roce_qp.h"

#define ATOMIC_BYTES 8u

/* The work request that was begun at this block. */
struct roce_sent *requester_sent(const struct roce_qp *q, uint16_t index);
/* Is it a read or an atomic? */
bool requester_is_read(const struct roce_sent *e);

/* Completes what has been acknowledged. */
void requester_complete(struct roce_qp *q);
/* The oldest work request fails, and with it the queue pair. */
void requester_fail(struct roce_qp *q, enum hw_syndrome error);
/* Sends packets again that are not acknowledged; fails if no retry is left (IBTA 9.7.6.1). */
void requester_retry(struct roce_qp *q);

#endif
