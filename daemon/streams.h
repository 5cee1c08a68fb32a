// SPDX-License-Identifier: Apache-2.0
/*
 * Streams and their interfaces come and go, one at a time, in steps that can each be undone: at start all streams take
 * a step together, while the daemon runs one takes them all. Control thread only.
 *
 *   streams_new → (streams_check_memory) → streams_open → streams_prepare → streams_start → streams_serve
 *   → streams_remove → (its worker ends) → streams_free
 */
#ifndef DAEMON_STREAMS_H
#define DAEMON_STREAMS_H

#include "daemon/events.h"

/** In the daemon's list, with its interface, which may be new. */
int streams_new(struct daemon *daemon, const struct config_stream *config, struct stream **stream, struct fault *fault);

/** Is there memory for all that is in the list, and may it be locked? */
int streams_check_memory(const struct daemon *daemon, struct fault *fault);

/** Open the device, unless another stream has it open already. */
int streams_open(struct stream *stream, struct fault *fault);

/** Rings and queues. A restarted daemon waits until deadline_us (CLOCK_MONOTONIC) for hugepages. */
int streams_prepare(struct daemon *daemon, struct stream *stream, uint64_t deadline_us, struct fault *fault);

/** Let consumers attach to it, and watch its device. It is started. */
int streams_serve(struct daemon *daemon, struct stream *stream, struct fault *fault);

/** No more packets and no more consumers: it drains, and is freed when its worker has ended. */
void streams_remove(struct daemon *daemon, struct stream *stream);

/** Out of the list, with everything it has; its worker has ended, or never ran. Its interface too, if it was the last. */
void streams_free(struct daemon *daemon, struct stream *stream);

/** NULL: none of that name that is not removed. */
struct stream *streams_find(struct daemon *daemon, const char *name);

uint64_t streams_now_us(void);

#endif
