// SPDX-License-Identifier: Apache-2.0
/* Makes and frees a placer: its options, checked and with their defaults, and what follows from them. */
#include "lib/ibvcap/place/place.h"

#include "lib/base/min.h"
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/sequence.h"
#include "lib/ibvcap/client/sized_struct.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS_DEFAULT 1024
#define NUMBERS_MAX     (UINT32_C(1) << 20)
#define ROW_BYTES_MAX   65535 /* struct ibvcap_place_array has the lengths in 16 bits */
#define WINDOW_DEFAULT  4
#define SOURCES_DEFAULT 16
#define ALIGN_MAX       (UINT32_C(1) << 21) /* a huge page */
#define ARRAY_BYTES_MAX (UINT64_C(1) << 40)

static int check_most(const char *name, uint32_t value, uint32_t most)
{
	return value <= most ? 0 : error_set(-EINVAL, "%s = %u of a placer: accepted is %u at most", name, value, most);
}

static int check_caller_memory(const struct ibvcap_placer_options *options)
{
	if (options->align > ALIGN_MAX || (options->align & (options->align - 1)))
		return error_set(-EINVAL, "align = %u of a placer: accepted is a power of two, %u at most",
		                 options->align, ALIGN_MAX);
	if (!options->take != !options->give_back)
		return error_set(-EINVAL, "a placer with one of take and give_back: accepted are both, or none");
	if (options->take && !options->row_bytes)
		return error_set(-EINVAL,
		                 "a placer with memory of the caller and row_bytes = 0: accepted is 1 or more, "
		                 "since the memory is for payload");
	return 0;
}

static int check_options(const struct ibvcap_sequence *sequence, const struct ibvcap_placer_options *options)
{
	int r;

	if ((r = check_most("numbers", options->numbers, NUMBERS_MAX)) < 0 ||
	    (r = check_most("row_bytes", options->row_bytes, ROW_BYTES_MAX)) < 0 ||
	    (r = check_most("skip_bytes", options->skip_bytes, UINT16_MAX)) < 0 ||
	    (r = check_most("window", options->window, PLACE_WINDOW_MAX)) < 0 ||
	    (r = check_most("sides", options->sides, IBVCAP_PLACE_SIDES_MAX)) < 0 ||
	    (r = check_most("fill", options->fill, UINT8_MAX)) < 0 ||
	    (r = check_most("max_sources", options->max_sources, SOURCE_TABLE_MAX)) < 0 ||
	    (r = check_most("n_sources", options->n_sources, SOURCE_TABLE_MAX)) < 0 ||
	    (r = check_caller_memory(options)) < 0)
		return r;
	if (options->n_sources && !options->sources)
		return error_set(-EINVAL, "n_sources = %u of a placer, and no sources: accepted is 0",
		                 options->n_sources);
	if (sequence->frame_bytes && options->window == 1)
		return error_set(-EINVAL, "window = 1 of a placer with frames: accepted is 2 or more, since the next "
		                          "frame tells where one ends");
	return 0;
}

static void set_defaults(struct ibvcap_placer *placer)
{
	struct ibvcap_placer_options *options = &placer->options;
	const struct ibvcap_sequence *sequence = &placer->reader.sequence;

	if (!options->numbers)
		options->numbers = sequence->upper_bytes && placer->reader.lower_cycle <= NUMBERS_MAX
		                           ? (uint32_t)placer->reader.lower_cycle
		                           : NUMBERS_DEFAULT;
	if (!options->window)
		options->window = WINDOW_DEFAULT;
	if (!options->sides)
		options->sides = 1;
	if (options->align < PLACE_ALIGN)
		options->align = PLACE_ALIGN;
	if (options->n_sources)
		options->max_sources = options->n_sources;
	else
		options->max_sources =
			sequence_sources(sequence, options->max_sources ? options->max_sources : SOURCES_DEFAULT);
}

