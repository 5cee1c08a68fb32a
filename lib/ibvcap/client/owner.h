// SPDX-License-Identifier: Apache-2.0
/*
 * Tells the process that opened a handle from the children that it forked. A child shares the handle's writable pages
 * with its parent: if it released a batch, the parent's lease would end.
 */
#ifndef IBVCAP_OWNER_H
#define IBVCAP_OWNER_H

#include "lib/ibvcap/client/error.h"

#include <stdbool.h>
#include <stdint.h>

/** Make a mark: a word that is 1 in this process, and that the kernel makes 0 in a child of fork(). 0 or -errno. */
int owner_mark_new(const uint32_t **mark) IBVCAP_PRIVATE(owner_mark_new);

/** NULL is allowed. */
void owner_mark_free(const uint32_t *mark) IBVCAP_PRIVATE(owner_mark_free);

/** Did this process make the mark? A handle that is half built has no mark (NULL), and no child knows it. */
static inline bool owner_is_here(const uint32_t *mark)
{
	return !mark || *mark;
}

/** Sets the error text. -ECHILD. name: of the stream or channel. */
int owner_refuse_child(const char *name) IBVCAP_PRIVATE(owner_refuse_child);

/** 0; -ECHILD: this process is a child of the one that made the mark. No system call. */
static inline int owner_check(const uint32_t *mark, const char *name)
{
	return owner_is_here(mark) ? 0 : owner_refuse_child(name);
}

#endif
