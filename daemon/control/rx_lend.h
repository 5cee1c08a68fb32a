// SPDX-License-Identifier: Apache-2.0
/*
 * Attaching to a stream with payload_is_lent, which is closed as long as it has no consumer. Control thread only.
 *
 *   PROTOCOL_ATTACH → rx_lend_ask → PROTOCOL_LEND → PROTOCOL_LENT → rx_lend_take → rx_lends_open →
 *   control_opened_lent → rx_admit
 */
#ifndef DAEMON_CONTROL_RX_LEND_H
#define DAEMON_CONTROL_RX_LEND_H

#include "daemon/config/config.h"
#include "daemon/control/session.h"

struct control;

/** Ask the client for memory, or refuse it. 0, or -errno: disconnect. */
int rx_lend_ask(struct session *session, const struct config_stream *config, const struct protocol_attach *request);

/** The client's answer: its message, and the descriptor that the connection has. 0, or -errno: disconnect. */
int rx_lend_take(struct session *session, const struct protocol_lent *message);

/** Have the stream opened for which memory came first. In each tick, since the daemon changes one thing at a time. */
void rx_lends_open(struct control *control);

#endif
