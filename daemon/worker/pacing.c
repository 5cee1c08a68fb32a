// SPDX-License-Identifier: Apache-2.0
#include "daemon/worker/pacing.h"

/* Longer than a scheduler takes a worker's core away, as a rule; short beside what a receiver buffers. */
#define BURST_NS_DEFAULT UINT64_C(200000)

void pacing_init(struct pacing *pacing, uint64_t rate_bps, uint32_t burst_bytes)
{
	*pacing = (struct pacing){ .rate_bps = rate_bps < PACING_RATE_MAX_BPS ? rate_bps : PACING_RATE_MAX_BPS };
	if (pacing->rate_bps == 0)
		return;
	pacing->burst_ns = burst_bytes ? burst_bytes * UINT64_C(8000000000) / pacing->rate_bps : BURST_NS_DEFAULT;
}
