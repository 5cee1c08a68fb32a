// SPDX-License-Identifier: Apache-2.0
/* The backends of this build by name, and the capabilities that they need. */
#ifndef DAEMON_BACKEND_CHOICE_BACKENDS_H
#define DAEMON_BACKEND_CHOICE_BACKENDS_H

#include "daemon/backend/backend.h"

/** The backend of this name. NULL: this build has none. */
const struct backend_ops *backend_find(const char *name);

enum backend_phase {
	BACKEND_PHASE_START, /* devices are opened, and queues made */
	BACKEND_PHASE_LATER, /* they run, and others are added to devices that are open */
};

/** The capabilities that a backend (NULL: any of this build) uses in a phase, as a mask: 1 << CAP_NET_RAW | … */
uint64_t backend_capabilities_of(const struct backend_ops *ops, enum backend_phase phase);

/** Is a program of the backend kept for the interface (backend.h)? NULL: this build has no such backend. */
bool backend_keeps_program(const struct backend_ops *ops, const char *interface);

/**
 * Has this thread the capabilities that open() of the backend needs for the interface? If not: -EPERM and EX_NOPERM
 * with the name of the capability and the commands that grant it.
 */
int backend_check_privileges(const struct backend_ops *ops, const char *interface, struct failure *failure);

#endif
