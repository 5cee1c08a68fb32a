// SPDX-License-Identifier: Apache-2.0
/* What `ibvcap reload` and `ibvcap stream` share: a request that changes the running daemon's configuration. */
#ifndef TOOLS_RECONFIGURE_RECONFIGURE_H
#define TOOLS_RECONFIGURE_RECONFIGURE_H

#include <ibvcap/ibvcap.h>

/** Send the request, wait for the answer, and print it. name and text as for ibvcap_reconfigure(). The exit code. */
int reconfigure_daemon(const char *command, const char *socket, enum ibvcap_reconfigure what, const char *name,
                       const char *text);

#endif
