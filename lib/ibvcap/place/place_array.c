// SPDX-License-Identifier: Apache-2.0
/*
 * The arrays of a placer. Open ones are in the order of their positions, and only the oldest is closed, so that the
 * caller gets them in order. The memory of an array that the caller released is used again: its pages are there.
 */
#include "lib/ibvcap/place/place.h"

#include "lib/base/min.h"
#include "lib/ibvcap/client/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool has_frames(const struct ibvcap_placer *placer)
{
	return placer->reader.sequence.frame_bytes != 0;
}

/* ---- memory -------------------------------------------------------------------------------------- */

uint64_t place_payload_bytes(const struct ibvcap_placer *placer)
{
	return (uint64_t)placer->rows * placer->table.n_max * placer->options.row_bytes;
}

static struct place_array *array_new(const struct ibvcap_placer *placer)
{
	const uint64_t n = (uint64_t)placer->rows * placer->table.n_max, align = placer->options.align;
	const uint64_t own_bytes = placer->options.take ? 0 : place_payload_bytes(placer);
	const uint64_t payload_bytes = (own_bytes + PLACE_ALIGN - 1) / PLACE_ALIGN * PLACE_ALIGN;
	struct place_array *array = calloc(1, sizeof(*array));
	uint8_t *aligned;

	if (!array)
		return NULL;
	array->memory = calloc(1, payload_bytes + n * (sizeof(*array->lengths) + sizeof(*array->present)) + align);
	if (!array->memory) {
		free(array);
		return NULL;
	}
	aligned = (uint8_t *)array->memory + (align - (uintptr_t)array->memory % align);
	array->payload = own_bytes ? aligned : NULL;
	array->lengths = (uint16_t *)(aligned + payload_bytes);
	array->present = (uint8_t *)(array->lengths + n);
	return array;
}

/* False: the array needs memory of the caller, and the caller has none. */
static bool array_take_memory(const struct ibvcap_placer *placer, struct place_array *array)
{
	const struct ibvcap_placer_options *options = &placer->options;

	if (options->take)
		array->payload = options->take(options->context, options->align, place_payload_bytes(placer));
	return !options->take || array->payload;
}

static void array_give_memory_back(const struct ibvcap_placer *placer, struct place_array *array)
{
	uint8_t *payload = array->payload;

	if (!placer->options.take || !payload)
		return;
	array->payload = NULL;
	placer->options.give_back(placer->options.context, payload);
}

void place_array_put_free(struct ibvcap_placer *placer, struct place_array *array)
{
	array_give_memory_back(placer, array);
	array->use = PLACE_FREE;
	array->next = placer->free;
	placer->free = array;
	placer->n_free++;
}

int place_arrays_reserve(struct ibvcap_placer *placer)
{
	while (placer->n_free < PLACE_RESERVE) {
		struct place_array **grown =
			reallocarray(placer->arrays, placer->n_arrays + 1, sizeof(*placer->arrays));
		struct place_array *array;

		if (!grown)
			return error_set(-ENOMEM, "a placer: no memory for its arrays");
		placer->arrays = grown;
		array = array_new(placer);
		if (!array)
			return error_set(
				-ENOMEM, "a placer: no memory for array %u of %u rows of %u sources, %u bytes each",
				placer->n_arrays + 1, placer->rows, placer->table.n_max, placer->options.row_bytes);
		array->index = placer->n_arrays;
		placer->arrays[placer->n_arrays++] = array;
		place_array_put_free(placer, array);
	}
	return 0;
}

void place_arrays_free(struct ibvcap_placer *placer)
{
	for (uint32_t i = 0; i < placer->n_arrays; i++) {
		array_give_memory_back(placer, placer->arrays[i]);
		free(placer->arrays[i]->memory);
		free(placer->arrays[i]);
	}
	free(placer->arrays);
}

/* ---- closing ------------------------------------------------------------------------------------- */

/* How many numbers of all sources are expected from one position up to another. */
static uint64_t count_expected(const struct ibvcap_placer *placer, uint64_t from, uint64_t end)
{
	uint64_t n = 0;

	if (placer->options.n_sources)
		return placer->options.n_sources * (end - from);
	for (uint32_t i = 0; i < placer->table.n; i++) {
		const struct place_source *source = &placer->sources[i];
		bool begins = source->run == placer->run.id && place_offset(from, source->first) > 0;

		if (source->run && (!begins || place_offset(source->first, end) > 0))
			n += end - (begins ? source->first : from);
	}
	return n;
}

/* The first position of the run that no closed array has, nor has it passed. */
static uint64_t run_rest(const struct place_run *run)
{
	return run->has_closed ? run->closed_end : run->first;
}

/* An array of fixed size has no number from before the run, and none that an array before it had. */
static uint64_t array_first(const struct ibvcap_placer *placer, const struct place_array *array)
{
	const uint64_t rest = run_rest(&placer->run);

	if (has_frames(placer))
		return array->low;
	return place_offset(array->base, rest) > 0 ? rest : array->base;
}

