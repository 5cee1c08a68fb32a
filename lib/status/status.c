// SPDX-License-Identifier: Apache-2.0
/* Reads parts of a status by their table. */
#include "lib/status/status.h"

#include <stdio.h>
#include <string.h>

const struct status_field *status_find_counter(const struct status_part *part, const char *name)
{
	for (uint32_t i = 0; i < part->n_counters; i++)
		if (part->counters[i].name && strcmp(part->counters[i].name, name) == 0)
			return &part->counters[i];
	return NULL;
}

const struct ibvcap_counter *status_counters(const struct status_part *known, const void *part, uint32_t *n)
{
	const uint8_t *at = (const uint8_t *)part + known->counters_at;
	const struct ibvcap_counter *counters = NULL;

	*n = 0;
	if (known->counters_at) {
		memcpy(&counters, at, sizeof(counters));
		memcpy(n, at + sizeof(counters), sizeof(*n));
	}
	return counters;
}

uint64_t status_number(const struct status_field *field, const void *part)
{
	const uint8_t *at = (const uint8_t *)part + field->offset;
	union {
		uint16_t u16;
		uint32_t u32;
		uint64_t u64;
	} value = {0};

	memcpy(&value, at, field->bytes);
	if (field->bytes == sizeof(value.u64))
		return value.u64;
	if (field->bytes == sizeof(value.u16))
		return value.u16;
	return field->type == STATUS_I32 ? (uint64_t)(int32_t)value.u32 : value.u32;
}

static const char *find_word(const char *const *words, uint64_t value)
{
	while (*words && value-- > 0)
		words++;
	return *words;
}

const char *status_word(const char *const *words, uint64_t value)
{
	const char *word = find_word(words, value);

	return word ? word : "unknown";
}

static bool is_field_sound(const struct status_field *field, const uint8_t *part)
{
	switch (field->type) {
	case STATUS_TEXT:
		return memchr(part + field->offset, '\0', field->bytes);
	case STATUS_BOOL:
		return status_number(field, part) <= 1;
	case STATUS_WORD:
		return find_word(field->words, status_number(field, part));
	default:
		return true;
	}
}

bool status_is_sound(uint32_t kind, const void *part, size_t bytes)
{
	const struct status_part *known = &status_parts[kind < STATUS_N_PARTS ? kind : 0];
	const size_t end_of_counters = known->counters_at ? known->counters_at + sizeof(void *) + sizeof(uint64_t) : 0;
	uint32_t n_counters;
	size_t size = 0;

	if (kind >= STATUS_N_PARTS || bytes < sizeof(size))
		return false;
	memcpy(&size, part, sizeof(size));
	if (size > bytes || size % sizeof(uint64_t) != 0 || size < sizeof(size) || size < end_of_counters)
		return false;
	if (status_counters(known, part, &n_counters) || n_counters > STATUS_COUNTERS_MAX ||
	    bytes - size != n_counters * sizeof(uint64_t))
		return false;
	for (const struct status_field *field = known->fields; field->name; field++)
		if (field->offset + (size_t)field->bytes <= size && !is_field_sound(field, part))
			return false;
	return true;
}

bool status_is_shown(const struct status_field *field, const void *part)
{
	if (!field->is_optional)
		return !field->is_hidden;
	return field->type == STATUS_TEXT ? ((const char *)part)[field->offset] != '\0'
	                                  : (int64_t)status_number(field, part) > 0;
}

const char *status_write_remedy(const struct status_field *counter, const char *interface,
                                char text[STATUS_REMEDY_BYTES])
{
	static const char placeholder[] = "INTERFACE";
	const char *rest = counter->remedy, *at;
	size_t n = 0;

	*text = '\0';
	while ((at = strstr(rest, placeholder)) && n < STATUS_REMEDY_BYTES) {
		n += (size_t)snprintf(text + n, STATUS_REMEDY_BYTES - n, "%.*s%s", (int)(at - rest), rest, interface);
		rest = at + sizeof(placeholder) - 1;
	}
	if (n < STATUS_REMEDY_BYTES)
		snprintf(text + n, STATUS_REMEDY_BYTES - n, "%s", rest);
	return text;
}
