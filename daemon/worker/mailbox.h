// SPDX-License-Identifier: Apache-2.0
/*
 * Messages between control and a worker: two single-producer single-consumer queues without locks, each with an eventfd
 * that wakes a sleeping receiver. The worker reads mail between batches, so an answer takes as long as a batch.
 * MAIL_STOPPED or MAIL_FAILED is the worker's last mail: everything that was lent to the worker belongs to control
 * again, and mail that it did not read is not answered.
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
	MAIL_MATCHED,          /* a reading of the flow counters, newer than all before; no answer */
	MAIL_CLOCK,            /* a new line; no answer */
	MAIL_STOP,             /* the flows are removed: drain, close the ring and end. Answered by MAIL_STOPPED. error:
	                          they cannot be removed, so do not drain */
	/* control → transmit worker */
	MAIL_ADD_TX_QUEUE,    /* lent to the worker from now on. Answered by MAIL_TX_QUEUE_ADDED: error */
	MAIL_REMOVE_TX_QUEUE, /* taken packets complete, others are flushed. Answered by MAIL_TX_QUEUE_REMOVED */
	MAIL_TX_QUEUE_ERROR,  /* all its packets end with error (-ENETDOWN); 0: they are sent again. No answer */
	MAIL_DESTINATION,     /* headers of one destination, or the reason for their lack; no answer */
	MAIL_ADD_SENDER,      /* sealed and registered. Answered by MAIL_SENDER_ADDED: error */
	MAIL_REMOVE_SENDER,   /* likewise. Always answered, even for one that is gone already: MAIL_SENDER_REMOVED */
	/* worker → control */
	MAIL_CONSUMER_ADDED,
	MAIL_CONSUMER_REMOVED,
	MAIL_CONSUMER_BAD,     /* evicted, since its page broke the rules: reason; the memory is control's again */
	MAIL_CONSUMER_DEMOTED, /* from lossless to lossy: its user's stall budget is used up */
	MAIL_STOPPED,
	MAIL_FAILED, /* the queue could not be reset: error */
	/*
	 * transmit worker → control. Mail that comes unasked may cross with the request to remove its object: the
	 * request is answered all the same, and the object is lent until then.
	 */
	MAIL_TX_QUEUE_ADDED,
	MAIL_TX_QUEUE_REMOVED, /* queue and senders are control's again; error: see the next */
	/* likewise, unasked: the device's queue could not be reset; destroy it before memory is freed */
	MAIL_TX_QUEUE_FAILED,
	MAIL_SENDER_ADDED,
	/*
	 * All its packets have ended: the memory is control's again. With an error the device may still read it, since
	 * its queue could not be reset: MAIL_TX_QUEUE_FAILED or _REMOVED follows, and the device's queue is to be
	 * destroyed before the memory is freed.
	 */
	MAIL_SENDER_REMOVED,
	MAIL_SENDER_BAD, /* likewise, unasked: its page broke the rules: reason */
};

/* Where packets for one of a channel's destinations go. */
struct tx_queue_destination {
	struct packet_template headers;
	int32_t error; /* not 0: there are no headers, and packets end with this error (-EHOSTUNREACH) */
	uint32_t mtu;  /* the interface's now. This and the next are used by a queue that cuts only */
	_Atomic uint32_t *identification; /* of the next datagram that is cut; other queues may take from it, too */
};

struct mail {
	enum mail_type type;
	int32_t error;   /* negative errno, in answers and MAIL_TX_QUEUE_ERROR */
	uint32_t reason; /* enum ibvcap_disconnect, MAIL_CONSUMER_BAD, MAIL_SENDER_BAD */
	uint64_t at_ns;  /* MAIL_MATCHED: when the reading began, UTC */
	union {
		struct ring_consumer *consumer;
		struct {
			uint64_t matched;
			uint64_t read_ns; /* as at_ns, CLOCK_MONOTONIC: the same for all queues of the stream */
		};
		struct clock_line clock;
		struct {
			struct tx_queue *tx_queue;
			struct sender *sender;
			uint32_t index; /* MAIL_DESTINATION: below the queue's n_destinations */
			struct tx_queue_destination destination;
		};
	};
};

/** One direction. */
struct mailbox;

int mailbox_new(struct mailbox **mailbox);
void mailbox_free(struct mailbox *mailbox);
/** Producer: would mailbox_send() return -EAGAIN? */
bool mailbox_full(const struct mailbox *mailbox);
/** Producer. -EAGAIN: full. Wakes the receiver. */
int mailbox_send(struct mailbox *mailbox, const struct mail *mail);
/**
 * Producer: a last mail, for which there is room even if the receiver reads nothing. A mailbox has room for two of them
 * in its life: a last MAIL_MATCHED and MAIL_STOP, or MAIL_STOPPED. -EAGAIN: there were two before.
 */
int mailbox_send_last(struct mailbox *mailbox, const struct mail *mail);
/** Consumer. True: *mail is the next mail. Without mail it costs one load. */
bool mailbox_receive(struct mailbox *mailbox, struct mail *mail);
/** Readable when there may be mail. Call mailbox_clear() before the loop of mailbox_receive(). */
int mailbox_fd(const struct mailbox *mailbox);
void mailbox_clear(struct mailbox *mailbox);

#endif
