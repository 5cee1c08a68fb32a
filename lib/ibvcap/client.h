// SPDX-License-Identifier: Apache-2.0
/* The library's end of the control socket. Every failure leaves a line in error.h. */
#ifndef IBVCAP_CLIENT_H
#define IBVCAP_CLIENT_H

#include "lib/ibvcap/protocol.h"

struct client {
	int socket;           /* -1 = closed */
	uint64_t deadline_ns; /* CLOCK_MONOTONIC, of the whole conversation */
	const char *path;     /* for the error text; the environment's or the caller's */
};

#define CLIENT_INIT          \
	{                    \
		.socket = -1 \
	}

/** ns of CLOCK_MONOTONIC. */
uint64_t client_now_ns(void);

/**
 * Connect; path NULL: IBVCAP_SOCKET of the environment, else the default. timeout_ms 0 = 5000. Errors as of
 * ibvcap_rx_open().
 */
int client_connect(struct client *client, const char *path, uint32_t timeout_ms);

int client_send(struct client *client, const struct protocol_header *request);

/**
 * The next message of the answer: 0 and the message, of that type or another. A PROTOCOL_ERROR is an error: its errno
 * and text. fds, n_fds as in protocol_recv(). -ETIMEDOUT, -ECONNREFUSED the daemon hung up, -EPROTO.
 */
int client_receive(struct client *client, union protocol_message *message, int *fds, unsigned *n_fds);

void client_deinit(struct client *client);

#endif
