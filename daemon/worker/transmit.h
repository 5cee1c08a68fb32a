// SPDX-License-Identifier: Apache-2.0
/*
 * The transmit worker: one thread for all channels of an interface. Run to completion, in rounds: each channel gets its
 * share (channel.h), then mail is read. It sleeps only when nothing is there: then it wants a byte on the socket of who
 * submits (lib/ibvcap/ring_tx.h), and wakes for that, for completions, for mail, and shortly before the next packet is
 * due, of which it spins the rest. Senders are woken by a notifier thread that sleeps on the doorbell, never by the
 * worker.
 *
 * Mail (mailbox.h), from control's side:
 *   MAIL_ADD_CHANNEL{channel}                    → MAIL_CHANNEL_ADDED{channel, error}
 *   MAIL_DESTINATION{channel, index, destination}, as often as it changes; MAIL_CHANNEL_ERROR{channel, error}
 *   MAIL_ADD_SENDER{channel, sender}             → MAIL_SENDER_ADDED{channel, sender, error}
 *   MAIL_REMOVE_SENDER{channel, sender}          → MAIL_SENDER_REMOVED{channel, sender}: always, also of one that is
 *                                                  gone already; until then the sender's memory is not to be touched.
 *                                                  With an error the device may still read it: its channel's queue can't
 *                                                  go on, and is destroyed before (MAIL_CHANNEL_FAILED or _REMOVED follows)
 *   MAIL_REMOVE_CHANNEL{channel}                 → MAIL_CHANNEL_REMOVED{channel, error: its queue's}: always; its
 *                                                  senders have gone with it
 *   MAIL_STOP                                    → MAIL_STOPPED: all channels and senders are control's again
 * Unasked: MAIL_SENDER_BAD{channel, sender, reason}, MAIL_CHANNEL_FAILED{channel, error}. Either may cross with the
 * mail that asks for a removal, which is answered nevertheless: until then what it is about is not control's again.
 */
#ifndef DAEMON_WORKER_TRANSMIT_H
#define DAEMON_WORKER_TRANSMIT_H

#include "daemon/worker/channel.h"
#include "daemon/worker/mailbox.h"

#include <stdint.h>

#define TRANSMIT_SPIN_FOREVER UINT64_MAX

struct transmit_options {
	const char *name; /* of the thread, 15 characters are kept */
	uint64_t spin_ns; /* after the last packet, before it sleeps; TRANSMIT_SPIN_FOREVER = never sleeps */
	int32_t cpu;      /* -1 = not pinned */
};

struct transmit;

int transmit_new(struct transmit **transmit, const struct transmit_options *options);
/** Start the thread. */
int transmit_start(struct transmit *transmit);
/** Wait for the thread to end after MAIL_STOPPED or MAIL_FAILED. */
void transmit_join(struct transmit *transmit);
void transmit_free(struct transmit *transmit);

/** One round, without idling; returns the work done (packets and mails). */
int transmit_do_work(struct transmit *transmit, const struct transmit_now *now);

struct mailbox *transmit_inbox(struct transmit *transmit);  /* control sends */
struct mailbox *transmit_outbox(struct transmit *transmit); /* control receives */
/** An eventfd, rung when a sender of any channel is to be woken (sender_due_request()); any thread may ring it too. */
int transmit_doorbell(const struct transmit *transmit);

#endif
