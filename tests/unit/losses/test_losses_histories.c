// SPDX-License-Identifier: Apache-2.0
/*
 * Random histories of a stream: packets come, wait in the devices, are lost there, and are polled late; the flow
 * counters are read, and mail about it is late or is never sent. The model knows each loss. An interval that the ledger
 * calls free of losses has none, and the bounds of a count hold.
 */
#include "daemon/losses/losses.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#define N_HISTORIES 100000u /* of all kinds */
#define N_STEPS     160u
#define CAPACITY    40u /* packets that a device holds */
#define BATCH       8u
#define DRAIN_NS    600000u
#define N_LOSSES    (N_STEPS * 128)
#define HELD_MAX    8u
#define GIVE_UP_NS  1500000u

struct kind {
	uint32_t n_queues;
	bool counts_drops; /* as packet sockets have it; else as cards do */
	bool joins;
};

/* A packet that no reader gets. Positions count frames that the queue has taken from its device. */
struct loss {
	uint32_t queue;
	uint64_t at;    /* frames that came before it */
	uint64_t until; /* frames before its loss: a fragment waits for others first */
	bool is_ambiguous;
};

struct held {
	uint64_t came_ns;
	uint64_t position;
};

struct device {
	uint64_t accepted, taken, dropped, matched;
	uint64_t came_ns[CAPACITY]; /* of the frames that it holds */
	uint64_t rows, joined, marks;
	uint64_t given_up; /* fragments: the worker counts them as dropped, too */
	uint64_t ambiguous;
	struct held held[HELD_MAX];
	uint32_t n_held;
	bool was_full;  /* since the last poll that took all */
	bool took_all;  /* at the last poll */
	bool was_empty; /* likewise: it found nothing */
	struct losses_reading mail[4];
	uint32_t n_mail;
};

struct moment {
	uint64_t at_ns;
	uint64_t taken[LOSSES_QUEUES_MAX], heads[LOSSES_QUEUES_MAX];
	struct losses_entry before;
};

static struct history {
	struct kind kind;
	unsigned seed;
	unsigned pace;  /* polls in 12 steps, on average */
	unsigned burst; /* packets that come at once, at most */
	uint64_t now_ns;
	struct losses losses;
	struct device devices[LOSSES_QUEUES_MAX];
	struct losses_entry entries[2 * N_STEPS];
	uint32_t n_entries;
	struct losses_reading reading; /* the last one; at_ns 0: none */
	uint64_t dropped_read[LOSSES_QUEUES_MAX];
	struct loss lost[N_LOSSES];
	uint32_t n_lost;
	struct moment moments[N_STEPS];
	uint32_t n_moments;
	/* Intervals with no loss in them or at an edge, of all histories; and those that the ledger calls so. */
	uint64_t n_free, n_said_free;
} history;

static unsigned chance(unsigned n)
{
	history.seed = history.seed * 1664525u + 1013904223u;
	return (unsigned)(((uint64_t)history.seed * n) >> 32);
}

static void note_loss(uint32_t queue, uint64_t at, uint64_t until, bool is_ambiguous)
{
	cr_assert(history.n_lost < N_LOSSES);
	history.lost[history.n_lost++] = (struct loss){queue, at, until, is_ambiguous};
}

static void arrive(uint32_t n)
{
	while (n--) {
		uint32_t i = chance(history.kind.n_queues);
		struct device *device = &history.devices[i];

		device->matched++;
		if (device->accepted - device->taken < CAPACITY) {
			device->came_ns[device->accepted++ % CAPACITY] = history.now_ns;
		} else {
			device->dropped++;
			note_loss(i, device->accepted, device->accepted, false);
		}
		device->was_full |= device->accepted - device->taken == CAPACITY;
	}
}

static struct losses_counts counts_of(uint32_t i)
{
	const struct device *device = &history.devices[i];
	bool counts_drops = history.kind.counts_drops;

