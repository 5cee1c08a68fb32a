// SPDX-License-Identifier: Apache-2.0
/*
 * The ledger of a stream's losses in shared memory (struct ibvcap_ledger in layout.h): the daemon's control thread
 * writes it, consumers and tools read it. All atomics of the ledger are here and in ledger.c. No call blocks or
 * allocates.
 */
#ifndef LIB_LOSSES_LEDGER_H
#define LIB_LOSSES_LEDGER_H

#include <assert.h>
#include <ibvcap/layout.h>
#include <stdbool.h>
#include <stdint.h>

#define LEDGER_ENDED UINT64_MAX /* in place of until_ns: no packet comes any more */

/*
 * What a queue had lost until some moment. It begins at 0 in each epoch. A reader compares two: if marks is the same,
 * the queue lost nothing between them.
 */
struct ledger_losses {
	uint64_t marks;     /* grows whenever the queue may have lost a packet */
	uint64_t no_buffer; /* of the stream: so many were lost at least, by all queues */
	uint64_t outages;   /* of the interface; odd: it is down */
	uint64_t ambiguous; /* fragments of the queue, of which it cannot be told whether a packet is lost */
	uint64_t unjoined;  /* of the stream: datagrams of which a fragment did not come, or does not fit */
};

/*
 * What was lost. All losses in "before" happened before the row at head. All losses until until_ns, a time of
 * CLOCK_MONOTONIC, are in "after". So between the row at head and until_ns the queue lost at most what "after" has more
 * than "before": nothing if the two are equal.
 */
struct ledger_entry {
	uint64_t number;       /* of the entry, from 0 on in each epoch */
	uint64_t until_ns;     /* LEDGER_ENDED: the queues have ended, and "after" has all losses */
	uint64_t read_utc_ns;  /* when the flow counters were read that show the losses of "before" */
	uint64_t until_utc_ns; /* when they were read last */
	uint64_t matched;      /* flow counters of the stream, then; UINT64_MAX: fragments are held that came later */
	uint64_t head;
	struct ledger_losses before;
	struct ledger_losses after;
	uint64_t no_buffer_most; /* upper bound of after.no_buffer; UINT64_MAX: not known */
	/*
	 * Packets that the interface had lost before the flow rules (struct ibvcap_ring) so long before the row at head
	 * that no packet which waited with them is that row or a later one.
	 */
	uint64_t interface_before;
	uint64_t interface_uncounted; /* of struct ibvcap_ring, likewise */
};
static_assert(sizeof(struct ledger_entry) == IBVCAP_LEDGER_WORDS * sizeof(uint64_t), "shared layout");

/** Control thread, the only writer: append an entry. Its number is set here. Partner: ledger_load(). */
void ledger_append(struct ibvcap_ledger *ledger, const struct ledger_entry *entry);

/** Control thread: renew until_ns, until_utc_ns, matched and no_buffer_most of the newest entry. Partner: likewise. */
void ledger_renew(struct ibvcap_ledger *ledger, const struct ledger_entry *entry);

/** Entries appended so far. Any thread. */
uint64_t ledger_n_entries(const struct ibvcap_ledger *ledger);

/** Copy an entry. False: it was never written, or is overwritten by now. Any thread. */
bool ledger_load(const struct ibvcap_ledger *ledger, uint64_t number, struct ledger_entry *entry);

/** The newest entry. False: there is none yet. Any thread. */
bool ledger_newest(const struct ibvcap_ledger *ledger, struct ledger_entry *entry);

/**
 * The newest entry whose head is not behind the row: all losses of its "before" happened before that row. False: there
 * is none any more: at least nothing is known to be lost before the row. Any thread.
 */
bool ledger_before_row(const struct ibvcap_ledger *ledger, uint64_t sequence, struct ledger_entry *entry);

/**
 * The oldest entry that is left whose until_ns is at least the time: all losses until then are in its "after". Its
 * no_buffer_most is the least of it and all newer ones, each of which is a bound. False: there is none yet. Any thread.
 */
bool ledger_until(const struct ibvcap_ledger *ledger, uint64_t monotonic_ns, struct ledger_entry *entry);

/* ---- one entry, or anything else of 64-bit words that one thread writes and others copy as a whole --------------- */

/** The only writer. Partner: ledger_load_words(). */
void ledger_store_words(_Atomic uint64_t *version, _Atomic uint64_t *shared, const void *words, size_t bytes);

/** False: the writer is changing it. Any thread. Partner: ledger_store_words(). */
bool ledger_load_words(const _Atomic uint64_t *version, const _Atomic uint64_t *shared, void *words, size_t bytes);

#endif
