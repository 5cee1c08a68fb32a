// SPDX-License-Identifier: Apache-2.0
/*
 * Numbers are compared modulo their cycle, as RFC 1982 does: what is less than a jump ahead of the highest is new, what
 * is within the window behind it is an old one, and anything else is suspected to be a restart until a second packet
 * confirms that, as in RFC 3550, appendix A.1.
 */
#include "lib/ibvcap/track/tracker_source.h"

#include "lib/base/min.h"
#include "lib/ibvcap/sequence.h"

#include <string.h>

/* n may be a negative number, modulo 2^64: numbers that are no longer counted. */
static void source_count(struct tracker_source *source, enum ibvcap_tracked_counter counter, uint64_t n)
{
	source->counts[counter] += n;
	source->totals[counter] += n;
}

/* ---- the window ---------------------------------------------------------------------------------- */

/* The next run of bits in one word of the window: at most n, from *from on, which moves on. Returns the word. */
static uint64_t *window_word(const struct tracker_source *source, const struct tracker_rules *rules, uint64_t *from,
                             uint64_t *n, uint64_t *bits)
{
	uint64_t at = *from % rules->window_bits, length = u64_min(*n, 64 - at % 64);

	*bits = (length < 64 ? (UINT64_C(1) << length) - 1 : UINT64_MAX) << (at % 64);
	*from += length;
	*n -= length;
	return &source->seen[at / 64];
}

static void window_clear(const struct tracker_source *source, const struct tracker_rules *rules, uint64_t from,
                         uint64_t n)
{
	uint64_t bits;

	for (n = u64_min(n, rules->window_bits); n > 0;) {
		uint64_t *word = window_word(source, rules, &from, &n, &bits);

		*word &= ~bits;
	}
}

/* Returns how many of them were not set. At most window_bits. */
static uint64_t window_set(const struct tracker_source *source, const struct tracker_rules *rules, uint64_t from,
                           uint64_t n)
{
	uint64_t n_new = 0, bits;

	while (n > 0) {
		uint64_t *word = window_word(source, rules, &from, &n, &bits);

		n_new += (uint64_t)__builtin_popcountll(bits & ~*word);
		*word |= bits;
	}
	return n_new;
}

/* ---- where a packet lies ------------------------------------------------------------------------- */

/* The n numbers after the highest and a gap. */
static void source_add_ahead(struct tracker_source *source, const struct tracker_rules *rules, uint64_t gap, uint32_t n)
{
	uint64_t end = source->next + gap + n, n_kept = u64_min(n, rules->window_bits);

	window_clear(source, rules, source->next, gap + n);
	window_set(source, rules, end - n_kept, n_kept);
	source_count(source, IBVCAP_TRACKED_COUNTER_LOST, gap);
	source_count(source, IBVCAP_TRACKED_COUNTER_ONCE, n);
	source->next = end;
	source->expected += gap + n;
	if (rules->cycle && source->expected >= rules->cycle)
		source->expected %= rules->cycle;
}

/* Numbers from before the run's first were not missed so far, so they bring no lost number back. */
static uint64_t source_add_behind(struct tracker_source *source, const struct tracker_rules *rules, uint64_t back,
                                  uint64_t n)
{
	uint64_t run = source->next - source->first;
	uint64_t n_before = back > run ? u64_min(back - run, n) : 0;
	uint64_t n_new = window_set(source, rules, source->next - back, n_before);
	uint64_t n_found = window_set(source, rules, source->next - back + n_before, n - n_before);

	source_count(source, IBVCAP_TRACKED_COUNTER_LOST, -n_found);
	n_new += n_found;
	source_count(source, IBVCAP_TRACKED_COUNTER_ONCE, n_new);
	source_count(source, IBVCAP_TRACKED_COUNTER_REORDERED, n_new);
	source_count(source, IBVCAP_TRACKED_COUNTER_REPEATED, n - n_new);
	return n_new;
}

/* Returns what the packet is, if it is behind the highest number. */
static enum ibvcap_tracked_kind source_add_old(struct tracker_source *source, const struct tracker_rules *rules,
                                               uint64_t back, uint32_t n)
{
	uint64_t n_old = u64_min(back, n);
	uint64_t n_new = source_add_behind(source, rules, back, n_old);

	if (n > n_old)
		source_add_ahead(source, rules, 0, n - (uint32_t)n_old);
	return n_new || n > n_old ? IBVCAP_TRACKED_REORDERED : IBVCAP_TRACKED_REPEATED;
}

