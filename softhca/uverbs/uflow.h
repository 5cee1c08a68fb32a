// SPDX-License-Identifier: Apache-2.0
/* Making and ending a flow, however its request came. Declares cmd_flow.c. */
#ifndef SOFTHCA_UVERBS_UFLOW_H
#define SOFTHCA_UVERBS_UFLOW_H

#include "objects.h"

/* With the lock held: sets the flow's rules, queue pair, counters and matcher. 0 or negative errno. */
typedef int uflow_resolve(struct uverbs_file *file, struct uflow *f, const void *arg);

/* Resolves the flow and puts its rules in force. 0 or negative errno; the caller then frees `f`. Lock not held. */
int uflow_make(struct uverbs_file *file, struct uflow *f, uflow_resolve *resolve, const void *arg);
/* 0 or -ENOENT. Lock not held. */
int uflow_destroy_handle(struct uverbs_file *file, uint32_t handle);

#endif
