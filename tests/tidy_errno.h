// SPDX-License-Identifier: Apache-2.0
/*
 * For clang-tidy only, which includes it before each file: errno is positive where the code reads it. Without this the
 * analyzer takes "return -errno" for a possible success, and reports results that a failed call did not write.
 */
#include <errno.h>

static inline int *tidy_errno(void)
{
	int *location = __errno_location();

	if (*location <= 0)
		__builtin_unreachable();
	return location;
}
#undef errno
#define errno (*tidy_errno())
