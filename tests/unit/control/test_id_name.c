// SPDX-License-Identifier: Apache-2.0
/* Names of users and groups, from files as passwd(5) and group(5) describe them. */
#include "daemon/control/id_name.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[] = "/tmp/ibvcap-passwd-XXXXXX";
static FILE *file;

static void make_file(void)
{
	file = fdopen(mkstemp(path), "w");
	cr_assert_not_null(file);
	fputs("root:x:0:0:root:/root:/bin/bash\n"
	      "+:::\n"
	      "ana:x:1000:1000::/home/ana:/bin/bash\n"
	      "a-name-that-is-longer-than-useradd-allows-any-to-be:x:1001:1001::/:/bin/sh\n"
	      "odd:x:1002x:0\n",
	      file);
}

static void remove_file(void)
{
	fclose(file);
	unlink(path);
}

TestSuite(id_name, .init = make_file, .fini = remove_file);

static const char *name_of(uint32_t id)
{
	static struct id_text text;

	fflush(file);
	text = id_name_in(path, id);
	return text.text;
}

Test(id_name, a_user_has_name_and_number)
{
	cr_expect_str_eq(name_of(0), "root (0)");
	cr_expect_str_eq(name_of(1000), "ana (1000)");
}

Test(id_name, a_user_that_the_file_does_not_have_has_a_number)
{
	cr_expect_str_eq(name_of(7), "7");
	cr_expect_str_eq(name_of(100), "100", "not the begin of another number");
	cr_expect_str_eq(name_of(1001), "1001", "too long to be a name");
	cr_expect_str_eq(name_of(1002), "1002");
	cr_expect_str_eq(id_name_in("/nonexistent", 4000000001).text, "4000000001");
}

/* A long file costs each message no more than its first 64 KiB. */
Test(id_name, what_lies_far_behind_is_not_read)
{
	for (unsigned int i = 0; i < 3000; i++)
		fprintf(file, "user%u:x:%u:0::/home/user%u:/bin/sh\n", i, 2000 + i, i);
	cr_expect_str_eq(name_of(2001), "user1 (2001)");
	cr_expect_str_eq(name_of(4999), "4999");
}
