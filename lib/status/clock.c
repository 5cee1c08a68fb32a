// SPDX-License-Identifier: Apache-2.0
/* Says what stamps the packets, the error of the stamps, and that of the system's clock. */
#include "lib/status/clock.h"

#include "lib/status/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DAY_NS INT64_C(86400000000000)

const char *status_sensor_doubt(int64_t offset_ns)
{
	return offset_ns > DAY_NS || offset_ns < -DAY_NS
	               ? ": is the sensor's clock set, and does 'sensor_time' fit the packets?"
	               : "";
}

/* "820 ns", "461.248 us", "1 s": exactly. */
static void clock_append_time(char text[STATUS_CLOCK_BYTES], const char *before, uint64_t ns)
{
	static const char *const units[] = {"ns", "us", "ms", "s"};
	size_t unit = 0, used = strlen(text);
	uint64_t scale = 1;
	int digits;

	for (; ns / scale >= 1000 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
		scale *= 1000;
	used += (size_t)snprintf(text + used, STATUS_CLOCK_BYTES - used, "%s%" PRIu64, before, ns / scale);
	ns %= scale;
	for (digits = 3 * (int)unit; ns && ns % 10 == 0; digits--)
		ns /= 10;
	if (ns)
		used += (size_t)snprintf(text + used, STATUS_CLOCK_BYTES - used, ".%0*" PRIu64, digits, ns);
	snprintf(text + used, STATUS_CLOCK_BYTES - used, " %s", units[unit]);
}

static void clock_append_error(char text[STATUS_CLOCK_BYTES], const char *before, uint64_t error_ns)
{
	size_t used = strlen(text);

	snprintf(text + used, STATUS_CLOCK_BYTES - used, "%serror %s", before,
	         error_ns == IBVCAP_NOT_KNOWN ? "not known" : "at most ");
	if (error_ns != IBVCAP_NOT_KNOWN)
		clock_append_time(text, "", error_ns);
}

const char *status_clock_text(const struct status_clock *clock, char text[STATUS_CLOCK_BYTES])
{
	static const char *const when[] = {
		[IBVCAP_CLOCK_SOURCE_SOFTWARE] = ", when the worker polled the packet: ",
		[IBVCAP_CLOCK_SOURCE_DEVICE] = ", when the card received the packet: ",
		[IBVCAP_CLOCK_SOURCE_KERNEL] = ", when the kernel took the packet: ",
	};
	size_t used;

	snprintf(text, STATUS_CLOCK_BYTES, "clock %s", status_word(status_clock_words, clock->clock_source));
	if (clock->clock_source == IBVCAP_CLOCK_SOURCE_NONE || clock->clock_source >= sizeof(when) / sizeof(when[0]))
		return text;
	clock_append_error(text, when[clock->clock_source], clock->clock_error_ns);
	if (clock->clock_delay_ns != IBVCAP_NOT_KNOWN)
		clock_append_time(text, ", the interface's settings allow ", clock->clock_delay_ns);
	used = strlen(text);
	snprintf(text + used, STATUS_CLOCK_BYTES - used, "; system clock %s",
	         status_word(status_system_clock_words, clock->system_clock));
	clock_append_error(text, ", ", clock->system_clock_error_ns);
	used = strlen(text);
	if (clock->tai_offset_s >= 0)
		used += (size_t)snprintf(text + used, STATUS_CLOCK_BYTES - used, "; TAI is UTC + %d s",
		                         clock->tai_offset_s);
	else
		used += (size_t)snprintf(text + used, STATUS_CLOCK_BYTES - used, "; TAI offset not known");
	if (clock->sensor_offset_ns != -1)
		snprintf(text + used, STATUS_CLOCK_BYTES - used,
		         "; timestamps are the sensor's time + %" PRId64 " ns (%" PRId64 " to %" PRId64 ")%s",
		         clock->sensor_offset_ns, clock->sensor_offset_min_ns, clock->sensor_offset_max_ns,
		         status_sensor_doubt(clock->sensor_offset_ns));
	return text;
}
