// SPDX-License-Identifier: Apache-2.0
/*
 * Writes blocks into memory of the caller, in the byte order of this machine and with times in ns. Pure.
 *
 * Each function returns the size of the block, a multiple of 4, and writes nothing if that is more than room. A text
 * that is longer than an option can be is cut off.
 */
#ifndef TOOLS_RECORDING_PCAPNG_WRITE_H
#define TOOLS_RECORDING_PCAPNG_WRITE_H

#include "tools/recording/pcapng.h"

size_t pcapng_write_section(uint8_t *to, size_t room, const struct pcapng_section *section);
size_t pcapng_write_interface(uint8_t *to, size_t room, const struct pcapng_interface *interface);
size_t pcapng_write_packet(uint8_t *to, size_t room, const struct pcapng_packet *packet);
size_t pcapng_write_statistics(uint8_t *to, size_t room, const struct pcapng_statistics *statistics);

#endif
