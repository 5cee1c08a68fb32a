// SPDX-License-Identifier: Apache-2.0
/* How much of a ring one user's consumers may hold together. Control thread only. */
#ifndef DAEMON_CONTROL_QUOTA_H
#define DAEMON_CONTROL_QUOTA_H

#include "daemon/control/rights.h"

#include <stdbool.h>
#include <stddef.h>

struct rx_endpoint;

#define QUOTA_KEPT_MAX 192

/** Of its consumers some have left and keep their pages: text says so and who; else it is empty. Returns text. */
const char *quota_explain_kept(const struct rx_endpoint *endpoint, char *text, size_t bytes);

/** Would one more consumer with so many lease blocks be too much for this user? Then text says why and who can help. */
bool quota_forbids(const struct rx_endpoint *endpoint, const struct peer *peer, uint32_t lease_blocks, char *text,
                   size_t bytes);

#endif
