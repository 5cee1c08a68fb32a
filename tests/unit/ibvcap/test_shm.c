// SPDX-License-Identifier: Apache-2.0
#include "lib/ibvcap/shm.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void create(struct shm *shm, size_t bytes)
{
	*shm = (struct shm)SHM_INIT;
	cr_assert_eq(shm_create(shm, "test", bytes, 4096), 0);
}

Test(shm, a_segment_is_whole_pages_of_zeroes)
{
	struct shm shm;

	create(&shm, 4097);
	cr_expect_eq(shm.bytes, 8192);
	for (size_t i = 0; i < shm.bytes; i++)
		cr_assert_eq(((uint8_t *)shm.address)[i], 0);
	shm_deinit(&shm);
	shm_deinit(&shm);
	cr_expect_null(shm.address);
	cr_expect_eq(shm.fd, -1);
}

Test(shm, impossible_sizes_are_refused)
{
	struct shm shm = SHM_INIT;

	cr_expect_eq(shm_create(&shm, "test", 0, 4096), -EINVAL);
	cr_expect_eq(shm_create(&shm, "test", 1, 4095), -EINVAL);
	cr_expect_eq(shm_create(&shm, "test", 1, 2048), -EINVAL);
	cr_expect_eq(shm_create(&shm, "test", SIZE_MAX, 4096), -EINVAL);
	cr_expect_eq(shm_create(&shm, "test", SIZE_MAX / 4, 4096), -ENOMEM);
	cr_expect_null(shm.address);
}

Test(shm, a_reader_sees_what_is_written_after_the_seal)
{
	struct shm writer, reader = SHM_INIT;
	int fd;

	create(&writer, 4096);
	cr_assert_eq(shm_seal_readonly(&writer), 0);
	fd = shm_reopen_readonly(&writer);
	cr_assert_geq(fd, 0);
	cr_expect_eq(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	cr_expect(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	cr_assert_eq(shm_map(&reader, fd, false), 0);
	strcpy(writer.address, "after");
	cr_expect_str_eq(reader.address, "after");
	shm_deinit(&reader);
	shm_deinit(&writer);
}

/* "dd" among the flags of the mapping, as the kernel tells them. */
static bool is_left_out_of_cores(const void *address)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	char line[512];
	bool mine = false, found = false;

	cr_assert_not_null(file);
	while (fgets(line, sizeof(line), file)) {
		uintptr_t begin, end;

		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2)
			mine = begin <= (uintptr_t)address && (uintptr_t)address < end;
		else if (mine && strncmp(line, "VmFlags:", strlen("VmFlags:")) == 0)
			found = strstr(line, " dd ") != NULL;
	}
	fclose(file);
	return found;
}

Test(shm, payloads_are_in_no_core)
{
	struct shm writer, reader = SHM_INIT;

	create(&writer, 4096);
	cr_expect(is_left_out_of_cores(writer.address));
	cr_assert_eq(shm_seal_readonly(&writer), 0);
	cr_assert_eq(shm_map(&reader, shm_reopen_readonly(&writer), false), 0);
	cr_expect(is_left_out_of_cores(reader.address));
	cr_expect_not(is_left_out_of_cores(&reader));
	shm_deinit(&reader);
	shm_deinit(&writer);
}

/* As root, whom no mode stops: the seal alone. */
Test(shm, a_sealed_segment_cannot_be_written_anew)
{
	struct shm shm;
	struct stat status;
	int fd;

	create(&shm, 8192);
	cr_assert_eq(shm_seal_readonly(&shm), 0);
	fd = shm_reopen_readonly(&shm);
	cr_expect_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, shm.fd, 0), MAP_FAILED);
	cr_expect_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	cr_expect_neq(ftruncate(shm.fd, 4096), 0);
	cr_expect_neq(ftruncate(shm.fd, 16384), 0);
	cr_expect_neq(fallocate(shm.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
	cr_expect_lt(pwrite(shm.fd, "x", 1, 0), 0);
	cr_assert_eq(fstat(fd, &status), 0);
	cr_expect_eq(status.st_mode & 07777, 0400);
	close(fd);
	shm_deinit(&shm);
}

Test(shm, a_consumers_page_keeps_its_size_and_can_be_written)
{
	struct shm mine, theirs = SHM_INIT;

	create(&mine, 4096);
	cr_assert_eq(shm_seal_size(&mine), 0);
	cr_assert_eq(shm_map(&theirs, dup(mine.fd), true), 0);
	strcpy(theirs.address, "written");
	cr_expect_str_eq(mine.address, "written");
	cr_expect_neq(ftruncate(mine.fd, 0), 0);
	shm_deinit(&theirs);
	shm_deinit(&mine);
}

Test(shm, what_could_be_shrunk_is_not_mapped)
{
	struct shm shm, other = SHM_INIT;
	int pipe_fds[2];

	create(&shm, 4096);
	cr_expect_eq(shm_map(&other, dup(shm.fd), false), -EPROTO, "its size is not sealed");
	cr_assert_eq(shm_seal_size(&shm), 0);
	cr_expect_eq(shm_map(&other, dup(shm.fd), false), 0);
	shm_deinit(&other);
	cr_assert_eq(pipe(pipe_fds), 0);
	cr_expect_eq(shm_map(&other, pipe_fds[0], false), -EPROTO);
	cr_expect_lt(fcntl(pipe_fds[0], F_GETFD), 0, "taken over, so closed");
	shm_deinit(&shm);
}

Test(shm, this_kernel_keeps_the_promise)
{
	const char *call;

	cr_expect_eq(shm_self_test(4096, &call), 0);
}

Test(shm, missing_hugepages_are_no_memory)
{
	struct shm shm = SHM_INIT;
	int r = shm_create(&shm, "test", (size_t)1 << 40, 2 << 20);

	cr_expect(r == -ENOMEM, "%d", r);
	cr_expect_eq(shm.fd, -1);
}
