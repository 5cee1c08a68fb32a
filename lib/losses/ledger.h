// SPDX-License-Identifier: Apache-2.0
/*
 * The ledger of a stream's losses in shared memory (struct ibvcap_ledger in layout.h): the daemon's control thread
 * writes it, consumers and tools read it. All atomics of the ledger are here and in ledger.c. No call blocks or
 * allocates.
 */
#ifndef LIB_LOSSES_LEDGER_H
#define LIB_LOSSES_LEDGER_H

#include <ibvcap/layout.h>
#include <stdbool.h>
#include <stdint.h>

#define LEDGER_ENDED UINT64_MAX /* in place of until_ns: no packet comes any more */

/* Copies of struct ibvcap_queue_losses and struct ibvcap_ledger_entry. */
struct ledger_losses {
	uint64_t marks;
	uint64_t no_buffer;
	uint64_t outages;
};
struct ledger_entry {
	uint64_t number;
	uint64_t until_ns;
	uint64_t read_utc_ns;
	uint64_t until_utc_ns;
	uint64_t matched;
	uint64_t head;
	struct ledger_losses before;
	struct ledger_losses after;
	uint64_t no_buffer_most;
};

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

#endif
