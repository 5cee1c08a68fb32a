// SPDX-License-Identifier: Apache-2.0
/* Places packets in the rows of arrays by their own numbers: the calls of ibvcap/place.h. */
#include "lib/ibvcap/place/place.h"

#include "lib/base/min.h"
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/client/sized_struct.h"

#include <errno.h>
#include <string.h>

/* A batch that is read from its first field to its last. */
#define PLACED_BATCH_BYTES (offsetof(struct ibvcap_rx_batch, application_header_bytes) + sizeof(uint32_t))

/* ---- one packet ---------------------------------------------------------------------------------- */

static uint32_t copy_pieces(const struct place_item *item, uint8_t *to, uint32_t max)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < 2; i++) {
		uint32_t piece = u32_min(item->piece_bytes[i], max - n);

		if (piece)
			memcpy(to + n, item->pieces[i], piece);
		n += piece;
	}
	return n;
}

static void copy_row(struct ibvcap_placer *placer, struct place_array *array, const struct place_item *item,
                     uint64_t at)
{
	const uint32_t row_bytes = placer->options.row_bytes;
	const uint32_t length = item->piece_bytes[0] + item->piece_bytes[1];
	uint8_t *row;
	uint32_t n;

	array->lengths[at] = (uint16_t)u32_min(length, row_bytes ? row_bytes : UINT16_MAX);
	if (!row_bytes)
		return;
	row = array->payload + at * row_bytes;
	n = copy_pieces(item, row, row_bytes);
	memset(row + n, (int)placer->options.fill, row_bytes - n);
	placer->sides[item->side].cut += length > row_bytes;
}

/* Mark that a side brought n numbers of an array. The packet goes to the first number that no side had brought. */
static enum ibvcap_placed_kind place_numbers(struct ibvcap_placer *placer, struct place_array *array,
                                             const struct place_item *item, uint64_t position, uint32_t n,
                                             uint32_t *row)
{
	const uint64_t at = (uint64_t)item->source * placer->rows + (position - array->base);
	struct ibvcap_place_side *side = &placer->sides[item->side];
	const uint8_t bit = (uint8_t)(1u << item->side);
	uint32_t n_new = 0, n_known = 0;

	*row = (uint32_t)(position - array->base);
	for (uint32_t i = 0; i < n; i++) {
		uint8_t *present = &array->present[at + i];

		n_known += (*present & bit) != 0;
		if (*present == 0) {
			array->lengths[at + i] = 0;
			if (n_new++ == 0)
				*row += i;
		}
		*present |= bit;
	}
	if (n_new)
		copy_row(placer, array, item, (uint64_t)item->source * placer->rows + *row);
	array->n_present += n_new;
	array->n_brought += n - n_known;
	side->open += n - n_known;
	side->duplicate += n_known;
	if (n_known == n)
		return IBVCAP_PLACED_DUPLICATE;
	return n_new ? IBVCAP_PLACED_FIRST : IBVCAP_PLACED_SECOND;
}

/* The run goes on with these numbers: a far one of the source has no effect any more. */
static void follow(struct ibvcap_placer *placer, struct place_lane *lane, uint32_t source, uint64_t position,
                   uint32_t n)
{
	place_run_extend(placer, source, position, n);
	placer->n_astray = placer->slack = 0;
	if (!lane->has_next || place_offset(lane->next, position + n) > 0)
		lane->next = position + n;
	lane->has_next = true;
	lane->has_suspect = false;
}

/* Numbers without an array, for this reason. */
static enum ibvcap_placed_kind place_nowhere(struct ibvcap_placer *placer, const struct place_item *item,
                                             uint64_t position, uint32_t n, enum ibvcap_placed_kind kind)
{
	struct place_lane *lane = &placer->lanes[item->source * placer->options.sides + item->side];
	struct ibvcap_place_side *side = &placer->sides[item->side];

	if (kind == PLACE_WAITS) {
		placer->is_waiting = true;
		side->packets--;
		side->arrived -= n;
		return kind;
	}
	if (kind == IBVCAP_PLACED_OUTSIDE) {
		side->outside += n;
		return kind;
	}
	if (kind == PLACE_NO_MEMORY) {
		follow(placer, lane, item->source, position, n);
		side->no_memory += n;
	} else if (placer->run.has_closed && !placer->sources[item->source].run) {
		/* A source that is always a little behind the others: the next array waits for it. */
		place_run_learn(placer, item->source, placer->run.closed_end);
	}
	side->late += n;
	return IBVCAP_PLACED_LATE;
}

