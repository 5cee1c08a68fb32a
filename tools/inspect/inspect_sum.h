// SPDX-License-Identifier: Apache-2.0
/*
 * The sum of the blocks of a recording: packets, times, gaps and their causes, and whether the numbers of the packets
 * agree with the losses that the recording names.
 */
#ifndef TOOLS_INSPECT_INSPECT_SUM_H
#define TOOLS_INSPECT_INSPECT_SUM_H

#include "lib/recording/account_json.h"
#include "lib/recording/pcapng.h"
#include "lib/recording/pcapng_read.h"

#include <limits.h>

#define INSPECT_TEXT_BYTES 512
#define INSPECT_GAPS_MAX   1000 /* whose texts are kept */

struct inspect_gap {
	uint32_t source;
	bool has_id;
	uint64_t packet_id; /* of the packet behind it */
	uint64_t time_ns;   /* of the packet behind it */
	uint64_t n_lost;
	char text[INSPECT_TEXT_BYTES]; /* the cause */
};

/* The daemon counts a loss of the card at most this long after the loss. */
#define INSPECT_CARD_NS UINT64_C(1000000000)

/* The line in the statistics of an interface that a program can read. */
enum inspect_account {
	INSPECT_ACCOUNT_NONE,       /* other programs write none */
	INSPECT_ACCOUNT_UNREADABLE, /* damaged, or of a later version */
	INSPECT_ACCOUNT_READ,
};

/* An interface of the file: one queue of a stream, in what ibvcap writes. */
struct inspect_source {
	uint32_t section;   /* of the file, counted from 1 */
	uint16_t link_type; /* as pcapng files number them: 1 is Ethernet */
	char name[INSPECT_TEXT_BYTES];
	char description[INSPECT_TEXT_BYTES];
	char hardware[INSPECT_TEXT_BYTES];
	char flows[INSPECT_TEXT_BYTES];
	char filter[INSPECT_TEXT_BYTES];  /* that the recorder had; empty: none */
	char comment[INSPECT_TEXT_BYTES]; /* the clock and its error */
	bool is_one_flow;                 /* the file has one flow of the stream: other files have the other numbers */
	bool is_filtered;                 /* the file has what the filter takes: no file has the other numbers */
	uint64_t n_packets;
	uint64_t n_bytes; /* of frames, on the wire */
	uint64_t n_cut;   /* packets of which only a part is there */
	uint64_t n_untimed;
	uint64_t first_ns; /* the earliest and the latest time */
	uint64_t last_ns;
	uint64_t previous_ns; /* the time of the packet before */
	uint64_t n_backwards; /* packets whose time is before that of the one ahead */
	bool has_numbers;
	uint64_t first_id;
	uint64_t last_id;
	uint64_t n_runs;                    /* of numbers: a daemon that is restarted begins again */
	uint64_t n_restarts_before_packets; /* packets before which the daemon was restarted */
	bool begins_after_restart;          /* the first packet is such a packet */
	uint64_t n_absent;                  /* numbers between the first and the last of each run that no packet has */
	uint64_t n_repeated;                /* numbers that come twice, or go back without a restart */
	uint64_t n_lost;                    /* packets that the recording says are missing */
	uint64_t n_card;                    /* of n_lost: lost by the card */
	uint64_t n_card_late;               /* of n_card: not counted until INSPECT_CARD_NS behind the first packet */
	uint64_t n_named; /* of n_lost: between two packets of a run, and with a number, so not lost by the card */
	/* The statistics at the end of the file. */
	bool has_statistics;
	enum inspect_account account_state;
	struct recording_account account; /* if it was read */
	uint64_t n_elsewhere;             /* packets of other flows, or that the filter left out */
	uint64_t n_delivered;             /* packets that the recorder wrote */
	uint64_t n_dropped;               /* that the card or the recorder lost */
	char sum[INSPECT_TEXT_BYTES];     /* for people */
};

struct inspect_sum {
	char application[INSPECT_TEXT_BYTES];
	char opening[INSPECT_TEXT_BYTES]; /* the comment of the first section: what triggered the recording */
	char closing[INSPECT_TEXT_BYTES]; /* the comment of the last section, which has the whole file's verdict */
	struct inspect_source *sources;
	uint32_t n_sources;
	uint32_t n_sections;
	uint32_t first_source; /* of the section that is being read */
	bool has_closing;      /* a section without interfaces ends the file */
	struct inspect_gap *gaps;
	uint32_t n_gaps_kept;
	uint64_t n_gaps;
	uint64_t n_packets;
	uint64_t n_comments; /* packets with one, in the file of another program */
	uint64_t passed[PCAPNG_PASSED_N];
};

/** Room for one more in an array of n, which is returned. NULL: no memory. */
void *inspect_grow(void *array, uint32_t n, size_t bytes);

/** Take a block into the sum, which is zero-initialised at first. 0; -ENOMEM. */
int inspect_sum_add(struct inspect_sum *sum, const struct pcapng_block *block);
void inspect_sum_free(struct inspect_sum *sum);

/** Numbers that no loss explains: of other flows, or of packets that the filter left out. */
static inline uint64_t inspect_elsewhere(const struct inspect_source *source)
{
	return source->n_absent - source->n_named;
}

/** Is every number between the first and the last in the file, or among the losses that it names? */
bool inspect_is_explained(const struct inspect_source *source);

/** Did `ibvcap extract` write it? Then packets may be absent that were not lost. Pure. */
bool inspect_is_extract(const struct inspect_sum *sum);

/** Has the file statistics of all its interfaces and the section behind them: was it closed? Pure. */
bool inspect_is_closed(const struct inspect_sum *sum);

/** Put spaces in place of control characters: text of a stranger goes to a terminal. Returns text. */
char *inspect_clean(char *text);

/** Is there a file path.part, which a recorder has not closed? If so, write a sentence about it to text. */
bool inspect_explain_part(const char *path, char text[PATH_MAX]);

/** If all files are indexes: name the first one, path, on standard error. Returns EX_DATAERR. */
int inspect_refuse_index(const char *command, const char *path);

/** Did ibvcap write the file, or the one that it was extracted from? Pure. */
bool inspect_is_ours(const struct inspect_sum *sum);

#endif
