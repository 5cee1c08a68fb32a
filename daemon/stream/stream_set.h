// SPDX-License-Identifier: Apache-2.0
/*
 * Streams and their interfaces come and go in steps that can each be undone; all streams of a list take one before the
 * next, at start as well as while the daemon runs: what is wrong is found before anything is taken, and no packet is
 * received before all that can fail is done.
 *
 *   streams_new → streams_check_memory → streams_open → streams_prepare → streams_start → streams_serve
 *   → streams_capture → streams_remove → (its worker ends) → streams_free
 *
 * Control thread only, but for streams_prepare().
 */
#ifndef DAEMON_STREAM_STREAM_SET_H
#define DAEMON_STREAM_STREAM_SET_H

#include "daemon/events.h"

typedef int streams_step(struct daemon *daemon, struct stream *stream, struct failure *failure);

/** A step for each stream of the list, up to the first that fails. */
int streams_each(struct daemon *daemon, struct stream_list *list, streams_step *step, struct failure *failure);

/** At the end of the list, with its interface, which may be new. */
int streams_new(struct daemon *daemon, struct stream_list *list, const struct config_stream *config,
                struct failure *failure);

/** Is there memory for all in added, and may it be locked besides that of those that run (NULL: none)? */
int streams_check_memory(const struct stream_list *running, const struct stream_list *added, struct failure *failure);

/** Bytes that the streams register, for the memlock limit and for how long that may take. */
uint64_t streams_pinned_bytes(const struct stream_list *list);

/** Open the device, unless another stream has it open already. Can it do what the stream asks for? */
streams_step streams_open;

/** Rings and queues. Any one thread, while the stream is in no list of the daemon's: populating memory takes its time.
 */
streams_step streams_prepare;

/** The queue and the worker; nothing is received yet. */
streams_step streams_start;

/** Let consumers attach to it, and watch its device. */
streams_step streams_serve;

/** Flows, then groups: packets come. */
streams_step streams_capture;

/** No more packets and no more consumers: it drains, and is freed when its worker has ended. */
void streams_remove(struct daemon *daemon, struct stream *stream);

/** Out of the list, with everything it has; its worker has ended, or never ran. Its interface too, if it was the last. */
void streams_free(struct daemon *daemon, struct stream_list *list, struct stream *stream);

/** NULL: none of that name that is not removed. */
struct stream *streams_find(struct daemon *daemon, const char *name);

/** Random, so that no two runs have the same; never 0. 0 or -errno. */
int streams_new_epoch(uint64_t *epoch);

#endif
