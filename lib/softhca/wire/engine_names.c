// SPDX-License-Identifier: Apache-2.0
/* Apart from the engines, for who only wants to know what there is. */
#include "wire.h"

const char *const wire_engine_names[] = {
	[WIRE_AFPACKET] = "afpacket", [WIRE_AFPACKET_THROUGHPUT] = "afpacket-throughput",
	[WIRE_MEMORY] = "memory",     [WIRE_GENERATOR] = "generator",
	[WIRE_GENERATOR + 1] = NULL,
};
