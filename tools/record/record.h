// SPDX-License-Identifier: Apache-2.0
/*
 * Shared by the parts of `ibvcap record`: the command line, and the loss sums. Declares account.c, record_streams.c,
 * trigger.c.
 */
#ifndef TOOLS_RECORD_RECORD_H
#define TOOLS_RECORD_RECORD_H

#include "lib/recording/account_json.h"
#include "tools/record/file_window.h"

#include <ibvcap/ibvcap.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#define RECORD_SOURCES_MAX 64 /* queues of all streams of a recording */

/* ---- what makes a flight recorder write a file --------------------------------------------------- */

#define TRIGGER_TEXT_BYTES 160

/* As on the command line. All zero: none. */
struct trigger_kinds {
	bool signal; /* SIGUSR2 */
	bool loss;
	const char *command;        /* its end; NULL: none */
	struct sockaddr_in message; /* where a UDP message may come; port 0: nowhere */
};

/* Triggers that came since the last file began. */
struct trigger_window {
	uint64_t first_ns; /* UTC; 0: none came */
	uint64_t last_ns;
	char text[TRIGGER_TEXT_BYTES];
};

struct triggers {
	struct trigger_kinds kinds;
	const char *socket; /* path of the daemon's socket */
	char **streams;
	unsigned n_streams;
	int message_fd;                 /* -1: none */
	struct trigger_window messages; /* messages that have no file yet */
	uint64_t messages_until_ns;     /* CLOCK_MONOTONIC: when the bucket of their files is empty */
	int process_fd;                 /* of the command; -1: none */
	pid_t pid;
	int code; /* EX_OK, or of a command that ended as if the shell had not found one */
	uint64_t looked_ns;
	/* From the daemon's last answer: */
	uint64_t lost;
	uint64_t lost_ns; /* when the daemon had read it; 0: not yet */
	uint64_t epochs;
	bool is_daemon_gone;
};

/** Add a kind: "signal", "loss", "exit:COMMAND" or "udp:[ADDRESS:]PORT". False: text is none of these. */
bool trigger_parse(const char *text, struct trigger_kinds *kinds);

/**
 * Begin to listen, and run the command. Fill in kinds, socket, streams and n_streams before. An exit code. Until the
 * command ends, SIGCHLD is not ignored.
 */
int triggers_open(struct triggers *triggers);
void triggers_close(struct triggers *triggers);

/** Can another one come? The command ends once. */
bool triggers_can_come(const struct triggers *triggers);

/** Wait for a trigger. False: the program is to end. */
bool triggers_wait(struct triggers *triggers, struct trigger_window *window);

/* ---- the command line ---------------------------------------------------------------------------- */

enum record_policy {
	RECORD_POLICY_AUTO, /* lossless if the stream permits it */
	RECORD_POLICY_LOSSY,
	RECORD_POLICY_LOSSLESS,
};

struct record_options {
	char **streams;
	unsigned n_streams;
	const char *socket;
	const char *path;    /* "-": standard output */
	const char *command; /* after each file; NULL */
	const char *filter;  /* pcap-filter(7); NULL: all packets */
	struct row_filter *row_filter;
	const char *sequence_path;
	struct ibvcap_sequence own_sequence; /* of that file; bytes is 0: the streams' configuration has it */
	uint64_t count;                      /* packets; UINT64_MAX: no end */
	uint64_t duration_ns;
	/* Flight recorder. */
	uint64_t last_ns; /* record only packets of this time back, which the ring still has; 0: no */
	struct trigger_kinds triggers;
	bool has_triggers;
	uint64_t before_ns;
	uint64_t after_ns;
	uint64_t from_ns; /* for a file: UTC of the first packet that is wanted; 0: oldest decides */
	const char *why;  /* for a file: the trigger; NULL: none */
	uint32_t snap_bytes;
	/* Limits of a file, after which a new one begins; UINT64_MAX: none. */
	uint64_t file_bytes;
	uint64_t file_packets;
	uint64_t file_ns;
	bool aligned;        /* file_ns counts from multiples of it since 1970 */
	uint32_t files;      /* how many of the newest files are kept; 0: all */
	uint64_t quota;      /* bytes of all files that are kept; 0: no limit */
	uint32_t disk_limit; /* percent of the file system that may be in use; 0: no limit */
	uint32_t reattach_ms;
	uint64_t buffer_bytes;
	enum record_policy policy;
	int zstd_level; /* 0: not compressed */
	bool raw;
	bool by_flow; /* a file for each flow */
	bool sync;
	bool no_index;
	uint64_t back_ns; /* begin with packets of this time back; 0: no */
	bool oldest;
	bool quiet;  /* no rates */
	bool silent; /* and no summary */
	bool json;
};

#define RECORD_FLOW_TEXT_BYTES 32

/** Record as the options say, and say what became of every packet. Returns the exit code. */
int record_streams(struct record_options *options);

/** Are there several files, or can there be? */
static inline bool record_options_rotate(const struct record_options *options)
{
	return options->file_bytes != UINT64_MAX || options->file_packets != UINT64_MAX ||
	       options->file_ns != UINT64_MAX || options->has_triggers;
}

/** The window of files that the options ask for; not begun. */
struct file_window record_options_window(const struct record_options *options);

/** The rows that the ring had, which is the sum of all terms. */
uint64_t record_sum_published(const struct recording_sum *sum);

/** *sum += *more */
void record_sum_add(struct recording_sum *sum, const struct recording_sum *more);

/** "published 10 = written 9 + …", and the device's drops. Cut off at bytes. */
void record_print_sum(char *text, size_t bytes, const struct recording_account *account);

#endif
