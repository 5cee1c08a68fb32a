// SPDX-License-Identifier: Apache-2.0
/* Computes the send times of a capture's packets, and the drift of the times at which packets really left. */
#include "tools/send/timing.h"

#include "lib/base/time.h"

#include <errno.h>

#define WINDOW_NS UINT64_C(100000000)
/* About thirty years. The present time plus this is far below 2^64 ns. */
#define OFFSET_MAX_NS UINT64_C(1000000000000000000)

/* The same time in the capture. */
static uint64_t recorded_time(const struct timing_capture *capture, uint64_t ns)
{
	return capture->speed == 1 ? ns : (uint64_t)((double)ns * capture->speed);
}

static void shorten_gap(struct timing_capture *capture, uint64_t gap_ns)
{
	uint64_t max_ns = recorded_time(capture, capture->max_gap_ns);

	if (!capture->max_gap_ns || gap_ns <= max_ns)
		return;
	capture->pass_cut_ns += gap_ns - max_ns;
	capture->shortened++;
}

int timing_of_packet(struct timing_capture *capture, uint64_t time_ns, uint64_t *offset_ns)
{
	uint64_t recorded_ns;

	if (capture->pass_packets++ == 0)
		capture->pass_first_ns = capture->pass_last_ns = time_ns;
	if (time_ns < capture->pass_last_ns) {
		capture->backwards++;
	} else {
		shorten_gap(capture, time_ns - capture->pass_last_ns);
		capture->pass_last_ns = time_ns;
	}
	recorded_ns = capture->pass_last_ns - capture->pass_first_ns - capture->pass_cut_ns;
	if (recorded_ns > OFFSET_MAX_NS - capture->pass_start_ns)
		return -ERANGE;
	recorded_ns += capture->pass_start_ns;
	if (capture->speed == 1) {
		*offset_ns = recorded_ns;
		return 0;
	}
	if ((double)recorded_ns / capture->speed > (double)OFFSET_MAX_NS)
		return -ERANGE;
	*offset_ns = (uint64_t)((double)recorded_ns / capture->speed);
	return 0;
}

void timing_next_pass(struct timing_capture *capture)
{
	uint64_t duration_ns = capture->pass_last_ns - capture->pass_first_ns - capture->pass_cut_ns;

	if (capture->pass_packets == 0)
		return;
	if (capture->loop_delay_ns)
		capture->pass_start_ns += duration_ns + recorded_time(capture, capture->loop_delay_ns);
	else
		capture->pass_start_ns +=
			duration_ns ? duration_ns + duration_ns / (capture->pass_packets - 1) : TIME_SECOND_NS;
	capture->pass_packets = 0;
	capture->pass_cut_ns = 0;
	if (capture->pass_start_ns > OFFSET_MAX_NS)
		capture->pass_start_ns = OFFSET_MAX_NS;
}

void timing_drift_add(struct timing_drift *drift, uint64_t now_ns, uint64_t packets, uint64_t lateness_ns)
{
	uint64_t n = packets - drift->from_packets;

	if (drift->from_ns && (n == 0 || now_ns - drift->from_ns < WINDOW_NS))
		return;
	if (drift->from_ns) {
		drift->last_mean_ns = (double)(lateness_ns - drift->from_lateness_ns) / (double)n;
		if (drift->n_windows++ == 0)
			drift->first_mean_ns = drift->last_mean_ns;
	}
	drift->from_ns = now_ns;
	drift->from_packets = packets;
	drift->from_lateness_ns = lateness_ns;
}

bool timing_drift_of(const struct timing_drift *drift, double *ns)
{
	*ns = drift->last_mean_ns - drift->first_mean_ns;
	return drift->n_windows >= 2;
}
