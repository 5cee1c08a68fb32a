// SPDX-License-Identifier: Apache-2.0
/* Memory keys: the device checks one at every access, and finds the memory through it. */
#ifndef SOFTHCA_DEVICE_MKEY_H
#define SOFTHCA_DEVICE_MKEY_H

#include <stdbool.h>
#include <stdint.h>

struct pd;

/* What the peer of an RC queue pair may do (ib_uverbs: enum ib_uverbs_access_flags). */
enum mkey_remote { MKEY_REMOTE_WRITE = 1 << 1, MKEY_REMOTE_READ = 1 << 2, MKEY_REMOTE_ATOMIC = 1 << 3 };

struct mkey {
	bool used;
	uint8_t key; /* low byte of lkey and rkey */
	bool local_write;
	uint8_t remote; /* of enum mkey_remote */
	uint8_t *start;
	uint64_t iova, length;
	const struct pd *pd;
};

struct mkey_table {
	struct mkey *keys; /* index = lkey >> 8 */
	uint32_t size, next;
	uint8_t next_key;
};

/* The key of the null memory region: any address is valid, reads give zeros, writes have no effect. */
#define MKEY_NULL 0x300u

/* The new lkey, or 0 if there is no memory or no free key (`max`). `reuse`: keys
 * that were destroyed are used again at once (the fault of this name). */
uint32_t mkey_create(struct mkey_table *t, const struct mkey *mkey, uint32_t max, bool reuse);
void mkey_destroy(struct mkey_table *t, uint32_t lkey);

/* The memory of `bytes` at `addr` under `lkey`, or NULL: unknown key, other protection domain, out of bounds, no
 * write access. Not for MKEY_NULL. */
static inline uint8_t *mkey_translate(const struct mkey_table *t, const struct pd *pd, uint32_t lkey, uint64_t addr,
                                      uint32_t bytes, bool write)
{
	const struct mkey *m;
	uint64_t offset;

	if (lkey >> 8 >= t->size)
		return 0;
	m = &t->keys[lkey >> 8];
	offset = addr - m->iova;
	if (!m->used || m->key != (lkey & 0xff) || m->pd != pd || offset > m->length || bytes > m->length - offset ||
	    (write && !m->local_write))
		return 0;
	return m->start + offset;
}

/* The same for an access by the peer of an RC queue pair. */
static inline uint8_t *mkey_translate_remote(const struct mkey_table *t, const struct pd *pd, uint32_t rkey,
                                             uint64_t addr, uint32_t bytes, enum mkey_remote access)
{
	uint8_t *p = mkey_translate(t, pd, rkey, addr, bytes, false);

	return p && t->keys[rkey >> 8].remote & access ? p : 0;
}

#endif
