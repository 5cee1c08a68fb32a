// SPDX-License-Identifier: Apache-2.0
/* Follows one source, and finds out which packets are missing before each row, and why. */
#ifndef TOOLS_RECORD_LOSSES_H
#define TOOLS_RECORD_LOSSES_H

#include "tools/recording/account_json.h"
#include "tools/record/record.h"

#define LOSSES_TEXT_BYTES    600
#define LOSSES_COMMENT_BYTES (LOSSES_TEXT_BYTES + RECORDING_LOSSES_TEXT_SIZE)

/* What a handle says when the recording ends. */
struct source_end {
	uint64_t skipped;
	uint64_t lag; /* with what was acquired and is not recorded */
	bool is_disconnected;
	bool has_failed; /* the card's queue, so that it is disconnected */
	bool is_removed; /* the stream, by the administrator */
};

/* Zero-initialise it, and set card. */
struct losses {
	struct record_sum sum;         /* without written, unwritten and lag */
	struct record_sum told;        /* the same, of what the file shows already: without what is pending */
	uint64_t pending;              /* packets that are missing before the next row that is written */
	struct recording_losses named; /* these by cause */
	char text[LOSSES_TEXT_BYTES];  /* and in words; empty: nothing is missing */
	struct ibvcap_rx_losses *card; /* of the stream, for all of its queues */
	uint64_t last_row_ns;
	uint64_t epoch; /* in which the numbers of rows count; 0: no row has come yet */
	/* Since the source was last read to its end: when that was, and how long the disk was waited for. */
	uint64_t behind_since_ns;
	uint64_t waited_ns;
};

/** The source was read to its end, or almost. */
void losses_caught_up(struct losses *losses, uint64_t now_ns);

/** The recorder has waited so long for the disk. */
static inline void losses_waited(struct losses *losses, uint64_t ns)
{
	losses->waited_ns += ns;
}

/**
 * Numbers of rows count in this epoch from now on. If it is a new one, nothing of the epoch before is left to tell: the
 * next row that is written may be files later, and those count in the new epoch.
 */
void losses_in_epoch(struct losses *losses, uint64_t epoch);

/** Note what the batch tells of the time before it. now_ns: CLOCK_MONOTONIC. */
void losses_of_batch(struct losses *losses, const struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch,
                     uint64_t now_ns);

/** Note a row in error: its packet cannot be written. */
void losses_of_error(struct losses *losses);

/** The file shows so many rows in error itself: no packet has to tell of them. */
void losses_of_rows_in_error(struct losses *losses, uint64_t n);

/** Ask the handle. n_left: rows that are acquired and not recorded. */
struct source_end losses_find_end(const struct ibvcap_rx *rx, uint64_t n_left);

/** Note what no batch has told: packets skipped or lost by the card just before the end, and that the daemon has ended.
 * no_buffer: those that no packet has told of. */
void losses_at_end(struct losses *losses, const struct source_end *end, uint64_t no_buffer, uint64_t now_ns);

/** Numbers of the ring behind the last row that was written, of which no file shows what became. */
static inline uint64_t losses_untold(const struct losses *losses)
{
	const struct record_sum *sum = &losses->sum, *told = &losses->told;

	return sum->skipped + sum->disk_wait + sum->errored - told->skipped - told->disk_wait - told->errored;
}

/** What is missing before the next row: the words and a line for programs. Returns text. */
const char *losses_print_comment(const struct losses *losses, char text[LOSSES_COMMENT_BYTES]);

/** The row was written, with the packets that were missing before it. */
static inline void losses_written(struct losses *losses)
{
	if (!losses->pending && !losses->text[0])
		return;
	losses->told = losses->sum;
	losses->pending = 0;
	losses->named = (struct recording_losses){0};
	losses->text[0] = '\0';
}

#endif
