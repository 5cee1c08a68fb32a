// SPDX-License-Identifier: Apache-2.0
/* A ledger against a plain array of all entries that were ever written, and a reader beside a writer. */
#include "lib/losses/ledger.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define N_OPERATIONS 100000u
#define N_WRITES     2000000u

static struct ibvcap_ledger ledger;
static struct ledger_entry model[N_OPERATIONS];
static uint64_t n_entries;

static uint32_t up_to(uint32_t n)
{
	return (uint32_t)random() % (n + 1);
}

/* ---- against a model ------------------------------------------------------------------------------- */

static void append_next(void)
{
	struct ledger_entry *entry = &model[n_entries];

	if (n_entries)
		*entry = entry[-1];
	entry->number = n_entries++;
	entry->until_ns += up_to(5);
	entry->until_utc_ns = entry->until_ns + 7;
	entry->read_utc_ns = entry->until_ns + 6;
	entry->head += up_to(10);
	entry->matched += up_to(20);
	entry->before = entry->after;
	entry->after.no_buffer += up_to(3);
	entry->after.marks += up_to(3);
	entry->after.outages += up_to(1);
	entry->no_buffer_most = entry->after.no_buffer + up_to(100);
	ledger_append(&ledger, entry);
}

/* Other fields than the times and bounds of a renewal have no effect. */
static void renew_newest(void)
{
	struct ledger_entry *newest = &model[n_entries - 1], by;

	newest->until_ns += up_to(5);
	newest->until_utc_ns = newest->until_ns + 7;
	newest->matched += up_to(1);
	by = *newest;
	by.number = by.head = by.read_utc_ns = 4711;
	by.before = by.after = (struct ledger_losses){1, 2, 3, 4, 5};
	ledger_renew(&ledger, &by);
}

static uint64_t oldest_left(void)
{
	return n_entries > IBVCAP_LEDGER_ENTRIES ? n_entries - IBVCAP_LEDGER_ENTRIES : 0;
}

/* Criterion tells its runner of each assertion, which takes longer than a look-up: so only of those that fail. */
static void expect_entry(bool found, const struct ledger_entry *entry, const struct ledger_entry *expected)
{
	if (found != (expected != NULL))
		cr_fatal("found %d, expected %d", found, expected != NULL);
	if (expected && memcmp(entry, expected, sizeof(*entry)) != 0)
		cr_fatal("entry %lu", expected->number);
}

static void look_up_row(void)
{
	const struct ledger_entry *expected = NULL;
	uint64_t row = n_entries ? model[n_entries - 1].head + 5 - up_to(1500) : up_to(10);
	struct ledger_entry entry;
	bool found = ledger_before_row(&ledger, row, &entry);

	for (uint64_t i = oldest_left(); i < n_entries; i++)
		if (model[i].head <= row)
			expected = &model[i];
	expect_entry(found, &entry, expected);
}

static void look_up_time(void)
{
	uint64_t time = n_entries ? model[n_entries - 1].until_ns + 5 - up_to(2000) : up_to(10), most = UINT64_MAX;
	const struct ledger_entry *first = NULL;
	struct ledger_entry entry, expected;
	bool found = ledger_until(&ledger, time, &entry);

	for (uint64_t i = n_entries; i-- > oldest_left() && model[i].until_ns >= time;) {
		most = model[i].no_buffer_most < most ? model[i].no_buffer_most : most;
		first = &model[i];
	}
	if (first) {
		expected = *first;
		expected.no_buffer_most = most;
	}
	expect_entry(found, &entry, first ? &expected : NULL);
}

static void look_up_number(void)
{
	uint64_t number = n_entries + 2 - up_to(300);
	struct ledger_entry entry;
	bool found = ledger_load(&ledger, number, &entry);

	expect_entry(found, &entry, number >= oldest_left() && number < n_entries ? &model[number] : NULL);
	found = ledger_newest(&ledger, &entry);
	expect_entry(found, &entry, n_entries ? &model[n_entries - 1] : NULL);
}

Test(ledger, what_is_looked_up_is_what_a_plain_array_has)
{
	void (*const looks[])(void) = {look_up_row, look_up_time, look_up_number};

	srandom(1);
	for (unsigned i = 0; i < N_OPERATIONS; i++) {
		if (up_to(2))
			looks[up_to(2)]();
		else if (n_entries && up_to(1))
			renew_newest();
		else
			append_next();
	}
	cr_expect(eq(u64, ledger_n_entries(&ledger), n_entries));
	cr_expect(gt(u64, n_entries, 10 * IBVCAP_LEDGER_ENTRIES), "entries were overwritten");
}

/* A daemon that was killed leaves it so. */
Test(ledger, an_entry_that_is_being_written_hides_no_older_one)
{
	struct ledger_entry entry;

	srandom(2);
	for (unsigned i = 0; i < 10; i++)
		append_next();
	ledger.entries[9].version++;
	cr_expect(not(ledger_newest(&ledger, &entry)));
	cr_assert(ledger_before_row(&ledger, UINT64_MAX, &entry));
	cr_expect(eq(u64, entry.number, 8));
	cr_assert(ledger_until(&ledger, model[3].until_ns, &entry));
	cr_expect(le(u64, entry.number, 3));
}

/* ---- beside a writer ------------------------------------------------------------------------------- */

static atomic_bool is_written;

/* All words of an entry follow from number and until_ns, so a reader can recognize a torn entry. */
static void fill(struct ledger_entry *entry, uint64_t number, uint64_t until_ns)
{
	*entry = (struct ledger_entry){.number = number,
	                               .until_ns = until_ns,
	                               .until_utc_ns = until_ns * 3,
	                               .matched = until_ns * 5,
	                               .read_utc_ns = number * 7,
	                               .head = number,
	                               .before = {number * 11, number * 13, number * 17},
	                               .after = {number * 19, number * 23, number * 29},
	                               .no_buffer_most = number * 31};
}

static void *write_all(void *unused)
{
	struct ledger_entry entry;

	for (uint64_t i = 0; i < N_WRITES; i++) {
		fill(&entry, i / 4, i);
		if (i % 4)
			ledger_renew(&ledger, &entry);
		else
			ledger_append(&ledger, &entry);
	}
	atomic_store(&is_written, true);
	return unused;
}

static void expect_whole(const struct ledger_entry *entry)
{
	struct ledger_entry expected;

	fill(&expected, entry->number, entry->until_ns);
	if (entry->until_ns / 4 != entry->number || memcmp(entry, &expected, sizeof(expected)) != 0)
		cr_fatal("a torn entry %lu", entry->number);
}

Test(ledger, a_reader_beside_the_writer_sees_no_entry_in_parts)
{
	uint64_t n_found = 0, number = 0;
	struct ledger_entry entry;
	pthread_t writer;

	cr_assert(eq(int, pthread_create(&writer, NULL, write_all, NULL), 0));
	while (!atomic_load(&is_written)) {
		if (ledger_newest(&ledger, &entry)) {
			expect_whole(&entry);
			if (entry.number < number)
				cr_fatal("it goes back");
			number = entry.number;
			n_found++;
		}
		if (ledger_before_row(&ledger, number > 100 ? number - 100 : 0, &entry))
			expect_whole(&entry);
		if (ledger_load(&ledger, number > 255 ? number - 255 : 0, &entry))
			expect_whole(&entry);
	}
	cr_assert(eq(int, pthread_join(writer, NULL), 0));
	cr_expect(gt(u64, n_found, 1000));
	cr_assert(ledger_newest(&ledger, &entry));
	cr_expect(eq(u64, entry.until_ns, N_WRITES - 1));
}
