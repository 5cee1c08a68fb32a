// SPDX-License-Identifier: Apache-2.0
/* To be preloaded: UTC goes SET_CLOCK_BACK seconds back as soon as the file of the name SET_CLOCK_WHEN is there. */
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now)
{
	const char *when = getenv("SET_CLOCK_WHEN"), *seconds = getenv("SET_CLOCK_BACK");
	int r = ((__typeof__(&clock_gettime))dlsym(RTLD_NEXT, "clock_gettime"))(clock, now);

	if (r == 0 && clock == CLOCK_REALTIME && when && seconds && access(when, F_OK) == 0)
		now->tv_sec -= atol(seconds);
	return r;
}
