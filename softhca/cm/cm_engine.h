// SPDX-License-Identifier: Apache-2.0
/* The thread of the manager. With the manager's lock. */
#ifndef SOFTHCA_CM_CM_ENGINE_H
#define SOFTHCA_CM_CM_ENGINE_H

#include "cm_id.h"

/* Starts the thread, if it does not run. 0 or negative errno. */
int cm_engine_start(struct cm *cm);

#endif
