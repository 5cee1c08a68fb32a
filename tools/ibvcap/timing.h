// SPDX-License-Identifier: Apache-2.0
/*
 * When packets are to leave, counted in ns from the start, so that no rounding and no delay adds up; and how well
 * that was kept. Pure.
 */
#ifndef TOOLS_IBVCAP_TIMING_H
#define TOOLS_IBVCAP_TIMING_H

#include <stdbool.h>
#include <stdint.h>

/** Of packet number (from 0) at so many packets a second. */
static inline uint64_t timing_at_rate(uint64_t number, uint64_t rate_pps)
{
	return (uint64_t)((unsigned __int128)number * 1000000000 / rate_pps);
}

/* ---- a capture's own times ------------------------------------------------------------------------ */

/* Zero-initialise but for speed. */
struct timing_capture {
	double speed;       /* times as fast as recorded */
	uint64_t backwards; /* packets with a time before another's ahead of them: they leave right behind it */
	/* of the pass under way, in the capture's own time */
	uint64_t pass_packets;
	uint64_t pass_first_ns;
	uint64_t pass_last_ns;  /* the latest */
	uint64_t pass_start_ns; /* how long all passes before it took */
};

/** Of a packet recorded at time_ns. 0, or -ERANGE: decades after the first. */
int timing_of_packet(struct timing_capture *capture, uint64_t time_ns, uint64_t *offset_ns);

/**
 * The same packets again: the first follows the last at the mean distance between two. A pass without a duration, as of
 * a single packet, takes a second.
 */
void timing_next_pass(struct timing_capture *capture);

/* ---- how well it was kept -------------------------------------------------------------------------- */

/* Mean lateness of packets in tenths of a second, or as long as it takes until one leaves. Zero-initialise. */
struct timing_drift {
	uint64_t from_ns;
	uint64_t from_packets;
	uint64_t from_lateness_ns;
	uint32_t n_windows;
	double first_mean_ns;
	double last_mean_ns;
};

/** To be told all the time, from the start on: how many packets left so far, and the sum of their lateness. */
void timing_drift_add(struct timing_drift *drift, uint64_t now_ns, uint64_t packets, uint64_t lateness_ns);

/** By how much it grew from the first to the last. False: that was too short to tell. */
bool timing_drift_of(const struct timing_drift *drift, double *ns);

#endif