/* The position after the array's last. At a deadline or the end of a run, nothing says that more was sent than came. */
static uint64_t array_end(const struct ibvcap_placer *placer, const struct place_array *array,
                          enum ibvcap_place_end end)
{
	const uint64_t whole = array->base + placer->rows;

	if (has_frames(placer))
		return array->high + 1;
	if (end == IBVCAP_PLACE_COMPLETE || end == IBVCAP_PLACE_WINDOW)
		return whole;
	return place_offset(placer->run.next, whole) > 0 ? placer->run.next : whole;
}

/* Fill the missing rows, and count who brought the others: n_by[m], numbers that the sides of the bits m brought. */
static void array_fill(const struct ibvcap_placer *placer, struct ibvcap_place_array *closed, uint64_t n_by[256])
{
	for (uint32_t source = 0; source < closed->n_sources; source++) {
		for (uint32_t i = 0; i < closed->n_numbers; i++) {
			uint64_t at = source * closed->stride_numbers + i;

			n_by[closed->present[at]]++;
			if (closed->present[at])
				continue;
			closed->lengths[at] = 0;
			if (closed->payload)
				memset(closed->payload + at * closed->row_bytes, (int)placer->options.fill,
				       closed->row_bytes);
		}
	}
}

static void count_closed(struct ibvcap_placer *placer, const struct ibvcap_place_array *closed, uint64_t n_between,
                         const uint64_t n_by[256])
{
	struct ibvcap_place_counts *counts = &placer->counts;

	counts->arrays[closed->end]++;
	counts->expected += closed->n_expected + n_between;
	counts->present += closed->n_present;
	counts->between += n_between;
	for (uint32_t i = 0; i < placer->options.sides; i++) {
		struct ibvcap_place_side *side = &placer->sides[i];
		uint64_t n_present = 0;

		for (uint32_t mask = 1; mask < 1u << placer->options.sides; mask++)
			n_present += mask & 1u << i ? n_by[mask] : 0;
		side->open -= n_present;
		side->expected += closed->n_expected + n_between;
		side->present += n_present;
		side->only += n_by[1u << i];
	}
}

/* The earliest deadline of the arrays that are open. */
static void note_deadlines(struct ibvcap_placer *placer)
{
	placer->expire_next_ns = UINT64_MAX;
	for (uint32_t i = 0; placer->options.deadline_ns && i < placer->n_open; i++)
		if (placer->open[i]->first_ns)
			placer->expire_next_ns = u64_min(placer->expire_next_ns,
			                                 placer->open[i]->first_ns + placer->options.deadline_ns);
}

static void array_describe(const struct ibvcap_placer *placer, struct place_array *array, enum ibvcap_place_end end)
{
	const uint64_t first = array_first(placer, array);
	const uint64_t after = array_end(placer, array, end);
	const uint64_t at = first - array->base, row_bytes = placer->options.row_bytes;

	array->closed = (struct ibvcap_place_array){
		.size = sizeof(array->closed),
		.payload = array->payload ? array->payload + at * row_bytes : NULL,
		.present = array->present + at,
		.lengths = array->lengths + at,
		.row_bytes = row_bytes,
		.stride_numbers = placer->rows,
		.n_sources = placer->table.n,
		.n_numbers = (uint32_t)(after - first),
		.first = (int64_t)first,
		.run = placer->run.id,
		.frame = array->frame,
		.n_expected = count_expected(placer, first, after),
		.n_present = array->n_present,
		.before = first - run_rest(&placer->run),
		.first_ns = array->first_ns,
		.last_ns = array->last_ns,
		.end = end,
		.index = array->index,
		.at = (uint32_t)at,
	};
}

static void close_oldest(struct ibvcap_placer *placer, enum ibvcap_place_end end)
{
	struct place_array *array = placer->open[0];
	struct place_run *run = &placer->run;
	uint64_t n_by[256] = {0}, first;

	array_describe(placer, array, end);
	first = (uint64_t)array->closed.first;
	array_fill(placer, &array->closed, n_by);
	count_closed(placer, &array->closed, count_expected(placer, run_rest(run), first), n_by);
	run->has_closed = true;
	run->closed_end = first + array->closed.n_numbers;
	memmove(&placer->open[0], &placer->open[1], --placer->n_open * sizeof(placer->open[0]));
	placer->last = NULL;
	note_deadlines(placer);
	array->use = PLACE_CLOSED;
	array->next = NULL;
	if (placer->last_closed)
		placer->last_closed->next = array;
	else
		placer->first_closed = array;
	placer->last_closed = array;
}

void place_arrays_close(struct ibvcap_placer *placer, uint32_t n, enum ibvcap_place_end end)
{
	while (n-- > 0)
		close_oldest(placer, end);
}

/* A frame is known to be whole when the next one begins at the number after it. */
static bool is_complete(const struct ibvcap_placer *placer, struct place_array *array)
{
	if (has_frames(placer)) {
		if (placer->n_open < 2 || placer->open[1]->low != array->high + 1 ||
		    run_rest(&placer->run) != array->low)
			return false;
		return array->n_brought == placer->options.sides * count_expected(placer, array->low, array->high + 1);
	}
	if (array->version != placer->version) {
		array->n_wanted =
			placer->options.sides * count_expected(placer, array_first(placer, array),
		                                               array_end(placer, array, IBVCAP_PLACE_COMPLETE));
		array->version = placer->version;
	}
	return array->n_brought == array->n_wanted;
}

