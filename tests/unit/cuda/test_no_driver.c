// SPDX-License-Identifier: Apache-2.0
/*
 * A machine without the driver's library, with one that lacks functions, and with a whole one that LD_LIBRARY_PATH
 * names. The loader reads that variable when a program starts, so each test is a program that this one starts.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <ibvcap/cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Start this program again as what ask() is, with that variable, and read what it says. */
static void ask_with(const char *directory, char *said, size_t bytes)
{
	char program[512], command[2048];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	FILE *pipe;

	cr_assert_gt(n, 0);
	program[n] = '\0';
	snprintf(command, sizeof(command), "ASK_DRIVER=1 LD_LIBRARY_PATH='%s' '%s'", directory, program);
	pipe = popen(command, "re");
	cr_assert_not_null(pipe);
	said[fread(said, 1, bytes - 1, pipe)] = '\0';
	pclose(pipe);
}

__attribute__((constructor)) static void ask(void)
{
	struct ibvcap_cuda_info info = IBVCAP_INIT(struct ibvcap_cuda_info);
	int r;

	if (!getenv("ASK_DRIVER"))
		return;
	r = ibvcap_cuda_probe(0, 4096, &info);
	printf("%d %s", r, r < 0 ? ibvcap_error_text() : info.why);
	fflush(stdout);
	_exit(0);
}

Test(no_driver, the_library_is_named_with_what_has_it)
{
	char said[2048];
	void *library = dlopen("libcuda.so.1", RTLD_LAZY);

	if (library)
		cr_skip("this machine has a driver");
	ask_with("/nonexistent", said, sizeof(said));
	cr_expect_eq(atoi(said), -ENOSYS);
	cr_expect_not_null(strstr(said, "libcuda.so.1: cannot open shared object file"), "%s", said);
	cr_expect_not_null(strstr(said, "apt-get install libcuda1"));
	cr_expect_not_null(strstr(said, "--gpus all"));
}

Test(no_driver, a_function_that_is_missing_is_named)
{
	char said[2048];

	ask_with(getenv("SOFTCUDA_OLD"), said, sizeof(said));
	cr_expect_eq(atoi(said), -ENOSYS);
	cr_expect_not_null(
		strstr(said, "libcuda.so.1 has no function cuDriverGetVersion: the GPU's driver is older than"), "%s",
		said);
}

Test(no_driver, the_loader_finds_a_whole_one)
{
	char said[2048];

	ask_with(getenv("SOFTCUDA"), said, sizeof(said));
	cr_expect_str_eq(said, "0 in place: read-only memory can be registered, and the device has read it");
}