/* As far behind as an array can be open; with half of the cycle behind, and half ahead, each number has one meaning. */
static void set_limits(struct ibvcap_placer *placer)
{
	const struct ibvcap_sequence *sequence = &placer->reader.sequence;
	const uint64_t cycle = placer->reader.cycle;

	placer->rows = sequence->frame_bytes ? 2 * placer->options.numbers - 1 : placer->options.numbers;
	placer->behind_max =
		u64_max(sequence->window, (placer->options.window + 1) * (uint64_t)placer->options.numbers);
	placer->ahead_max = cycle ? u64_min(sequence->jump, cycle / 2) : sequence->jump;
	placer->near_max = sequence->window;
	if (cycle) {
		placer->behind_max = u64_min(placer->behind_max, cycle / 2);
		placer->near_max = u64_min(placer->near_max, cycle / 2);
	}
}

/* The key that a packet of the source has: see read_key() in sequence_read.c. */
static int list_source(struct ibvcap_placer *placer, const struct ibvcap_place_source *source, uint32_t index)
{
	const struct ibvcap_sequence *sequence = &placer->reader.sequence;
	struct sequence_key key = {0};

	for (uint32_t i = 0; i < sequence->source_bytes; i++)
		key.field[i] = source->field[i] & sequence->source_mask[i];
	if (sequence->source != IBVCAP_SOURCE_NONE)
		memcpy(key.address, source->address, sizeof(key.address));
	if (sequence->source == IBVCAP_SOURCE_FLOW || sequence->source == IBVCAP_SOURCE_PORT)
		key.port = source->port;
	if (sequence->source == IBVCAP_SOURCE_FLOW) {
		key.destination_port = source->destination_port;
		memcpy(key.destination, source->destination, sizeof(key.destination));
	}
	if (source_table_find(&placer->table, &key) != index)
		return error_set(-EINVAL, "source %u of a placer is listed twice, by what tells its sources apart",
		                 index);
	return 0;
}

static int set_up(struct ibvcap_placer *placer)
{
	const struct ibvcap_placer_options *options = &placer->options;
	uint32_t n_sources;
	int r;

	set_defaults(placer);
	set_limits(placer);
	n_sources = options->max_sources;
	if ((uint64_t)placer->rows * n_sources > ARRAY_BYTES_MAX / (options->row_bytes + 3))
		return error_set(-EINVAL, "%u rows of %u sources, %u bytes each, are more than an array can have",
		                 placer->rows, n_sources, options->row_bytes);
	r = source_table_init(&placer->table, placer->reader.n_key_words, n_sources);
	if (r < 0)
		return r;
	placer->sources = calloc(n_sources, sizeof(*placer->sources));
	placer->lanes = calloc((size_t)n_sources * options->sides, sizeof(*placer->lanes));
	placer->held_bytes = options->row_bytes ? calloc(1, options->row_bytes) : NULL;
	if (!placer->sources || !placer->lanes || (options->row_bytes && !placer->held_bytes))
		return error_set(-ENOMEM, "a placer of %u sources: out of memory", n_sources);
	for (uint32_t i = 0; i < options->n_sources && r == 0; i++)
		r = list_source(placer, &options->sources[i], i);
	placer->options.sources = NULL; /* the caller's */
	return r < 0 ? r : place_arrays_reserve(placer);
}

int ibvcap_placer_new(const struct ibvcap_sequence *sequence, const struct ibvcap_placer_options *options,
                      struct ibvcap_placer **placer)
{
	struct ibvcap_placer_options known = IBVCAP_INIT(struct ibvcap_placer_options);
	struct ibvcap_placer *new;
	int r = options ? sized_struct_read(&known, sizeof(known), options, "ibvcap_placer_options") : 0;

	if (r < 0)
		return r;
	new = calloc(1, sizeof(*new));
	if (!new)
		return error_set(-ENOMEM, "a placer: out of memory");
	new->options = known;
	new->version = 1;
	new->expire_next_ns = UINT64_MAX;
	r = sequence_reader_init(&new->reader, sequence, "a placer");
	if (r == 0)
		r = check_options(sequence, &known);
	if (r == 0)
		r = set_up(new);
	if (r < 0) {
		ibvcap_placer_free(new);
		return r;
	}
	*placer = new;
	return 0;
}

void ibvcap_placer_free(struct ibvcap_placer *placer)
{
	if (!placer)
		return;
	place_arrays_free(placer);
	source_table_deinit(&placer->table);
	free(placer->sources);
	free(placer->lanes);
	free(placer->held_bytes);
	free(placer);
}
