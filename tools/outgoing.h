// SPDX-License-Identifier: Apache-2.0
/* What `ibvcap send` and `ibvcap replay` share: a channel, rows to fill in turn, lines of progress, and the sum. */
#ifndef TOOLS_OUTGOING_H
#define TOOLS_OUTGOING_H

#include "tools/timing.h"

#include <ibvcap/ibvcap.h>
#include <jansson.h>

#define OUTGOING_REASONS 7

struct outgoing_options {
	const char *command; /* for messages: "send", "replay" */
	const char *channel;
	const char *socket;
	uint64_t destination;
	bool drop_late;
	bool json;
};

struct outgoing {
	struct outgoing_options options;
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
	uint64_t reasons[OUTGOING_REASONS]; /* of packets that were not sent */
};

struct outgoing_row {
	uint8_t *payload; /* info.slot_bytes */
	struct ibvcap_tx_descriptor *packet;
};

/** One of the options that both have: -s, -L, -d, -j, -h; of any other the usage is said. -1: go on; else the exit code. */
int outgoing_parse_option(int option, const char *usage, struct outgoing_options *options);

/** EX_OK, or an exit code: said why. INT and TERM are this one's from here on. */
int outgoing_open(struct outgoing *outgoing, const struct outgoing_options *options);

/** Has INT or TERM come? */
bool outgoing_is_stopped(void);

/** The start: UTC, to count the times of packets from. Soon, so that there is time to submit the first ones. */
uint64_t outgoing_start(struct outgoing *outgoing);

/** Since the start. */
uint64_t outgoing_elapsed_ns(const struct outgoing *outgoing);

/**
 * A row for the next packet, its destination and flags preset; not_before_ns: its time, 0: none. Waits for room, and
 * until it is worth submitting something of that time. What was filled before may be submitted now. 0; -EINTR: stopped;
 * else the library's error.
 */
int outgoing_row(struct outgoing *outgoing, uint64_t not_before_ns, struct outgoing_row *row);

/** The row is written, and its packet's length. */
void outgoing_add(struct outgoing *outgoing);

/** Submit what was added: the next row may be long in coming. 0 or as outgoing_row(). */
int outgoing_push(struct outgoing *outgoing);

/** Progress, and the fate of packets; to be called again and again where nothing else is. */
void outgoing_tick(struct outgoing *outgoing);

/**
 * The end of all rows, r as the last call said (0, -EINTR or an error): wait until all is sent, or a while after a signal.
 * Says on stderr what went wrong. The exit code: 0, 1: something was not sent, or what stands for an error.
 */
int outgoing_finish(struct outgoing *outgoing, int r);

/** The sum and the timing, for people. */
void outgoing_print(const struct outgoing *outgoing);

/** The same. Owned by the caller, who may add to it. */
json_t *outgoing_to_json(const struct outgoing *outgoing);

/** NULL handle is fine. */
void outgoing_close(struct outgoing *outgoing);

#endif
