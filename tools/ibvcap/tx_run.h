// SPDX-License-Identifier: Apache-2.0
/* What `ibvcap send` and `ibvcap replay` share: a channel, rows to fill in turn, lines of progress, and the sum. */
#ifndef TOOLS_IBVCAP_TX_RUN_H
#define TOOLS_IBVCAP_TX_RUN_H

#include "tools/ibvcap/timing.h"

#include <ibvcap/ibvcap.h>
#include <jansson.h>

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
	struct ibvcap_tx_slots slots; /* reserved: */
	uint32_t filled;              /* … and so many written, not submitted yet */
	uint64_t skipped;             /* the caller's; shown with the progress if not 0 */
	uint64_t start_ns;
	uint64_t start_utc_ns; /* from which times count; 0: there are none */
	uint64_t end_ns;
	uint64_t told_ns;
	struct ibvcap_tx_counts told; /* with the last line of progress */
	struct timing_drift drift;
	uint64_t reasons[TX_RUN_REASONS]; /* of packets that were not sent */
};

struct tx_run_row {
	uint8_t *payload; /* info.slot_bytes */
	struct ibvcap_tx_descriptor *packet;
};

/** One of the options that both have: -s, -L, -d, -j, -h; of any other the usage is said. -1: go on; else the exit code. */
int tx_run_parse_option(int option, const char *usage, struct tx_run_options *options);

/** EX_OK, or an exit code: said why. INT and TERM are this one's from here on. */
int tx_run_open(struct tx_run *run, const struct tx_run_options *options);

/** The start: UTC, to count the times of packets from. Soon, so that there is time to submit the first ones. */
uint64_t tx_run_start(struct tx_run *run);

/** Since the start. */
uint64_t tx_run_elapsed_ns(const struct tx_run *run);

/**
 * A row for the next packet, its destination and flags preset; not_before_ns: its time, 0: none. Waits for room, and
 * until it is worth submitting something of that time. What was filled before may be submitted now. 0; -EINTR: stopped;
 * else the library's error.
 */
int tx_run_row(struct tx_run *run, uint64_t not_before_ns, struct tx_run_row *row);

/** The row is written, and its packet's length. */
void tx_run_add(struct tx_run *run);

/** Submit what was added: the next row may be long in coming. 0 or as tx_run_row(). */
int tx_run_push(struct tx_run *run);

/** Progress, and the fate of packets; to be called again and again where nothing else is. */
void tx_run_tick(struct tx_run *run);

/**
 * The end of all rows, r as the last call said (0, -EINTR or an error): wait until all is sent, or a while after a signal.
 * Says on stderr what went wrong. The exit code: 0, 1: something was not sent, or what stands for an error.
 */
int tx_run_finish(struct tx_run *run, int r);

/** The sum and the timing, for people. */
void tx_run_print(const struct tx_run *run);

/** The same. Owned by the caller, who may add to it. */
json_t *tx_run_to_json(const struct tx_run *run);

/** NULL handle is fine. */
void tx_run_close(struct tx_run *run);

#endif
