// SPDX-License-Identifier: Apache-2.0
/* The library's end of the control socket. Every failure sets the text of error.h. Declares client_explain.c. */
#ifndef IBVCAP_CLIENT_H
#define IBVCAP_CLIENT_H

#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/protocol.h"

struct client {
	int socket;           /* -1 = closed */
	uint64_t deadline_ns; /* CLOCK_MONOTONIC, for all requests and answers together */
	const char *path;     /* for error texts; the caller's or the environment's string */
};

#define CLIENT_INIT          \
	{                    \
		.socket = -1 \
	}

/** Until that time, rounded up; 0: it is over. */
int client_ms_until(uint64_t deadline_ns);

/**
 * Connect. path NULL: IBVCAP_SOCKET of the environment, else the default. timeout_ms 0 = 5000. Errors of
 * ibvcap_rx_open().
 */
int client_connect(struct client *client, const char *path, uint32_t timeout_ms);

/** The socket's path: path, or if it is NULL, of the environment, else the default. */
const char *client_path(const char *path);

int client_send(struct client *client, const struct protocol_header *request);

/** The same with a descriptor, which stays open. */
int client_send_descriptor(struct client *client, const struct protocol_header *request, int fd);

/**
 * Receive the next message of the answer. 0 and a message of any type but PROTOCOL_ERROR, which becomes an error with
 * its errno and text. fds, n_fds as in protocol_recv(). -ETIMEDOUT, -ECONNREFUSED the daemon hung up, -EPROTO.
 */
int client_receive(struct client *client, union protocol_message *message, int *fds, unsigned *n_fds);

/**
 * Receive an answer of that type with n_fds descriptors. Errors of client_receive(). -EPROTO: another message came,
 * which is no answer to the request: "an attach".
 */
int client_receive_answer(struct client *client, union protocol_message *message, enum protocol_type type, int *fds,
                          unsigned n_fds, const char *request);

/* ---- client_explain.c -------------------------------------------------------------------------------- */

/** connect() failed. May ask a directory service for names, if the kernel refused this user. */
int client_explain_connect(const char *path, int error);

/** No answer came over the connected socket: -ETIMEDOUT, -EPROTO, another -errno, or 0: the daemon hung up. */
int client_explain_lost(int socket, const char *path, int error);

#endif
