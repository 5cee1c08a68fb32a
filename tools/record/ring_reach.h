// SPDX-License-Identifier: Apache-2.0
/* How far the past goes back that the rings of streams have. */
#ifndef TOOLS_RECORD_RING_REACH_H
#define TOOLS_RECORD_RING_REACH_H

#include "tools/record/record.h"

/**
 * Look into the ring of each queue of the streams: print its reach, and warn if wanted_ns is more than it has room for
 * at the rate of now. option names what asks for wanted_ns. An exit code.
 */
int ring_reach_print(const struct record_options *options, uint64_t wanted_ns, const char *option);

#endif
