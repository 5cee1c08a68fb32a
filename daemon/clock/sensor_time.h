// SPDX-License-Identifier: Apache-2.0
/*
 * The time that a sensor writes into its packets, as the configuration describes it, and the offset of a packet's
 * timestamp to that time. Pure.
 */
#ifndef DAEMON_CLOCK_SENSOR_TIME_H
#define DAEMON_CLOCK_SENSOR_TIME_H

#include <stdbool.h>
#include <stdint.h>

#define SENSOR_TIME_BYTES_MAX 12

enum sensor_time_format {
	SENSOR_TIME_COUNT,            /* so many times 1/hz of a second */
	SENSOR_TIME_SECONDS_NS,       /* seconds, and 4 bytes of nanoseconds: PTP, struct timespec */
	SENSOR_TIME_SECONDS_US,       /* seconds, and 4 bytes of microseconds: struct timeval */
	SENSOR_TIME_SECONDS_FRACTION, /* seconds, and 4 bytes that count 2^-32 s: NTP */
};

enum sensor_time_epoch {
	SENSOR_TIME_UTC, /* since 1970, without leap seconds; also a count since another event, as the start */
	SENSOR_TIME_TAI, /* since 1970, with leap seconds: PTP */
	SENSOR_TIME_GPS, /* since 1980-01-06, with leap seconds */
	SENSOR_TIME_NTP, /* since 1900, without leap seconds */
};

struct sensor_time {
	uint16_t offset; /* bytes from the start of the UDP payload; with layout = "frame", of the frame */
	uint8_t bytes;   /* 0: packets have no time */
	uint8_t little_endian;
	uint8_t format; /* enum sensor_time_format */
	uint8_t epoch;  /* enum sensor_time_epoch */
	uint32_t hz;
	uint32_t period_s; /* after which a count begins again at 0; 0: after its bits are all 1 */
};

/**
 * The timestamp minus the sensor's time, so what to add to the sensor's time to get ours. Of a time that begins again,
 * the nearest to 0. field: the bytes of the field. tai_offset_s: TAI - UTC; -1: not known. False: the field has no
 * such time, or it counts leap seconds and the offset of TAI is not known.
 */
bool sensor_time_offset(const struct sensor_time *time, const uint8_t *field, uint64_t timestamp_ns,
                        int32_t tai_offset_s, int64_t *offset_ns);

/* ---- the offsets of some packets ----------------------------------------------------------------- */

#define SENSOR_OFFSETS_MAX 63u

struct sensor_offsets {
	uint32_t n;
	int64_t ns[SENSOR_OFFSETS_MAX]; /* in the order of their size */
};

/** No effect if it is full. */
void sensor_offsets_add(struct sensor_offsets *offsets, int64_t offset_ns);

#endif
