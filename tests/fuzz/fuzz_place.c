// SPDX-License-Identifier: Apache-2.0
/*
 * A placer with any description and options, on any batches. The input begins with a description and eight bytes of
 * options; each step after it begins with a byte that says what it is. No read is beyond a row and no write beyond an
 * array, and the sums hold after each step.
 */
#include "lib/base/min.h"
#include "lib/ibvcap/sequence.h"
#include "tests/fuzz/require.h"

#include <ibvcap/place.h>
#include <stdlib.h>
#include <string.h>

#define N_OPTIONS   8
#define ROWS_MAX    8
#define ARRAYS_MAX  4 /* that the program holds */
#define META_BYTES  6 /* of a row in the input: the fields of its meta */
#define BATCH_BYTES 4 /* of a batch in the input, before its rows */
#define SOURCES_MAX 3
#define NUMBERS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *data;
	size_t size;
};

static const uint8_t *take_bytes(struct input *input, size_t n)
{
	const uint8_t *bytes = input->data;

	if (input->size < n)
		return NULL;
	input->data += n;
	input->size -= n;
	return bytes;
}

static void *copy_bytes(const void *from, size_t n)
{
	void *copy = malloc(n ? n : 1);

	if (!copy)
		abort();
	memcpy(copy, from, n);
	return copy;
}

/* Memory of the caller: so many arrays may be in use. */
struct memory {
	uint32_t n_given, n_max;
};

static void *take_memory(void *context, size_t align, size_t bytes)
{
	struct memory *memory = context;

	if (memory->n_given == memory->n_max)
		return NULL;
	memory->n_given++;
	(void)align; /* the placer does not need it, and no byte behind the memory is given */
	return malloc(bytes);
}

static void give_memory_back(void *context, void *given)
{
	((struct memory *)context)->n_given--;
	free(given);
}

static struct ibvcap_placer *new_placer(struct input *input, struct memory *memory)
{
	const uint8_t *description = take_bytes(input, sizeof(struct ibvcap_sequence));
	const uint8_t *byte = take_bytes(input, N_OPTIONS);
	struct ibvcap_place_source sources[SOURCES_MAX] = {{.field = {1}}, {.field = {2}, .port = 2}, {.port = 3}};
	struct ibvcap_placer_options options = IBVCAP_INIT(struct ibvcap_placer_options);
	struct ibvcap_placer *placer = NULL;
	struct ibvcap_sequence sequence;
	struct sequence_fault fault;

	if (!description || !byte)
		return NULL;
	memcpy(&sequence, description, sizeof(sequence));
	options.numbers = 1 + byte[0] % NUMBERS_MAX;
	options.row_bytes = byte[1];
	options.skip_bytes = byte[2];
	options.window = byte[3] % 6;
	options.sides = byte[4] % 5;
	options.fill = byte[5];
	options.deadline_ns = byte[6];
	options.max_sources = 1 + byte[7] % SOURCES_MAX;
	options.n_sources = byte[7] & 64 ? options.max_sources : 0;
	options.sources = sources;
	if (byte[7] & 128 && options.row_bytes) {
		memory->n_max = byte[6] % 8;
		options.take = take_memory;
		options.give_back = give_memory_back;
		options.context = memory;
	}
	if (!sequence.bytes || !sequence_check(&sequence, &fault))
		require(ibvcap_placer_new(&sequence, &options, &placer) < 0, "an unsound description is refused");
	else if (ibvcap_placer_new(&sequence, &options, &placer) < 0)
		require(options.n_sources || (sequence.frame_bytes && options.window == 1), "sound options are taken");
	return placer;
}

/* ---- what holds after each step ------------------------------------------------------------------ */

static void check_sums(const struct ibvcap_placer *placer)
{
	struct ibvcap_place_counts counts = IBVCAP_INIT(struct ibvcap_place_counts);
	struct ibvcap_place_side side = IBVCAP_INIT(struct ibvcap_place_side);

	require(ibvcap_place_counts(placer, &counts) == 0, "there are counts");
	require(counts.expected == counts.present + counts.missing && counts.present <= counts.expected, "all add up");
	require(counts.between <= counts.missing, "what is missing between arrays is missing");
	for (uint32_t i = 0; ibvcap_place_side(placer, i, &side) == 1; i++) {
		require(side.arrived == side.open + side.present + side.duplicate + side.late + side.far + side.outside,
		        "a side adds up");
		require(side.expected == counts.expected && side.present <= side.expected,
		        "each side is expected whole");
		require(side.only <= side.present && side.unread + side.unlisted + side.empty <= side.packets,
		        "parts are less than the whole");
	}
}

