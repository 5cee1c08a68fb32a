// SPDX-License-Identifier: Apache-2.0
/*
 * Admits a consumer to one queue of a stream: refuses what the client may not have, makes the consumer and lends it to
 * the queue's worker. Control thread only.
 */
#ifndef DAEMON_CONTROL_RX_ADMIT_H
#define DAEMON_CONTROL_RX_ADMIT_H

#include "daemon/control/rx_endpoint.h"
#include "lib/ibvcap/protocol.h"

#include <stdbool.h>
#include <stdint.h>

/* Where a member of a group goes on. */
struct rx_takeover {
	uint64_t sequence;
	uint64_t abandoned; /* packets that the owner before had acquired and not released */
	bool had_owner;     /* another member had the queue before */
};

/** May the client have what the request says? False: it was refused, with the result *sent. account: or NULL. */
bool rx_admit_checks(struct session *session, const struct rx_endpoint *rx_endpoint,
                     const struct protocol_attach *request, struct account *account, int *sent);

/**
 * Check and serve the request for a consumer or a tap. takeover NULL: it begins where the request says. The answer
 * comes now, or when the worker has answered; then the session has a client already. 0, or -errno: disconnect.
 */
int rx_admit(struct session *session, struct rx_endpoint *rx_endpoint, const struct protocol_attach *request,
             const struct rx_takeover *takeover);

#endif
