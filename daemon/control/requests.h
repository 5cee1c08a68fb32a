// SPDX-License-Identifier: Apache-2.0
/* The requests that a client can make, each handed to the file that serves it. Control thread only. */
#ifndef DAEMON_CONTROL_REQUESTS_H
#define DAEMON_CONTROL_REQUESTS_H

#include "lib/ibvcap/protocol.h"

struct session;

/** Serve one well-formed message; the answer may come later. 0, or -errno: disconnect. */
int requests_handle(struct session *session, const union protocol_message *message);

#endif
