// SPDX-License-Identifier: Apache-2.0
/*
 * The times from packets' timestamps until a program had them, in a histogram whose buckets grow with the time: each is
 * at most 1/32 of its lower bound wide. Pure.
 */
#ifndef TOOLS_RECEIVE_LATENCY_H
#define TOOLS_RECEIVE_LATENCY_H

#include <stdint.h>

#define LATENCY_BUCKETS (60u * 32u) /* for all of u64 */

/* Zero-initialise it. */
struct latency {
	uint64_t packets;
	uint64_t early; /* of these: seen before their timestamp; they count as 0 ns */
	uint64_t early_max_ns;
	uint64_t max_ns;
	uint64_t buckets[LATENCY_BUCKETS];
};

/** Count a packet with a timestamp that was seen at seen_ns, both in the same clock. */
void latency_add(struct latency *latency, uint64_t timestamp_ns, uint64_t seen_ns);

/** The time that this share of the packets took at most, rounded up to the end of its bucket; 0 without packets. */
uint64_t latency_permille_ns(const struct latency *latency, uint32_t permille);

#endif
