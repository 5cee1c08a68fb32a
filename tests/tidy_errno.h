// SPDX-License-Identifier: Apache-2.0
/*
 * For clang-tidy only, which includes it before each file: a value of errno that the analyzer knows. It does not follow
 * the sign of "-errno", so without this it takes the failure of a call for a possible success, and reports results that
 * a failed call did not write. The price is that it does not look at branches for other values of errno.
 */
#include <errno.h>

static int tidy_errno_value;

static inline int *tidy_errno(void)
{
	tidy_errno_value = EIO;
	return &tidy_errno_value;
}
#undef errno
#define errno (*tidy_errno())