	return (struct losses_counts){
		.now_ns = history.now_ns,
		.accounted = device->rows + device->joined + device->ambiguous,
		.held = device->n_held,
		.head = device->rows,
		.taken = device->taken,
		.posted = device->taken + CAPACITY,
		.marks =
			(counts_drops ? history.dropped_read[i] : device->marks) + device->given_up + device->ambiguous,
		.ambiguous = device->ambiguous,
		.n_maybe = !counts_drops && device->was_full,
		.dropped = history.dropped_read[i] + device->given_up,
		.unjoined = device->given_up,
		.decided_ns = device->n_held ? device->held[0].came_ns - 1 : UINT64_MAX,
		.took_all = device->took_all,
		.is_empty = device->was_empty,
	};
}

/* Frames are rows, or fragments: a held one waits for its other part, or is given up after a time. */
static void take_frame(struct device *device)
{
	uint64_t came_ns = device->came_ns[device->taken++ % CAPACITY];

	if (!history.kind.joins || chance(4) || device->n_held == HELD_MAX) {
		device->rows++;
	} else if (device->n_held && chance(2)) { /* the other part of the oldest: both become one row */
		device->rows++;
		device->joined++;
		memmove(device->held, device->held + 1, --device->n_held * sizeof(device->held[0]));
	} else {
		device->held[device->n_held++] = (struct held){came_ns, device->taken - 1};
	}
}

static void give_up(uint32_t i, uint64_t older_than_ns)
{
	struct device *device = &history.devices[i];

	while (device->n_held && device->held[0].came_ns < older_than_ns) {
		bool is_ambiguous = chance(2);

		note_loss(i, device->held[0].position, device->taken, is_ambiguous);
		*(is_ambiguous ? &device->ambiguous : &device->given_up) += 1;
		memmove(device->held, device->held + 1, --device->n_held * sizeof(device->held[0]));
	}
}

static void work(uint32_t i)
{
	struct device *device = &history.devices[i];
	struct losses_queue *queue = &history.losses.queues[i];
	uint32_t n = 0;

	while (n < BATCH && device->taken < device->accepted) {
		take_frame(device);
		n++;
	}
	give_up(i, history.now_ns > GIVE_UP_NS ? history.now_ns - GIVE_UP_NS : 0);
	device->was_empty = n == 0;
	device->took_all = n < BATCH;
	if (device->took_all && device->was_full) {
		device->marks++;
		device->was_full = false;
	}
	if (losses_queue_is_due(queue)) {
		const struct losses_counts counts = counts_of(i);

		losses_queue_look(queue, &counts);
	}
	while (device->n_mail) {
		const struct losses_counts counts = counts_of(i);

		losses_queue_read(queue, &device->mail[0], &counts);
		memmove(device->mail, device->mail + 1, --device->n_mail * sizeof(device->mail[0]));
	}
}

/* ---- the control thread -------------------------------------------------------------------------- */

/* All other losses are drops of the devices. */
static void expect_unjoined_named(const struct ledger_losses *losses)
{
	uint64_t dropped = 0;

	for (uint32_t i = 0; i < history.kind.n_queues; i++)
		dropped += history.devices[i].dropped;
	if (losses->no_buffer > losses->unjoined + dropped)
		cr_fail("%lu losses, of these %lu datagrams that lack a fragment: the devices dropped only %lu",
		        losses->no_buffer, losses->unjoined, dropped);
}

static void write_entry(enum losses_change change)
{
	if (change == LOSSES_SAME)
		return;
	expect_unjoined_named(&history.losses.entry.of_stream.before);
	expect_unjoined_named(&history.losses.entry.of_stream.after);
	if (change == LOSSES_RENEWED)
		history.n_entries--;
	cr_assert(history.n_entries < 2 * N_STEPS);
	history.entries[history.n_entries++] = history.losses.entry;
}

static void update(void)
{
	write_entry(losses_update(&history.losses));
}

/* The counters of all queues are read one after the other, while packets come. */
static void read_counters(void)
{
	struct losses_reading reading = {.at_ns = history.now_ns, .utc_ns = history.now_ns};

	for (uint32_t i = 0; i < history.kind.n_queues; i++) {
		reading.matched += history.devices[i].matched;
		history.dropped_read[i] = history.devices[i].dropped;
		if (chance(4) == 0)
			arrive(chance(6));
	}
	reading.before_utc_ns = history.reading.utc_ns;
	history.reading = reading;
	update();
	write_entry(losses_renew_by(&history.losses, &reading));
}

