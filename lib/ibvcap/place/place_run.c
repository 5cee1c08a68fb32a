// SPDX-License-Identifier: Apache-2.0
/*
 * Counts the packets' numbers on, and notices when the sources were restarted. A source that is restarted alone, or a
 * side that brings other packets, shall not end the run of the others, so all that are active have to agree.
 */
#include "lib/ibvcap/place/place.h"

#include "lib/base/min.h"
#include "lib/ibvcap/sequence.h"

void place_run_begin(struct ibvcap_placer *placer, uint64_t number)
{
	placer->run = (struct place_run){
		.id = placer->run.id + 1, .is_begun = true, .first = number, .next = number, .next_number = number};
	placer->counts.runs++;
	placer->version++;
}

bool place_run_locate(const struct ibvcap_placer *placer, uint64_t number, uint64_t *position)
{
	const struct place_run *run = &placer->run;
	const uint64_t ahead = sequence_distance(placer->reader.cycle, run->next_number, number);
	const uint64_t behind = sequence_distance(placer->reader.cycle, number, run->next_number);
	uint64_t ahead_max = placer->ahead_max + u64_min(placer->slack, SEQUENCE_SLACK_MAX);

	if (placer->reader.cycle)
		ahead_max = u64_min(ahead_max, placer->reader.cycle - 1 - placer->behind_max);
	*position = ahead <= ahead_max ? run->next + ahead : run->next - behind;
	return ahead <= ahead_max || behind <= placer->behind_max;
}

/* Has the side brought this number before, or is its array closed? */
static bool is_old(const struct ibvcap_placer *placer, const struct place_item *item, uint64_t position)
{
	if (placer->run.has_closed && place_offset(position, placer->run.closed_end) > 0)
		return true;
	for (uint32_t i = 0; i < placer->n_open; i++) {
		const struct place_array *array = placer->open[i];
		const uint64_t row = position - array->base;

		if (row < placer->rows &&
		    array->present[(uint64_t)item->source * placer->rows + row] & 1u << item->side)
			return true;
	}
	return false;
}

bool place_run_is_stepped_back(const struct ibvcap_placer *placer, const struct place_item *item, uint64_t position)
{
	const struct place_lane *lane = &placer->lanes[item->source * placer->options.sides + item->side];

	return lane->has_next && place_offset(position, lane->next) > (int64_t)placer->near_max &&
	       is_old(placer, item, position);
}

void place_run_learn(struct ibvcap_placer *placer, uint32_t source, uint64_t position)
{
	struct place_source *learnt = &placer->sources[source];

	if (learnt->run && (learnt->run != placer->run.id || place_offset(learnt->first, position) >= 0))
		return;
	*learnt = (struct place_source){.run = placer->run.id, .first = position};
	placer->version++;
}

void place_run_extend(struct ibvcap_placer *placer, uint32_t source, uint64_t position, uint32_t n)
{
	struct place_run *run = &placer->run;
	const int64_t ahead = place_offset(run->next, position + n);

	if (ahead > 0) {
		run->next += (uint64_t)ahead;
		run->next_number += (uint64_t)ahead;
		if (placer->reader.cycle)
			run->next_number %= placer->reader.cycle;
	}
	if (place_offset(run->first, position) < 0) {
		run->first = position;
		placer->version++;
	}
	place_run_learn(placer, source, position);
}

bool place_run_is_near(const struct ibvcap_placer *placer, uint64_t a, uint64_t b)
{
	return sequence_distance(placer->reader.cycle, a, b) <= placer->near_max ||
	       sequence_distance(placer->reader.cycle, b, a) <= placer->near_max;
}

bool place_run_is_over(struct ibvcap_placer *placer, const struct place_item *item)
{
	const uint32_t own = item->source * placer->options.sides + item->side;
	const struct place_lane *lane = &placer->lanes[own];
	bool agrees = lane->has_suspect && lane->suspect != item->number &&
	              place_run_is_near(placer, lane->suspect, item->number);
	uint64_t oldest = UINT64_MAX;

	for (uint32_t i = 0; i < placer->n_open; i++)
		oldest = u64_min(oldest, placer->open[i]->serial);
	for (uint32_t i = 0; i < placer->table.n * placer->options.sides; i++) {
		lane = &placer->lanes[i];
		if (i == own || lane->serial < oldest)
			continue;
		if (!lane->has_suspect || !place_run_is_near(placer, lane->suspect, item->number))
			return false;
		agrees = true;
	}
	return agrees;
}

void place_run_end(struct ibvcap_placer *placer, enum ibvcap_place_end end)
{
	place_arrays_close(placer, placer->n_open, end);
	for (uint32_t i = 0; i < placer->table.n * placer->options.sides; i++)
		placer->lanes[i] = (struct place_lane){0};
	placer->run.is_begun = false;
	placer->held.n = 0;
	placer->n_astray = 0;
}
