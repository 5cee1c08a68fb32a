// SPDX-License-Identifier: Apache-2.0
/*
 * Channels come and go in steps that can each be undone, as streams do (streams.h): all channels of a list take one
 * before the next.
 *
 *   tx_channels_new → tx_channels_open → tx_channels_prepare → tx_channels_serve → tx_channels_lend
 *   → tx_channels_remove → (its worker gives it back) → tx_channels_free
 *
 * Control thread only, but for tx_channels_prepare().
 */
#ifndef DAEMON_TX_CHANNELS_H
#define DAEMON_TX_CHANNELS_H

#include "daemon/events.h"

typedef int tx_channels_step(struct daemon *daemon, struct tx_channel *channel, struct failure *failure);

/** A step for each channel of the list, up to the first that fails. */
int tx_channels_each(struct daemon *daemon, struct tx_channel_list *list, tx_channels_step *step,
                     struct failure *failure);

/** At the end of the list, with its interface and its transmit worker, which may be new. */
int tx_channels_new(struct daemon *daemon, struct tx_channel_list *list, const struct config_channel *config,
                    struct failure *failure);

/** Open the device, unless that is done. Can it do what the channel asks for? */
tx_channels_step tx_channels_open;

/** Its memory and its send queue. Any one thread, while the channel is in no list of the daemon's. */
tx_channels_step tx_channels_prepare;

/** Look its destinations up, start its worker, and let senders open it. */
tx_channels_step tx_channels_serve;

/** To its worker, all of a list: this can't fail. */
void tx_channels_lend(struct tx_channel_list *list);

/** No more senders: what was taken of the others' is sent, and it is freed when its worker has given it back. */
void tx_channels_remove(struct daemon *daemon, struct tx_channel *channel);

/** Its worker has ended, or never ran: destroy its queue. Its senders' memory may go after that, and not before. */
void tx_channels_close(struct tx_channel *channel);

/**
 * Out of the list, with everything it has; its worker has given it back or has ended, or never had it. Its interface and
 * worker too, if it was the last.
 */
void tx_channels_free(struct daemon *daemon, struct tx_channel_list *list, struct tx_channel *channel);

/** Another configuration is in force, which has all that are not removed. */
void tx_channels_set_config(struct daemon *daemon, const struct config *config);

/** NULL: none of that name that is not removed. */
struct tx_channel *tx_channels_find(struct daemon *daemon, const char *name);

/** For control_tx_worker.said; context is the transmitter. */
void tx_channels_said(void *context, const struct mail *mail);

/** Tell workers which interfaces have a link. */
void tx_channels_refresh(struct daemon *daemon);

/**
 * Senders' memory is locked as they come: is that more, beside what is locked, than RLIMIT_MEMLOCK allows? Then the log
 * says so, and what that means.
 */
bool tx_channels_need_ipc_lock(const struct daemon *daemon);

#endif
