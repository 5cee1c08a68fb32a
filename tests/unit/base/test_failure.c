// SPDX-License-Identifier: Apache-2.0
/* What a failure holds after it was set. */
#include "daemon/base/failure.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>

Test(failure, text_and_exit_code_are_kept_and_the_error_returned_negative)
{
	struct failure failure = {0};

	cr_expect(eq(int, failure_set(&failure, EX_CONFIG, EINVAL, "%s:%d: no", "a.conf", 7), -EINVAL));
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	cr_expect(eq(str, failure.text, (char *)"a.conf:7: no"));
}

Test(failure, nobody_who_listens_is_fine)
{
	cr_expect(eq(int, failure_set(NULL, EX_OSERR, EIO, "unheard"), -EIO));
}

Test(failure, a_long_text_is_cut_and_terminated)
{
	struct failure failure;
	char text[2 * sizeof(failure.text)];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	failure_set(&failure, EX_OSERR, EIO, "%s", text);
	cr_expect(eq(sz, strlen(failure.text), sizeof(failure.text) - 1));
}