/* The numbers from a position on that lie in one array. */
static enum ibvcap_placed_kind place_part(struct ibvcap_placer *placer, const struct place_item *item,
                                          uint64_t position, uint32_t n, struct ibvcap_placed *placed)
{
	struct place_lane *lane = &placer->lanes[item->source * placer->options.sides + item->side];
	enum ibvcap_placed_kind kind;
	struct place_array *array = place_array_find(placer, item, position, n, &kind);
	uint32_t row;

	if (!array)
		return place_nowhere(placer, item, position, n, kind);
	kind = place_numbers(placer, array, item, position, n, &row);
	if (place_offset(array->low, position) < 0)
		array->low = position;
	if (place_offset(array->high, position + n - 1) > 0)
		array->high = position + n - 1;
	array->last_ns = item->timestamp_ns;
	placer->last = array;
	follow(placer, lane, item->source, position, n);
	lane->serial = array->serial;
	if (placed && kind < placed->kind)
		*placed = (struct ibvcap_placed){kind, array->index, item->source, row};
	return kind;
}

/* Of n numbers from a position on: how many lie in one array, or are all late. */
static uint32_t count_part(const struct ibvcap_placer *placer, uint64_t position, uint32_t n)
{
	const int64_t late = placer->run.has_closed ? place_offset(position, placer->run.closed_end) : 0;
	int64_t rest;

	if (late > 0)
		n = (uint32_t)u64_min(n, (uint64_t)late);
	if (n == 1 || placer->reader.sequence.frame_bytes)
		return n;
	rest = (int64_t)position % (int64_t)placer->rows;
	return (uint32_t)u64_min(n, (uint64_t)(rest < 0 ? -rest : (int64_t)placer->rows - rest));
}

/* The packet's number is not far. */
static enum ibvcap_placed_kind place_at(struct ibvcap_placer *placer, const struct place_item *item, uint64_t position,
                                        struct ibvcap_placed *placed)
{
	enum ibvcap_placed_kind kind = PLACE_WAITS, part;

	for (uint32_t i = 0, n; i < item->n; i += n) {
		n = count_part(placer, position + i, item->n - i);
		part = place_part(placer, item, position + i, n, placed);
		if (part < kind)
			kind = part;
	}
	place_arrays_close_complete(placer);
	return kind;
}

/* ---- restarts ------------------------------------------------------------------------------------ */

/* Keep a far packet: if the next one confirms that a run begins with it, it is placed after all. */
static void hold_far(struct ibvcap_placer *placer, const struct place_item *item)
{
	struct place_lane *lane = &placer->lanes[item->source * placer->options.sides + item->side];
	struct place_item *held = &placer->held;

	lane->has_suspect = true;
	lane->suspect = item->number;
	placer->sides[item->side].far += item->n;
	if (!placer->held_bytes)
		return;
	*held = *item;
	held->pieces[0] = placer->held_bytes;
	held->piece_bytes[0] = copy_pieces(item, placer->held_bytes, placer->options.row_bytes);
	/* What a row has no room for is not kept, but counted. */
	held->piece_bytes[1] = item->piece_bytes[0] + item->piece_bytes[1] - held->piece_bytes[0];
}

static enum ibvcap_placed_kind begin_again(struct ibvcap_placer *placer, const struct place_item *item,
                                           struct ibvcap_placed *placed)
{
	const struct place_item held = placer->held;
	const bool has_held = held.n && place_run_is_near(placer, held.number, item->number);
	const bool may_wait = placer->may_wait;
	uint64_t position;

	place_run_end(placer, IBVCAP_PLACE_RESET);
	place_run_begin(placer, has_held ? held.number : item->number);
	if (has_held) {
		placer->sides[held.side].far -= held.n;
		placer->may_wait = false;
		place_at(placer, &held, placer->run.next, NULL);
		placer->may_wait = may_wait;
	}
	if (!place_run_locate(placer, item->number, &position)) {
		hold_far(placer, item);
		return IBVCAP_PLACED_FAR;
	}
	return place_at(placer, item, position, placed);
}

static enum ibvcap_placed_kind place_item(struct ibvcap_placer *placer, const struct place_item *item,
                                          struct ibvcap_placed *placed)
{
	struct ibvcap_place_side *side = &placer->sides[item->side];
	enum ibvcap_placed_kind kind;
	uint64_t position;

