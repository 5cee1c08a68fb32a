// SPDX-License-Identifier: Apache-2.0
/*
 * Packet pacing of a send queue: no faster than the rate, ever, but for the burst that the program
 * allows. Frames that waited are caught up with when the device thread comes late; a queue that
 * had nothing to send saves up nothing.
 */
#ifndef SOFTHCA_DEVICE_PACING_H
#define SOFTHCA_DEVICE_PACING_H

#include <stdbool.h>
#include <stdint.h>

struct pacing {
	uint32_t rate_kbps; /* 0: unlimited */
	uint32_t max_burst_bytes;
	uint16_t packet_bytes; /* as the program expects them; of no effect */
	uint64_t due_ns;       /* when the frames sent so far have taken their time */
	bool waiting;          /* a frame had to wait: its schedule goes on from due_ns */
};

void pacing_set(struct pacing *p, uint32_t rate_kbps, uint32_t max_burst_bytes, uint16_t packet_bytes);
bool pacing_is_equal(const struct pacing *a, const struct pacing *b);

/* May the next frame go? Then pacing_sent() says how long it was. */
bool pacing_may_send(struct pacing *p, uint64_t now_ns);
void pacing_sent(struct pacing *p, uint32_t bytes);
/* The queue is empty. */
static inline void pacing_idle(struct pacing *p)
{
	p->waiting = false;
}

#endif
