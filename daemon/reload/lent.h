// SPDX-License-Identifier: Apache-2.0
/*
 * Streams whose payload rows are in memory that their only consumer lends (payload_memory = "consumer"). Such a stream
 * is closed until a consumer lends it memory, and closed again when that consumer leaves: it is opened as by a reload
 * that adds it, and closed as by one that lacks it. Control thread.
 */
#ifndef DAEMON_RELOAD_LENT_H
#define DAEMON_RELOAD_LENT_H

#include "daemon/state/state.h"

/* For control_options; context is the daemon. */
uint64_t lent_bytes(void *context, const struct config_stream *stream);
int lent_open(void *context, const struct config_stream *stream, int dmabuf, uint64_t offset, struct failure *failure);
void lent_note_left(void *context);

/** Close the streams whose consumer has left. No effect while a reconfiguration is on its way. */
void lent_close_left(struct daemon *daemon);

#endif
