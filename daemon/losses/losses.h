// SPDX-License-Identifier: Apache-2.0
/*
 * What a stream has lost: matched = published + no_buffer + errored + joined + ambiguous + in flight, over all of its
 * queues. This is a state machine over counts and times alone: it knows no device, no ring and no thread.
 *
 * The control thread reads the flow counters some times a second, and mails the reading to each worker. A worker notes
 * what its queue has accounted for (losses_queue_…). The control thread adds the notes up (losses_…): it finds the
 * packets that are lost, and what the ledger of the stream says of them (lib/losses/ledger.h).
 */
#ifndef DAEMON_LOSSES_LOSSES_H
#define DAEMON_LOSSES_LOSSES_H

#include "lib/losses/ledger.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LOSSES_QUEUES_MAX   IBVCAP_QUEUES_MAX
#define LOSSES_DRAIN_NS_MIN UINT64_C(2000000) /* least drain_ns of a device */

/* A reading of the flow counters of all queues. */
struct losses_reading {
	uint64_t matched;
	uint64_t at_ns; /* before the first counter was read, CLOCK_MONOTONIC: names the reading */
	uint64_t utc_ns;
	uint64_t before_utc_ns; /* when they were read before that; 0: never */
};

/* A worker's counts of its queue at the time of a call. */
struct losses_counts {
	uint64_t now_ns;    /* CLOCK_MONOTONIC */
	uint64_t accounted; /* packets that have a row, had an error, need no row, or are ambiguous */
	uint64_t held;      /* fragments of datagrams that lack a part */
	uint64_t split;     /* packets beyond the first, of those that the flow counters have once */
	uint64_t head;      /* of the ring */
	uint64_t taken;     /* slots that were got back from the device, of all time */
	uint64_t posted;    /* slots that it was given, of all time */
	uint64_t marks;     /* times or packets: grows whenever the queue may have lost one */
	uint64_t ambiguous; /* in accounted and in marks: fragments of which nobody can tell whether one is lost */
	uint64_t n_maybe;   /* 1: it may have lost one since the last poll that took all packets; not in marks yet */
	/* All packets that were polled before that time have a row, need none, or are lost; UINT64_MAX: all packets. */
	uint64_t decided_ns;
	uint64_t dropped;  /* packets that the device counts as dropped */
	uint64_t unjoined; /* of dropped: datagrams of which a fragment did not come, or does not fit */
	uint64_t outages;  /* of the interface */
	bool is_empty;     /* the last poll found nothing */
	bool took_all;     /* the device holds no packet that came before the last poll */
	bool is_ending;    /* the flows are removed */
	bool is_resetting; /* the queue has failed and waits for its reset */
};

enum losses_level {
	LOSSES_NONE,    /* the worker has noted nothing yet */
	LOSSES_OPEN,    /* up to a whole queue of the packets of this reading may yet come */
	LOSSES_SETTLED, /* every packet of this reading that the queue got is accounted for */
	LOSSES_ENDED,   /* no packet comes any more */
};

/* The message of a worker to the control thread. It is copied word by word, so all members are uint64_t. */
struct losses_note {
	struct losses_reading reading; /* the newest one that the worker knows */
	uint64_t level;                /* enum losses_level, of that reading */
	uint64_t accounted;            /* with the held, without the split */
	uint64_t n_before;             /* the same without the held, at a time before that reading or an older one */
	uint64_t has_before;           /* 0: n_before is not known yet */
	uint64_t dropped;
	uint64_t unjoined; /* of dropped */
	uint64_t split;
	/*
	 * What is settled of the queue, in an entry without its number and no_buffer_most: each packet that steering
	 * gave the queue before until_ns is published below head, is a row in error, or is lost. until_ns 0: nothing is
	 * settled yet.
	 */
	struct ledger_entry settled;
};

enum losses_record {
	LOSSES_RECORD_MADE,    /* what is settled as of the last reading is in the note */
	LOSSES_RECORD_PARTIAL, /* it is, but fragments were held: it is made again when none is held */
	LOSSES_RECORD_DUE,     /* it is not in the note yet */
};

/* A queue: the worker's, but for what is marked. */
struct losses_queue {
	/* Constant. */
	uint32_t slots;                    /* as many packets may yet come at any time */
	bool counts_drops;                 /* marks has all packets that the device dropped until the last reading */
	bool may_wait;                     /* packets may wait in the device, or before it, while it has no free slot */
	uint64_t drain_ns;                 /* a packet is polled so long after its flow matched it, if not before */
	const _Atomic uint64_t *no_buffer; /* of the stream; the control thread writes it */

	bool is_open; /* the last reading is not settled yet */
	enum losses_record record;
	uint64_t due_ns;    /* when the reading came, or its record became due again */
	uint64_t due_taken; /* a card that has returned this number of slots has completed the packets of the reading */
	struct losses_noted {
		uint64_t at_ns;
		uint64_t n;
		uint64_t utc_ns; /* of the newest reading then */
		struct ledger_losses losses;
	} noted, before; /* at the last note; at one before the reading */
	struct losses_note note;