static void mail_reading(void)
{
	for (uint32_t i = 0; i < history.kind.n_queues; i++) {
		struct device *device = &history.devices[i];

		if (history.reading.at_ns && device->n_mail < 4 && chance(8))
			device->mail[device->n_mail++] = history.reading;
	}
	history.reading.at_ns = 0;
}

/* ---- readers ------------------------------------------------------------------------------------- */

/* The newest entry so far whose heads are not behind the moment. */
static struct losses_entry before_rows(const struct moment *moment)
{
	for (uint32_t n = history.n_entries; n > 0; n--) {
		const struct losses_entry *entry = &history.entries[n - 1];
		bool is_before = true;

		for (uint32_t i = 0; i < history.kind.n_queues; i++)
			is_before &= entry->queues[i].head <= moment->heads[i];
		if (is_before)
			return *entry;
	}
	return (struct losses_entry){0};
}

/* The reader has all rows. */
static void take_moment(void)
{
	struct moment *moment = &history.moments[history.n_moments++];

	moment->at_ns = history.now_ns;
	for (uint32_t i = 0; i < history.kind.n_queues; i++) {
		moment->taken[i] = history.devices[i].taken;
		moment->heads[i] = history.devices[i].rows;
	}
	moment->before = before_rows(moment);
}

static const struct losses_entry *until(const struct moment *moment)
{
	for (uint32_t n = 0; n < history.n_entries; n++)
		if (history.entries[n].of_stream.until_ns >= moment->at_ns)
			return &history.entries[n];
	return NULL;
}

struct bounds {
	uint64_t least, most;
};

static uint64_t ambiguous_between(const struct moment *from, const struct moment *to)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < history.kind.n_queues; i++)
		n += until(to)->queues[i].ambiguous_after - from->before.queues[i].ambiguous_before;
	return n;
}

static struct bounds bounds_between(const struct moment *from, const struct moment *to)
{
	const struct losses_entry *before = &from->before, *after = until(to), *inner = until(from);
	uint64_t least = to->before.of_stream.before.no_buffer;
	struct bounds bounds = {0, after->of_stream.no_buffer_most};
	bool is_same = true;

	for (uint32_t i = 0; i < history.kind.n_queues; i++)
		is_same &= after->queues[i].marks_after == before->queues[i].marks_before;
	if (bounds.most != UINT64_MAX)
		bounds.most -= before->of_stream.before.no_buffer;
	if (is_same)
		bounds.most = 0;
	if (inner && inner->of_stream.no_buffer_most != UINT64_MAX && least > inner->of_stream.no_buffer_most)
		bounds.least = least - inner->of_stream.no_buffer_most;
	return bounds;
}

/* Losses, or ambiguous fragments, that are certainly between the two moments; and those that may be, at an edge. */
static struct bounds losses_between(const struct moment *from, const struct moment *to, bool is_ambiguous)
{
	struct bounds n = {0};

	for (uint32_t l = 0; l < history.n_lost; l++) {
		const struct loss *loss = &history.lost[l];

		if (loss->is_ambiguous != is_ambiguous)
			continue;
		n.least += loss->at > from->taken[loss->queue] && loss->at < to->taken[loss->queue];
		n.most += loss->until >= from->taken[loss->queue] && loss->at <= to->taken[loss->queue];
	}
	return n;
}

static void expect_no_lie(unsigned seed)
{
	for (uint32_t m = 1; m < history.n_moments; m++) {
		uint32_t first = chance(m);
		const struct moment *from = &history.moments[first], *to = &history.moments[m];
		struct bounds said, are, ambiguous;
		uint64_t said_ambiguous;

		if (!until(to))
			break;
		said = bounds_between(from, to);
		are = losses_between(from, to, false);
		ambiguous = losses_between(from, to, true);
		said_ambiguous = ambiguous_between(from, to);
		if (ambiguous.least > said_ambiguous)
			cr_fail("%u queues, seed %u: moments %u to %u: %lu fragments are ambiguous, said %lu",
			        history.kind.n_queues, seed, first, m, ambiguous.least, said_ambiguous);
		if (are.least > said.most || said.least > are.most)
			cr_fail("%u queues, counts_drops %d, joins %d, seed %u: moments %u to %u: %lu to %lu lost, "
			        "said %lu to %lu",
			        history.kind.n_queues, history.kind.counts_drops, history.kind.joins, seed, first, m,
			        are.least, are.most, said.least, said.most);
		history.n_free += are.most == 0 && ambiguous.most == 0;
		history.n_said_free += said.most == 0 && said_ambiguous == 0;
	}
}

