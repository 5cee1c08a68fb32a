// SPDX-License-Identifier: Apache-2.0
/* The table of sources. It takes its memory when it is made, so that packets of ever new sources cost none. */
#include "lib/ibvcap/track/source_table.h"

#include "lib/ibvcap/client/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static uint32_t hash_key(const struct source_table *table, const struct sequence_key *key)
{
	uint64_t hash = table->secret[0];

	/* Both halves of the product: addresses differ in the high bits of a word, which reach no low bit of it. */
	for (uint32_t i = 0; i < table->n_key_words; i++) {
		unsigned __int128 product = (unsigned __int128)(hash ^ source_key_word(key, i)) * table->secret[1];

		hash = (uint64_t)product ^ (uint64_t)(product >> 64);
	}
	return (uint32_t)hash & table->slots_mask;
}

uint32_t source_table_search(struct source_table *table, const struct sequence_key *key)
{
	uint32_t slot = hash_key(table, key);

	for (; table->slots[slot]; slot = (slot + 1) & table->slots_mask)
		if (source_table_is(table, table->slots[slot] - 1, key))
			return table->last = table->slots[slot] - 1;
	if (table->n == table->n_max)
		return SOURCE_TABLE_FULL;
	table->keys[table->n] = *key;
	table->slots[slot] = ++table->n;
	return table->last = table->n - 1;
}

int source_table_check(const struct sequence_reader *reader, const struct ibvcap_packet *packet)
{
	if (packet->has_headers || reader->sequence.source == IBVCAP_SOURCE_NONE)
		return 0;
	return error_set(-EINVAL, "the packet has no headers, as in a raw recording, so its source is not known: "
	                          "accepted is a description with the source \"none\"");
}

int source_table_init(struct source_table *table, uint32_t n_key_words, uint32_t n_max)
{
	uint32_t n_slots = 2;

	while (n_slots < 2 * n_max)
		n_slots *= 2;
	*table = (struct source_table){.n_key_words = n_key_words, .n_max = n_max, .slots_mask = n_slots - 1};
	if (getrandom(table->secret, sizeof(table->secret), 0) < 0)
		return error_set(-errno, "the table of sources: no random number: %s", strerror(errno));
	table->secret[1] |= 1; /* never 0 */
	table->slots = calloc(n_slots, sizeof(*table->slots));
	table->keys = calloc(n_max, sizeof(*table->keys));
	return table->slots && table->keys ? 0 : error_set(-ENOMEM, "the table of %u sources: out of memory", n_max);
}

void source_table_deinit(struct source_table *table)
{
	free(table->slots);
	free(table->keys);
}
