// SPDX-License-Identifier: Apache-2.0
/* How far the rings of streams reach back into the past. */
#ifndef TOOLS_RECORD_RING_REACH_H
#define TOOLS_RECORD_RING_REACH_H

#include "tools/record/record.h"

/**
 * Print how far the ring of each queue of the streams reaches back. Warn if the room in a ring lasts for less than
 * wanted_ns at the present rate. option: the option that asks for wanted_ns. An exit code.
 */
int ring_reach_print(const struct record_options *options, uint64_t wanted_ns, const char *option);

#endif
