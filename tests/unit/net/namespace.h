// SPDX-License-Identifier: Apache-2.0
/* A network namespace of the test process alone, with a veth pair in it; it goes with the process. */
#ifndef TESTS_UNIT_NET_NAMESPACE_H
#define TESTS_UNIT_NET_NAMESPACE_H

#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TEST_MAC "02:00:00:00:0a:01"

static inline void enter_namespace(void)
{
	if (geteuid() != 0)
		cr_skip_test("needs root for a network namespace of its own");
	if (unshare(CLONE_NEWNET) < 0)
		cr_skip_test("no network namespace to be had here");
	if (system("ip link set lo up && ip link add test0 mtu 9000 address " TEST_MAC
	           " type veth peer name test1 && ip link set test0 up") != 0)
		cr_skip_test("no veth pair to be had here");
}

/* A sysctl of this namespace. */
static inline void write_sysctl(const char *path, const char *value)
{
	FILE *file = fopen(path, "we");

	cr_assert(file != NULL, "%s", path);
	cr_assert(fputs(value, file) >= 0);
	cr_assert(fclose(file) == 0, "%s", path);
}

#endif
