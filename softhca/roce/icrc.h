// SPDX-License-Identifier: Apache-2.0
/*
 * The invariant CRC of a RoCE packet covers the fields that no switch or router changes (IBTA 7.8.1, annexes A16,
 * A17).
 */
#ifndef SOFTHCA_ROCE_ICRC_H
#define SOFTHCA_ROCE_ICRC_H

#include <stdbool.h>
#include <stdint.h>

/* Builds the tables. */
void icrc_init(void);

/* The CRC as it lies in the packet. `l3`: the GRH, or the IP and the UDP header, `l3_bytes` together; `bth`: what
 * follows, up to the CRC. */
uint32_t icrc_of(const uint8_t *l3, uint32_t l3_bytes, bool ipv4, const uint8_t *bth, uint32_t bytes);

#endif
