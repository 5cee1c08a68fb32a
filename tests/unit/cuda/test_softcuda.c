// SPDX-License-Identifier: Apache-2.0
/* softcuda refuses what drivers refuse: each test is a mistake, or a device that cannot do it. */
#include "lib/ibvcap/shm.h"
#include "tests/softcuda/driver_calls.h"
#include "tests/softcuda/softcuda.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PORTABLE  1u
#define DEVICEMAP 2u
#define READ_ONLY 8u

static struct CUctx_st *context;
static struct shm writer = SHM_INIT, reader = SHM_INIT;

static void set_up(void)
{
	cr_assert(zero(int, cuInit(0)));
	cr_assert(zero(int, cuDevicePrimaryCtxRetain(&context, 0)));
	cr_assert(zero(int, cuCtxPushCurrent_v2(context)));
	cr_assert(zero(int, shm_create(&writer, "test", 65536, 4096)));
	memset(writer.address, 7, writer.bytes);
	cr_assert(zero(int, shm_seal_readonly(&writer)));
	cr_assert(zero(int, shm_map(&reader, shm_reopen_readonly(&writer), false)));
}

static void tear_down(void)
{
	cuDevicePrimaryCtxRelease_v2(0);
}

TestSuite(softcuda, .init = set_up, .fini = tear_down, .timeout = 30);

static int register_ring(void)
{
	return cuMemHostRegister_v2(reader.address, reader.bytes, PORTABLE | DEVICEMAP | READ_ONLY);
}

Test(softcuda, read_only_memory_is_registered_read_only_or_not_at_all)
{
	unsigned long long device;

	cr_expect(eq(int, cuMemHostRegister_v2(reader.address, reader.bytes, 0), 1));
	cr_expect(eq(int, cuMemHostRegister_v2(reader.address, reader.bytes, DEVICEMAP), 1));
	cr_assert(zero(int, register_ring()));
	cr_assert(zero(int, cuMemHostGetDevicePointer_v2(&device, (uint8_t *)reader.address + 100, 0)));
	cr_expect(eq(ptr, (void *)(uintptr_t)device, (uint8_t *)reader.address + 100));
	cr_expect(zero(int, cuMemHostUnregister(reader.address)));
	cr_expect(zero(int, cuMemHostRegister_v2((uint8_t *)reader.address + 4096, 8192, DEVICEMAP | READ_ONLY)),
	          "a part");
	cr_expect(zero(int, cuMemHostUnregister((uint8_t *)reader.address + 4096)));
}

Test(softcuda, memory_of_this_process_is_registered_without_read_only)
{
	cr_expect(zero(int, cuMemHostRegister_v2(writer.address, writer.bytes, DEVICEMAP)));
	cr_expect(zero(int, cuMemHostUnregister(writer.address)));
}

Test(softcuda, without_attribute_113_read_only_is_not_supported)
{
	int value;

	softcuda_set_attribute(113, 0);
	cr_expect(zero(int, cuDeviceGetAttribute(&value, 113, 0)));
	cr_expect(zero(int, value));
	cr_expect(eq(int, register_ring(), 801));
	cr_expect(eq(int, cuMemHostRegister_v2(reader.address, reader.bytes, DEVICEMAP), 1), "and so is nothing else");
}

Test(softcuda, memory_is_registered_once)
{
	cr_assert(zero(int, register_ring()));
	cr_expect(eq(int, register_ring(), 712));
	cr_expect(eq(int, cuMemHostRegister_v2((uint8_t *)reader.address + 4096, 4096, READ_ONLY), 712), "an overlap");
	cr_expect(zero(int, cuMemHostUnregister(reader.address)));
	cr_expect(eq(int, cuMemHostUnregister(reader.address), 713));
	cr_expect(eq(int, cuMemHostUnregister(writer.address), 713));
}

Test(softcuda, memory_that_is_not_mapped_is_not_registered)
{
	munmap((uint8_t *)reader.address + 4096, 4096);
	cr_expect(eq(int, register_ring(), 1));
	cr_expect(eq(int, cuMemHostRegister_v2(reader.address, 0, READ_ONLY), 1));
}

Test(softcuda, half_a_terabyte_in_small_pages_is_too_much_at_once)
{
	const size_t bytes = (size_t)512 << 30;
	void *large = mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	cr_assert(ne(ptr, large, MAP_FAILED));
	cr_expect(eq(int, cuMemHostRegister_v2(large, bytes, READ_ONLY), 2));
	cr_expect(zero(int, cuMemHostRegister_v2(large, bytes - 4096, READ_ONLY)));
}

Test(softcuda, registered_memory_that_is_unmapped_ends_the_process, .signal = SIGABRT)
{
	cr_assert(zero(int, register_ring()));
	munmap(reader.address, reader.bytes);
	cuInit(0);
}

