// SPDX-License-Identifier: Apache-2.0
/* Checks the description of the sensor's time: its keys against each other, and against the stream's rows. */
#include "daemon/config/config_reader.h"

#define SECONDS_BYTES_MIN 5u
#define COUNT_BYTES_MAX   8u

static int check_format(const struct config_reader *reader, const config_setting_t *setting,
                        const struct sensor_time *time)
{
	bool is_count = time->format == SENSOR_TIME_COUNT;

	if (is_count && time->bytes > COUNT_BYTES_MAX)
		return config_reader_failure(reader, config_reader_find(setting, "bytes"),
		                             "bytes = %u of a count: accepted is 1 to %u", time->bytes,
		                             COUNT_BYTES_MAX);
	if (!is_count && time->bytes < SECONDS_BYTES_MIN)
		return config_reader_failure(reader, config_reader_find(setting, "bytes"),
		                             "bytes = %u of seconds and 4 bytes of their parts: accepted is %u to %u",
		                             time->bytes, SECONDS_BYTES_MIN, SENSOR_TIME_BYTES_MAX);
	if (!is_count && time->period_s)
		return config_reader_failure(reader, config_reader_find(setting, "period_s"),
		                             "period_s without format = \"count\": accepted is 0");
	if (time->bytes < COUNT_BYTES_MAX && (uint64_t)time->period_s * time->hz > UINT64_C(1) << 8 * time->bytes)
		return config_reader_failure(reader, config_reader_find(setting, "period_s"),
		                             "period_s = %u with hz = %u and bytes = %u: the field is too short for it",
		                             time->period_s, time->hz, time->bytes);
	return 0;
}

int config_check_sensor_time(const struct config_reader *reader, const config_setting_t *setting,
                             const struct config_stream *stream)
{
	const config_setting_t *group = config_setting_get_member(setting, "sensor_time");
	const struct sensor_time *time = &stream->sensor_time;
	uint32_t application = stream->application_header_bytes, end = (uint32_t)time->offset + time->bytes;

	if (!time->bytes && group && config_setting_length(group) && !config_setting_get_member(group, "bytes"))
		return config_reader_failure(reader, group, "sensor_time needs 'bytes', those of the field with it");
	if (!time->bytes)
		return 0;
	if (end > stream->payload_size)
		return config_reader_failure(
			reader, config_reader_find(group, "offset"),
			"offset = %u with bytes = %u is beyond the row: accepted is %u at most", time->offset,
			time->bytes, stream->payload_size > time->bytes ? stream->payload_size - time->bytes : 0);
	if (time->offset < application && end > application)
		return config_reader_failure(reader, config_reader_find(group, "offset"),
		                             "offset = %u with bytes = %u: the field is not whole in the %u "
		                             "application_header_bytes nor behind them: accepted is one of both",
		                             time->offset, time->bytes, application);
	return check_format(reader, group, time);
}
