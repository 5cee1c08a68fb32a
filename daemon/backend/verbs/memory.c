// SPDX-License-Identifier: Apache-2.0
/* Registers memory with a device. */
#include "daemon/backend/verbs/verbs.h"

#include "daemon/priv/priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/resource.h>

/* A registration pins the pages, and the kernel counts pinned bytes against RLIMIT_MEMLOCK. */
static int verbs_explain_registration(const struct verbs_backend *backend, size_t bytes, int error,
                                      struct failure *failure)
{
	const char *device = verbs_device_name(backend);
	struct rlimit limit;

	if ((error == ENOMEM || error == EAGAIN || error == EPERM) && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
	    limit.rlim_cur != RLIM_INFINITY && !priv_has(CAP_IPC_LOCK))
		return failure_set(
			failure, EX_NOPERM, error,
			"cannot register %zu bytes with %s: %s: RLIMIT_MEMLOCK is %" PRIu64
			" bytes: set LimitMEMLOCK=infinity in the unit ('ulimit -l unlimited' in a shell) or "
			"grant CAP_IPC_LOCK",
			bytes, device, strerror(error), (uint64_t)limit.rlim_cur);
	return failure_set(failure, EX_OSERR, error, "cannot register %zu bytes with %s: %s%s", bytes, device,
	                   strerror(error), verbs_explain_limit(error));
}

int verbs_register_memory(struct backend *base, void *address, size_t bytes, struct backend_memory **out,
                          struct failure *failure)
{
	struct verbs_backend *backend = verbs_backend(base);
	/*
	 * Relaxed ordering lets the root complex reorder the writes of packets, but never puts a completion before its
	 * packet. The flag is optional: a driver that does not know it ignores it.
	 */
	const unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
	struct verbs_memory *memory;

	memory = calloc(1, sizeof(*memory));
	if (!memory)
		return failure_no_memory(failure);
	memory->base.backend = base;
	memory->mr = ibv_reg_mr(backend->pd, address, bytes, access);
	if (!memory->mr) {
		int error = errno;

		free(memory);
		return verbs_explain_registration(backend, bytes, error, failure);
	}
	*out = &memory->base;
	return 0;
}

void verbs_unregister_memory(struct backend_memory *base)
{
	struct verbs_memory *memory = (struct verbs_memory *)base;

	if (!memory)
		return;
	ibv_dereg_mr(memory->mr);
	free(memory);
}
