// SPDX-License-Identifier: Apache-2.0
/* A status as text, for people. */
#ifndef TOOLS_STATUS_STATUS_PRINT_H
#define TOOLS_STATUS_STATUS_PRINT_H

#include "tools/status/status_view.h"

/** Print streams, channels, clients and interfaces, with the sums that account for every packet. */
void status_print(const struct status_view *view);

#endif