	side->arrived += item->n;
	if (item->n > placer->options.numbers) {
		side->outside += item->n;
		return IBVCAP_PLACED_OUTSIDE;
	}
	if (!placer->run.is_begun)
		place_run_begin(placer, item->number);
	if (place_run_locate(placer, item->number, &position) && !place_run_is_stepped_back(placer, item, position)) {
		kind = place_at(placer, item, position, placed);
		if (kind <= IBVCAP_PLACED_DUPLICATE && placer->held.source == item->source &&
		    placer->held.side == item->side)
			placer->held.n = 0;
		if (kind != IBVCAP_PLACED_LATE || (placer->n_astray += item->n) <= placer->behind_max)
			return kind;
		side->late -= item->n;
		return begin_again(placer, item, placed);
	}
	placer->n_astray += item->n;
	if (place_run_is_over(placer, item) || placer->n_astray > placer->behind_max)
		return begin_again(placer, item, placed);
	hold_far(placer, item);
	return IBVCAP_PLACED_FAR;
}

/* The bytes of the payload behind those that are left out. */
static void find_pieces(const struct ibvcap_placer *placer, const struct ibvcap_packet *packet, struct place_item *item)
{
	const uint64_t from = (uint64_t)packet->payload_at + placer->options.skip_bytes;
	const uint64_t in_headers = u64_min(from, packet->header_bytes);
	const uint64_t in_row = u64_min(from - in_headers, packet->row_bytes);

	if (packet->header_bytes)
		item->pieces[0] = packet->headers + in_headers;
	item->piece_bytes[0] = packet->header_bytes - (uint32_t)in_headers;
	item->pieces[1] = packet->row + in_row;
	item->piece_bytes[1] = packet->row_bytes - (uint32_t)in_row;
}

/* packet NULL: the row is in error. */
static void place_packet(struct ibvcap_placer *placer, const struct ibvcap_packet *packet, uint64_t timestamp_ns,
                         uint32_t side_index, struct ibvcap_placed *placed)
{
	struct place_item item = {.side = side_index, .timestamp_ns = timestamp_ns};
	struct ibvcap_place_side *side = &placer->sides[side_index];
	struct sequence_reading reading;
	struct ibvcap_placed ours;

	placed = placed ? placed : &ours;
	*placed = (struct ibvcap_placed){UINT32_MAX, UINT32_MAX, UINT32_MAX, IBVCAP_PLACE_NOWHERE};
	side->packets++;
	ibvcap_place_expire(placer, timestamp_ns);
	if (!packet || !sequence_read(&placer->reader, packet, &reading) ||
	    !sequence_read_frame(&placer->reader, packet, &item.frame)) {
		side->unread++;
		placed->kind = IBVCAP_PLACED_UNREAD;
		return;
	}
	item.number = reading.number;
	item.n = reading.n;
	item.source = source_table_find(&placer->table, &reading.key);
	if (item.source == SOURCE_TABLE_FULL) {
		side->unlisted++;
		placed->kind = IBVCAP_PLACED_UNLISTED;
		return;
	}
	placed->source = item.source;
	if (item.n == 0) {
		side->empty++;
		placed->kind = IBVCAP_PLACED_EMPTY;
		return;
	}
	find_pieces(placer, packet, &item);
	placed->kind = place_item(placer, &item, placed);
}

/* ---- calls --------------------------------------------------------------------------------------- */

static int place_check(const struct ibvcap_placer *placer, uint32_t side)
{
	if (side >= placer->options.sides)
		return error_set(-EINVAL, "side %u of a placer of %u: accepted is less", side, placer->options.sides);
	return 0;
}

int ibvcap_place_add(struct ibvcap_placer *placer, const struct ibvcap_rx_batch *batch, uint32_t first, uint32_t side,
                     struct ibvcap_placed *placed)
{
	struct ibvcap_packet packet;
	uint32_t i = first;
	int r = sized_struct_check(batch, PLACED_BATCH_BYTES, "ibvcap_rx_batch");

	if (r == 0)
		r = place_check(placer, side);
	if (r == 0 && first == 0)
		placer->slack += sequence_slack(batch);
	placer->may_wait = !placer->first_closed;
	for (; r == 0 && i < batch->n && (i == first || !placer->first_closed); i++) {
		bool has_packet =
			sequence_packet_of_row(batch, i, batch->header_bytes, batch->application_header_bytes, &packet);

		r = has_packet ? source_table_check(&placer->reader, &packet) : 0;
		if (r == 0)
			r = place_arrays_reserve(placer);
		if (r < 0)
			break;
		place_packet(placer, has_packet ? &packet : NULL, batch->meta[i].timestamp_ns, side,
		             placed ? &placed[i] : NULL);
	}
	i -= placer->is_waiting;
	placer->is_waiting = false;
	return i > first ? (int)(i - first) : r;
}