/* False: it is neither less than a jump ahead of the highest number, nor within the window behind it. */
static bool source_place(struct tracker_source *source, const struct tracker_rules *rules, uint64_t number, uint32_t n,
                         uint64_t slack, struct ibvcap_tracked *tracked)
{
	uint64_t ahead = sequence_distance(rules->cycle, source->expected, number);
	uint64_t back = sequence_distance(rules->cycle, number, source->expected);
	uint64_t jump = rules->jump + u64_min(slack, SEQUENCE_SLACK_MAX);

	if (ahead <= (rules->cycle ? u64_min(jump, rules->cycle - 1 - rules->window) : jump)) {
		tracked->number = source->next + ahead;
		tracked->kind = ahead ? IBVCAP_TRACKED_AFTER_LOSS : IBVCAP_TRACKED_IN_ORDER;
		source_add_ahead(source, rules, ahead, n);
		return true;
	}
	tracked->number = source->next - back;
	if (back > rules->window)
		return false;
	tracked->kind = source_add_old(source, rules, back, n);
	return true;
}

/* ---- restarts ------------------------------------------------------------------------------------ */

static bool is_near_suspect(const struct tracker_source *source, const struct tracker_rules *rules, uint64_t number)
{
	uint64_t end = source->suspect.number + source->suspect.n;

	if (!source->suspect.n_packets)
		return false;
	if (rules->cycle && end >= rules->cycle)
		end -= rules->cycle;
	return sequence_distance(rules->cycle, end, number) <= u64_min(rules->window, rules->jump) ||
	       sequence_distance(rules->cycle, number, end) <= rules->window;
}

/* The suspect was no late or stray packet, but the first of a new run. */
static void source_restart_at_suspect(struct tracker_source *source, const struct tracker_rules *rules)
{
	const struct tracker_suspect suspect = source->suspect;

	source_count(source, suspect.counted, -(uint64_t)suspect.n_packets * suspect.n);
	source_count(source, IBVCAP_TRACKED_COUNTER_RESTARTED, 1);
	source->expected = source->next = source->first = suspect.number;
	memset(source->seen, 0, rules->window_bits / 8);
	source_add_ahead(source, rules, 0, suspect.n);
	source_count(source, IBVCAP_TRACKED_COUNTER_REPEATED, (uint64_t)(suspect.n_packets - 1) * suspect.n);
}

/* A packet far from the others. */
static void source_place_far(struct tracker_source *source, const struct tracker_rules *rules, uint64_t number,
                             uint32_t n, struct ibvcap_tracked *tracked)
{
	const uint64_t ahead = sequence_distance(rules->cycle, source->expected, number);
	const bool is_late = ahead > (rules->cycle ? rules->cycle / 2 : UINT64_MAX / 2);
	struct tracker_suspect *suspect = &source->suspect;
	const bool is_repeated = suspect->n_packets && suspect->number == number && suspect->n == n;

	if (!is_repeated && is_near_suspect(source, rules, number)) {
		source_restart_at_suspect(source, rules);
		source_place(source, rules, number, n, 0, tracked);
		tracked->kind = IBVCAP_TRACKED_RESTARTED;
		suspect->n_packets = 0;
		return;
	}
	tracked->kind = is_late ? IBVCAP_TRACKED_LATE : IBVCAP_TRACKED_STRAY;
	if (!is_late)
		tracked->number = source->next + ahead;
	if (n == 0)
		return;
	*suspect = (struct tracker_suspect){
		.n_packets = is_repeated ? suspect->n_packets + 1 : 1,
		.n = n,
		.number = number,
		.counted = is_late ? IBVCAP_TRACKED_COUNTER_LATE : IBVCAP_TRACKED_COUNTER_STRAY,
	};
	source_count(source, suspect->counted, n);
}

void tracker_source_add(struct tracker_source *source, const struct tracker_rules *rules, uint64_t number, uint32_t n,
                        uint64_t slack, struct ibvcap_tracked *tracked)
{
	bool is_first = source->packets++ == 0;

	if (is_first)
		source->expected = source->next = source->first = number;
	tracked->number = source->next;
	tracked->kind = IBVCAP_TRACKED_IN_ORDER;
	if (number == source->expected && n == 1 && !source->suspect.n_packets) {
		uint64_t at = source->next % rules->window_bits;

		source->seen[at / 64] |= UINT64_C(1) << (at % 64);
		source->counts[IBVCAP_TRACKED_COUNTER_ONCE]++;
		source->totals[IBVCAP_TRACKED_COUNTER_ONCE]++;
		source->next++;
		if (++source->expected == rules->cycle)
			source->expected = 0;
		return;
	}
	if (source_place(source, rules, number, n, slack, tracked))
		source->suspect.n_packets = 0;
	else
		source_place_far(source, rules, number, n, tracked);
}
