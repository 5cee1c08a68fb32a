// SPDX-License-Identifier: Apache-2.0
/* Send queues: gather frames, fill in checksums if asked, give the frames to the wire. */
#ifndef SOFTHCA_DEVICE_SQ_H
#define SOFTHCA_DEVICE_SQ_H

#include "qp.h"

/* The buffers of a device thread for one batch. */
struct sq_batch *sq_batch_new(void); /* or NULL */
void sq_batch_free(struct sq_batch *b);

/* Sends some of what is posted. Returns the number of work requests that were taken. */
int sq_work(struct qp *qp, struct sq_batch *b);

#endif
