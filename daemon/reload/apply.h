// SPDX-License-Identifier: Apache-2.0
/*
 * A checked configuration takes the place of the one in force: all of it, or on any failure nothing.
 *
 *   control thread      makes the new services, counts their memory, opens their devices
 *   background thread   makes their memory, registration and queues: seconds for many GiB; control serves clients
 *   control thread      starts queues and workers, lets clients come, adds flows and groups: of the new services, then
 *                       of those that stay. Then the steps that cannot fail: services that are gone are removed,
 *                       and the configuration is in force.
 *
 * A failure undoes what was done. Flows of streams that run are changed last, because a packet that such a flow has
 * let in is published at once: only the device's refusal of a later flow can still undo it then.
 */
#ifndef DAEMON_RELOAD_APPLY_H
#define DAEMON_RELOAD_APPLY_H

#include "daemon/state/state.h"

/** How it ended: 0: daemon->config is in force; or -errno and the failure: nothing was changed then. */
typedef void apply_done(struct daemon *daemon, int result, struct failure *failure);

/* The closed services that are to be opened, of the configuration in force. */
struct apply_part {
	const char *interface; /* those on it; NULL: of all interfaces */
	const char *lent; /* the stream of that name alone, whose payload rows are in the dma-buf; NULL: no such one */
	int dmabuf;       /* duplicated */
	uint64_t offset;  /* of the first row in it */
};

/**
 * Begin; daemon->reconfiguration is not NULL until it has ended, when done is called from the event loop or by draining
 * daemon->memory. config is taken over, unless it is in force: then a part of it is opened (reopen.h, lent.h). part is
 * NULL for another configuration, and read during the call only. On failure done is not called.
 */
int apply_begin(struct daemon *daemon, struct config *config, const struct apply_part *part, apply_done *done,
                struct failure *failure);

/**
 * Make a service of each stream and channel of the configuration that the daemon does not have yet, at the end of list:
 * of the configuration in force, only of that part (NULL: of all); of another one, only of those that the one in force
 * has not.
 */
int apply_add_services(struct daemon *daemon, const struct config *config, const struct apply_part *part,
                       struct service_list *list, struct failure *failure);

/**
 * After SERVICE_OPEN, which has found what is wrong with their configuration: take those streams out of the list that
 * wait for memory of a consumer.
 */
void apply_drop_waiting(struct daemon *daemon, struct service_list *list);

#endif
