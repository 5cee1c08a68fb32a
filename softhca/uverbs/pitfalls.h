// SPDX-License-Identifier: Apache-2.0
/* The pitfalls that show in commands and objects (device/warning.h). With the lock held, if nothing else is said. */
#ifndef SOFTHCA_UVERBS_PITFALLS_H
#define SOFTHCA_UVERBS_PITFALLS_H

#include "objects.h"

/* A flow's rule was added. */
void pitfall_of_rule(struct device *d, const struct flow_rule *rule);
/* A completion queue is about to be destroyed, and the program has read all events that it ever will. */
void pitfall_of_events(const struct ucq *u);
/* The queue with this number and user index, which completes at `cq` (NULL: at none), is about to be reset. */
void pitfall_of_reset(const struct cq *cq, uint32_t uidx, uint32_t number);
/* The process is about to fork, with a kernel that does not copy registered memory then. Lock not held. */
void pitfall_of_fork(struct device *d);
/* The program is about to wait in read() of the channel. Lock not held. */
void pitfall_of_wait(struct device *devices, unsigned int n_devices, const struct event_channel *channel);

#endif
