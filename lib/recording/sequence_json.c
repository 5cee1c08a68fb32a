// SPDX-License-Identifier: Apache-2.0
/* Writes and reads the description of the packets' own number, field by field. */
#include "lib/recording/account_json.h"
#include "lib/recording/recording_words.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define OFFSETS "offsets_from" /* "frame" or "payload" */
#define MASK    "source_mask"

struct field {
	const char *key;
	size_t offset;
	size_t bytes;
};

#define FIELD(name)                                                                                        \
	{                                                                                                  \
#name, offsetof(struct ibvcap_sequence, name), sizeof(((struct ibvcap_sequence *)0)->name) \
	}

/* Both choices are kept as the numbers of the segment's layout, which do not change. */
static const struct field fields[] = {
	FIELD(offset),       FIELD(bytes),        FIELD(little_endian), FIELD(shift),       FIELD(bits),
	FIELD(step),         FIELD(modulus),      FIELD(upper_offset),  FIELD(upper_bytes), FIELD(upper_bits),
	FIELD(upper_step),   FIELD(count_offset), FIELD(count_bytes),   FIELD(source),      FIELD(source_offset),
	FIELD(source_bytes), FIELD(frame_offset), FIELD(frame_bytes),   FIELD(frame_bits),  FIELD(window),
	FIELD(jump),
};

static uint64_t get_field(const struct ibvcap_sequence *sequence, const struct field *field)
{
	uint64_t value = 0;

	memcpy(&value, (const uint8_t *)sequence + field->offset, field->bytes); /* little-endian, as all hosts are */
	return value;
}

static bool set_field(struct ibvcap_sequence *sequence, const struct field *field, json_int_t value)
{
	if (value < 0 || (field->bytes < sizeof(value) && value >> (8 * field->bytes)))
		return false;
	memcpy((uint8_t *)sequence + field->offset, &value, field->bytes);
	return true;
}

json_t *sequence_to_json(const struct ibvcap_sequence *sequence, bool has_frames)
{
	json_t *json = json_pack("{s:s}", OFFSETS, has_frames ? "frame" : "payload");
	char mask[2 * IBVCAP_SOURCE_BYTES_MAX + 1] = "";

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		uint64_t value = get_field(sequence, &fields[i]);

		if (value)
			json_object_set_new(json, fields[i].key, json_integer((json_int_t)value));
	}
	for (uint32_t i = 0; i < sequence->source_bytes && i < IBVCAP_SOURCE_BYTES_MAX; i++)
		sprintf(mask + (size_t)2 * i, "%02x", sequence->source_mask[i]);
	if (mask[0])
		json_object_set_new(json, MASK, json_string(mask));
	return json;
}

static bool read_mask(const char *text, uint8_t mask[IBVCAP_SOURCE_BYTES_MAX])
{
	size_t length = strlen(text);

	if (length % 2 || length > 2 * IBVCAP_SOURCE_BYTES_MAX || strspn(text, "0123456789abcdef") != length)
		return false;
	for (size_t i = 0; i < length / 2; i++) {
		unsigned byte;

		sscanf(text + 2 * i, "%2x", &byte);
		mask[i] = (uint8_t)byte;
	}
	return true;
}

bool sequence_from_json(const json_t *json, struct ibvcap_sequence *sequence, bool *has_frames)
{
	const char *offsets = json_string_value(json_object_get(json, OFFSETS));
	const char *mask = json_string_value(json_object_get(json, MASK));

	*sequence = (struct ibvcap_sequence){0};
	if (!offsets)
		return false;
	*has_frames = !strcmp(offsets, "frame");
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		const json_t *value = json_object_get(json, fields[i].key);

		if (value && (!json_is_integer(value) || !set_field(sequence, &fields[i], json_integer_value(value))))
			return false;
	}
	return !mask || read_mask(mask, sequence->source_mask);
}

bool sequence_from_comment(const char *comment, size_t bytes, struct ibvcap_sequence *sequence, bool *has_frames)
{
	const char *found = bytes ? memmem(comment, bytes, RECORDING_SEQUENCE, strlen(RECORDING_SEQUENCE)) : NULL;
	json_t *json;
	bool is_one;

	if (!found)
		return false;
	found += strlen(RECORDING_SEQUENCE);
	json = json_loadb(found, bytes - (size_t)(found - comment), JSON_DISABLE_EOF_CHECK, NULL);
	is_one = sequence_from_json(json, sequence, has_frames);
	json_decref(json);
	return is_one;
}
