// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/backend.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

Test(find, verbs_is_built_in)
{
	const struct backend_ops *ops = backend_find("verbs");

	cr_assert_not_null(ops);
	cr_assert_str_eq(ops->name, "verbs");
}

Test(find, other_names_are_not)
{
	cr_assert_null(backend_find("verb"));
	cr_assert_null(backend_find("verbs2"));
	cr_assert_null(backend_find(""));
}

Test(find, opening_an_interface_that_is_not_there_says_so)
{
	const struct backend_open_options options = {.interface = "no-such-if0"};
	struct backend *backend = NULL;
	struct failure failure = {0};

	cr_assert_eq(backend_find("verbs")->open(&options, &backend, &failure), -ENODEV);
	cr_assert_null(backend);
	cr_assert_eq(failure.exit_code, EX_UNAVAILABLE);
	cr_assert_not_null(strstr(failure.text, "no-such-if0"));
}
