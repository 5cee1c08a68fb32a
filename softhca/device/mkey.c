// SPDX-License-Identifier: Apache-2.0
/* The table of memory keys: gives and takes back keys. */
#include "mkey.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_INDEX 16u /* lower ones belong to the device itself: MKEY_NULL, the invalid key 0x100 */
#define FIRST_SIZE  256u

static bool mkey_grow(struct mkey_table *t, uint32_t max)
{
	uint32_t size = t->size ? t->size * 2 : FIRST_SIZE;
	struct mkey *keys;

	if (t->size >= max)
		return false;
	keys = realloc(t->keys, size * sizeof(*keys));
	if (!keys)
		return false;
	memset(keys + t->size, 0, (size - t->size) * sizeof(*keys));
	t->keys = keys;
	t->size = size;
	return true;
}

uint32_t mkey_create(struct mkey_table *t, const struct mkey *mkey, uint32_t max, bool reuse)
{
	uint32_t i, tried;

	if (t->next < FIRST_INDEX || reuse)
		t->next = FIRST_INDEX;
	/* Go round the table instead of taking the lowest free index: so a key that was destroyed stays invalid for
	 * long. */
	for (i = t->next, tried = 0; tried < t->size; i++, tried++) {
		if (i >= t->size)
			i = FIRST_INDEX;
		if (!t->keys[i].used)
			break;
	}
	if (tried >= t->size) {
		i = t->size < FIRST_INDEX ? FIRST_INDEX : t->size;
		if (!mkey_grow(t, max))
			return 0;
	}
	t->keys[i] = *mkey;
	t->keys[i].used = true;
	t->keys[i].key = reuse ? 0 : t->next_key++;
	t->next = i + 1;
	return i << 8 | t->keys[i].key;
}

void mkey_destroy(struct mkey_table *t, uint32_t lkey)
{
	t->keys[lkey >> 8].used = false;
}