/* At the end all are settled, and the newest entry has each of them. */
static void expect_all_unjoined(unsigned seed)
{
	const struct ledger_entry *newest = &history.losses.entry.of_stream;
	uint64_t n = 0;

	for (uint32_t i = 0; i < history.kind.n_queues; i++)
		n += history.devices[i].given_up;
	if (newest->after.unjoined != n || newest->before.unjoined > n)
		cr_fail("seed %u: %lu datagrams were given up, said %lu", seed, n, newest->after.unjoined);
}

/* ---- histories ----------------------------------------------------------------------------------- */

static void step(void)
{
	unsigned what = chance(12);

	history.now_ns += chance(300000);
	if (what < history.pace) {
		work(chance(history.kind.n_queues));
		return;
	}
	switch (chance(6)) {
	case 0:
	case 1:
		arrive(chance(chance(3) ? 8 : history.burst));
		break;
	case 2:
		read_counters();
		if (chance(4))
			mail_reading();
		break;
	case 3:
		mail_reading();
		break;
	case 4:
		update();
		break;
	default:
		take_moment();
		break;
	}
}

/* At the end all is polled, read and settled, so that every moment has an entry. */
static void drain(void)
{
	for (unsigned round = 0; round < 24; round++) {
		history.now_ns += DRAIN_NS;
		if (round == 12)
			read_counters();
		if (round == 12)
			for (uint32_t i = 0; i < history.kind.n_queues; i++)
				history.devices[i].mail[history.devices[i].n_mail++ % 4] = history.reading;
		for (uint32_t i = 0; i < history.kind.n_queues; i++)
			work(i);
		update();
	}
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	const char *word = getenv(name);

	return word ? strtoull(word, NULL, 10) : otherwise;
}

static void check_histories(struct kind kind)
{
	unsigned first = (unsigned)number_of("IBVCAP_SEED", 1);
	unsigned n = (unsigned)number_of("IBVCAP_HISTORIES", N_HISTORIES / 8);

	for (unsigned seed = first; seed < first + n; seed++) {
		memset(&history, 0, offsetof(struct history, lost));
		history.n_lost = history.n_moments = 0;
		history.kind = kind;
		history.seed = seed * 2654435761u;
		history.now_ns = 1;
		history.pace = 2 + chance(8);
		history.burst = 8 + chance(100);
		losses_init(&history.losses, kind.n_queues, CAPACITY, kind.counts_drops, kind.joins, DRAIN_NS);
		for (unsigned i = 0; i < N_STEPS; i++)
			step();
		drain();
		expect_no_lie(seed);
		expect_all_unjoined(seed);
	}
	/* A ledger that knows nothing would not lie either. */
	cr_expect(history.n_said_free > history.n_free / (kind.joins ? 50 : 4),
	          "%lu of %lu intervals are known to have no loss", history.n_said_free, history.n_free);
}

Test(losses_histories, of_a_socket)
{
	check_histories((struct kind){.n_queues = 1, .counts_drops = true});
}

Test(losses_histories, of_a_card)
{
	check_histories((struct kind){.n_queues = 1});
}

Test(losses_histories, of_several_sockets)
{
	check_histories((struct kind){.n_queues = 3, .counts_drops = true});
}

Test(losses_histories, of_a_card_with_several_queues)
{
	check_histories((struct kind){.n_queues = 3});
}

Test(losses_histories, of_a_socket_with_fragments)
{
	check_histories((struct kind){.n_queues = 1, .counts_drops = true, .joins = true});
}

Test(losses_histories, of_a_card_with_fragments)
{
	check_histories((struct kind){.n_queues = 1, .joins = true});
}

Test(losses_histories, of_several_sockets_with_fragments)
{
	check_histories((struct kind){.n_queues = 3, .counts_drops = true, .joins = true});
}

Test(losses_histories, of_a_card_with_several_queues_and_fragments)
{
	check_histories((struct kind){.n_queues = 3, .joins = true});
}
