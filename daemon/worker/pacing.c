// SPDX-License-Identifier: Apache-2.0
/* Sets up a pacing schedule. */
#include "daemon/worker/pacing.h"

/* About as long as other threads may delay a worker on a shared core, and no more than a switch can buffer. */
#define BURST_NS_DEFAULT    UINT64_C(1000000)
#define BURST_BYTES_DEFAULT 1048576u

void pacing_init(struct pacing *pacing, uint64_t rate_bps, uint32_t burst_bytes)
{
	*pacing = (struct pacing){.rate_bps = rate_bps < PACING_RATE_MAX_BPS ? rate_bps : PACING_RATE_MAX_BPS};
	if (pacing->rate_bps == 0)
		return;
	pacing->burst_ns = (uint64_t)((unsigned __int128)(burst_bytes ? burst_bytes : BURST_BYTES_DEFAULT) *
	                              UINT64_C(8000000000) / pacing->rate_bps);
	if (burst_bytes == 0 && pacing->burst_ns > BURST_NS_DEFAULT)
		pacing->burst_ns = BURST_NS_DEFAULT;
}
