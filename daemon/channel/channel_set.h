// SPDX-License-Identifier: Apache-2.0
/*
 * Channels come and go in steps that can each be undone, as streams do (streams.h): all channels of a list take one
 * before the next.
 *
 *   channel_set_new → channel_set_open → channel_set_prepare → channel_set_serve → channel_set_lend
 *   → channel_set_remove → (its worker gives it back) → channel_set_free
 *
 * Control thread only, but for channel_set_prepare().
 */
#ifndef DAEMON_CHANNEL_CHANNEL_SET_H
#define DAEMON_CHANNEL_CHANNEL_SET_H

#include "daemon/events.h"

typedef int channel_step(struct daemon *daemon, struct channel *channel, struct failure *failure);

/** A step for each channel of the list, up to the first that fails. */
int channel_set_each(struct daemon *daemon, struct channel_list *list, channel_step *step, struct failure *failure);

/** At the end of the list, with its interface and its transmit worker, which may be new. */
int channel_set_new(struct daemon *daemon, struct channel_list *list, const struct config_channel *config,
                    struct failure *failure);

/** Open the device, unless that is done. Can it do what the channel asks for? */
channel_step channel_set_open;

/** Its memory and its send queue. Any one thread, while the channel is in no list of the daemon's. */
channel_step channel_set_prepare;

/** Look its destinations up, start its worker, and let senders open it. */
channel_step channel_set_serve;

/** To its worker, all of a list: this can't fail. */
void channel_set_lend(struct channel_list *list);

/** No more senders: what was taken of the others' is sent, and it is freed when its worker has given it back. */
void channel_set_remove(struct daemon *daemon, struct channel *channel);

/** Its worker has ended, or never ran: destroy its queue. Its senders' memory may go after that, and not before. */
void channel_set_close(struct channel *channel);

/**
 * Out of the list, with everything it has; its worker has given it back or has ended, or never had it. Its interface and
 * worker too, if it was the last.
 */
void channel_set_free(struct daemon *daemon, struct channel_list *list, struct channel *channel);

/** Another configuration is in force, which has all that are not removed. */
void channel_set_set_config(struct daemon *daemon, const struct config *config);

/** NULL: none of that name that is not removed. */
struct channel *channel_set_find(struct daemon *daemon, const char *name);

/** For control_tx_worker.said; context is the interface_tx. */
void channel_set_said(void *context, const struct mail *mail);

/** Tell workers which interfaces have a link. */
void channel_set_refresh(struct daemon *daemon);

/**
 * Senders' memory is locked as they come: is that more, beside what is locked, than RLIMIT_MEMLOCK allows? Then the log
 * says so, and what that means.
 */
bool channel_set_need_ipc_lock(const struct daemon *daemon);

#endif