/* Write all of an array, as a program may. */
static void check_array(const struct ibvcap_placer *placer, const struct ibvcap_place_array *array)
{
	uint64_t n_present = 0;

	require(array->at + array->n_numbers <= ibvcap_place_rows(placer), "the rows are the array's");
	for (uint32_t source = 0; source < array->n_sources; source++) {
		for (uint32_t i = 0; i < array->n_numbers; i++) {
			uint64_t at = source * array->stride_numbers + i;

			n_present += array->present[at] != 0;
			require(!array->payload || array->lengths[at] <= array->row_bytes, "a row has its bytes");
			if (array->payload)
				memset(array->payload + at * array->row_bytes, 1, array->row_bytes);
		}
	}
	require(n_present == array->n_present && n_present <= array->n_expected, "an array adds up");
}

static void take_arrays(struct ibvcap_placer *placer, struct ibvcap_place_array held[ARRAYS_MAX], uint32_t *n_held)
{
	struct ibvcap_place_array array = IBVCAP_INIT(struct ibvcap_place_array);

	while (ibvcap_place_next(placer, &array) == 1) {
		check_array(placer, &array);
		if (*n_held == ARRAYS_MAX)
			require(ibvcap_place_release(placer, &held[--*n_held]) == 0, "an array is released once");
		held[(*n_held)++] = array;
	}
}

/* ---- steps --------------------------------------------------------------------------------------- */

static void add_batch(struct ibvcap_placer *placer, struct input *input, struct ibvcap_place_array held[ARRAYS_MAX],
                      uint32_t *n_held)
{
	const uint8_t *byte = take_bytes(input, BATCH_BYTES);
	const uint32_t n = byte ? 1 + byte[0] % ROWS_MAX : 0, stride = byte ? 1 + byte[1] % 64u : 0;
	const uint8_t *meta_bytes = byte ? take_bytes(input, (size_t)n * META_BYTES) : NULL;
	const uint8_t *rows = meta_bytes ? take_bytes(input, (size_t)n * stride * 2) : NULL;
	struct ibvcap_placed placed[ROWS_MAX];
	struct ibvcap_meta meta[ROWS_MAX];
	struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);
	uint32_t at = 0;
	int r;

	if (!rows)
		return;
	batch.payload = copy_bytes(rows, (size_t)n * stride);
	batch.headers = copy_bytes(rows + (size_t)n * stride, (size_t)n * stride);
	batch.meta = meta;
	batch.n = n;
	batch.stride = batch.header_stride = stride;
	batch.header_bytes = byte[2] % (stride + 1);
	batch.application_header_bytes = batch.header_bytes ? byte[3] % batch.header_bytes : 0;
	for (uint32_t i = 0; i < n; i++, meta_bytes += META_BYTES)
		meta[i] = (struct ibvcap_meta){.timestamp_ns = meta_bytes[0],
		                               .length = (uint16_t)(meta_bytes[1] | meta_bytes[2] << 8),
		                               .flags = meta_bytes[3],
		                               .header_length = meta_bytes[4]};
	while (at < n && (r = ibvcap_place_add(placer, &batch, at, byte[3] % 4, placed)) >= 0) {
		at += (uint32_t)r;
		take_arrays(placer, held, n_held);
	}
	for (uint32_t i = 0; i < at; i++) {
		require(placed[i].kind <= IBVCAP_PLACED_EMPTY, "each packet is something");
		require((placed[i].row < ibvcap_place_rows(placer)) == (placed[i].kind <= IBVCAP_PLACED_DUPLICATE),
		        "a packet that is placed has a row");
	}
	free((void *)batch.payload);
	free((void *)batch.headers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	struct memory memory = {0};
	struct ibvcap_placer *placer = new_placer(&input, &memory);
	struct ibvcap_place_array held[ARRAYS_MAX];
	const uint8_t *step;
	uint32_t n_held = 0;

	while (placer && (step = take_bytes(&input, 1))) {
		if (*step % 16 == 15)
			ibvcap_place_flush(placer);
		else if (*step % 16 == 14)
			ibvcap_place_expire(placer, *step);
		else
			add_batch(placer, &input, held, &n_held);
		take_arrays(placer, held, &n_held);
		check_sums(placer);
	}
	ibvcap_placer_free(placer);
	require(memory.n_given == 0, "all memory is given back");
	return 0;
}
