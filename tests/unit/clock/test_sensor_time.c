// SPDX-License-Identifier: Apache-2.0
/* A packet's timestamp minus the time that its sensor wrote, in the formats and epochs of sensors. */
#include "daemon/clock/sensor_time.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>

#define NS_PER_S INT64_C(1000000000)
#define UTC_S    INT64_C(1790000000)
#define TAI_S    37

static void put(uint8_t *at, unsigned bytes, bool little_endian, uint64_t number)
{
	for (unsigned i = 0; i < bytes; i++)
		at[little_endian ? i : bytes - 1 - i] = (uint8_t)(i < 8 ? number >> 8 * i : 0);
}

static int64_t offset_of(const struct sensor_time *time, uint64_t head, uint64_t part, int64_t stamp_ns)
{
	unsigned head_bytes = time->format == SENSOR_TIME_COUNT ? time->bytes : time->bytes - 4u;
	uint8_t field[SENSOR_TIME_BYTES_MAX + 1];
	int64_t offset_ns = 0;

	put(field, head_bytes, time->little_endian, head);
	put(field + head_bytes, time->bytes - head_bytes, time->little_endian, part);
	cr_assert(sensor_time_offset(time, field, (uint64_t)stamp_ns, TAI_S, &offset_ns));
	return offset_ns;
}

/* The packet came 123 ns after the sensor's time in it. */
Test(sensor_time, of_each_format_and_epoch)
{
	const int64_t stamp_ns = UTC_S * NS_PER_S + 500000123;
	const struct sensor_time ns = {.bytes = 8, .hz = 1000000000}, us = {.bytes = 8, .hz = 1000000};
	const struct sensor_time ptp = {.bytes = 10, .format = SENSOR_TIME_SECONDS_NS, .epoch = SENSOR_TIME_TAI};
	const struct sensor_time timespec = {.bytes = 8, .format = SENSOR_TIME_SECONDS_NS};
	const struct sensor_time timeval = {.bytes = 12, .format = SENSOR_TIME_SECONDS_US, .little_endian = 1};
	const struct sensor_time ntp = {.bytes = 8, .format = SENSOR_TIME_SECONDS_FRACTION, .epoch = SENSOR_TIME_NTP};
	const struct sensor_time gps = {.bytes = 8, .hz = 1000000000, .epoch = SENSOR_TIME_GPS};

	cr_expect(eq(i64, offset_of(&ns, UTC_S * NS_PER_S + 500000000, 0, stamp_ns), 123));
	cr_expect(eq(i64, offset_of(&us, UTC_S * 1000000 + 500000, 0, stamp_ns), 123));
	cr_expect(eq(i64, offset_of(&ptp, UTC_S + TAI_S, 500000000, stamp_ns), 123));
	cr_expect(eq(i64, offset_of(&timespec, UTC_S, 500000000, stamp_ns), 123));
	cr_expect(eq(i64, offset_of(&timeval, UTC_S, 500000, stamp_ns), 123));
	cr_expect(eq(i64, offset_of(&ntp, (uint64_t)UTC_S + 2208988800u, UINT64_C(1) << 31, stamp_ns), 123));
	cr_expect(
		eq(i64, offset_of(&gps, (uint64_t)((UTC_S - 315964800 + 18) * NS_PER_S + 500000000), 0, stamp_ns), 123),
		"18 leap seconds since 1980");
}

/* PTP's time with the epoch of UTC: what users of lidars see. */
Test(sensor_time, a_wrong_epoch_shows_as_its_seconds)
{
	const struct sensor_time time = {.bytes = 8, .hz = 1000000000};

	cr_expect(eq(i64, offset_of(&time, (uint64_t)((UTC_S + TAI_S) * NS_PER_S), 0, UTC_S * NS_PER_S),
	             -TAI_S * NS_PER_S));
}

Test(sensor_time, of_a_time_that_begins_again_it_is_the_nearest_to_0)
{
	const struct sensor_time hour = {.bytes = 4, .hz = 1000000, .period_s = 3600, .little_endian = 1};
	const struct sensor_time word = {.bytes = 4, .hz = 1000000000};
	int64_t full_hour_ns = UTC_S / 3600 * 3600 * NS_PER_S;

	cr_expect(eq(i64, offset_of(&hour, 3599999990, 0, full_hour_ns + 5000), 15000));
	cr_expect(eq(i64, offset_of(&hour, 10, 0, full_hour_ns - 5000), -15000));
	for (int64_t stamp_ns = UTC_S * NS_PER_S; stamp_ns < UTC_S * NS_PER_S + 20 * NS_PER_S; stamp_ns += 99999989) {
		cr_assert(eq(i64, offset_of(&word, (uint32_t)(stamp_ns - 1000), 0, stamp_ns), 1000));
		cr_assert(eq(i64, offset_of(&word, (uint32_t)(stamp_ns + 1000), 0, stamp_ns), -1000));
	}
}

Test(sensor_time, what_is_no_time_has_no_offset)
{
	const struct sensor_time timespec = {.bytes = 8, .format = SENSOR_TIME_SECONDS_NS};
	const struct sensor_time timeval = {.bytes = 8, .format = SENSOR_TIME_SECONDS_US};
	const struct sensor_time hour = {.bytes = 4, .hz = 1000000, .period_s = 3600};
	const struct sensor_time ptp = {.bytes = 10, .format = SENSOR_TIME_SECONDS_NS, .epoch = SENSOR_TIME_TAI};
	uint8_t field[SENSOR_TIME_BYTES_MAX] = {0};
	int64_t offset_ns;

	put(field + 4, 4, false, 1000000000);
	cr_expect(not(sensor_time_offset(&timespec, field, 1, TAI_S, &offset_ns)));
	put(field + 4, 4, false, 1000000);
	cr_expect(not(sensor_time_offset(&timeval, field, 1, TAI_S, &offset_ns)));
	put(field, 4, false, 3600000000);
	cr_expect(not(sensor_time_offset(&hour, field, 1, TAI_S, &offset_ns)));
	put(field, 10, false, 0);
	cr_expect(sensor_time_offset(&ptp, field, 1, TAI_S, &offset_ns));
	cr_expect(not(sensor_time_offset(&ptp, field, 1, -1, &offset_ns)), "the kernel does not know TAI");
}

Test(sensor_time, offsets_are_kept_in_order)
{
	struct sensor_offsets offsets = {.n = 0};

	srand(1);
	for (unsigned i = 0; i < SENSOR_OFFSETS_MAX + 5; i++)
		sensor_offsets_add(&offsets, i < SENSOR_OFFSETS_MAX ? rand() % 1000 - 500 : 10000);
	cr_assert(eq(u32, offsets.n, SENSOR_OFFSETS_MAX));
	for (unsigned i = 1; i < offsets.n; i++)
		cr_assert(le(i64, offsets.ns[i - 1], offsets.ns[i]));
	cr_expect(lt(i64, offsets.ns[offsets.n - 1], 10000));
}
