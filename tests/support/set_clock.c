// SPDX-License-Identifier: Apache-2.0
/*
 * To be preloaded: UTC goes SET_CLOCK_BACK seconds back as soon as the file of the name SET_CLOCK_WHEN is there; and
 * adjtimex() says what is in the file SET_CLOCK_STATE, "status maxerror tai", or fails if that is empty.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timex.h>
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

__attribute__((visibility("default"))) int adjtimex(struct timex *now)
{
	const char *state = getenv("SET_CLOCK_STATE");
	FILE *file = state && now->modes == 0 ? fopen(state, "re") : NULL;
	int n = 0;

	*now = (struct timex){0};
	if (file) {
		n = fscanf(file, "%d %ld %d", &now->status, &now->maxerror, &now->tai);
		fclose(file);
	}
	if (n == 3)
		return now->status & STA_UNSYNC ? TIME_ERROR : TIME_OK;
	errno = EPERM;
	return -1;
}
