// SPDX-License-Identifier: Apache-2.0
/* What makes a flight recorder write a file. */
#ifndef TOOLS_RECORD_TRIGGER_H
#define TOOLS_RECORD_TRIGGER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

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
	const char *socket; /* of the daemon */
	char **streams;
	unsigned n_streams;
	int message_fd;                 /* -1: none */
	struct trigger_window messages; /* messages that have no file yet */
	uint64_t messages_until_ns;     /* CLOCK_MONOTONIC: when the bucket of their files is empty */
	int process_fd;                 /* of the command; -1: none */
	uint64_t looked_ns;
	/* From the daemon's last answer: */
	uint64_t lost;
	uint64_t lost_ns; /* when the daemon had read it; 0: not yet */
	uint64_t epochs;
	bool is_daemon_gone;
};

/** Add a kind: "signal", "loss", "exit:COMMAND" or "udp:[ADDRESS:]PORT". False: text is none of these. */
bool trigger_parse(const char *text, struct trigger_kinds *kinds);

/** Begin to listen, and run the command. Fill in kinds, socket, streams and n_streams before. An exit code. */
int triggers_open(struct triggers *triggers);
void triggers_close(struct triggers *triggers);

/** Can another one come? The command ends once. */
bool triggers_can_come(const struct triggers *triggers);

/** Wait for a trigger. False: the program is to end. */
bool triggers_wait(struct triggers *triggers, struct trigger_window *window);

#endif
