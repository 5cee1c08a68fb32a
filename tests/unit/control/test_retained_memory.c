// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/retained_memory.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static struct retained_watch watch;

static void set_up(void)
{
	cr_assert(eq(int, retained_watch_init(&watch), 0));
}

static void tear_down(void)
{
	retained_watch_deinit(&watch);
}

TestSuite(retained_memory, .init = set_up, .fini = tear_down);

static int open_path(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_PATH | O_CLOEXEC);
}

/* Whatever holds it, one after the other. No hugepages: nothing is said of those. */
static void see_who_has_it(uint32_t page_bytes)
{
	struct shm mine = SHM_INIT;
	const struct shm *const segments[] = {&mine};
	struct retained_memory kept = {0};

	/* No such page is free, or the machine has none of that size. */
	if (shm_create(&mine, "test", page_bytes, page_bytes) < 0 && page_bytes != 4096)
		return;
	cr_assert(eq(int, shm_seal_readonly(&mine), 0));
	int fd = shm_reopen_readonly(&mine), path = open_path(mine.fd);
	void *address = mmap(NULL, page_bytes, PROT_READ, MAP_SHARED, fd, 0);

	cr_assert(fd >= 0 && path >= 0 && address != MAP_FAILED);
	retained_memory_watch(&watch, &kept, segments, 1);
	cr_expect(retained_memory_exists(&kept), "it is ours");
	shm_deinit(&mine);
	cr_expect(retained_memory_exists(&kept), "a descriptor, a mapping and a path");
	close(fd);
	cr_expect(retained_memory_exists(&kept), "a mapping and a path");
	munmap(address, page_bytes);
	cr_expect(retained_memory_exists(&kept), "a path");
	close(path);
	cr_expect(not(retained_memory_exists(&kept)));
	retained_memory_drop(&kept);
}

Test(retained_memory, it_is_seen_until_nobody_has_it)
{
	see_who_has_it(4096);
	see_who_has_it(2 << 20);
}

Test(retained_memory, of_two_each_is_its_own)
{
	struct shm first = SHM_INIT, second = SHM_INIT;
	const struct shm *const of_first[] = {&first}, *const of_second[] = {&second};
	struct retained_memory one = {0}, two = {0};

	cr_assert(eq(int, shm_create(&first, "first", 4096, 4096), 0));
	cr_assert(eq(int, shm_create(&second, "second", 4096, 4096), 0));
	retained_memory_watch(&watch, &one, of_first, 1);
	retained_memory_watch(&watch, &two, of_second, 1);
	shm_deinit(&second);
	cr_expect(retained_memory_exists(&one));
	cr_expect(not(retained_memory_exists(&two)), "though it was not asked for when it went");
	retained_memory_drop(&one);
	cr_expect(not(retained_memory_exists(&one)));
	retained_memory_drop(&two);
	shm_deinit(&first);
}

/* What cannot be watched is nobody's failure, and has no place. */
Test(retained_memory, what_cannot_be_watched_is_not)
{
	struct shm open = SHM_INIT, closed = SHM_INIT;
	const struct shm *const segments[] = {&closed, &open};
	struct retained_memory kept = {0}, unwatched = {0};
	struct retained_watch none = {.inotify = -1};

	cr_assert(eq(int, shm_create(&open, "test", 4096, 4096), 0));
	retained_memory_watch(&watch, &kept, segments, 2);
	cr_expect(eq(u32, kept.n, 1));
	retained_memory_drop(&kept);
	retained_memory_watch(&none, &unwatched, segments, 2);
	cr_expect(not(retained_memory_exists(&unwatched)));
	retained_memory_drop(&unwatched);
	retained_memory_drop(&unwatched);
	shm_deinit(&open);
}
