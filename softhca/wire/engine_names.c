// SPDX-License-Identifier: Apache-2.0
/* The names of the engines. A file of its own, so that the softhca command need not contain the engines. */
#include "wire.h"

const char *const wire_engine_names[] = {
	[WIRE_AFPACKET] = "afpacket",
	[WIRE_AFPACKET_THROUGHPUT] = "afpacket-throughput",
	[WIRE_GENERATOR] = "generator",
	[WIRE_GENERATOR + 1] = NULL,
};
