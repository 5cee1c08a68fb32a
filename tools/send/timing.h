// SPDX-License-Identifier: Apache-2.0
/*
 * The send times of packets, in ns from the start, so that neither rounding nor delays add up; and the account of how
 * well they were kept. Pure.
 */
#ifndef TOOLS_SEND_TIMING_H
#define TOOLS_SEND_TIMING_H

#include <stdbool.h>
#include <stdint.h>

/** The send time of packet number, counted from 0, at rate_pps. */
static inline uint64_t timing_at_rate(uint64_t number, uint64_t rate_pps)
{
	return (uint64_t)((unsigned __int128)number * 1000000000 / rate_pps);
}

/* ---- a capture's own times ------------------------------------------------------------------------ */

/* Zero-initialise it, and set speed. */
struct timing_capture {
	double speed;           /* times as fast as recorded */
	uint64_t max_gap_ns;    /* the longest time between two packets, as they are sent; 0: no limit */
	uint64_t loop_delay_ns; /* between two passes; 0: the mean distance of two packets */
	uint64_t shortened;     /* gaps that were longer */
	uint64_t backwards;     /* packets with a time before that of an earlier packet: they leave right behind it */
	/* of the current pass, in times of the capture: */
	uint64_t pass_packets;
	uint64_t pass_first_ns;
	uint64_t pass_last_ns;  /* the latest */
	uint64_t pass_cut_ns;   /* left out of gaps that were too long */
	uint64_t pass_start_ns; /* duration of all earlier passes */
};

/** The send time of a packet that was recorded at time_ns. 0; -ERANGE if that is decades after the first packet. */
int timing_of_packet(struct timing_capture *capture, uint64_t time_ns, uint64_t *offset_ns);

/**
 * Begin the next pass over the same packets. Its first packet follows the last one after the delay, or after the mean
 * distance of two packets. A pass without a duration, for example one of a single packet, then takes a second.
 */
void timing_next_pass(struct timing_capture *capture);

/* ---- how well it was kept -------------------------------------------------------------------------- */

/* The mean lateness of packets in the first and in the last window of 0.1 s or more. Zero-initialise it. */
struct timing_drift {
	uint64_t from_ns;
	uint64_t from_packets;
	uint64_t from_lateness_ns;
	uint32_t n_windows;
	double first_mean_ns;
	double last_mean_ns;
};

/** Add a sample, often and from the start on: the packets that have left so far, and the sum of their lateness. */
void timing_drift_add(struct timing_drift *drift, uint64_t now_ns, uint64_t packets, uint64_t lateness_ns);

/** How much the mean lateness grew from the first to the last window. False if there are no two windows. */
bool timing_drift_of(const struct timing_drift *drift, double *ns);

#endif
