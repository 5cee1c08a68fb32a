// SPDX-License-Identifier: Apache-2.0
/*
 * Shared by `ibvcap send` and `ibvcap replay`: they open a channel, fill rows one after the other, and print the sum.
 * Declares replay.c, send.c.
 */
#ifndef TOOLS_SEND_TX_RUN_H
#define TOOLS_SEND_TX_RUN_H

#include "tools/send/timing.h"

#include <ibvcap/ibvcap.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define TX_RUN_REASONS 7

struct tx_run_options {
	const char *command; /* for messages: "send", "replay" */
	const char *channel;
	const char *socket;
	uint64_t destination;
	bool drop_late;
	bool json;
};

struct tx_run {
	struct tx_run_options options;
	struct ibvcap_tx *tx;
	struct ibvcap_tx_info info;
	struct ibvcap_tx_slots slots; /* the rows that are reserved */
	uint32_t filled;              /* rows that are written and not yet submitted */
	uint64_t skipped;             /* counted by the caller; printed with the rates if not 0 */
	uint64_t start_ns;
	uint64_t start_utc_ns; /* send times count from here; 0: packets have none */
	uint64_t end_ns;
	uint64_t printed_ns;
	struct ibvcap_tx_counts printed; /* the counts in the last line of rates */
	struct timing_drift drift;
	uint64_t reasons[TX_RUN_REASONS]; /* packets that were not sent, by reason */
};

struct tx_run_row {
	uint8_t *payload; /* room for info.slot_bytes */
	struct ibvcap_tx_descriptor *packet;
};

/* The row that both have. */
#define TX_OPTION_DESTINATION(type)                                                                      \
	{                                                                                                \
		"destination", 'd', "N", "number of the destination in the channel's configuration (0)", \
			OPTION_NUMBER, OPTION_AT(type, run.destination),                                 \
			.max = UINT16_MAX, .instead = "the channel's configuration lists them, from 0"   \
	}

/** Open the channel, and catch SIGINT and SIGTERM. EX_OK; or another exit code, after an error message. */
int tx_run_open(struct tx_run *run, const struct tx_run_options *options);

/** Set the start from which send times count, a moment from now: there is time to submit the first packets. In UTC. */
uint64_t tx_run_start(struct tx_run *run);

/** Nanoseconds since the start; 0 before it. */
uint64_t tx_run_elapsed_ns(const struct tx_run *run);

/**
 * Get a row for the next packet, with destination and flags set. not_before_ns is its send time, 0 for none. Waits for
 * room in the arena, and until the send time is near; submits rows that were added before. 0; -EINTR after a stop
 * signal; or the library's error.
 */
int tx_run_row(struct tx_run *run, uint64_t not_before_ns, struct tx_run_row *row);

/** Add the row: the caller has written the payload, and its length into the packet. */
void tx_run_add(struct tx_run *run);

/** Submit the rows that were added, because the next one may come much later. 0 or as tx_run_row(). */
int tx_run_push(struct tx_run *run);

/**
 * End the run: wait until all packets are sent, or for a while after a signal. r is the result of the last call. Prints
 * errors. The exit code: 0; 1 if packets were not sent; or the one of an error.
 */
int tx_run_finish(struct tx_run *run, int r);

/** Print the sum and the timing as text. */
void tx_run_print(const struct tx_run *run);

/** The sum and the timing as JSON, which the caller frees and may add to. */
json_t *tx_run_to_json(const struct tx_run *run);

/** Close the channel, if it is open. */
void tx_run_close(struct tx_run *run);

struct send_options {
	struct tx_run_options run;
	const char *file; /* NULL: the pattern */
	uint64_t count;   /* UINT64_MAX: no end */
	uint64_t duration_ns;
	uint64_t size_bytes; /* UINT64_MAX: the channel's */
	uint64_t rate_pps;   /* 0: as fast as it goes */
};

/** Send the pattern or the file until the end that the options say, and print the sum. Returns the exit code. */
int send_run(const struct send_options *options);

struct replay_options {
	struct tx_run_options run;
	const char *file;
	uint64_t port;          /* 0: all */
	uint64_t loops;         /* 0: no end */
	uint64_t count;         /* of packets in all passes; 0: no end */
	uint64_t rate_pps;      /* 0: as recorded */
	uint64_t max_gap_ns;    /* 0: no limit */
	uint64_t loop_delay_ns; /* 0: the mean distance of two packets */
	double speed;           /* 1: as recorded */
	bool top_speed;
};

/** Send the file as the options say, and print the sum. Returns the exit code. */
int replay_run(const struct replay_options *options);

#endif
