// SPDX-License-Identifier: Apache-2.0
/* Follows one source, and finds out which packets are missing before each row, and why. */
#ifndef TOOLS_RECORD_LOSSES_H
#define TOOLS_RECORD_LOSSES_H

#include "lib/recording/account_json.h"
#include "tools/record/record.h"

#include <sys/queue.h>

#define LOSSES_TEXT_BYTES    600
#define LOSSES_COMMENT_BYTES (LOSSES_TEXT_BYTES + RECORDING_LOSSES_TEXT_SIZE)

/* The state of a handle when the recording ends. */
struct source_end {
	uint64_t skipped;
	uint64_t lag; /* with the rows that were acquired and are not recorded */
	bool is_disconnected;
	bool has_failed; /* the card's queue; the handle is disconnected, too */
	bool is_removed; /* the stream, by the administrator */
};

/* What is missing behind the last row of a source that a file has. */
struct unnamed_losses {
	SLIST_ENTRY(unnamed_losses) entry;
	uint64_t n;                    /* packets */
	struct recording_losses named; /* these by cause */
	char text[LOSSES_TEXT_BYTES];  /* and in words; empty: nothing is missing */
};

/* Zero-initialise it. */
struct losses {
	struct recording_sum sum;     /* without written, other_files, filtered, unwritten and lag */
	uint64_t no_buffer;           /* of the stream, that no other queue of it notes */
	uint64_t unjoined;            /* of no_buffer */
	struct unnamed_losses before; /* all since the attach: later outputs begin with them */
	SLIST_HEAD(, unnamed_losses) outputs;
	uint64_t last_row_ns;
	uint64_t behind_since_ns; /* when the source was last read to its end */
	uint64_t waited_ns;       /* for the disk since then */
};

/** The source was read to its end, or almost. */
void losses_caught_up(struct losses *losses, uint64_t now_ns);

/** The recorder has waited so long for the disk. */
static inline void losses_waited(struct losses *losses, uint64_t ns)
{
	losses->waited_ns += ns;
}

/** Note the losses before the batch, which the batch names. card: of the stream. now_ns: CLOCK_MONOTONIC. */
void losses_of_batch(struct losses *losses, const struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch,
                     struct ibvcap_rx_losses *card, uint64_t now_ns);

/**
 * Add the packets that the ring no longer has, and that no batch has named yet, because nothing was acquired since. As
 * many are lost at least.
 */
void losses_add_unread(const struct losses *losses, const struct ibvcap_rx *rx, uint64_t now_ns,
                       struct recording_sum *sum);

/** Note a row in error: its packet cannot be written. */
void losses_of_error(struct losses *losses);

/** Ask the handle. n_left: rows that are acquired and not recorded. */
struct source_end losses_find_end(const struct ibvcap_rx *rx, uint64_t n_left);

/** Note the packets that were skipped before the end and that no batch has named. */
void losses_skipped_at_end(struct losses *losses, const struct source_end *end, uint64_t now_ns);

/** Then note the end of the daemon or of the stream, and losses of the card that no packet has named. */
void losses_at_end(struct losses *losses, const struct source_end *end, uint64_t no_buffer, uint64_t n_unjoined);

/** What is missing behind the last row: the words and a line for programs. Returns text. */
const char *losses_print_comment(const struct unnamed_losses *losses, char text[LOSSES_COMMENT_BYTES]);

/** The file names the losses until now: with the row that was written, or at its end. */
static inline void losses_named(struct unnamed_losses *losses)
{
	if (!losses->n && !losses->text[0])
		return;
	losses->n = 0;
	losses->named = (struct recording_losses){0};
	losses->text[0] = '\0';
}

#endif
