// SPDX-License-Identifier: Apache-2.0
#include "daemon/process/socket_location.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[] = "/tmp/ibvcap-link-XXXXXX";
static char path[64];

static void set_up(void)
{
	cr_assert(mkdtemp(directory) != NULL);
	snprintf(path, sizeof(path), "%s/reload.sock", directory);
	setenv("RUNTIME_DIRECTORY", directory, 1);
}

static void tear_down(void)
{
	unlink(path);
	rmdir(directory);
}

TestSuite(socket_link, .init = set_up, .fini = tear_down);

static void expect_target(const char *target)
{
	char found[64] = "";

	cr_assert(gt(sz, (size_t)readlink(path, found, sizeof(found) - 1), 0));
	cr_expect_str_eq(found, target);
}

Test(socket_link, it_leads_to_the_socket_of_this_run)
{
	socket_link_make("/run/ibvcapd/one.sock");
	expect_target("/run/ibvcapd/one.sock");
	socket_link_make("/run/ibvcapd/two.sock");
	expect_target("/run/ibvcapd/two.sock");
}

Test(socket_link, it_is_in_the_first_directory)
{
	char both[64];

	snprintf(both, sizeof(both), "%s:/run/other", directory);
	setenv("RUNTIME_DIRECTORY", both, 1);
	socket_link_make("/x");
	expect_target("/x");
}

Test(socket_link, without_a_runtime_directory_there_is_none)
{
	unsetenv("RUNTIME_DIRECTORY");
	socket_link_make("/x");
	setenv("RUNTIME_DIRECTORY", "relative", 1);
	socket_link_make("/x");
	cr_expect(eq(int, access(path, F_OK), -1));
}

Test(socket_link, nothing_but_a_link_is_replaced)
{
	struct stat status;

	cr_assert(ge(int, open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600), 0));
	socket_link_make(path);
	socket_link_make("/x");
	cr_assert(eq(int, lstat(path, &status), 0));
	cr_expect(eq(int, S_ISREG(status.st_mode), 1));
}