Test(softcuda, registered_memory_that_other_memory_took_the_place_of_ends_the_process, .signal = SIGABRT)
{
	cr_assert(zero(int, register_ring()));
	mmap(reader.address, reader.bytes, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	cuInit(0);
}

Test(softcuda, a_pointer_of_memory_that_is_not_for_the_device_is_refused)
{
	unsigned long long device;

	cr_expect(eq(int, cuMemHostGetDevicePointer_v2(&device, reader.address, 0), 1));
	cr_assert(zero(int, cuMemHostRegister_v2(reader.address, reader.bytes, READ_ONLY)));
	cr_expect(eq(int, cuMemHostGetDevicePointer_v2(&device, reader.address, 0), 1), "without DEVICEMAP");
}

Test(softcuda, calls_need_a_current_context)
{
	struct CUctx_st *popped;
	struct CUevent_st *event;

	cr_assert(zero(int, cuCtxPopCurrent_v2(&popped)));
	cr_expect(eq(ptr, popped, context));
	cr_expect(eq(int, cuCtxPopCurrent_v2(&popped), 201));
	cr_expect(eq(int, register_ring(), 201));
	cr_expect(eq(int, cuEventCreate(&event, 0), 201));
}

Test(softcuda, handles_of_another_context_and_destroyed_ones_are_refused)
{
	struct CUctx_st *other;
	struct CUstream_st *stream;
	struct CUevent_st *event;

	cr_assert(zero(int, cuEventCreate(&event, 0)));
	cr_assert(zero(int, cuCtxCreate_v2(&other, 0, 0)));
	cr_assert(zero(int, cuStreamCreate(&stream, 0)));
	cr_expect(eq(int, cuEventRecord(event, stream), 400), "the event is of the first context");
	cr_assert(zero(int, cuCtxSetCurrent(context)));
	cr_expect(eq(int, cuEventRecord(event, stream), 400), "the stream is of the second");
	cr_expect(zero(int, cuEventRecord(event, NULL)));
	cr_expect(zero(int, cuEventDestroy_v2(event)));
	cr_expect(eq(int, cuEventQuery(event), 400));
	cr_expect(eq(int, cuEventDestroy_v2(event), 400));
	cr_expect(zero(int, cuCtxDestroy_v2(other)));
	cr_expect(eq(int, cuStreamDestroy_v2(stream), 400), "it went with its context");
	cr_expect(eq(int, cuCtxPushCurrent_v2(other), 709));
}

static int run_count;

static void count_run(void *unused)
{
	(void)unused;
	run_count++;
}

Test(softcuda, an_event_passes_when_the_work_before_it_on_its_stream_has_ended)
{
	struct CUstream_st *one, *two;
	struct CUevent_st *event, *other;

	cuStreamCreate(&one, 0);
	cuStreamCreate(&two, 0);
	cuEventCreate(&event, 2);
	cuEventCreate(&other, 2);
	softcuda_set_hold(true);
	cr_assert(zero(int, softcuda_launch(one, count_run, NULL)));
	cr_assert(zero(int, cuEventRecord(event, one)));
	cr_assert(zero(int, cuEventRecord(other, two)));
	cr_expect(eq(int, cuEventQuery(event), 600));
	cr_expect(zero(int, cuEventQuery(other)), "another stream");
	cr_expect(eq(int, cuStreamQuery(one), 600));
	cr_expect(zero(int, run_count));
	cr_expect(eq(uint, softcuda_run(one, 1), 1));
	cr_expect(zero(int, cuEventQuery(event)));
	cr_expect(eq(int, run_count, 1));
}

Test(softcuda, a_capture_forbids_calls_of_threads_that_are_not_relaxed)
{
	struct CUstream_st *stream;
	struct CUevent_st *event;
	int mode = 2;

	cr_assert(zero(int, cuStreamCreate(&stream, 1)));
	cr_assert(zero(int, cuEventCreate(&event, 2)));
	softcuda_set_capturing(stream, true);
	cr_expect(eq(int, cuEventQuery(event), 900));
	cr_expect(eq(int, cuStreamQuery(NULL), 900));
	cr_expect(eq(int, register_ring(), 900));
	cr_assert(zero(int, cuThreadExchangeStreamCaptureMode(&mode)));
	cr_expect(zero(int, mode));
	cr_expect(eq(u64, softcuda_count().capture_mode, 2));
	cr_expect(zero(int, cuEventQuery(event)));
	cr_assert(zero(int, cuEventRecord(event, stream)));
	cr_expect(eq(int, cuEventQuery(event), 907), "recorded by the capture");
	cr_assert(zero(int, cuThreadExchangeStreamCaptureMode(&mode)));
	cr_expect(eq(int, mode, 2));
	softcuda_set_capturing(stream, false);
	cr_expect(zero(int, cuStreamQuery(NULL)));
	mode = 3;
	cr_expect(eq(int, cuThreadExchangeStreamCaptureMode(&mode), 1));
}

Test(softcuda, an_event_can_be_late)
{
	struct CUstream_st *stream;
	struct CUevent_st *event;

	cuStreamCreate(&stream, 0);
	cuEventCreate(&event, 2);
	softcuda_set_delay_us(20000);
	cr_assert(zero(int, cuEventRecord(event, stream)));
	cr_expect(eq(int, cuEventQuery(event), 600));
	cr_expect(zero(int, cuStreamSynchronize(stream)));
	cr_expect(zero(int, cuEventQuery(event)));
}

Test(softcuda, a_kernel_reads_registered_memory_and_no_other)
{
	unsigned long long device;
	uint64_t sum = 0;

	softcuda_set_offset(UINT64_C(1) << 44);
	cr_assert(zero(int, register_ring()));
	cr_assert(zero(int, cuMemHostGetDevicePointer_v2(&device, reader.address, 0)));
	cr_expect(eq(u64, device, (uintptr_t)reader.address + (UINT64_C(1) << 44)));
	cr_assert(zero(int, softcuda_launch_sum(NULL, device, 100, &sum)));
	cr_expect(eq(u64, sum, 700));
	cr_assert(zero(int, softcuda_launch_sum(NULL, (uintptr_t)reader.address, 100, &sum)), "the host's address");
	cr_expect(eq(int, cuStreamQuery(NULL), 700));
	cr_expect(eq(int, cuMemHostUnregister(reader.address), 700), "and so does all else");
}

Test(softcuda, the_device_does_not_write_to_memory_that_is_registered_read_only)
{
	unsigned long long own;

	cr_assert(zero(int, register_ring()));
	cr_assert(zero(int, cuMemAlloc_v2(&own, 64)));
	cr_expect(zero(int, cuMemcpyDtoDAsync_v2(own, (uintptr_t)reader.address, 64, NULL)));
	cr_expect(eq(int, cuMemcpyDtoDAsync_v2((uintptr_t)reader.address, own, 64, NULL), 1));
}

Test(softcuda, pageable_memory_is_read_only_by_a_device_that_can)
{
	unsigned long long own;
	uint8_t byte = 0;

	cr_assert(zero(int, cuMemAlloc_v2(&own, 64)));
	cr_expect(eq(int, cuMemcpyDtoDAsync_v2(own, (uintptr_t)reader.address, 64, NULL), 1));
	softcuda_set_attribute(88, 1);
	cr_expect(zero(int, cuMemcpyDtoDAsync_v2(own, (uintptr_t)reader.address, 64, NULL)));
	cr_expect(zero(int, cuMemcpyDtoH_v2(&byte, own, 1)));
	cr_expect(eq(u8, byte, 7));
}

Test(softcuda, a_device_that_is_lost_refuses_all)
{
	struct CUevent_st *event;

	cr_assert(zero(int, cuEventCreate(&event, 0)));
	cr_assert(zero(int, register_ring()));
	softcuda_lose_device(0, 719);
	cr_expect(eq(int, cuEventQuery(event), 719));
	cr_expect(eq(int, cuMemHostUnregister(reader.address), 719));
	munmap(reader.address, reader.bytes);
	cr_expect(eq(int, cuEventQuery(event), 719), "its registrations are gone with it: no abort");
}

Test(softcuda, the_nth_call_of_a_function_fails)
{
	struct CUevent_st *event;

	softcuda_fail("cuEventCreate", 1, 2);
	cr_expect(zero(int, cuEventCreate(&event, 0)));
	cr_expect(zero(int, cuEventRecord(event, NULL)), "another function");
	cr_expect(not(softcuda_has_failed()));
	cr_expect(eq(int, cuEventCreate(&event, 0), 2));
	cr_expect(softcuda_has_failed());
	cr_expect(zero(int, cuEventCreate(&event, 0)), "once");
	softcuda_fail("cuMemHostRegister", 0, 304);
	cr_expect(eq(int, register_ring(), 304), "the name without _v2");
}

Test(softcuda, a_child_of_fork_has_no_driver)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		struct CUevent_st *event;

		_exit(cuEventCreate(&event, 0));
	}
	waitpid(child, &status, 0);
	cr_expect(eq(int, WEXITSTATUS(status), 3));
}

Test(softcuda, what_a_context_leaves_behind_is_counted)
{
	struct CUevent_st *event;
	void *host;

	cr_assert(zero(int, cuEventCreate(&event, 0)));
	cr_assert(zero(int, cuMemHostAlloc(&host, 100, 0)));
	cr_assert(zero(int, register_ring()));
	cr_expect(eq(u64, softcuda_count().registered_bytes, reader.bytes));
	cr_expect(eq(u64, softcuda_count().events, 1));
	cr_assert(zero(int, cuDevicePrimaryCtxRelease_v2(0)));
	cr_expect(eq(u64, softcuda_count().left_behind, 3));
	cr_expect(zero(u64, softcuda_count().events));
	cuDevicePrimaryCtxRetain(&context, 0);
}
