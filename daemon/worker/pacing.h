// SPDX-License-Identifier: Apache-2.0
/*
 * A token bucket as a schedule in absolute time: each packet moves the time at which the next packet may leave by the
 * time that it takes at the rate. The remainder of the division is kept, so rounding never adds up. The schedule lags
 * behind now by the time of a burst at most: in any time t at most rate · t + burst + one packet leave, and a worker
 * that is late by less than the burst catches up. Pure.
 */
#ifndef DAEMON_WORKER_PACING_H
#define DAEMON_WORKER_PACING_H

#include <stdbool.h>
#include <stdint.h>

#define PACING_RATE_MAX_BPS UINT64_C(1000000000000)

struct pacing {
	uint64_t rate_bps; /* 0: not limited */
	uint64_t burst_ns;
	uint64_t due_ns; /* of the next packet */
	uint64_t rest;   /* to be added to due_ns, in 1 / rate_bps of a ns */
};

/** Bytes of an Ethernet frame that a rate counts: with padding and FCS, without preamble and gap. */
static inline uint32_t pacing_frame_bytes(uint32_t bytes)
{
	return (bytes < 60 ? 60 : bytes) + 4;
}

/** rate_bps at most PACING_RATE_MAX_BPS. burst_bytes 0: 1 ms, at most 1 MiB. */
void pacing_init(struct pacing *pacing, uint64_t rate_bps, uint32_t burst_bytes);

/** May the next packet leave? Moves a schedule that lags by more than a burst forward. */
static inline bool pacing_may_leave(struct pacing *pacing, uint64_t now_ns)
{
	if (pacing->rate_bps == 0)
		return true;
	if (pacing->due_ns + pacing->burst_ns < now_ns) {
		pacing->due_ns = now_ns - pacing->burst_ns;
		pacing->rest = 0;
	}
	return pacing->due_ns <= now_ns;
}

/** A packet of so many bytes, FCS included, leaves. */
static inline void pacing_charge(struct pacing *pacing, uint32_t frame_bytes)
{
	if (pacing->rate_bps == 0)
		return;
	/* At most 2^17 · 8e9 + 1e12: far from overflow. */
	uint64_t cost = (uint64_t)frame_bytes * UINT64_C(8000000000) + pacing->rest;

	pacing->due_ns += cost / pacing->rate_bps;
	pacing->rest = cost % pacing->rate_bps;
}

#endif
