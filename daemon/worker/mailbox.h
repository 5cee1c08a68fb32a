// SPDX-License-Identifier: Apache-2.0
/*
 * Messages between control and a worker: two single-producer single-consumer queues, each with an
 * eventfd for a receiver that sleeps. No lock. The worker looks between batches, so an answer takes as
 * long as a batch. MAIL_STOPPED or MAIL_FAILED is a worker's last word: what it had of control's is
 * control's again, and mail it did not take is not answered.
 */
#ifndef DAEMON_WORKER_MAILBOX_H
#define DAEMON_WORKER_MAILBOX_H

#include "daemon/clock/clock.h"
#include "daemon/packet/packet_template.h"

#include <stdbool.h>
#include <stdint.h>

struct tx_queue;
struct ring_consumer;
struct sender;

enum mail_type {
	/* control → worker */
	MAIL_ADD_CONSUMER = 1, /* answered by MAIL_CONSUMER_ADDED */
	MAIL_REMOVE_CONSUMER,  /* answered by MAIL_CONSUMER_REMOVED: the memory is control's again */
	MAIL_MATCHED,          /* a reading of the flow counter, taken after every earlier one; no answer */
	MAIL_CLOCK,            /* a new line; no answer */
	MAIL_STOP,             /* flows are gone: drain, close the ring, end. Answered by MAIL_STOPPED */
	/* control → transmit worker */
	MAIL_ADD_TX_QUEUE,    /* from now on it is the worker's. Answered by MAIL_TX_QUEUE_ADDED: error */
	MAIL_REMOVE_TX_QUEUE, /* what is taken completes, the rest is flushed. Answered by MAIL_TX_QUEUE_REMOVED */
	MAIL_TX_QUEUE_ERROR,  /* every packet of it ends as error (-ENETDOWN); 0: no more so. No answer */
	MAIL_DESTINATION,     /* headers of one destination, or why there are none; no answer */
	MAIL_ADD_SENDER,      /* sealed and registered. Answered by MAIL_SENDER_ADDED: error */
	MAIL_REMOVE_SENDER,   /* what is taken completes, the rest is flushed. Always answered: MAIL_SENDER_REMOVED */
	/* worker → control */
	MAIL_CONSUMER_ADDED,
	MAIL_CONSUMER_REMOVED,
	MAIL_CONSUMER_BAD, /* its page broke the rules and it is out of the ring already: reason, memory is control's */
	MAIL_CONSUMER_DEMOTED, /* from lossless to lossy: it kept the queue waiting for longer than its deadline */
	MAIL_STOPPED,
	MAIL_FAILED, /* the queue can't go on: error */
	/* transmit worker → control */
	MAIL_TX_QUEUE_ADDED,
	MAIL_TX_QUEUE_REMOVED, /* channel and senders are control's again; error: as of the next */
	MAIL_TX_QUEUE_FAILED,  /* likewise, unasked: the queue can't go on, and is destroyed before any memory goes */
	MAIL_SENDER_ADDED,
	MAIL_SENDER_REMOVED, /* its last packet is completed: the memory is control's again; error: see tx_worker.h */
	MAIL_SENDER_BAD,     /* likewise, unasked: its page broke the rules: reason. See tx_worker.h */
};

/* Where packets for one of a channel's destinations go. */
struct tx_queue_destination {
	struct packet_template headers;
	int32_t error; /* not 0: there are no headers yet, and its packets end so (-EHOSTUNREACH) */
};

struct mail {
	enum mail_type type;
	int32_t error;   /* negative errno, in answers and MAIL_TX_QUEUE_ERROR */
	uint32_t reason; /* enum ibvcap_disconnect, MAIL_CONSUMER_BAD, MAIL_SENDER_BAD */
	uint64_t at_ns;  /* MAIL_MATCHED: when the reading was begun, UTC */
	union {
		struct ring_consumer *consumer;
		uint64_t matched;
		struct clock_line clock;
		struct {
			struct tx_queue *tx_queue;
			struct sender *sender;
			uint32_t index; /* MAIL_DESTINATION: which, below the channel's n_destinations */
			struct tx_queue_destination destination;
		};
	};
};

/** One direction. */
struct mailbox;

int mailbox_new(struct mailbox **mailbox);
void mailbox_free(struct mailbox *mailbox);
/** Producer: would mailbox_send() say -EAGAIN? */
bool mailbox_full(const struct mailbox *mailbox);
/** Producer. -EAGAIN: full. Wakes the receiver. */
int mailbox_send(struct mailbox *mailbox, const struct mail *mail);
/**
 * Producer: a last word, for which there is always room, whatever the other side does: two in a mailbox's life, a last
 * MAIL_MATCHED and MAIL_STOP, or MAIL_STOPPED. -EAGAIN: it was not the last.
 */
int mailbox_send_last(struct mailbox *mailbox, const struct mail *mail);
/** Consumer. True: *mail is the next one. One load when there is none. */
bool mailbox_receive(struct mailbox *mailbox, struct mail *mail);
/** Readable when there may be mail; mailbox_clear() before the mailbox_receive() loop. */
int mailbox_fd(const struct mailbox *mailbox);
void mailbox_clear(struct mailbox *mailbox);

#endif