void place_arrays_close_complete(struct ibvcap_placer *placer)
{
	while (placer->n_open && is_complete(placer, placer->open[0]))
		close_oldest(placer, IBVCAP_PLACE_COMPLETE);
}

/* ---- opening ------------------------------------------------------------------------------------- */

/*
 * Without memory the oldest array is closed, too, unless there are closed ones to be taken. A packet waits for its
 * array if it lies in this one alone.
 */
static enum ibvcap_placed_kind array_lacks_memory(struct ibvcap_placer *placer, const struct place_item *item,
                                                  uint32_t at, uint32_t n)
{
	if (at > 0 && !placer->first_closed)
		close_oldest(placer, IBVCAP_PLACE_WINDOW);
	return placer->may_wait && placer->first_closed && n == item->n ? PLACE_WAITS : PLACE_NO_MEMORY;
}

static struct place_array *array_begin(struct ibvcap_placer *placer, const struct place_item *item, uint32_t at,
                                       uint64_t base, uint64_t low, uint32_t n, enum ibvcap_placed_kind *kind)
{
	struct place_array *array = placer->free;

	if (placer->n_open == placer->options.window) {
		if (at == 0)
			return NULL;
		close_oldest(placer, IBVCAP_PLACE_WINDOW);
		at--;
	}
	if (!array_take_memory(placer, array)) {
		*kind = array_lacks_memory(placer, item, at, n);
		return NULL;
	}
	placer->free = array->next;
	placer->n_free--;
	memmove(&placer->open[at + 1], &placer->open[at], (placer->n_open++ - at) * sizeof(placer->open[0]));
	placer->open[at] = array;
	array->use = PLACE_OPEN;
	array->base = base;
	array->low = low;
	array->high = low + n - 1;
	array->frame = item->frame;
	array->serial = ++placer->serial;
	array->n_present = array->n_brought = array->version = 0;
	array->first_ns = item->timestamp_ns;
	memset(array->present, 0, (size_t)placer->rows * placer->table.n_max);
	note_deadlines(placer);
	return array;
}

static struct place_array *find_fixed(struct ibvcap_placer *placer, const struct place_item *item, uint64_t position,
                                      uint32_t n, enum ibvcap_placed_kind *kind)
{
	const int64_t numbers = placer->rows;
	uint32_t at = placer->n_open;
	uint64_t base;
	int64_t rest;

	if (placer->last && position - placer->last->base < placer->rows)
		return placer->last;
	rest = (int64_t)position % numbers;
	base = position - (uint64_t)(rest < 0 ? rest + numbers : rest);
	while (at > 0 && place_offset(base, placer->open[at - 1]->base) > 0)
		at--;
	if (at > 0 && placer->open[at - 1]->base == base)
		return placer->open[at - 1];
	return array_begin(placer, item, at, base, position, n, kind);
}

static bool is_in_frame(const struct ibvcap_placer *placer, const struct place_array *array, uint64_t position,
                        uint32_t n)
{
	const uint64_t last = position + n - 1;
	const uint64_t low = place_offset(array->low, position) < 0 ? position : array->low;
	const uint64_t high = place_offset(array->high, last) > 0 ? last : array->high;

	return high - low < placer->options.numbers;
}

/* A frame's numbers follow each other, so only the two arrays around a position can have it. */
static struct place_array *find_frame(struct ibvcap_placer *placer, const struct place_item *item, uint64_t position,
                                      uint32_t n, enum ibvcap_placed_kind *kind)
{
	uint32_t at = placer->n_open;
	struct place_array *before, *after, *array = NULL;

	while (at > 0 && place_offset(position, placer->open[at - 1]->low) > 0)
		at--;
	before = at > 0 ? placer->open[at - 1] : NULL;
	after = at < placer->n_open ? placer->open[at] : NULL;
	if (before && before->frame == item->frame)
		array = before;
	else if (after && after->frame == item->frame)
		array = after;
	if ((before && before != array && place_offset(position, before->high) >= 0) ||
	    (after && after != array && place_offset(after->low, position + n - 1) >= 0) ||
	    (array && !is_in_frame(placer, array, position, n))) {
		*kind = IBVCAP_PLACED_OUTSIDE;
		return NULL;
	}
	if (array)
		return array;
	return array_begin(placer, item, at, position - (placer->options.numbers - 1), position, n, kind);
}

struct place_array *place_array_find(struct ibvcap_placer *placer, const struct place_item *item, uint64_t position,
                                     uint32_t n, enum ibvcap_placed_kind *kind)
{
	*kind = IBVCAP_PLACED_LATE;
	if (placer->run.has_closed && place_offset(placer->run.closed_end, position) < 0)
		return NULL;
	return has_frames(placer) ? find_frame(placer, item, position, n, kind)
	                          : find_fixed(placer, item, position, n, kind);
}
