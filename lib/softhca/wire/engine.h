// SPDX-License-Identifier: Apache-2.0
/* The functions that open an engine, as wire_open() does. Only wire.c uses them. */
#ifndef SOFTHCA_WIRE_ENGINE_H
#define SOFTHCA_WIRE_ENGINE_H

#include "wire.h"

typedef int wire_opener(struct wire **wire, const struct wire_config *config);

wire_opener afpacket_open_v2, afpacket_open_v3, memory_wire_open, generator_open;

#endif
