// SPDX-License-Identifier: Apache-2.0
/* The table of counters that fragmented datagrams get their identifications from. */
#include "daemon/packet/identifications.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define COUNTERS 1024u
#define ODD      UINT64_C(0x9e3779b97f4a7c15)

struct identifications {
	uint64_t key;
	_Atomic uint32_t counters[COUNTERS];
};

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * ODD;
	return hash ^ hash >> 32;
}

int identifications_new(struct identifications **identifications)
{
	struct identifications *new = calloc(1, sizeof(*new));
	uint64_t start;

	if (!new)
		return -ENOMEM;
	/* On a machine that has just started, this does not wait until the kernel has collected noise. */
	if (getrandom(&new->key, sizeof(new->key), GRND_INSECURE) < 0 ||
	    getrandom(&start, sizeof(start), GRND_INSECURE) < 0) {
		int error = errno;

		free(new);
		return -error;
	}
	for (uint32_t i = 0; i < COUNTERS; i++)
		new->counters[i] = (uint32_t)mix(mix(start, i), i);
	*identifications = new;
	return 0;
}

void identifications_free(struct identifications *identifications)
{
	free(identifications);
}

_Atomic uint32_t *identifications_find(struct identifications *identifications, const uint8_t *source,
                                       const uint8_t *destination, uint32_t address_bytes)
{
	uint64_t words[4] = {0}, hash = identifications->key;

	memcpy(words, source, address_bytes);
	memcpy(words + 2, destination, address_bytes);
	for (int i = 0; i < 4; i++)
		hash = mix(hash, words[i]);
	return &identifications->counters[hash % COUNTERS];
}
