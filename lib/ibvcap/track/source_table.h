// SPDX-License-Identifier: Apache-2.0
/* Tells the sources of packets apart: a hash table of fixed size, from what a packet has in common with its source. */
#ifndef IBVCAP_SOURCE_TABLE_H
#define IBVCAP_SOURCE_TABLE_H

#include "lib/ibvcap/track/sequence_read.h"

#include <stdbool.h>
#include <string.h>

#define SOURCE_TABLE_MAX  65536
#define SOURCE_TABLE_FULL UINT32_MAX

struct source_table {
	struct sequence_key *keys; /* of source 0, 1, …: the first n are in use */
	uint32_t *slots;           /* index of a source + 1; 0: free */
	uint32_t slots_mask;
	uint32_t n;
	uint32_t n_max;
	uint32_t n_key_words; /* of the reader */
	uint32_t last;        /* index that was found last */
	uint64_t secret[2];   /* of the hash: random, so that no sender can choose sources that share one slot */
};

/** 0; -ENOMEM or another -errno, with its text. */
int source_table_init(struct source_table *table, uint32_t n_key_words, uint32_t n_max);
void source_table_deinit(struct source_table *table);

/** Has the packet what tells its source apart? 0; -EINVAL with its text. */
int source_table_check(const struct sequence_reader *reader, const struct ibvcap_packet *packet);

/** By hash: the index of the source, which is added if there is room; SOURCE_TABLE_FULL: there is none. */
uint32_t source_table_search(struct source_table *table, const struct sequence_key *key);

static inline uint64_t source_key_word(const struct sequence_key *key, uint32_t i)
{
	uint64_t word;

	memcpy(&word, (const uint8_t *)key + i * sizeof(word), sizeof(word));
	return word;
}

/** Is it the key of the source of that index? */
static inline bool source_table_is(const struct source_table *table, uint32_t index, const struct sequence_key *key)
{
	uint64_t differs = 0;

	for (uint32_t i = 0; i < table->n_key_words; i++)
		differs |= source_key_word(&table->keys[index], i) ^ source_key_word(key, i);
	return differs == 0;
}

/** The same as source_table_search(): most packets are of the source of the one before. */
static inline uint32_t source_table_find(struct source_table *table, const struct sequence_key *key)
{
	return table->n && source_table_is(table, table->last, key) ? table->last : source_table_search(table, key);
}

#endif
