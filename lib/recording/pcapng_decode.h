// SPDX-License-Identifier: Apache-2.0
/* Takes the bodies of pcapng blocks apart. For files of this room only. Pure. */
#ifndef LIB_RECORDING_PCAPNG_DECODE_H
#define LIB_RECORDING_PCAPNG_DECODE_H

#include "lib/recording/pcapng_read.h"

/* The bytes between the two lengths of a block, and the state of its section. */
struct decode_body {
	const uint8_t *at;
	size_t bytes; /* a multiple of 4 */
	bool is_swapped;
	const struct pcapng_clock *clocks;
	uint32_t n_interfaces;
};

static inline uint32_t decode_u32(const uint8_t *at, bool is_swapped)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return is_swapped ? __builtin_bswap32(value) : value;
}

/*
 * False: the body is too short, or a length in it leads outside of it. The structs are zeroed before. If the interface
 * is none of the section, nothing but its number is set.
 */
bool decode_section(const struct decode_body *body, struct pcapng_section *section);
bool decode_interface(const struct decode_body *body, struct pcapng_interface *interface, struct pcapng_clock *clock);
bool decode_packet(const struct decode_body *body, struct pcapng_packet *packet);
bool decode_old_packet(const struct decode_body *body, struct pcapng_packet *packet);
bool decode_simple_packet(const struct decode_body *body, struct pcapng_packet *packet);
bool decode_statistics(const struct decode_body *body, struct pcapng_statistics *statistics);

#endif
