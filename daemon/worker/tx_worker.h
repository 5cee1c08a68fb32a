// SPDX-License-Identifier: Apache-2.0
/*
 * The transmit worker: one thread for all channels of an interface. In each round every queue gets its share
 * (tx_queue.h), then the worker reads mail. It sleeps only when there is no work: then senders kick it by their
 * eventfds when they submit (lib/ibvcap/ring_tx.h). It touches no descriptor that a client has (ring/sender_kick.h).
 * It wakes for kicks, completions and mail, and shortly before the next packet is due; it spins for the rest of that
 * time. A notifier thread, which sleeps on the doorbell, wakes the senders.
 *
 * Mail (mailbox.h) from control, with the answers:
 *   MAIL_ADD_TX_QUEUE{tx_queue}                 → MAIL_TX_QUEUE_ADDED{tx_queue, error}
 *   MAIL_DESTINATION{tx_queue, index, destination}, MAIL_TX_QUEUE_ERROR{tx_queue, error}: no answer
 *   MAIL_ADD_SENDER{tx_queue, sender}           → MAIL_SENDER_ADDED{tx_queue, sender, error}
 *   MAIL_REMOVE_SENDER{tx_queue, sender}        → MAIL_SENDER_REMOVED{tx_queue, sender, error}: always, even for a
 *                                                 sender that is gone already. The sender's memory is lent until then.
 *                                                 With an error the device may still read it, because its queue could
 *                                                 not be reset: MAIL_TX_QUEUE_FAILED or _REMOVED follows, and the
 *                                                 device's queue is to be destroyed before the memory is freed.
 *   MAIL_REMOVE_TX_QUEUE{tx_queue}              → MAIL_TX_QUEUE_REMOVED{tx_queue, error of the device's queue}: always;
 *                                                 its senders are gone too
 *   MAIL_STOP                                   → MAIL_STOPPED: all queues and senders are control's again
 * Unasked: MAIL_SENDER_BAD{tx_queue, sender, reason}, MAIL_TX_QUEUE_FAILED{tx_queue, error}. Such a mail may cross with
 * the request to remove its object. The worker answers the request all the same, and the object is lent until then.
 */
#ifndef DAEMON_WORKER_TX_WORKER_H
#define DAEMON_WORKER_TX_WORKER_H

#include "daemon/worker/tx_queue.h"
#include "daemon/worker/worker.h"

int tx_worker_new(struct worker **worker, const struct worker_options *options);
void tx_worker_free(struct worker *worker);

/** One round without sleeping. Returns the work done (packets and mails). */
int tx_worker_do_work(struct worker *worker, const struct tx_clock_sample *now);

/** An eventfd that the worker rings when a sender is to be woken (sender_due_request()); any thread may ring it too. */
int tx_worker_doorbell(const struct worker *worker);
/** The epoll on which the worker sleeps, for sender_kick_init(). */
int tx_worker_epoll(const struct worker *worker);

#endif
