// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/choice/backends.h"
#include "daemon/priv/priv.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/capability.h>
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

Test(find, each_backend_says_what_it_may_do_when)
{
	const uint64_t raw = PRIV_BIT(CAP_NET_RAW), lock = PRIV_BIT(CAP_IPC_LOCK);
	const uint64_t bpf = PRIV_BIT(CAP_BPF) | PRIV_BIT(CAP_NET_ADMIN) | PRIV_BIT(CAP_PERFMON);
	const struct backend_ops *verbs = backend_find("verbs"), *packet = backend_find("packet");

	cr_expect_eq(backend_capabilities_of(verbs, BACKEND_PHASE_START), raw | lock);
	cr_expect_eq(backend_capabilities_of(verbs, BACKEND_PHASE_LATER), raw);
	cr_expect_eq(backend_capabilities_of(packet, BACKEND_PHASE_START), raw | bpf);
	cr_expect_eq(backend_capabilities_of(packet, BACKEND_PHASE_LATER), raw);
	cr_expect_eq(backend_capabilities_of(NULL, BACKEND_PHASE_START), raw | lock | bpf, "any backend");
	cr_expect_eq(backend_capabilities_of(NULL, BACKEND_PHASE_LATER), raw);
}

Test(find, a_backend_without_a_capability_that_it_needs_names_it)
{
	struct failure failure = {0};

	cr_assert_eq(priv_drop(~PRIV_BIT(CAP_NET_RAW)), 0);
	if (priv_has(CAP_NET_RAW))
		cr_expect_eq(backend_check_privileges(backend_find("packet"), "test0", &failure), 0,
		             "it does without the others");
	cr_assert_eq(priv_drop(PRIV_BIT(CAP_NET_RAW)), 0);
	cr_expect_eq(backend_check_privileges(backend_find("packet"), "test0", &failure), -EPERM);
	cr_expect_eq(failure.exit_code, EX_NOPERM);
	cr_expect(strstr(failure.text, "CAP_NET_RAW is missing, which backend \"packet\" needs"), "%s", failure.text);
}
