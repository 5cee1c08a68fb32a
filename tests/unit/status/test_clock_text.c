// SPDX-License-Identifier: Apache-2.0
/* A clock in words: what is not known is said, and no bound that nobody measured. */
#include "lib/status/clock.h"
#include "lib/status/status.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

static char text[STATUS_CLOCK_BYTES];

Test(clock_text, the_stamps_of_a_card_have_a_bound)
{
	const struct status_clock clock = {.clock_source = IBVCAP_CLOCK_SOURCE_DEVICE,
	                                   .system_clock = IBVCAP_SYSTEM_CLOCK_SYNCHRONISED,
	                                   .clock_error_ns = 820,
	                                   .clock_delay_ns = IBVCAP_NOT_KNOWN,
	                                   .system_clock_error_ns = 120000,
	                                   .tai_offset_s = 37,
	                                   .sensor_offset_ns = -1};

	cr_expect_str_eq(status_clock_text(&clock, text),
	                 "clock device, when the card received the packet: error at most 820 ns; system clock "
	                 "synchronised, error at most 120 us; TAI is UTC + 37 s");
}

Test(clock_text, those_of_the_kernel_and_of_the_worker_have_none)
{
	struct status_clock clock = STATUS_CLOCK_NONE;

	clock.clock_source = IBVCAP_CLOCK_SOURCE_SOFTWARE;
	clock.system_clock = IBVCAP_SYSTEM_CLOCK_UNSYNCHRONISED;
	cr_expect_str_eq(
		status_clock_text(&clock, text),
		"clock software, when the worker polled the packet: error not known; system clock unsynchronised, "
		"error not known; TAI offset not known");
	clock.clock_source = IBVCAP_CLOCK_SOURCE_KERNEL;
	clock.system_clock = IBVCAP_SYSTEM_CLOCK_UNKNOWN;
	clock.clock_delay_ns = 50000;
	cr_expect_str_eq(
		status_clock_text(&clock, text),
		"clock kernel, when the kernel took the packet: error not known, the interface's settings allow "
		"50 us; system clock unknown, error not known; TAI offset not known");
}

Test(clock_text, times_are_exact_in_a_unit_for_people)
{
	struct status_clock clock = STATUS_CLOCK_NONE;

	clock.clock_source = IBVCAP_CLOCK_SOURCE_DEVICE;
	clock.clock_error_ns = 461248;
	clock.clock_delay_ns = 9000000010;
	clock.system_clock_error_ns = 999;
	cr_expect_str_eq(
		status_clock_text(&clock, text),
		"clock device, when the card received the packet: error at most 461.248 us, the interface's "
		"settings allow 9.00000001 s; system clock unknown, error at most 999 ns; TAI offset not known");
}

Test(clock_text, a_reader_without_a_ring_has_no_clock)
{
	cr_expect_str_eq(status_clock_text(&STATUS_CLOCK_NONE, text), "clock none");
}

Test(clock_text, the_longest_one_fits)
{
	const struct status_clock clock = {.clock_source = IBVCAP_CLOCK_SOURCE_KERNEL,
	                                   .system_clock = IBVCAP_SYSTEM_CLOCK_UNSYNCHRONISED,
	                                   .clock_error_ns = UINT64_MAX - 1,
	                                   .clock_delay_ns = UINT64_MAX - 1,
	                                   .system_clock_error_ns = UINT64_MAX - 1,
	                                   .tai_offset_s = INT32_MAX,
	                                   .sensor_offset_min_ns = INT64_MIN,
	                                   .sensor_offset_ns = INT64_MIN,
	                                   .sensor_offset_max_ns = INT64_MIN};

	cr_expect_not_null(strstr(status_clock_text(&clock, text),
	                          "; TAI is UTC + 2147483647 s; timestamps are the sensor's time + "
	                          "-9223372036854775808 ns (-9223372036854775808 to -9223372036854775808): is the "
	                          "sensor's clock set, and does 'sensor_time' fit the packets?"));
}
