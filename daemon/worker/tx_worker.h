// SPDX-License-Identifier: Apache-2.0
/*
 * The transmit worker: one thread for all channels of an interface. In each round every queue gets its share
 * (tx_queue.h), then the worker reads mail. It sleeps only when there is no work: then senders kick it by their
 * eventfds when they submit (lib/ibvcap/ring_tx.h). It touches no descriptor that a client has (ring/sender.h).
 * It wakes for kicks, completions and mail, and shortly before the next packet is due; it spins for the rest of that
 * time. A notifier thread, which sleeps on the doorbell, wakes the senders.
 * mailbox.h says what control and the worker tell each other.
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
