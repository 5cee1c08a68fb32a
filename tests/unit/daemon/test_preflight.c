// SPDX-License-Identifier: Apache-2.0
/* The start's self-test of shared memory, on kernels that lack a call or pages of a size. */
#include "daemon/memory/memory_check.h"
#include "daemon/process/preflight.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/mman.h>

static bool is_old, has_no_large_pages;

int __real_madvise(void *address, size_t bytes, int advice);
int __wrap_madvise(void *address, size_t bytes, int advice);
int __real_memfd_create(const char *name, unsigned int flags);
int __wrap_memfd_create(const char *name, unsigned int flags);

int __wrap_madvise(void *address, size_t bytes, int advice)
{
	if (!is_old || advice != MADV_POPULATE_WRITE)
		return __real_madvise(address, bytes, advice);
	errno = EINVAL;
	return -1;
}

int __wrap_memfd_create(const char *name, unsigned int flags)
{
	if (!has_no_large_pages || !(flags & MFD_HUGETLB))
		return __real_memfd_create(name, flags);
	errno = ENODEV;
	return -1;
}

static struct config_stream stream = {.name = "a", .page_bytes = 1u << 30};
static const struct config config = {.streams = &stream, .n_streams = 1};
static struct failure failure;

Test(preflight, a_kernel_that_enforces_seals_passes_without_a_free_hugepage)
{
	cr_expect(eq(int, preflight_test_seals(&config, &failure), 0), "%s", failure.text);
}

Test(preflight, a_kernel_before_5_14_is_refused_with_the_call_that_it_lacks)
{
	is_old = true;
	cr_expect(lt(int, preflight_test_seals(&config, &failure), 0));
	cr_expect(eq(int, failure.exit_code, EX_OSERR));
	cr_expect(strstr(failure.text, "madvise(MADV_POPULATE_WRITE) fails") != NULL, "%s", failure.text);
	cr_expect(strstr(failure.text, "Linux 5.14 or later") != NULL, "%s", failure.text);
}

Test(preflight, missing_pages_of_1_gib_are_the_configurations_fault)
{
	has_no_large_pages = true;
	cr_expect(lt(int, preflight_test_seals(&config, &failure), 0));
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	cr_expect(strstr(failure.text, "no pages of 1048576 kB") != NULL, "%s", failure.text);
	cr_expect(strstr(failure.text, "5.14") == NULL, "%s", failure.text);
}

Test(preflight, a_kernel_before_5_18_that_forbids_bpf_forbids_it_later_too)
{
	cr_expect(preflight_bpf_stays_restricted("5.14.0-70.el9", 2));
	cr_expect(preflight_bpf_stays_restricted("5.17.15", 1));
	cr_expect_not(preflight_bpf_stays_restricted("5.17.15", 0));
	cr_expect_not(preflight_bpf_stays_restricted("5.18.0", 2));
	cr_expect_not(preflight_bpf_stays_restricted("6.1.0-30-amd64", 2));
	cr_expect_not(preflight_bpf_stays_restricted("6.12.48+deb13-amd64", 2));
}

Test(preflight, the_kernels_own_buffers_have_to_fit_into_memory_too)
{
	const struct service_memory none = {0}, little = {.kernel_bytes = 1 << 20};
	const struct service_memory much = {.small_ring_bytes = 1 << 20, .kernel_bytes = UINT64_C(1) << 50};

	cr_expect(eq(int, memory_check_free(&little, &none, &failure), 0), "%s", failure.text);
	cr_expect(eq(int, memory_check_free(&much, &none, &failure), -ENOMEM));
	cr_expect(strstr(failure.text, "the kernel's buffers of receive queues 1073741824 MiB") != NULL, "%s",
	          failure.text);
}
