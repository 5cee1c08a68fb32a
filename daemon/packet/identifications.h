// SPDX-License-Identifier: Apache-2.0
/*
 * Identifications of datagrams that are sent in fragments. A receiver joins fragments by source, destination and
 * identification, so all channels with the same addresses take theirs from one counter. Counters start at random
 * (RFC 7739): what an earlier run of the daemon, or the kernel, sends with these addresses has others, most likely.
 *
 * The counters are a table, and a hash of the addresses says which one is theirs. Addresses that share a counter lose
 * nothing but identifications. IPv4 has 16 bits of them: they repeat after 65,536 datagrams (RFC 4963).
 */
#ifndef DAEMON_PACKET_IDENTIFICATIONS_H
#define DAEMON_PACKET_IDENTIFICATIONS_H

#include <stdint.h>

struct identifications;

/** 0 or -errno. */
int identifications_new(struct identifications **identifications);
/** No worker may take an identification any more. NULL is fine. */
void identifications_free(struct identifications *identifications);

/** The counter of two addresses of 4 or 16 bytes each. */
_Atomic uint32_t *identifications_find(struct identifications *identifications, const uint8_t *source,
                                       const uint8_t *destination, uint32_t address_bytes);

#endif
