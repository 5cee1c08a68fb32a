// SPDX-License-Identifier: Apache-2.0
/* Nodes as sysfs shows them, of machines that the test makes up, and the policy of a thread. */
#include "daemon/base/numa.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static char sysfs[] = "/tmp/ibvcap-numa-XXXXXX";

static void put(const char *path, const char *text)
{
	char command[512];

	snprintf(command, sizeof(command), "mkdir -p $(dirname %s/%s) && echo '%s' > %s/%s", sysfs, path, text, sysfs,
	         path);
	cr_assert(eq(int, system(command), 0));
}

static void set_up(void)
{
	cr_assert_not_null(mkdtemp(sysfs));
	put("devices/system/node/online", "0-1");
	put("devices/system/node/node1/cpulist", "4-5,7,12-13");
	put("class/net/eth0/device/numa_node", "1");
	put("class/net/eth1/device/numa_node", "-1");
}

static void tear_down(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", sysfs);
	cr_assert(eq(int, system(command), 0));
}

TestSuite(numa, .init = set_up, .fini = tear_down);

Test(numa, an_interface_has_the_node_of_its_device)
{
	cr_expect(eq(int, numa_node_of_interface(sysfs, "eth0"), 1));
	cr_expect(eq(int, numa_node_of_interface(sysfs, "eth1"), NUMA_ANY));
	cr_expect(eq(int, numa_node_of_interface(sysfs, "veth0"), NUMA_ANY));
	put("devices/system/node/online", "0");
	cr_expect(eq(int, numa_node_of_interface(sysfs, "eth0"), NUMA_ANY), "the machine has one node");
}

Test(numa, the_cpus_of_a_node_are_those_that_the_process_may_use)
{
	cpu_set_t allowed, cpus;

	CPU_ZERO(&allowed);
	CPU_SET(3, &allowed);
	CPU_SET(5, &allowed);
	CPU_SET(12, &allowed);
	cr_expect(numa_cpus(sysfs, 1, &allowed, &cpus));
	cr_expect(eq(int, CPU_COUNT(&cpus), 2));
	cr_expect(eq(int, CPU_ISSET(5, &cpus) && CPU_ISSET(12, &cpus), true));
	CPU_CLR(5, &allowed);
	CPU_CLR(12, &allowed);
	cr_expect_not(numa_cpus(sysfs, 1, &allowed, &cpus), "none of them");
	cr_expect_not(numa_cpus(sysfs, 0, &allowed, &cpus), "there is no such file");
	cr_expect_not(numa_cpus(sysfs, NUMA_ANY, &allowed, &cpus));
}

static int policy(void)
{
	int mode = -1;

	if (syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) < 0)
		cr_skip_test("this machine lets us read no memory policy");
	return mode;
}

Test(numa, memory_comes_from_the_node_between_begin_and_end)
{
	bool has_begun;
	char *page;

	cr_assert(eq(int, policy(), MPOL_DEFAULT));
	has_begun = numa_begin(0);
	if (!has_begun)
		cr_skip_test("this kernel, or a container, admits no memory policy");
	cr_expect(eq(int, policy(), MPOL_PREFERRED));
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert(page != MAP_FAILED);
	*page = 1;
	cr_expect(eq(int, numa_node_of_page(page), 0));
	numa_end(has_begun);
	cr_expect(eq(int, policy(), MPOL_DEFAULT));
	cr_expect_not(numa_begin(NUMA_ANY));
	cr_expect(eq(int, policy(), MPOL_DEFAULT));
}

Test(numa, the_policy_of_the_administrator_stays)
{
	const unsigned long node_0 = 1;

	(void)policy();
	if (syscall(SYS_set_mempolicy, MPOL_BIND, &node_0, 64) < 0)
		cr_skip_test("this kernel, or a container, admits no memory policy");
	cr_expect_not(numa_begin(0));
	cr_expect(eq(int, policy(), MPOL_BIND));
}
