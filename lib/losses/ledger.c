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

/* ---- the writer ---------------------------------------------------------------------------------- */

static void store_losses(struct ibvcap_queue_losses *shared, const struct ledger_losses *losses)
{
	store(&shared->marks, losses->marks);
	store(&shared->no_buffer, losses->no_buffer);
	store(&shared->outages, losses->outages);
}

static void store_bounds(struct ibvcap_ledger_entry *shared, const struct ledger_entry *entry)
{
	store(&shared->until_ns, entry->until_ns);
	store(&shared->until_utc_ns, entry->until_utc_ns);
	store(&shared->matched, entry->matched);
	store(&shared->no_buffer_most, entry->no_buffer_most);
}

void ledger_append(struct ibvcap_ledger *ledger, const struct ledger_entry *entry)
{
	uint64_t number = load(&ledger->n_entries);
	struct ibvcap_ledger_entry *shared = &ledger->entries[number % IBVCAP_LEDGER_ENTRIES];
	uint64_t version = load(&shared->version);

	store(&shared->version, version + 1);
	store(&shared->number, number);
	store(&shared->read_utc_ns, entry->read_utc_ns);
	store(&shared->head, entry->head);
	store_losses(&shared->before, &entry->before);
	store_losses(&shared->after, &entry->after);
	store_bounds(shared, entry);
	store(&shared->version, version + 2);
	store(&ledger->n_entries, number + 1);
}

void ledger_renew(struct ibvcap_ledger *ledger, const struct ledger_entry *entry)
{
	struct ibvcap_ledger_entry *shared = &ledger->entries[(load(&ledger->n_entries) - 1) % IBVCAP_LEDGER_ENTRIES];
	uint64_t version = load(&shared->version);

	store(&shared->version, version + 1);
	store_bounds(shared, entry);
	store(&shared->version, version + 2);
}

/* ---- readers ------------------------------------------------------------------------------------- */

static void load_losses(const struct ibvcap_queue_losses *shared, struct ledger_losses *losses)
{
	losses->marks = load(&shared->marks);
	losses->no_buffer = load(&shared->no_buffer);
	losses->outages = load(&shared->outages);
}

/* False: the writer changes it. */
static bool try_load(const struct ibvcap_ledger_entry *shared, struct ledger_entry *entry)
{
	uint64_t version = load(&shared->version);

	entry->number = load(&shared->number);
	entry->until_ns = load(&shared->until_ns);
	entry->read_utc_ns = load(&shared->read_utc_ns);
	entry->until_utc_ns = load(&shared->until_utc_ns);
	entry->matched = load(&shared->matched);
	entry->head = load(&shared->head);
	load_losses(&shared->before, &entry->before);
	load_losses(&shared->after, &entry->after);
	entry->no_buffer_most = load(&shared->no_buffer_most);
	return version % 2 == 0 && version && load(&shared->version) == version;
}

uint64_t ledger_n_entries(const struct ibvcap_ledger *ledger)
{
	return load(&ledger->n_entries);
}

bool ledger_load(const struct ibvcap_ledger *ledger, uint64_t number, struct ledger_entry *entry)
{
	const struct ibvcap_ledger_entry *shared = &ledger->entries[number % IBVCAP_LEDGER_ENTRIES];

	for (unsigned i = 0; i < LOADS_MAX; i++)
		if (try_load(shared, entry))
			return entry->number == number;
	return false;
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
