// SPDX-License-Identifier: Apache-2.0
/*
 * Writes and reads the entries of a ledger. An entry has a version, which is odd while the writer changes the entry: a
 * reader whose copy spans a change takes it again. Every word is stored with release and loaded with acquire, so none
 * of them is seen without the odd version before it.
 */
#include "lib/losses/ledger.h"

#include "lib/base/min.h"

#define LOADS_MAX 100 /* the writer changes an entry in some 20 ns, unless it is put off the CPU */

static uint64_t load(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_acquire);
}

static void store(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_release);
}

void ledger_store_words(_Atomic uint64_t *version, _Atomic uint64_t *shared, const void *words, size_t bytes)
{
	uint64_t before = load(version);
	const uint64_t *from = words;

	store(version, before + 1);
	for (size_t i = 0; i < bytes / sizeof(*from); i++)
		store(&shared[i], from[i]);
	store(version, before + 2);
}

bool ledger_load_words(const _Atomic uint64_t *version, const _Atomic uint64_t *shared, void *words, size_t bytes)
{
	uint64_t *to = words;

	for (unsigned n = 0; n < LOADS_MAX; n++) {
		uint64_t before = load(version);

		for (size_t i = 0; i < bytes / sizeof(*to); i++)
			to[i] = load(&shared[i]);
		if (before % 2 == 0 && load(version) == before)
			return true;
	}
	return false;
}

/* ---- the writer ---------------------------------------------------------------------------------- */

static void write_entry(struct ibvcap_ledger *ledger, const struct ledger_entry *entry)
{
	struct ibvcap_ledger_entry *shared = &ledger->entries[entry->number % IBVCAP_LEDGER_ENTRIES];

	ledger_store_words(&shared->version, shared->words, entry, sizeof(*entry));
}

void ledger_append(struct ibvcap_ledger *ledger, const struct ledger_entry *entry)
{
	struct ledger_entry next = *entry;

	next.number = load(&ledger->n_entries);
	write_entry(ledger, &next);
	store(&ledger->n_entries, next.number + 1);
}

void ledger_renew(struct ibvcap_ledger *ledger, const struct ledger_entry *entry)
{
	struct ledger_entry newest;

	if (!ledger_newest(ledger, &newest))
		return;
	newest.until_ns = entry->until_ns;
	newest.until_utc_ns = entry->until_utc_ns;
	newest.matched = entry->matched;
	newest.no_buffer_most = entry->no_buffer_most;
	write_entry(ledger, &newest);
}

/* ---- readers ------------------------------------------------------------------------------------- */

uint64_t ledger_n_entries(const struct ibvcap_ledger *ledger)
{
	return load(&ledger->n_entries);
}

bool ledger_load(const struct ibvcap_ledger *ledger, uint64_t number, struct ledger_entry *entry)
{
	const struct ibvcap_ledger_entry *shared = &ledger->entries[number % IBVCAP_LEDGER_ENTRIES];

	return number < ledger_n_entries(ledger) &&
	       ledger_load_words(&shared->version, shared->words, entry, sizeof(*entry)) && entry->number == number;
}

bool ledger_newest(const struct ibvcap_ledger *ledger, struct ledger_entry *entry)
{
	uint64_t n = ledger_n_entries(ledger);

	return n && ledger_load(ledger, n - 1, entry);
}

/* An entry that is being written, or overwritten, is passed over: the others hold without it. */
bool ledger_before_row(const struct ibvcap_ledger *ledger, uint64_t sequence, struct ledger_entry *entry)
{
	uint64_t n = ledger_n_entries(ledger);

	for (unsigned i = 0; i < IBVCAP_LEDGER_ENTRIES && n; i++)
		if (ledger_load(ledger, --n, entry) && entry->head <= sequence)
			return true;
	return false;
}

bool ledger_until(const struct ibvcap_ledger *ledger, uint64_t monotonic_ns, struct ledger_entry *entry)
{
	uint64_t n = ledger_n_entries(ledger), most = UINT64_MAX;
	struct ledger_entry older;
	bool found = false;

	for (unsigned i = 0; i < IBVCAP_LEDGER_ENTRIES && n; i++) {
		if (!ledger_load(ledger, --n, &older))
			continue;
		if (older.until_ns < monotonic_ns)
			break;
		most = u64_min(most, older.no_buffer_most);
		*entry = older;
		entry->no_buffer_most = most;
		found = true;
	}
	return found;
}
