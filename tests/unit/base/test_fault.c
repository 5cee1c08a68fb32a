// SPDX-License-Identifier: Apache-2.0
#include "daemon/base/fault.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>

Test(fault, text_and_exit_code_are_kept_and_the_error_returned_negative)
{
	struct fault fault = {0};

	cr_expect(eq(int, fault_set(&fault, EX_CONFIG, EINVAL, "%s:%d: no", "a.conf", 7), -EINVAL));
	cr_expect(eq(int, fault.exit_code, EX_CONFIG));
	cr_expect(eq(str, fault.text, (char *)"a.conf:7: no"));
}

Test(fault, nobody_who_listens_is_fine)
{
	cr_expect(eq(int, fault_set(NULL, EX_OSERR, EIO, "unheard"), -EIO));
}

Test(fault, a_long_text_is_cut_and_terminated)
{
	struct fault fault;
	char text[2 * sizeof(fault.text)];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	fault_set(&fault, EX_OSERR, EIO, "%s", text);
	cr_expect(eq(sz, strlen(fault.text), sizeof(fault.text) - 1));
}
