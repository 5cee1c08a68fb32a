// SPDX-License-Identifier: Apache-2.0
/* What is known of the time in a stream's timestamps, and how it is said to people. */
#ifndef STATUS_CLOCK_H
#define STATUS_CLOCK_H

#include <ibvcap/ibvcap.h>

/* The members of these names of struct ibvcap_ring, ibvcap_rx_info and ibvcap_status_stream. */
struct status_clock {
	enum ibvcap_clock_source clock_source;
	enum ibvcap_system_clock system_clock;
	uint64_t clock_error_ns;
	uint64_t clock_delay_ns;
	uint64_t system_clock_error_ns;
	int32_t tai_offset_s;
	int32_t clock_drift_ppb;
	int64_t sensor_offset_min_ns;
	int64_t sensor_offset_ns;
	int64_t sensor_offset_max_ns;
};

/* Of a reader without a ring: nothing is known. */
#define STATUS_CLOCK_NONE                                                 \
	((struct status_clock){.clock_error_ns = IBVCAP_NOT_KNOWN,        \
	                       .clock_delay_ns = IBVCAP_NOT_KNOWN,        \
	                       .system_clock_error_ns = IBVCAP_NOT_KNOWN, \
	                       .tai_offset_s = -1,                        \
	                       .clock_drift_ppb = -1,                     \
	                       .sensor_offset_min_ns = -1,                \
	                       .sensor_offset_ns = -1,                    \
	                       .sensor_offset_max_ns = -1})

/** Copy these members from one of these structs to another. */
#define STATUS_CLOCK_COPY(to, from)                                          \
	do {                                                                 \
		(to)->clock_source = (from)->clock_source;                   \
		(to)->system_clock = (from)->system_clock;                   \
		(to)->clock_error_ns = (from)->clock_error_ns;               \
		(to)->clock_delay_ns = (from)->clock_delay_ns;               \
		(to)->system_clock_error_ns = (from)->system_clock_error_ns; \
		(to)->tai_offset_s = (from)->tai_offset_s;                   \
		(to)->clock_drift_ppb = (from)->clock_drift_ppb;             \
		(to)->sensor_offset_min_ns = (from)->sensor_offset_min_ns;   \
		(to)->sensor_offset_ns = (from)->sensor_offset_ns;           \
		(to)->sensor_offset_max_ns = (from)->sensor_offset_max_ns;   \
	} while (0)

#define STATUS_CLOCK_BYTES 512

/** What to ask about an offset to the sensor's time that is longer than a day; otherwise "". */
const char *status_sensor_doubt(int64_t offset_ns);

/** "clock kernel, when it took the packet: error not known; system clock synchronised, …" Returns text. */
const char *status_clock_text(const struct status_clock *clock, char text[STATUS_CLOCK_BYTES]);

#endif
