// SPDX-License-Identifier: Apache-2.0
/* Whether a device is a whole card, by a sysfs of the test's own that lists no interface. */
#include "daemon/net/net.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const directories[] = {
	"bus",
	"bus/pci",
	"bus/pci/devices",
	"bus/pci/devices/0000:3b:00.0",
	"bus/pci/devices/0000:3b:00.2",
	"bus/pci/devices/0000:3b:00.2/physfn",
	"bus/auxiliary",
	"bus/auxiliary/devices",
	"bus/auxiliary/devices/mlx5_core.sf.4",
};
#define N_DIRECTORIES (sizeof(directories) / sizeof(directories[0]))

static char root[] = "/tmp/ibvcap-driver-XXXXXX";

static const char *path_of(size_t directory)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", root, directories[directory]);
	return path;
}

static void set_up(void)
{
	cr_assert_not_null(mkdtemp(root));
	for (size_t i = 0; i < N_DIRECTORIES; i++)
		cr_assert(mkdir(path_of(i), 0700) == 0);
}

static void tear_down(void)
{
	for (size_t i = N_DIRECTORIES; i > 0; i--)
		rmdir(path_of(i - 1));
	rmdir(root);
}

TestSuite(driver, .init = set_up, .fini = tear_down, .timeout = 30);

Test(driver, a_function_of_pci_is_a_whole_card_unless_it_is_virtual)
{
	cr_expect(net_is_whole_card(root, "0000:3b:00.0"));
	cr_expect_not(net_is_whole_card(root, "0000:3b:00.2"), "a virtual function");
	cr_expect_not(net_is_whole_card(root, "mlx5_core.sf.4"), "a subfunction");
	cr_expect_not(net_is_whole_card(root, "0000:5e:00.0"), "one that sysfs does not list");
}
