// SPDX-License-Identifier: Apache-2.0
/* The mark is in a page of its own, which the kernel wipes in a child of whichever call that copies the memory. */
#include "lib/ibvcap/client/owner.h"

#include "lib/ibvcap/client/error.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define MARK_BYTES sizeof(uint32_t) /* the kernel rounds up to a page */

int owner_mark_new(const uint32_t **mark)
{
	uint32_t *new = mmap(NULL, MARK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int r;

	if (new == MAP_FAILED)
		return error_set(-errno, "cannot map a page: %s", strerror(errno));
	if (madvise(new, MARK_BYTES, MADV_WIPEONFORK) < 0) {
		r = error_set(-errno, "cannot mark a page for fork(): %s", strerror(errno));
		munmap(new, MARK_BYTES);
		return r;
	}
	*new = 1;
	*mark = new;
	return 0;
}

void owner_mark_free(const uint32_t *mark)
{
	if (mark)
		munmap((void *)mark, MARK_BYTES);
}

int owner_refuse_child(const char *name)
{
	return error_set(-ECHILD,
	                 "'%s' was opened by the process that forked this one, and only that one may use the handle: "
	                 "open '%s' again here",
	                 name, name);
}
