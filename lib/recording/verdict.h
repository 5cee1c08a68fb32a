// SPDX-License-Identifier: Apache-2.0
/*
 * The judge of record, recv, check, info and extract. Each of them names what it finds: packets that are missing,
 * reasons for doubt, damage. The worst finding is the verdict. Nothing else makes a verdict, its words or its exit
 * status. The words of a reason for doubt (enum ibvcap_unknown) are the library's: lib/ibvcap/rx/rx_account.c.
 */
#ifndef LIB_RECORDING_VERDICT_H
#define LIB_RECORDING_VERDICT_H

#include "lib/recording/account_json.h"

#include <ibvcap/ibvcap.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERDICT_REASONS_BYTES 1024
#define VERDICT_TEXT_BYTES    2000 /* more than a verdict takes in words */

/* The effect of a finding on the verdict. The worst is the highest. */
enum finding {
	FINDING_NOTE,   /* nothing against them */
	FINDING_DOUBT,  /* nothing proves that a packet is missing, or that none is */
	FINDING_LOSS,   /* packets are missing */
	FINDING_DAMAGE, /* the file is damaged, cut off or not closed, or does not agree with itself: a doubt, too */
};

/* Zero-initialise it. */
struct verdict {
	enum finding worst;
	bool has_loss;                       /* packets are known to be missing, also of a damaged file */
	bool is_from_rules;                  /* what was dropped before the flow rules is not known */
	bool is_of_sources;                  /* a source of which no packet is there is not known */
	char reasons[VERDICT_REASONS_BYTES]; /* a line each */
};

/** Take the finding, and no reason. */
void verdict_take(struct verdict *verdict, enum finding finding);

/** Take what another verdict found, and that it does not know, but no reasons. */
void verdict_take_all(struct verdict *verdict, const struct verdict *other);

/** Take the finding and its reason: without a line feed, a full stop or a capital. What does not fit is cut off. */
__attribute__((format(printf, 3, 4))) void verdict_find(struct verdict *verdict, enum finding finding,
                                                        const char *format, ...);

/** Take a doubt for each bit of enum ibvcap_unknown. */
void verdict_find_unknown(struct verdict *verdict, uint32_t unknown);

/* What accounts say of packets that interfaces dropped before the flow rules. Begin with INTERFACE_DROPS_INIT. */
struct interface_drops {
	uint64_t lost;           /* of all streams and programs; an interface counts for each of its streams */
	uint64_t lost_by_stream; /* of the last account's stream, in lost */
	bool counts_all;         /* the drivers count all that is dropped */
	uint64_t uncounted;      /* enum ibvcap_uncounted: why they do not; 0: not known */
};

#define INTERFACE_DROPS_INIT     \
	{                        \
		.counts_all = 1, \
	}

/** Add an account. The queues of a stream follow one another, and have the same drops. */
void interface_drops_add(struct interface_drops *drops, const struct recording_account *account);

/**
 * Say how many packets interfaces dropped. Without one, a verdict that is complete so far holds from the flow rules on,
 * if an interface does not count all.
 */
void verdict_find_interface(struct verdict *verdict, const struct interface_drops *drops);

/** Take a loss of rows that have only a piece of their datagram. n may be 0: then none is taken. */
void verdict_find_pieces(struct verdict *verdict, uint64_t n);

/** Say how many of the packets that are missing are datagrams that lack a fragment. n may be 0: then none is. */
void verdict_find_unjoined(struct verdict *verdict, uint64_t n, uint64_t n_missing);

/** Note rows of malformed packets, which no socket gets. n may be 0. */
void verdict_find_malformed(struct verdict *verdict, uint64_t n);

/**
 * Numbers are absent that the recording does not name, and malformed packets came, whose numbers nobody can read. True:
 * these may be all that are absent, which is a doubt and taken here. False: some are lost, which is left to the caller.
 */
bool verdict_find_absent(struct verdict *verdict, uint64_t n_absent, uint64_t n_malformed);

/** Take what accounts say, of one file or of all files of a recording. filter: that the recorder had; NULL: none. */
void verdict_find_accounts(struct verdict *verdict, const struct recording_account *accounts, unsigned n,
                           const char *filter);

/** Complete without a finding, incomplete if packets are known to be missing, and not proven in all other cases. */
enum ibvcap_verdict verdict_result(const struct verdict *verdict);

/** "complete", "incomplete" or "not proven". */
const char *verdict_word(const struct verdict *verdict);

/** Is it complete, but only from the flow rules on? */
bool verdict_is_from_rules(const struct verdict *verdict);

/** verdict_word(), or "complete from the flow rules on". */
const char *verdict_title(const struct verdict *verdict);

/** 0: complete; 2: not proven; 1: incomplete; EX_DATAERR: damage. */
int verdict_exit_status(const struct verdict *verdict);

/** The reasons, with this text between them. Cut off at bytes. */
void verdict_print_reasons(char *text, size_t bytes, const struct verdict *verdict, const char *between);

/** "incomplete: 3 packets are missing; ibvcapd was …". A damage says what it is without the word. Cut off at bytes. */
void verdict_print(char *text, size_t bytes, const struct verdict *verdict);

/** The same as sentences: "Incomplete: 3 packets are missing. ibvcapd was … ." */
void verdict_print_sentences(char *text, size_t bytes, const struct verdict *verdict);

#define VERDICT_UNFOLLOWED_BYTES 256

/**
 * The packets that a tracker could not follow by their own numbers, each of which may hide a loss: "untracked 1, late
 * 2". Empty: it followed all. n_malformed of the unread ones are malformed: no socket gets them. If several
 * sources have one number each, or a number comes more than five times on average, which is more than the copies of a
 * feed, no gap can show a loss: the text says so.
 */
void verdict_print_unfollowed(const struct ibvcap_tracker_counts *counts, uint64_t n_malformed,
                              char text[VERDICT_UNFOLLOWED_BYTES]);

#endif
