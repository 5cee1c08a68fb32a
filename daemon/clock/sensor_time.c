// SPDX-License-Identifier: Apache-2.0
/* Reads a sensor's time from a packet's payload, and compares it with the packet's timestamp. */
#include "daemon/clock/sensor_time.h"

#include <string.h>

#define NS_PER_S      UINT64_C(1000000000)
#define PART_BYTES    4u
#define GPS_EPOCH_S   315964800  /* 1980-01-06 */
#define GPS_BEFORE_S  19         /* TAI is so far ahead of GPS's time, always */
#define NTP_EPOCH_S   2208988800 /* 1900 until 1970 */
#define OFFSET_NS_MAX (INT64_MAX - 1)

typedef unsigned __int128 wide;

static uint64_t sensor_time_number(const uint8_t *at, unsigned bytes, bool little_endian)
{
	uint64_t number = 0;

	for (unsigned i = 0; i < bytes; i++)
		number = number << 8 | at[little_endian ? bytes - 1 - i : i];
	return number;
}

static wide sensor_time_values(unsigned bytes)
{
	return (wide)1 << 8 * bytes;
}

/* The time in the field, and after how long it begins again, 0: never in a lifetime. */
static bool sensor_time_read(const struct sensor_time *time, const uint8_t *field, wide *ns, wide *period_ns)
{
	unsigned head = time->format == SENSOR_TIME_COUNT ? time->bytes : time->bytes - PART_BYTES;
	uint64_t number = sensor_time_number(field, head, time->little_endian);
	uint64_t part = sensor_time_number(field + head, time->bytes - head, time->little_endian);

	*ns = (wide)number * NS_PER_S;
	*period_ns = sensor_time_values(head) * NS_PER_S;
	switch ((enum sensor_time_format)time->format) {
	case SENSOR_TIME_COUNT:
		*ns /= time->hz;
		*period_ns = time->period_s ? time->period_s * (wide)NS_PER_S : *period_ns / time->hz;
		return *ns < *period_ns;
	case SENSOR_TIME_SECONDS_NS:
		*ns += part;
		return part < NS_PER_S;
	case SENSOR_TIME_SECONDS_US:
		*ns += part * 1000;
		return part < NS_PER_S / 1000;
	case SENSOR_TIME_SECONDS_FRACTION:
		*ns += part * NS_PER_S >> 32;
		return true;
	}
	return false;
}

/* UTC minus the sensor's time, of a sensor whose clock is right. */
static bool sensor_time_epoch_s(const struct sensor_time *time, int32_t tai_offset_s, int64_t *seconds)
{
	switch ((enum sensor_time_epoch)time->epoch) {
	case SENSOR_TIME_TAI:
		*seconds = -tai_offset_s;
		return tai_offset_s >= 0;
	case SENSOR_TIME_GPS:
		*seconds = GPS_EPOCH_S - (tai_offset_s - GPS_BEFORE_S);
		return tai_offset_s >= 0;
	case SENSOR_TIME_NTP:
		*seconds = -NTP_EPOCH_S;
		return true;
	default:
		*seconds = 0;
		return true;
	}
}

bool sensor_time_offset(const struct sensor_time *time, const uint8_t *field, uint64_t timestamp_ns,
                        int32_t tai_offset_s, int64_t *offset_ns)
{
	wide sensor_ns, period_ns;
	int64_t epoch_s;
	__int128 offset;

	if (!sensor_time_epoch_s(time, tai_offset_s, &epoch_s) ||
	    !sensor_time_read(time, field, &sensor_ns, &period_ns))
		return false;
	offset = (__int128)timestamp_ns - (__int128)epoch_s * (int64_t)NS_PER_S - (__int128)sensor_ns;
	offset %= (__int128)period_ns;
	if (offset > (__int128)(period_ns / 2))
		offset -= (__int128)period_ns;
	else if (offset < -(__int128)(period_ns / 2))
		offset += (__int128)period_ns;
	*offset_ns = offset > OFFSET_NS_MAX    ? OFFSET_NS_MAX
	             : offset < -OFFSET_NS_MAX ? -OFFSET_NS_MAX
	                                       : (int64_t)offset;
	return true;
}

void sensor_offsets_add(struct sensor_offsets *offsets, int64_t offset_ns)
{
	uint32_t at = offsets->n;

	if (at == SENSOR_OFFSETS_MAX)
		return;
	while (at > 0 && offsets->ns[at - 1] > offset_ns)
		at--;
	memmove(offsets->ns + at + 1, offsets->ns + at, (offsets->n - at) * sizeof(*offsets->ns));
	offsets->ns[at] = offset_ns;
	offsets->n++;
}
