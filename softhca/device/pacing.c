// SPDX-License-Identifier: Apache-2.0
/* Packet pacing of a send queue: computes when the next frame is due. */
#include "pacing.h"

/* A device thread that is later than this does not catch up with the rest of its delay. */
#define MAX_CATCH_UP_NS 1000000u

static uint64_t pacing_time_of(const struct pacing *p, uint64_t bytes)
{
	return bytes * 8000000u / p->rate_kbps;
}

void pacing_set(struct pacing *p, uint32_t rate_kbps, uint32_t max_burst_bytes, uint16_t packet_bytes)
{
	*p = (struct pacing){.rate_kbps = rate_kbps, .max_burst_bytes = max_burst_bytes, .packet_bytes = packet_bytes};
}

bool pacing_is_equal(const struct pacing *a, const struct pacing *b)
{
	return a->rate_kbps == b->rate_kbps && a->max_burst_bytes == b->max_burst_bytes &&
	       a->packet_bytes == b->packet_bytes;
}

bool pacing_may_send(struct pacing *p, uint64_t now_ns)
{
	if (!p->rate_kbps)
		return true;
	if (now_ns + pacing_time_of(p, p->max_burst_bytes) < p->due_ns) {
		p->waiting = true;
		return false;
	}
	if (now_ns > p->due_ns && !p->waiting)
		p->due_ns = now_ns;
	else if (now_ns > p->due_ns + MAX_CATCH_UP_NS)
		p->due_ns = now_ns - MAX_CATCH_UP_NS;
	return true;
}

void pacing_sent(struct pacing *p, uint32_t bytes)
{
	if (p->rate_kbps)
		p->due_ns += pacing_time_of(p, bytes);
}
