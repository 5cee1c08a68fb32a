// SPDX-License-Identifier: Apache-2.0
/* Checks the description of the packets' own number: its keys against each other, and against the stream's rows. */
#include "daemon/config/config_reader.h"

#include "lib/ibvcap/sequence.h"

struct sequence_extent {
	const char *bytes_key;
	const char *offset_key;
	uint32_t offset;
	uint32_t bytes;
};

/* A field is described by the two keys, or by neither, and the first row's worth of a payload has all of it. */
static int check_extent(const struct config_reader *reader, const config_setting_t *setting,
                        const struct sequence_extent *extent, uint32_t payload_size)
{
	if (!extent->bytes && extent->offset)
		return config_reader_failure(reader, config_reader_find(setting, extent->offset_key),
		                             "%s = %u without %s: accepted is %s = 1 or more with it",
		                             extent->offset_key, extent->offset, extent->bytes_key, extent->bytes_key);
	if (extent->bytes && payload_size && extent->offset + extent->bytes > payload_size)
		return config_reader_failure(reader, config_reader_find(setting, extent->offset_key),
		                             "%s = %u with %s = %u is beyond the row of payload_size = %u bytes: "
		                             "accepted is %s = %u at most",
		                             extent->offset_key, extent->offset, extent->bytes_key, extent->bytes,
		                             payload_size, extent->offset_key,
		                             payload_size > extent->bytes ? payload_size - extent->bytes : 0);
	return 0;
}

int config_check_sequence(const struct config_reader *reader, const config_setting_t *setting, const void *entry)
{
	const struct config_stream *stream = entry;
	const struct ibvcap_sequence *sequence = &stream->sequence;
	const struct sequence_extent extents[] = {
		{"bytes", "offset", sequence->offset, sequence->bytes},
		{"upper_bytes", "upper_offset", sequence->upper_offset, sequence->upper_bytes},
		{"count_bytes", "count_offset", sequence->count_offset, sequence->count_bytes},
		{"source_bytes", "source_offset", sequence->source_offset, sequence->source_bytes},
		{"frame_bytes", "frame_offset", sequence->frame_offset, sequence->frame_bytes},
	};
	struct sequence_fault fault;
	int r = 0;

	if (setting && config_setting_length(setting) && !config_setting_get_member(setting, "bytes"))
		return config_reader_failure(reader, setting,
		                             "sequence needs 'bytes', those of the field with the number");
	for (size_t i = 0; i < sizeof(extents) / sizeof(extents[0]) && r == 0; i++)
		r = check_extent(reader, setting, &extents[i], stream->payload_size);
	if (r == 0 && sequence->bytes && !sequence_check(sequence, &fault))
		r = config_reader_failure(reader, config_reader_find(setting, fault.key), "sequence: %s", fault.text);
	return r;
}
