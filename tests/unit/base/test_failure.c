// SPDX-License-Identifier: Apache-2.0
/* What a failure holds after it was set. */
#include "lib/base/failure.h"

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

Test(failure, further_lines_are_added_up_to_a_limit)
{
	struct failure failure = {0}, line;

	failure_set(&line, EX_CONFIG, EINVAL, "one");
	cr_expect(failure_add(&failure, &line));
	failure_set(&line, EX_OSERR, EIO, "two\nof one line");
	cr_expect(failure_add(&failure, &line));
	cr_expect(eq(int, failure.exit_code, EX_CONFIG), "that of the first line");
	cr_expect(eq(str, failure.text, (char *)"one\ntwo of one line"));
	for (unsigned n = 3; n < FAILURE_LINES_MAX; n++)
		cr_expect(failure_add(&failure, &line));
	cr_expect(not(failure_add(&failure, &line)));
}

Test(failure, a_line_that_does_not_fit_is_left_out_whole)
{
	struct failure failure = {0}, line;

	failure_set(&line, EX_CONFIG, EINVAL, "%3000d", 1);
	cr_expect(failure_add(&failure, &line));
	cr_expect(not(failure_add(&failure, &line)));
	cr_expect(eq(sz, strlen(failure.text), 3000));
}
