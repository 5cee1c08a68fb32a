// SPDX-License-Identifier: Apache-2.0
/*
 * The command line and the totals of `ibvcap recv` and `ibvcap check`, and the functions that print them. Declares
 * latency.c, recv_print.c, recv_run.c.
 */
#ifndef TOOLS_RECEIVE_RECV_H
#define TOOLS_RECEIVE_RECV_H

#include "lib/recording/verdict.h"
#include "tools/common/report.h"

#include <ibvcap/ibvcap.h>
#include <jansson.h>
#include <stdint.h>

struct recv_options {
	const char *command; /* "recv" or "check" */
	const char *stream;
	const char *socket;
	const char *payload_out;
	struct ibvcap_rx_options attach;
	uint64_t packets_back; /* to begin so many packets back, or so many ns; 0: no */
	uint64_t ns_back;
	uint64_t count;       /* packets; UINT64_MAX = no end */
	uint64_t duration_ns; /* UINT64_MAX = no end */
	uint64_t dump;        /* packets still to be printed */
	int cpu;              /* to run on; -1: any */
	bool verify;
	bool latency;
	bool busy; /* poll, and never sleep */
	bool utc;
	bool json;
	bool sequence;    /* track the packets' own numbers */
	uint64_t sources; /* that are printed at most */
	const char *sequence_path;
	struct ibvcap_sequence own_sequence; /* of that file; bytes is 0: the stream's configuration has it */
	bool check;                          /* exit 1 if not all came */
};

#define RECV_OPTIONS_INIT                                                                                           \
	{                                                                                                           \
		.command = "recv", .attach = {.size = sizeof(struct ibvcap_rx_options), .queue = IBVCAP_QUEUE_ALL}, \
		.count = UINT64_MAX, .duration_ns = UINT64_MAX, .sources = REPORT_SOURCES, .cpu = -1                \
	}

#define RECV_FLAGS          10 /* of enum ibvcap_packet_flag */
#define RECV_FLAG_TRUNCATED 1  /* the bit of IBVCAP_PACKET_FLAG_TRUNCATED */
#define RECV_FLAG_FRAGMENT  3  /* the bit of IBVCAP_PACKET_FLAG_FRAGMENT */
#define RECV_FLAG_ERROR     5  /* the bit of IBVCAP_PACKET_FLAG_ERROR */
#define RECV_FLAG_MALFORMED 8  /* the bit of IBVCAP_PACKET_FLAG_MALFORMED */

/* Rows that were received, and their payload bytes. A gap is a run of skipped packets. */
struct recv_totals {
	uint64_t packets;
	uint64_t bytes;
	uint64_t gaps;
	uint64_t skipped;
	uint64_t flagged[RECV_FLAGS]; /* by bit of flags */
};

/* What --verify finds: the numbers of payloads that are intact, and how many are not. */
struct recv_pattern {
	struct ibvcap_tracker *numbers; /* NULL without --verify */
	uint64_t corrupt;     /* payloads that differ from the pattern; if none is intact, perhaps of another sender */
	uint64_t number_only; /* intact ones of 8 bytes: any 8 bytes are */
};

/* What is known at the end. */
struct recv_summary {
	const struct recv_options *options;
	const struct recv_totals *totals;
	const struct recv_pattern *pattern;
	const struct latency *latency;        /* NULL without --latency */
	const struct ibvcap_tracker *tracker; /* NULL without --sequence */
	struct ibvcap_rx_counts counts;
	struct ibvcap_rx_info info;
	struct ibvcap_rx_account account; /* all 0: a tap has none */
	struct verdict verdict;           /* of the packets that the stream got */
	double seconds;
};

/** Print one row: its number, timestamp (with utc as date and time) and flags, and the bytes as hexdump -C does. */
void recv_dump(const struct ibvcap_rx_batch *batch, uint32_t i, bool utc);

/**
 * Say on standard error what the batch tells of the time before it, if the daemon was restarted or has demoted this
 * consumer. last_row_ns: the timestamp of the row before, 0: there was none.
 */
void recv_tell(const struct recv_options *options, const struct ibvcap_rx_batch *batch, uint64_t last_row_ns);

/** Say on standard error which queues have failed since the last call; *told is for this function. */
void recv_tell_failed(const struct recv_options *options, const struct ibvcap_rx *rx, uint32_t *told);

/** Say on standard error that the daemon has ended, once for each search for its next run; *told likewise. */
void recv_tell_away(const struct recv_options *options, const struct ibvcap_rx *rx, bool *told);

/** Print the rates of one interval: now and before are the totals at its end and at its beginning. */
void recv_print_rate(double seconds, double interval, const struct recv_totals *now, const struct recv_totals *before);

/** Print the totals, published = delivered + skipped + lag, and the accounts of pattern and latency. */
void recv_print_summary(const struct recv_summary *summary);

/** Receive until the end that the options say; then print the summary. Returns the exit code. */
int recv_run(const struct recv_options *options);

/** 0 or -ENOMEM. */
int recv_pattern_init(struct recv_pattern *pattern);
void recv_pattern_deinit(struct recv_pattern *pattern);

/** Check a payload; each, in the order in which they came. */
void recv_pattern_add(struct recv_pattern *pattern, const uint8_t *payload, size_t bytes);

/*
 * The times from packets' timestamps until a program had them, in a histogram whose buckets grow with the time: each is
 * at most 1/32 of its lower bound wide.
 */
#define LATENCY_BUCKETS (60u * 32u) /* for all of u64 */

/* Zero-initialise it. */
struct latency {
	uint64_t packets;
	uint64_t early; /* of these: seen before their timestamp; they count as 0 ns */
	uint64_t early_max_ns;
	uint64_t max_ns;
	uint64_t buckets[LATENCY_BUCKETS];
};

/** Count a packet with a timestamp that was seen at seen_ns, both in the same clock. */
void latency_add(struct latency *latency, uint64_t timestamp_ns, uint64_t seen_ns);

/** The time that this share of the packets took at most, rounded up to the end of its bucket; 0 without packets. */
uint64_t latency_permille_ns(const struct latency *latency, uint32_t permille);

#endif
