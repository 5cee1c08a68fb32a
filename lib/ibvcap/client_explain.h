// SPDX-License-Identifier: Apache-2.0
/* What a failure at the control socket means and what helps. Each function sets the error text and returns -errno. */
#ifndef IBVCAP_CLIENT_EXPLAIN_H
#define IBVCAP_CLIENT_EXPLAIN_H

/** connect() failed. May ask a directory service for names, if the kernel refused this user. */
int client_explain_connect(const char *path, int error);

/** No answer came over the connected socket: -ETIMEDOUT, -EPROTO, another -errno, or 0: the daemon hung up. */
int client_explain_lost(int socket, const char *path, int error);

#endif
