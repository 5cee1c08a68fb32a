// SPDX-License-Identifier: Apache-2.0
/*
 * To be preloaded into the daemon: populating a ring's memory takes as long as the file named by HOLD_CALLS is there,
 * and a minute at most: how long it takes for many GiB is seen on a small machine, too.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES 4096 /* a consumer's page is not held up */
#define STEP_US    10000
#define STEPS_MAX  6000

__attribute__((visibility("default"))) int madvise(void *address, size_t bytes, int advice)
{
	int (*real)(void *, size_t, int) = (int (*)(void *, size_t, int))dlsym(RTLD_NEXT, "madvise");
	const char *path = getenv("HOLD_CALLS");

	for (int i = 0;
	     advice == MADV_POPULATE_WRITE && bytes > PAGE_BYTES && path && i < STEPS_MAX && access(path, F_OK) == 0;
	     i++)
		usleep(STEP_US);
	return real(address, bytes, advice);
}
