// SPDX-License-Identifier: Apache-2.0
/* Compares the memory that the daemon will lock with RLIMIT_MEMLOCK. */
#include "daemon/priv/priv.h"

#include <errno.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/resource.h>

int priv_memlock_allows(uint64_t bytes, struct failure *failure)
{
	struct rlimit limit;

	if (priv_has(CAP_IPC_LOCK))
		return 0;
	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
		return failure_set(failure, EX_OSERR, errno, "RLIMIT_MEMLOCK cannot be read: %s", strerror(errno));
	/* This includes RLIM_INFINITY, which is the largest value. */
	if (limit.rlim_cur >= bytes)
		return 0;
	if (limit.rlim_max >= bytes) {
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(RLIMIT_MEMLOCK, &limit) == 0)
			return 0;
	}
	return failure_set(failure, EX_NOPERM, ENOMEM,
	                   "the rings need %llu bytes locked in memory and RLIMIT_MEMLOCK allows %llu: grant "
	                   "CAP_IPC_LOCK, or raise the limit (systemd: LimitMEMLOCK=infinity; shell: ulimit -l %llu), "
	                   "or lower history_blocks",
	                   (unsigned long long)bytes, (unsigned long long)limit.rlim_max,
	                   (unsigned long long)(bytes + 1023) / 1024);
}
