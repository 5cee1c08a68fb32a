// SPDX-License-Identifier: Apache-2.0
/* Memory keys: translation, bounds, protection domains, and keys that were destroyed. */
#include "device/mkey.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static int pd_a, pd_b;
#define A ((const struct pd *)&pd_a)
#define B ((const struct pd *)&pd_b)

static uint8_t memory[4096];

static uint32_t new_key(struct mkey_table *t, bool write)
{
	struct mkey m = {.local_write = write, .start = memory, .iova = 0x1000, .length = 4096, .pd = A};

	return mkey_create(t, &m, 100000, false);
}

Test(mkey, translates_within_bounds)
{
	struct mkey_table t = {};
	uint32_t k = new_key(&t, true);

	cr_assert_eq(mkey_translate(&t, A, k, 0x1000, 4096, true), memory);
	cr_assert_eq(mkey_translate(&t, A, k, 0x1fff, 1, true), memory + 4095);
	cr_assert_null(mkey_translate(&t, A, k, 0x1fff, 2, true));
	cr_assert_null(mkey_translate(&t, A, k, 0xfff, 1, true));
	cr_assert_null(mkey_translate(&t, A, k, UINT64_MAX, 4, true));
	free(t.keys);
}

Test(mkey, checks_key_domain_and_access)
{
	struct mkey_table t = {};
	uint32_t k = new_key(&t, false);

	cr_assert_null(mkey_translate(&t, A, k, 0x1000, 1, true));
	cr_assert_not_null(mkey_translate(&t, A, k, 0x1000, 1, false));
	cr_assert_null(mkey_translate(&t, B, k, 0x1000, 1, false));
	cr_assert_null(mkey_translate(&t, A, k ^ 1, 0x1000, 1, false));
	cr_assert_null(mkey_translate(&t, A, 0xffffff00, 0x1000, 1, false));
	free(t.keys);
}

Test(mkey, a_dead_key_stays_dead)
{
	struct mkey_table t = {};
	uint32_t k = new_key(&t, true), next;

	mkey_destroy(&t, k);
	cr_assert_null(mkey_translate(&t, A, k, 0x1000, 1, true));
	next = new_key(&t, true);
	cr_assert_neq(next, k);
	cr_assert_null(mkey_translate(&t, A, k, 0x1000, 1, true));
	free(t.keys);
}

Test(mkey, a_dead_key_comes_back_at_once_with_the_fault)
{
	struct mkey m = {.local_write = true, .start = memory, .iova = 0x1000, .length = 4096, .pd = A};
	struct mkey_table t = {};
	uint32_t k = mkey_create(&t, &m, 100000, true);

	mkey_destroy(&t, k);
	cr_assert_eq(mkey_create(&t, &m, 100000, true), k);
	cr_assert_neq(mkey_create(&t, &m, 100000, true), k);
	free(t.keys);
}

Test(mkey, never_gives_the_invalid_or_null_key)
{
	struct mkey_table t = {};

	for (int i = 0; i < 5000; i++) {
		uint32_t k = new_key(&t, true);

		cr_assert(k);
		cr_assert_neq(k >> 8, 0x100 >> 8);
		cr_assert_neq(k >> 8, MKEY_NULL >> 8);
	}
	free(t.keys);
}
