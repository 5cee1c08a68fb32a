// SPDX-License-Identifier: Apache-2.0
/* The table of descriptors. As in fs/file.c, a caller that finds an object holds it while another closes it. */
#include "uverbs/fdtab.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct fdtab table;
static unsigned int n_released;
static int fd;

static void release(struct fd_object *o)
{
	n_released++;
	free(o);
}

static struct fd_object *enter(enum fd_kind kind)
{
	struct fd_object *o = calloc(1, sizeof(*o));

	o->kind = kind;
	o->refs = 1;
	o->release = release;
	fd = memfd_create("test", MFD_CLOEXEC);
	cr_assert(fd >= 0 && !fdtab_set(&table, fd, o));
	return o;
}

static void set_up(void)
{
	fdtab_init(&table);
	n_released = 0;
}

TestSuite(fdtab, .init = set_up);

Test(fdtab, an_object_that_was_looked_up_outlives_its_close)
{
	struct fd_object *o = enter(FD_UVERBS), *found = fdtab_find(&table, fd, FD_UVERBS);

	cr_assert_eq(found, o);
	fd_object_put(fdtab_take(&table, fd));
	cr_assert_not(fdtab_has(&table, fd));
	cr_assert_eq(n_released, 0);
	fd_object_put(found);
	cr_assert_eq(n_released, 1);
}

Test(fdtab, other_kinds_are_not_found)
{
	enter(FD_CHANNEL);
	cr_assert_null(fdtab_find(&table, fd, FD_UVERBS));
	fd_object_put(fdtab_take(&table, fd));
	cr_assert_eq(n_released, 1);
}

Test(fdtab, a_descriptor_closed_out_of_sight_is_another)
{
	int other;

	enter(FD_UVERBS);
	close(fd);
	other = memfd_create("other", MFD_CLOEXEC);
	cr_assert_eq(other, fd);
	cr_assert(fdtab_has(&table, fd));
	cr_assert_null(fdtab_find(&table, fd, FD_ANY));
	cr_assert_eq(n_released, 0);
	close(other);
	enter(FD_CHANNEL); /* at the same number */
	cr_assert_eq(n_released, 1);
	fd_object_put(fdtab_take(&table, fd));
}

Test(fdtab, duplicates_share_the_object)
{
	struct fd_object *o = enter(FD_CHANNEL);
	int copy = dup(fd);

	fd_object_get(o);
	cr_assert_not(fdtab_set(&table, copy, o));
	fd_object_put(fdtab_take(&table, fd));
	o = fdtab_find(&table, copy, FD_CHANNEL);
	cr_assert_not_null(o);
	fd_object_put(o);
	fd_object_put(fdtab_take(&table, copy));
	cr_assert_eq(n_released, 1);
}
