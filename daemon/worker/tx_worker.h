// SPDX-License-Identifier: Apache-2.0
/*
 * The transmit worker: one thread for all channels of an interface. Run to completion, in rounds: each channel gets its
 * share (tx_queue.h), then mail is read. It sleeps only when nothing is there: then it wants a byte on the socket of who
 * submits (lib/ibvcap/ring_tx.h), and wakes for that, for completions, for mail, and shortly before the next packet is
 * due, of which it spins the rest. Senders are woken by a notifier thread that sleeps on the doorbell, never by the
 * worker.
 *
 * Mail (mailbox.h), from control's side:
 *   MAIL_ADD_TX_QUEUE{channel}                    → MAIL_TX_QUEUE_ADDED{channel, error}
 *   MAIL_DESTINATION{channel, index, destination}, as often as it changes; MAIL_TX_QUEUE_ERROR{channel, error}
 *   MAIL_ADD_SENDER{channel, sender}             → MAIL_SENDER_ADDED{channel, sender, error}
 *   MAIL_REMOVE_SENDER{channel, sender}          → MAIL_SENDER_REMOVED{channel, sender}: always, also of one that is
 *                                                  gone already; until then the sender's memory is not to be touched.
 *                                                  With an error the device may still read it: its channel's queue can't
 *                                                  go on, and is destroyed before (MAIL_TX_QUEUE_FAILED or _REMOVED follows)
 *   MAIL_REMOVE_TX_QUEUE{channel}                 → MAIL_TX_QUEUE_REMOVED{channel, error: its queue's}: always; its
 *                                                  senders have gone with it
 *   MAIL_STOP                                    → MAIL_STOPPED: all channels and senders are control's again
 * Unasked: MAIL_SENDER_BAD{channel, sender, reason}, MAIL_TX_QUEUE_FAILED{channel, error}. Either may cross with the
 * mail that asks for a removal, which is answered nevertheless: until then what it is about is not control's again.
 */
#ifndef DAEMON_WORKER_TX_WORKER_H
#define DAEMON_WORKER_TX_WORKER_H

#include "daemon/worker/tx_queue.h"
#include "daemon/base/heartbeat.h"
#include "daemon/worker/mailbox.h"

#include <stdint.h>

#define TX_WORKER_SPIN_FOREVER UINT64_MAX

struct tx_worker_options {
	const char *name; /* of the thread, 15 characters are kept */
	uint64_t spin_ns; /* after the last packet, before it sleeps; TX_WORKER_SPIN_FOREVER = never sleeps */
	int32_t cpu;      /* -1 = not pinned */
};

struct tx_worker;

int tx_worker_new(struct tx_worker **worker, const struct tx_worker_options *options);
/** Start the thread. */
int tx_worker_start(struct tx_worker *worker);
/** Wait for the thread to end after MAIL_STOPPED or MAIL_FAILED. */
void tx_worker_join(struct tx_worker *worker);
void tx_worker_free(struct tx_worker *worker);

/** One round, without idling; returns the work done (packets and mails). */
int tx_worker_do_work(struct tx_worker *worker, const struct tx_clock_sample *now);

struct mailbox *tx_worker_inbox(struct tx_worker *worker);  /* control sends */
struct mailbox *tx_worker_outbox(struct tx_worker *worker); /* control receives */
/** For heartbeat_watch(), once the thread is started; tx_worker_join() ends the watch. */
struct heartbeat *tx_worker_heartbeat(struct tx_worker *worker);
/** An eventfd, rung when a sender of any channel is to be woken (sender_due_request()); any thread may ring it too. */
int tx_worker_doorbell(const struct tx_worker *worker);

#endif
