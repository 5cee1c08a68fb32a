// SPDX-License-Identifier: Apache-2.0
/* What `ibvcap reload` and `ibvcap stream` share: a request to change the running daemon's configuration. */
#ifndef TOOLS_IBVCAP_RECONFIGURE_H
#define TOOLS_IBVCAP_RECONFIGURE_H

#include <ibvcap/ibvcap.h>
#include <stdbool.h>

/**
 * Parse the options that both have, -s and -h. -1: go on with the words from optind on, which are n_words, or more if
 * or_more is set; otherwise the exit code.
 */
int reconfigure_parse(int argc, char **argv, const char *usage, int n_words, bool or_more, const char **socket);

/** Send the request, wait for the answer, and print it. Returns the exit code. */
int reconfigure_daemon(const char *command, const char *socket, enum ibvcap_reconfigure what, const char *name,
                       const char *text);

#endif