	/* Any thread. */
	_Atomic uint64_t stalled_utc_ns; /* when a lossless consumer was last seen to stop the queue; 0: never */
	_Atomic uint64_t version;        /* odd: the note is being written */
	_Atomic uint64_t shared[sizeof(struct losses_note) / sizeof(uint64_t)];
};

/* An entry of the ledger, for all queues. */
struct losses_entry {
	struct ledger_entry of_stream; /* without number, head, marks and ambiguous; unjoined is of all queues */
	struct {
		uint64_t head;
		uint64_t marks_before;
		uint64_t marks_after;
		uint64_t ambiguous_before;
		uint64_t ambiguous_after;
	} queues[LOSSES_QUEUES_MAX];
};

/* What has become of the newest entry. */
enum losses_change {
	LOSSES_SAME,
	LOSSES_RENEWED,  /* until_ns, until_utc_ns, matched and no_buffer_most: nothing was lost since */
	LOSSES_APPENDED, /* it is another one */
};

/* The newest reading that showed another loss. */
struct losses_last {
	uint64_t packets;     /* 0: nothing was lost so far */
	uint64_t from_utc_ns; /* they were lost since that time, when the reading before was taken */
	uint64_t to_utc_ns;
};

/*
 * A packet may wait in the card and in the kernel while later ones are dropped there, at most so long. It then comes to
 * the flow rules although the count has these drops already.
 */
#define LOSSES_INTERFACE_NS UINT64_C(1000000000)

/* Packets that the interface has lost before the flow rules, as of three readings: at least that time between them. */
struct losses_interface {
	struct losses_interface_reading {
		uint64_t lost;
		uint64_t uncounted; /* as interface_uncounted of struct ibvcap_ring */
		uint64_t at_ns;     /* CLOCK_MONOTONIC, before it was read */
	} newest, middle, old;
};

/* A stream: the control thread's, but for what is marked. */
struct losses {
	uint32_t n_queues;
	bool counts_drops; /* the device counts what it drops */
	bool joins;        /* the queues hold fragments, which may be lost later */
	struct losses_queue queues[LOSSES_QUEUES_MAX];

	uint64_t read;    /* the flow counters in the newest reading that a worker has noted */
	uint64_t matched; /* the same, with a packet for each row of those that were split */
	uint64_t no_buffer_lossless;
	uint64_t no_buffer_standstill; /* the others, of which the readings before and after are far apart */
	uint64_t standstill_utc_ns;    /* the last reading that came so late; 0: none */
	_Atomic uint64_t no_buffer;    /* any thread reads it */
	struct losses_last last;
	struct losses_interface interface;

	bool has_entry;
	struct losses_entry entry; /* the newest one */
};

/* ---- a worker ------------------------------------------------------------------------------------ */

/** A reading, newer than all before. */
void losses_queue_read(struct losses_queue *queue, const struct losses_reading *reading,
                       const struct losses_counts *counts);

/** After a poll, while losses_queue_is_due(). */
void losses_queue_look(struct losses_queue *queue, const struct losses_counts *counts);

/** No packet comes any more, and none is held. */
void losses_queue_end(struct losses_queue *queue, const struct losses_counts *counts);

/** Is there something to look after at each poll? */
static inline bool losses_queue_is_due(const struct losses_queue *queue)
{
	return queue->is_open || queue->record != LOSSES_RECORD_MADE;
}

/** Must the worker not sleep until the next packet? */
static inline bool losses_queue_is_waiting(const struct losses_queue *queue)
{
	return queue->is_open || queue->record == LOSSES_RECORD_DUE;
}

/* ---- the control thread -------------------------------------------------------------------------- */

/** Before any worker runs. slots: of each queue. */
void losses_init(struct losses *losses, uint32_t n_queues, uint32_t slots, bool counts_drops, bool joins,
                 uint64_t drain_ns);

/** What the interface had lost before the flow rules when it was read. An older reading has no effect. */
void losses_note_interface(struct losses *losses, const struct losses_interface_reading *reading);

/** A reading came so long after the one before that the control thread did not run, or the device did not answer. */
#define LOSSES_STANDSTILL_NS UINT64_C(1000000000)

/** Add up what the workers have noted, and see what the ledger has to tell of it. */
enum losses_change losses_update(struct losses *losses);

/**
 * Packets as the flow counters count them, that have a row, had an error, need no row, or are ambiguous: accounted,
 * modulo 2^64 if packets that the counters have once were many, and dropped. Are all packets of a reading accounted
 * for, or lost?
 */
bool losses_are_settled(const struct losses *losses, uint64_t matched, uint64_t accounted);

/** If the flow counters have not moved since the newest entry, nothing was lost: renew it until the reading. */
enum losses_change losses_renew_by(struct losses *losses, const struct losses_reading *reading);

/**
 * Does the newest entry say all that is to be known of the reading? Then the workers need not account for it, and those
 * of a stream at rest may sleep. outages: of the interface, so far.
 */
bool losses_are_at_rest(const struct losses *losses, uint64_t matched, uint64_t accounted, uint64_t outages);

#endif
