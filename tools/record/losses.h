// SPDX-License-Identifier: Apache-2.0
/* Follows one source, and finds out which packets are missing before each row, and why. */
#ifndef TOOLS_RECORD_LOSSES_H
#define TOOLS_RECORD_LOSSES_H

#include "lib/recording/account_json.h"
#include "tools/record/record.h"

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

/* A place between two rows of a source. */
struct losses_place {
	uint64_t sequence;   /* of the next row */
	uint64_t n_written;  /* rows before it that were put into files */
	uint64_t n_filtered; /* and that the filter left out */
};

/* Zero-initialise it, and set card. */
struct losses {
	struct recording_sum sum;      /* without written, unwritten and lag */
	struct recording_sum told;     /* the part of sum that the file shows already: without pending */
	uint64_t no_buffer;            /* lost by the card, that no other queue of the stream notes */
	uint64_t told_no_buffer;       /* the part of it that the file shows already */
	uint64_t pending;              /* packets that are missing before the next row that is written */
	struct recording_losses named; /* these by cause */
	char text[LOSSES_TEXT_BYTES];  /* and in words; empty: nothing is missing */
	struct losses_place untold;    /* where the losses begin that no file shows yet, if there are any */
	struct ibvcap_rx_losses *card; /* of the stream, for all of its queues */
	uint64_t last_row_ns;
	uint64_t epoch;           /* in which the numbers of rows count; 0: no row has come yet */
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

/**
 * Numbers of rows count in this epoch from now on. Losses of an earlier epoch count as told: the next row may be
 * written some files later, and the numbers of those files are of the new epoch.
 */
void losses_in_epoch(struct losses *losses, uint64_t epoch);

/** Note the losses before the batch, which the batch names. place: where they begin. now_ns: CLOCK_MONOTONIC. */
void losses_of_batch(struct losses *losses, const struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch,
                     const struct losses_place *place, uint64_t now_ns);

/** Note the row in error at this place: its packet cannot be written. */
void losses_of_error(struct losses *losses, const struct losses_place *place);

/** The file shows so many rows in error itself: no packet has to tell of them. */
void losses_of_rows_in_error(struct losses *losses, uint64_t n);

/** Ask the handle. n_left: rows that are acquired and not recorded. */
struct source_end losses_find_end(const struct ibvcap_rx *rx, uint64_t n_left);

/**
 * Note the losses before the end that no batch has named: packets that were skipped or that the card lost, and the end
 * of the daemon. no_buffer: losses of the card that no packet has named.
 */
void losses_at_end(struct losses *losses, const struct source_end *end, uint64_t no_buffer, uint64_t now_ns);

/** The count of rows behind the last one that was written whose loss no file shows yet. */
static inline uint64_t losses_untold(const struct losses *losses)
{
	const struct recording_sum *sum = &losses->sum, *told = &losses->told;

	return sum->skipped + sum->disk_wait + sum->errored - told->skipped - told->disk_wait - told->errored;
}

/** What is missing before the next row: the words and a line for programs. Returns text. */
const char *losses_print_comment(const struct losses *losses, char text[LOSSES_COMMENT_BYTES]);

/** The file shows all losses until now. */
static inline void losses_told(struct losses *losses)
{
	losses->told = losses->sum;
	losses->told_no_buffer = losses->no_buffer;
}

/** The row was written, with the packets that were missing before it. */
static inline void losses_written(struct losses *losses)
{
	if (!losses->pending && !losses->text[0])
		return;
	losses_told(losses);
	losses->pending = 0;
	losses->named = (struct recording_losses){0};
	losses->text[0] = '\0';
}

#endif
