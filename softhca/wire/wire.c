// SPDX-License-Identifier: Apache-2.0
/* Opens the engine that the configuration names. */
#include "wire.h"

int wire_open(struct wire **wire, const struct wire_config *config)
{
	static wire_opener *const openers[] = {
		[WIRE_AFPACKET] = afpacket_open_v2,
		[WIRE_AFPACKET_THROUGHPUT] = afpacket_open_v3,
		[WIRE_GENERATOR] = generator_open,
	};

	return openers[config->engine](wire, config);
}
