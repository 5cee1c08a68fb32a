// SPDX-License-Identifier: Apache-2.0
/* The table of a status says all of its structs and counters, and parts that break it are refused. */
#include "lib/status/counters.h"
#include "lib/status/status.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <ibvcap/ibvcap.h>
#include <stdlib.h>
#include <string.h>

#define PART_BYTES_MAX 4096

/* ---- the rows ------------------------------------------------------------------------------------ */

static void expect_row(const struct status_part *part, const struct status_field *row)
{
	static const char *const units[] = {"packets", "bytes", "ns", "ms", "s", "bps"};
	bool is_unit = !row->unit;

	for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		is_unit |= row->unit && strcmp(row->unit, units[i]) == 0;
	cr_expect(is_unit, "%s: %s: unit %s", part->name, row->name, row->unit);
	for (const char *c = row->name; *c; c++)
		cr_expect(islower(*c) || isdigit(*c) || *c == '_', "%s: a JSON key is snake_case", row->name);
	if (row->is_hidden)
		return;
	cr_assert(*row->help, "%s: %s has a help", part->name, row->name);
	cr_expect(row->help[strlen(row->help) - 1] != '.', "%s: pages add the full stop", row->name);
	cr_expect(row->kind != STATUS_TIME || strcmp(row->unit, "ns") == 0, "%s", row->name);
	cr_expect(row->kind != STATUS_LABEL || !row->unit, "%s: a label has no unit", row->name);
}

static unsigned count_name(const struct status_part *part, const char *name)
{
	unsigned n = 0;

	for (const struct status_field *field = part->fields; field->name; field++)
		n += strcmp(field->name, name) == 0;
	for (uint32_t i = 0; i < part->n_counters; i++)
		n += part->counters[i].name && strcmp(part->counters[i].name, name) == 0;
	return n;
}

Test(status, each_row_has_a_name_of_its_own_a_unit_and_a_help)
{
	for (unsigned kind = 0; kind < STATUS_N_PARTS; kind++) {
		const struct status_part *part = &status_parts[kind];

		for (const struct status_field *field = part->fields; field->name; field++) {
			expect_row(part, field);
			cr_expect_eq(count_name(part, field->name), 1, "%s: %s", part->name, field->name);
		}
		cr_assert_leq(part->n_counters, STATUS_COUNTERS_MAX);
		for (uint32_t i = 0; i < part->n_counters; i++) {
			const struct status_field *counter = &part->counters[i];

			if (!counter->name)
				continue;
			expect_row(part, counter);
			cr_expect_eq(count_name(part, counter->name), 1, "%s: %s", part->name, counter->name);
			cr_expect(counter->kind != STATUS_LABEL && counter->kind != STATUS_TIME);
		}
	}
}

Test(status, each_counter_of_the_shared_memory_has_a_row)
{
	for (unsigned i = 0; i < STREAM_COUNTER_N; i++)
		cr_expect_eq(stream_counters[i].name != NULL, i < IBVCAP_RX_COUNTER_N || i >= COUNTERS_ADDED);
	for (unsigned i = 0; i < CHANNEL_COUNTER_N; i++)
		cr_expect_eq(channel_counters[i].name != NULL, i < IBVCAP_TX_COUNTER_N || i >= COUNTERS_ADDED);
	for (unsigned i = 0; i < CONSUMER_COUNTER_N; i++)
		cr_expect(consumer_counters[i].name != NULL, "%u", i);
	for (unsigned i = 0; i < INTERFACE_COUNTER_N; i++)
		cr_expect(interface_counters[i].name != NULL, "%u", i);
}

/* Padding counts as a member, too: the daemon would send what its stack had there. */
Test(status, each_member_of_a_struct_has_a_row)
{
	static const uint16_t sizes[] = {[STATUS_U16] = 2, [STATUS_U32] = 4, [STATUS_I32] = 4,  [STATUS_U64] = 8,
	                                 [STATUS_I64] = 8, [STATUS_HEX] = 8, [STATUS_BOOL] = 4, [STATUS_WORD] = 4};

	for (unsigned kind = 0; kind < STATUS_N_PARTS; kind++) {
		const struct status_part *part = &status_parts[kind];
		uint8_t covered[PART_BYTES_MAX] = {0};

		memset(covered, 1, sizeof(size_t));
		if (part->counters_at)
			memset(covered + part->counters_at, 1, sizeof(void *) + sizeof(uint32_t));
		for (const struct status_field *field = part->fields; field->name; field++) {
			cr_expect(field->type == STATUS_TEXT || field->bytes == sizes[field->type], "%s", field->name);
			for (unsigned i = field->offset; i < (unsigned)field->offset + field->bytes; i++) {
				cr_expect_eq(covered[i], 0, "%s: %s twice", part->name, field->name);
				covered[i] = 1;
			}
		}
		for (unsigned i = 0; i < part->bytes; i++)
			cr_expect(covered[i], "%s: byte %u", part->name, i);
	}
}

