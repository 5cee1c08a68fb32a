// SPDX-License-Identifier: Apache-2.0
/*
 * Packet pacing of a send queue: never faster than the rate, except for the burst that the program allows. When the
 * device thread comes late, frames that waited are sent faster to catch up. Time in which the queue was empty is not
 * saved up.
 */
#ifndef SOFTHCA_DEVICE_PACING_H
#define SOFTHCA_DEVICE_PACING_H

#include <stdbool.h>
#include <stdint.h>

struct pacing {
	uint32_t rate_kbps; /* 0: unlimited */
	uint32_t max_burst_bytes;
	uint16_t packet_bytes; /* as the program expects them; without effect */
	uint64_t due_ns;       /* when the time of the frames sent so far is over */
	bool waiting;          /* a frame had to wait: the schedule goes on from due_ns */
};

void pacing_set(struct pacing *p, uint32_t rate_kbps, uint32_t max_burst_bytes, uint16_t packet_bytes);
bool pacing_is_equal(const struct pacing *a, const struct pacing *b);

/* May the next frame be sent? If it is, pacing_sent() has to follow with its length. */
bool pacing_may_send(struct pacing *p, uint64_t now_ns);
void pacing_sent(struct pacing *p, uint32_t bytes);
/* To be called when the queue is empty. */
static inline void pacing_idle(struct pacing *p)
{
	p->waiting = false;
}

#endif
