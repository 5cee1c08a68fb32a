// SPDX-License-Identifier: Apache-2.0
/*
 * Each call of the driver fails once, by countdown: the handle goes on by another way, or says which function failed
 * and with which error; no lease, no registration and no memory is left. Left out is what gives something back, since
 * nothing can be done about it.
 */
#include "tests/unit/cuda/cuda_bed.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#define CALLS_MAX 100

static struct cuda_bed bed;

static const struct {
	const char *function;
	bool is_told; /* of a device's description, a failure leaves a field empty */
} functions[] = {
	{"cuInit", true},
	{"cuDriverGetVersion", false},
	{"cuDeviceGetCount", true},
	{"cuDeviceGet", true},
	{"cuDeviceGetName", false},
	{"cuDeviceGetPCIBusId", false},
	{"cuDeviceGetAttribute", false},
	{"cuDevicePrimaryCtxRetain", true},
	{"cuCtxPushCurrent", true},
	{"cuMemHostRegister", true},
	{"cuMemHostGetDevicePointer", true},
	{"cuMemHostAlloc", true},
	{"cuMemAlloc", true},
	{"cuMemcpyDtoDAsync", true},
	{"cuMemcpyDtoHAsync", true},
	{"cuStreamCreate", true},
	{"cuStreamSynchronize", true},
	{"cuStreamIsCapturing", true},
	{"cuEventCreate", true},
	{"cuEventRecord", true},
	{"cuEventQuery", true},
};

static char said[2048]; /* all that was said of errors and ways */

static int note(int r)
{
	if (r < 0 && strlen(said) < sizeof(said) - 600)
		strncat(strcat(said, "\n"), ibvcap_error_text(), 512);
	return r;
}

static int pass_batch(void)
{
	struct ibvcap_cuda_batch batch = IBVCAP_INIT(struct ibvcap_cuda_batch);
	uint64_t sum = 0;
	int r = 0, n;

	for (int i = 0; i < 3 && r <= 0; i++)
		r = note(ibvcap_cuda_acquire(bed.cuda, &batch, 8, 1, 0));
	if (r <= 0)
		return r;
	n = r;
	bed_read(&bed, &batch, 0, &sum);
	cr_expect_eq(sum, bed_sum(&batch));
	r = note(ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0]));
	if (r < 0 && r != -EIO)
		r = note(ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0]));
	return r < 0 ? r : n;
}

/* Ten batches, by a handle that is opened, used and closed. */
static void use_handle(enum ibvcap_cuda_way way)
{
	const struct ibvcap_cuda_options options = {.size = sizeof(options), .way = way};

	if (note(ibvcap_cuda_open(bed.rx, &options, &bed.cuda)) < 0 &&
	    note(ibvcap_cuda_open(bed.rx, &options, &bed.cuda)) < 0)
		cr_assert_fail("a second time, too: %s", ibvcap_error_text());
	strncat(said, bed_info(&bed).why, 512);
	for (int i = 0; i < 4; i++) {
		attached_publish(&bed.a, 8);
		pass_batch();
		note(ibvcap_cuda_poll(bed.cuda));
	}
	note(ibvcap_cuda_wait(bed.cuda, 1000));
	cr_expect_eq(bed_info(&bed).n_pending, 0);
	cr_expect_eq(bed_info(&bed).n_held, 0);
	if (!softcuda_has_failed())
		softcuda_fail("", -1, 0); /* to close gives things back */
	cr_assert_eq(ibvcap_cuda_close(bed.cuda, 0), 0, "%s", ibvcap_error_text());
	bed.cuda = NULL;
}

/* False: the function is not called so often. */
static bool use_with_failing(unsigned i, int64_t n, int result, const char *name, enum ibvcap_cuda_way way)
{
	struct softcuda_counts counts;

	said[0] = '\0';
	softcuda_fail(functions[i].function, n, result);
	use_handle(way);
	if (!softcuda_has_failed())
		return false;
	softcuda_fail("", -1, 0);
	if (functions[i].is_told)
		cr_expect(strstr(said, functions[i].function) && strstr(said, name), "call %d of %s: \"%s\"", (int)n,
		          functions[i].function, said);
	cr_expect_eq(bed_count_leases(&bed.a), 0, "call %d of %s", (int)n, functions[i].function);
	bed_check_counts(&bed);
	counts = softcuda_count();
	cr_expect_eq(counts.registrations + counts.host_allocations + counts.device_allocations + counts.events, 0,
	             "call %d of %s", (int)n, functions[i].function);
	cr_expect_eq(counts.streams, BED_STREAMS, "call %d of %s", (int)n, functions[i].function);
	cr_expect_eq(counts.capture_mode, 0, "call %d of %s", (int)n, functions[i].function);
	cr_expect_eq(counts.retained + counts.pushed, 2, "call %d of %s", (int)n, functions[i].function);
	return true;
}

static void with_each_failing(int result, const char *name, enum ibvcap_cuda_way way)
{
	unsigned n_failed = 0;

	bed_init(&bed);
	for (unsigned i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		int64_t n = 0;

		while (use_with_failing(i, n, result, name, way)) {
			cr_assert_lt(n, CALLS_MAX);
			n++;
			n_failed++;
		}
	}
	cr_expect_gt(n_failed, 30);
	bed_deinit(&bed);
}

TestSuite(cuda_failures, .timeout = 100);

Test(cuda_failures, in_place_without_memory)
{
	with_each_failing(2, "CUDA_ERROR_OUT_OF_MEMORY", IBVCAP_CUDA_AUTO);
}

Test(cuda_failures, in_place_by_a_driver_that_does_not_support_it)
{
	with_each_failing(801, "CUDA_ERROR_NOT_SUPPORTED", IBVCAP_CUDA_AUTO);
}

Test(cuda_failures, staged_without_memory)
{
	with_each_failing(2, "CUDA_ERROR_OUT_OF_MEMORY", IBVCAP_CUDA_STAGED);
}
