// SPDX-License-Identifier: Apache-2.0
/*
 * The JSON by which a recording tells programs what it lacks: the account of one source (a queue of a stream) in one
 * file, and the losses before a packet. In a pcapng file these are lines of comments, of the interface's statistics and
 * of the packet. Beside rows of --raw they are members of FILE.json. Declares sequence_json.c.
 */
#ifndef LIB_RECORDING_ACCOUNT_JSON_H
#define LIB_RECORDING_ACCOUNT_JSON_H

#include "lib/status/counters.h"

#include <ibvcap/ibvcap.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORDING_ACCOUNT_NO_FLOW   (-1)
#define RECORDING_ACCOUNT_TEXT_SIZE 2048 /* more than an account takes as compact JSON, with its NUL */
#define RECORDING_LOSSES_TEXT_SIZE  256  /* likewise */

/* An end of a file: between two packets of the source. */
struct recording_account_end {
	uint64_t utc_ns;
	uint64_t epoch;    /* the daemon's; 0: it was away */
	uint64_t sequence; /* the next packet's, in that epoch */
};

/*
 * The packets of one source since the recording began, or in one file, by their fate:
 *   published = written + other_files + filtered + unwritten + errored + skipped + disk_wait + lag, exactly.
 */
struct recording_sum {
	uint64_t written;
	uint64_t other_files; /* of one file by flow: packets of other flows, which other files have */
	uint64_t filtered;    /* left out, because the filter does not take them */
	uint64_t unwritten;   /* read from the ring, but the file could not take them */
	uint64_t errored;     /* rows that the device marked as failed */
	uint64_t skipped;     /* the ring reused their block before they were read: the recorder was too slow */
	uint64_t disk_wait;   /* the ring reused their block before they were read: the disk was too slow */
	uint64_t lag;         /* still in the ring when the recording ended */
	uint64_t pieces;      /* of written: IP fragments, each a part of a datagram whose other parts may be lost */
	uint64_t malformed;   /* of written: packets of which a socket gets nothing */
};

struct recording_account {
	uint64_t recording; /* random, one number for each run of the recorder */
	uint64_t file;      /* 0, 1, 2 … within the recording, or within the flow of the recording */
	int32_t flow;       /* the only one in the file; RECORDING_ACCOUNT_NO_FLOW: packets of all flows */
	char stream[IBVCAP_STREAM_NAME_MAX];
	uint32_t queue;
	uint32_t n_queues; /* queues of the stream that the recording has */
	struct recording_account_end from;
	struct recording_account_end until;
	struct recording_sum sum;
	/*
	 * What the library knows of the packets that never were in the ring, and why it does not know all. The card's
	 * losses are those of the stream: of its queues' accounts one has them. A file has no times, delivered,
	 * skipped and missing.
	 */
	struct ibvcap_rx_account rx;
	bool is_last; /* the recording ended with this file */
};

/* Packets that are missing before a packet, by cause. */
struct recording_losses {
	uint64_t n[RECORDING_CAUSE_N];
	uint64_t no_buffer_since_ns; /* UTC: until then the daemon had counted none of no_buffer; 0: not known */
};

/** Packets that are certainly missing in the file. */
uint64_t recording_account_missing(const struct recording_account *account);

/** The verdict of one account. */
enum ibvcap_verdict recording_account_verdict(const struct recording_account *account);

/** The reasons why losses are unknown, of all accounts. */
uint32_t recording_accounts_unknown(const struct recording_account *accounts, unsigned n);

/** As a JSON object, which the caller frees. NULL: out of memory. */
json_t *recording_account_to_json(const struct recording_account *account);

/**
 * The other way. Unknown members are ignored. False: a member is absent, of another type or out of its range, the
 * version is another one, or the verdict is not that of the numbers.
 */
bool recording_account_from_json(const json_t *json, struct recording_account *account);

/** Put the account's line behind the text, from a new line on. False: no memory, or less than
 * RECORDING_ACCOUNT_TEXT_SIZE bytes of room. */
bool recording_account_append(char *text, size_t bytes, const struct recording_account *account);

/** Put the causes into a JSON object, without those that took nothing. */
void recording_losses_to_json(const struct recording_losses *losses, json_t *json);

/** Put the line of losses behind the text, from a new line on. False: no memory, or less than
 * RECORDING_LOSSES_TEXT_SIZE bytes of room. */
bool recording_losses_append(char *text, size_t bytes, const struct recording_losses *losses);

/** *sum += *more */
void recording_losses_add(struct recording_losses *sum, const struct recording_losses *more);

/**
 * Find the line of losses in the comment of a packet, which has no closing NUL. *for_people: the number of bytes ahead
 * of the line. False: the comment has no valid line, and *for_people is bytes.
 */
bool recording_losses_find(const char *comment, size_t bytes, struct recording_losses *losses, size_t *for_people);

/** Find the account's line in a comment, which has no closing NUL. False: there is none, or it is not valid. */
bool recording_account_find(const char *comment, size_t bytes, struct recording_account *account);

/* ---- where packets have their own number, with the keys of ibvcapd.conf(5), SEQUENCE ------------- */

/** As a JSON object, which the caller frees. has_frames: the offsets count from the frame, not from the payload. */
json_t *sequence_to_json(const struct ibvcap_sequence *sequence, bool has_frames);

/**
 * The other way. False: it is none. Whether a tracker can take the description, ibvcap_tracker_new() says.
 */
bool sequence_from_json(const json_t *json, struct ibvcap_sequence *sequence, bool *has_frames);

/** The same of the comment of an interface, which has no closing NUL. False: it has no description. */
bool sequence_from_comment(const char *comment, size_t bytes, struct ibvcap_sequence *sequence, bool *has_frames);

#endif