/* ---- parts from others --------------------------------------------------------------------------- */

struct sent {
	union {
		size_t size;
		uint8_t bytes[PART_BYTES_MAX];
	};
};

static struct sent make_part(unsigned kind, uint32_t n_counters)
{
	struct sent sent = {0};

	sent.size = status_parts[kind].bytes;
	if (status_parts[kind].counters_at)
		memcpy(sent.bytes + status_parts[kind].counters_at + sizeof(void *), &n_counters, sizeof(n_counters));
	return sent;
}

Test(status, a_text_ends_and_a_word_is_known)
{
	for (unsigned kind = 0; kind < STATUS_N_PARTS; kind++) {
		const struct status_part *part = &status_parts[kind];

		for (const struct status_field *field = part->fields; field->name; field++) {
			struct sent sent = make_part(kind, 0);
			bool is_checked =
				field->type == STATUS_TEXT || field->type == STATUS_BOOL || field->type == STATUS_WORD;

			memset(sent.bytes + field->offset, 'x', field->bytes);
			cr_expect_eq(status_is_sound(kind, &sent, part->bytes), !is_checked, "%s: %s", part->name,
			             field->name);
			if (field->type == STATUS_TEXT)
				sent.bytes[field->offset + field->bytes - 1] = '\0';
			else
				memset(sent.bytes + field->offset, 0, field->bytes);
			cr_expect(status_is_sound(kind, &sent, part->bytes), "%s: %s", part->name, field->name);
		}
	}
}

Test(status, counters_are_as_many_as_the_part_says)
{
	for (unsigned kind = 0; kind < STATUS_N_PARTS; kind++) {
		uint16_t bytes = status_parts[kind].bytes;
		struct sent three = make_part(kind, 3), many = make_part(kind, STATUS_COUNTERS_MAX + 1);

		if (!status_parts[kind].counters_at) {
			cr_expect(!status_is_sound(kind, &three, bytes + 8));
			continue;
		}
		cr_expect(status_is_sound(kind, &three, bytes + 24));
		cr_expect(!status_is_sound(kind, &three, bytes + 23));
		cr_expect(!status_is_sound(kind, &three, bytes + 32));
		cr_expect(!status_is_sound(kind, &many, bytes + (STATUS_COUNTERS_MAX + 1) * 8));
		three.bytes[status_parts[kind].counters_at] = 1;
		cr_expect(!status_is_sound(kind, &three, bytes + 24), "a pointer");
	}
}

Test(status, a_struct_may_be_of_another_version)
{
	for (unsigned kind = 0; kind < STATUS_N_PARTS; kind++) {
		const struct status_part *part = &status_parts[kind];
		size_t least = part->counters_at ? part->counters_at + 16u : 8;

		for (size_t size = 0; size < PART_BYTES_MAX; size++) {
			struct sent sent = make_part(kind, 0);

			sent.size = size;
			cr_expect_eq(status_is_sound(kind, &sent, size), size >= least && size % 8 == 0, "%zu", size);
			cr_expect(!status_is_sound(kind, &sent, size + 8), "%s: %zu", part->name, size);
		}
	}
}

Test(status, there_are_no_other_parts_and_no_sizes_beyond_the_message)
{
	struct sent sent = make_part(STATUS_DAEMON, 0);

	cr_expect(!status_is_sound(STATUS_N_PARTS, &sent, sent.size));
	cr_expect(!status_is_sound(UINT32_MAX, &sent, sent.size));
	cr_expect(!status_is_sound(STATUS_DAEMON, &sent, 7));
	sent.size = SIZE_MAX - 7;
	cr_expect(!status_is_sound(STATUS_DAEMON, &sent, 48));
}

Test(status, a_value_without_a_word_is_unknown)
{
	cr_expect_str_eq(status_word(status_policy_words, IBVCAP_POLICY_TAP), "tap");
	cr_expect_str_eq(status_word(status_policy_words, 3), "unknown");
	cr_expect_str_eq(status_word(status_clock_words, UINT64_MAX), "unknown");
}