int ibvcap_place_add_packet(struct ibvcap_placer *placer, const struct ibvcap_packet *packet, uint64_t timestamp_ns,
                            uint32_t side, struct ibvcap_placed *placed)
{
	int r = place_check(placer, side);

	if (r == 0)
		r = source_table_check(&placer->reader, packet);
	if (r == 0)
		r = place_arrays_reserve(placer);
	if (r < 0)
		return r;
	placer->may_wait = !placer->first_closed;
	place_packet(placer, packet, timestamp_ns, side, placed);
	r = placer->is_waiting ? 0 : 1;
	placer->is_waiting = false;
	return r;
}

int ibvcap_place_next(struct ibvcap_placer *placer, struct ibvcap_place_array *array)
{
	struct place_array *closed = placer->first_closed;
	int r = sized_struct_check(array, sizeof(size_t), "ibvcap_place_array");

	if (r < 0 || !closed)
		return r;
	sized_struct_copy(array, &closed->closed, sizeof(closed->closed));
	placer->first_closed = closed->next;
	if (!placer->first_closed)
		placer->last_closed = NULL;
	closed->use = PLACE_HELD;
	return 1;
}

int ibvcap_place_release(struct ibvcap_placer *placer, const struct ibvcap_place_array *array)
{
	struct place_array *held = array->index < placer->n_arrays ? placer->arrays[array->index] : NULL;

	if (!held || held->use != PLACE_HELD)
		return error_set(-EINVAL, "the placer has not given out this array, or it was released");
	place_array_put_free(placer, held);
	return 0;
}

void ibvcap_place_expire(struct ibvcap_placer *placer, uint64_t now_ns)
{
	uint32_t n = placer->n_open;

	if (now_ns < placer->expire_next_ns || n == 0)
		return;
	while (n > 0 &&
	       (!placer->open[n - 1]->first_ns || now_ns < placer->open[n - 1]->first_ns + placer->options.deadline_ns))
		n--;
	place_arrays_close(placer, n, IBVCAP_PLACE_DEADLINE);
	place_arrays_close_complete(placer);
}

void ibvcap_place_flush(struct ibvcap_placer *placer)
{
	place_run_end(placer, IBVCAP_PLACE_FLUSH);
}

uint32_t ibvcap_place_rows(const struct ibvcap_placer *placer)
{
	return placer->rows;
}

uint64_t ibvcap_place_bytes(const struct ibvcap_placer *placer)
{
	return place_payload_bytes(placer);
}

/* ---- counts -------------------------------------------------------------------------------------- */

int ibvcap_place_counts(const struct ibvcap_placer *placer, struct ibvcap_place_counts *counts)
{
	struct ibvcap_place_counts ours = placer->counts;

	ours.size = sizeof(ours);
	ours.missing = ours.expected - ours.present;
	ours.n_open = placer->n_open;
	ours.n_sources = placer->table.n;
	return sized_struct_write(counts, &ours, sizeof(ours), "ibvcap_place_counts");
}

int ibvcap_place_side(const struct ibvcap_placer *placer, uint32_t side, struct ibvcap_place_side *counts)
{
	struct ibvcap_place_side ours;
	int r;

	if (side >= placer->options.sides)
		return 0;
	ours = placer->sides[side];
	ours.size = sizeof(ours);
	ours.missing = ours.expected - ours.present;
	r = sized_struct_write(counts, &ours, sizeof(ours), "ibvcap_place_side");
	return r < 0 ? r : 1;
}

int ibvcap_place_source(const struct ibvcap_placer *placer, uint32_t index, struct ibvcap_place_source *source)
{
	const struct sequence_key *key = &placer->table.keys[index];

	if (index >= placer->table.n)
		return 0;
	*source = (struct ibvcap_place_source){.port = key->port,
	                                       .destination_port = key->destination_port,
	                                       .field_bytes = placer->reader.sequence.source_bytes};
	memcpy(source->address, key->address, sizeof(source->address));
	memcpy(source->destination, key->destination, sizeof(source->destination));
	memcpy(source->field, key->field, sizeof(source->field));
	return 1;
}
