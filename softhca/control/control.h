// SPDX-License-Identifier: Apache-2.0
/*
 * Answers questions about a running process, by a socket of type SOCK_SEQPACKET with the abstract name "softhca-PID" in
 * the process' network namespace. Only the process' own user and root are answered. A request is one packet of text;
 * the answer is packets whose first byte says what they are (enum trace_kind, enum control_kind), and the end of the
 * connection. Declares objects_report.c, request.c.
 */
#ifndef SOFTHCA_CONTROL_CONTROL_H
#define SOFTHCA_CONTROL_CONTROL_H

#include "../device/device.h"

#define CONTROL_MAX_REQUEST 512
#define CONTROL_MAX_PACKET  (1 + TRACE_PACKET_BYTES)
#define CONTROL_MAX_CLIENTS 8

/* Beside enum trace_kind. */
enum control_kind {
	CONTROL_ERROR = '-', /* what is wrong with the request, or why it is refused */
};

struct control {
	struct device *devices;
	unsigned int n_devices;
	struct trace *trace;
	pthread_mutex_t lock; /* held while the thread is started */
	bool started;
	int listener;                     /* -1: none */
	int clients[CONTROL_MAX_CLIENTS]; /* -1: none */
	int listening;                    /* the one that gets the trace; -1: none */
};

void control_init(struct control *c, struct trace *trace, struct device *devices, unsigned int n_devices);
/* Starts the thread that answers, at the first call; it sleeps until somebody asks, and ends with the process. No
 * effect if there is no socket to be had. */
void control_start(struct control *c);
/* In a forked child: lets go of the parent's sockets. */
void control_forked(struct control *c);

/* Answers a request of `bytes` bytes, which need not end with 0. True if the client gets more later. */
bool control_request(struct control *c, int client, const char *request, size_t bytes);

/* The client that gets the trace has gone. */
void control_stop_trace(struct control *c);

/* Adds the lines of all objects of the process. */
struct lines;
void objects_report(const struct control *c, struct lines *r);

#endif
