// SPDX-License-Identifier: Apache-2.0
/* Send queues: gather frames, fill in checksums where asked, give them to the wire. */
#ifndef SOFTHCA_DEVICE_SQ_H
#define SOFTHCA_DEVICE_SQ_H

#include "qp.h"

/* What a device thread works with; one a device. */
struct sq_batch *sq_batch_new(void); /* or NULL */
void sq_batch_free(struct sq_batch *b);

/* Send some of what is posted; returns how many work requests were taken. */
int sq_work(struct qp *qp, struct sq_batch *b);

#endif
