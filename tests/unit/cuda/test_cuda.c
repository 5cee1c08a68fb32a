// SPDX-License-Identifier: Apache-2.0
/* The ways in which a device reads a ring, and the leases of the batches that it reads. */
#include "lib/cuda/ring.h"
#include "lib/ibvcap/ring.h"
#include "tests/unit/cuda/cuda_bed.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define OFFSET (UINT64_C(1) << 44)

static struct cuda_bed bed;
static struct ibvcap_cuda_batch batch = IBVCAP_INIT(struct ibvcap_cuda_batch);
static uint64_t sum;

static void set_up(void)
{
	bed_init(&bed);
}

static void tear_down(void)
{
	bed_deinit(&bed);
}

TestSuite(cuda, .init = set_up, .fini = tear_down, .timeout = 60);

static int acquire(uint32_t max)
{
	return ibvcap_cuda_acquire(bed.cuda, &batch, max, 1, 0);
}

static int open_as(enum ibvcap_cuda_way way)
{
	const struct ibvcap_cuda_options options = {.size = sizeof(options), .way = way};

	return ibvcap_cuda_open(bed.rx, &options, &bed.cuda);
}

/* The device reads what the host sees, and the numbers are the packets'. */
static void expect_read(uint64_t first, unsigned stream)
{
	for (uint32_t i = 0; i < batch.rows.n; i++)
		cr_expect(eq(u64, attached_number(&batch.rows, i), first + i));
	bed_read(&bed, &batch, stream, &sum);
	softcuda_run(bed.streams[stream], 3);
	cr_expect(eq(u64, sum, bed_sum(&batch)));
	cr_expect(ne(u64, sum, 0));
}

/* ---- ways ------------------------------------------------------------------------------------------ */

Test(cuda, in_place_is_the_first_way_and_the_device_reads_the_ring_itself)
{
	struct ibvcap_cuda_info info;

	softcuda_set_offset(OFFSET);
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	attached_publish(&bed.a, 10);
	cr_assert(eq(int, acquire(100), 10));
	expect_read(0, 0);
	cr_expect(eq(u64, batch.payload, (uintptr_t)batch.rows.payload + OFFSET));
	cr_expect(eq(u64, batch.headers, (uintptr_t)batch.rows.headers + OFFSET));
	cr_expect(eq(u64, batch.meta, (uintptr_t)batch.rows.meta + OFFSET));
	info = bed_info(&bed);
	cr_expect(eq(u32, info.way, IBVCAP_CUDA_IN_PLACE));
	cr_expect(eq(u64, info.registered_bytes, softcuda_count().registered_bytes));
	cr_expect(eq(u64, softcuda_count().registrations, 3));
	cr_expect(eq(u32, info.n_held, 1));
	cr_expect(zero(u64, info.staging_bytes), "none is pinned for nothing");
	cr_expect(eq(str, info.name, (char *)"softcuda"));
	cr_expect(eq(str, info.bus, (char *)"0000:00:00.0"));
	cr_expect(eq(u32, info.host_register_read_only, 1));
	cr_expect(eq(u32, info.driver_version, 13000));
	cr_expect(eq(str, info.why, (char *)"in place: the ring is registered read-only, and the device has read it"));
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &batch, NULL)));
}

Test(cuda, without_attribute_113_rows_are_staged_and_the_ring_is_free_at_once)
{
	softcuda_set_attribute(113, 0);
	softcuda_set_offset(OFFSET);
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	cr_expect(eq(u32, bed_info(&bed).way, IBVCAP_CUDA_STAGED));
	cr_expect(
		eq(str, bed_info(&bed).why,
	           (char *)"in place: no, this device registers no read-only memory "
	                   "(READ_ONLY_HOST_REGISTER_SUPPORTED is 0); pageable: no, this device reads only registered "
	                   "memory (PAGEABLE_MEMORY_ACCESS is 0); staged: rows are copied once, to 16384 KiB of pinned "
	                   "memory"));
	attached_publish(&bed.a, 10);
	cr_assert(eq(int, acquire(100), 10));
	cr_expect(zero(uint, bed_count_leases(&bed.a)));
	expect_read(0, 1);
	cr_expect(gt(u64, bed_info(&bed).staging_used_bytes, 1000));
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[1])));
	cr_expect(zero(int, ibvcap_cuda_poll(bed.cuda)));
	cr_expect(zero(u64, bed_info(&bed).staging_used_bytes));
}

Test(cuda, page_tables_of_the_host_are_a_way_without_a_registration)
{
	softcuda_set_attribute(113, 0);
	softcuda_set_attribute(88, 1);
	softcuda_set_attribute(100, 1);
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	cr_expect(eq(u32, bed_info(&bed).way, IBVCAP_CUDA_PAGEABLE));
	attached_publish(&bed.a, 10);
	cr_assert(eq(int, acquire(100), 10));
	cr_expect(eq(u64, batch.payload, (uintptr_t)batch.rows.payload));
	cr_expect(zero(u64, softcuda_count().registrations));
	expect_read(0, 0);
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0])));
}

Test(cuda, page_faults_are_a_way_only_if_they_are_asked_for)
{
	softcuda_set_attribute(113, 0);
	softcuda_set_attribute(88, 1);
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	cr_expect(eq(u32, bed_info(&bed).way, IBVCAP_CUDA_STAGED));
	cr_expect(ne(ptr, strstr(bed_info(&bed).why, "only if the options ask for it"), NULL));
	cr_assert(zero(int, ibvcap_cuda_close(bed.cuda, 0)));
	bed.cuda = NULL;
	bed_open(&bed, IBVCAP_CUDA_PAGEABLE);
	cr_expect(eq(u32, bed_info(&bed).way, IBVCAP_CUDA_PAGEABLE));
	cr_expect(ne(ptr, strstr(bed_info(&bed).why, "page faults (HMM)"), NULL));
}

/* The handle is not opened, and says why; the next attempt with another way works. */
static void expect_refused(enum ibvcap_cuda_way way, const char *why)
{
	cr_assert(eq(int, open_as(way), -EOPNOTSUPP));
	cr_expect(ne(ptr, strstr(ibvcap_error_text(), why), NULL), "%s", ibvcap_error_text());
	cr_expect(zero(u64, softcuda_count().registrations));
	cr_expect(eq(u64, softcuda_count().retained, 1));
	cr_expect(eq(u64, softcuda_count().pushed, 1));
}

Test(cuda, a_way_that_is_asked_for_is_that_or_none)
{
	bed_open(&bed, IBVCAP_CUDA_STAGED);
	cr_expect(eq(u32, bed_info(&bed).way, IBVCAP_CUDA_STAGED));
	cr_expect(zero(u64, softcuda_count().registrations));
	cr_assert(zero(int, ibvcap_cuda_close(bed.cuda, 0)));
	bed.cuda = NULL;
	expect_refused(IBVCAP_CUDA_PAGEABLE, "PAGEABLE_MEMORY_ACCESS is 0");
	softcuda_set_attribute(113, 0);
	expect_refused(IBVCAP_CUDA_IN_PLACE, "READ_ONLY_HOST_REGISTER_SUPPORTED is 0");
	cr_assert(eq(int, open_as(4), -EINVAL));
}

/* The driver said that it can, and did not. */
static void expect_staged(const char *why)
{
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	cr_expect(eq(u32, bed_info(&bed).way, IBVCAP_CUDA_STAGED));
	cr_expect(ne(ptr, strstr(bed_info(&bed).why, why), NULL), "%s", bed_info(&bed).why);
	cr_expect(zero(u64, softcuda_count().registrations), "what was registered is not any more");
	attached_publish(&bed.a, 5);
	cr_assert(eq(int, acquire(100), 5));
	expect_read(0, 0);
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0])));
}

Test(cuda, a_registration_that_is_refused_is_undone_and_named)
{
	softcuda_fail("cuMemHostRegister", 2, 801);
	expect_staged(
		"in place: no, cuMemHostRegister(READ_ONLY): CUDA_ERROR_NOT_SUPPORTED (801): operation not supported");
}

Test(cuda, a_part_that_someone_else_has_registered_is_a_refusal)
{
	struct ibvcap_rx_memory memory = IBVCAP_INIT(struct ibvcap_rx_memory);

	cr_assert(eq(int, ibvcap_rx_memory(bed.rx, 1, &memory), 1));
	cr_assert(zero(int, cuMemHostRegister_v2((void *)memory.address, 4096, 8)));
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	cr_expect(eq(u32, bed_info(&bed).way, IBVCAP_CUDA_STAGED));
	cr_expect(ne(ptr, strstr(bed_info(&bed).why, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED (712)"), NULL));
	cr_assert(zero(int, cuMemHostUnregister((void *)memory.address)));
}

Test(cuda, a_registration_that_reads_something_else_is_not_used)
{
	softcuda_set_corrupt(true);
	expect_staged("in place: no, the device reads 0x");
}

Test(cuda, a_device_pointer_that_reads_behind_the_registration_is_not_used)
{
	softcuda_misplace_from(0);
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	cr_expect(eq(u32, bed_info(&bed).way, IBVCAP_CUDA_IN_PLACE), "it is a constant, too");
	attached_publish(&bed.a, 5);
	cr_assert(eq(int, acquire(100), 5));
	cr_expect(eq(u64, batch.payload, (uintptr_t)batch.rows.payload + 4096));
	expect_read(0, 0);
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0])));
}

/* ---- pieces of a registration ----------------------------------------------------------------------- */

static struct cuda_device device;
static struct cuda_ring ring;
static struct cuda_why why;

/* The ring of the handle, by registrations of so many bytes at most. */
static int attach_in_pieces(uint64_t piece_bytes)
{
	int mode, r;

	cr_assert(zero(int, cuda_device_open(&device, 0)));
	ring = (struct cuda_ring){.way = IBVCAP_CUDA_AUTO};
	why.text[0] = '\0';
	for (unsigned i = 0; i < CUDA_RING_MAPPINGS; i++) {
		ring.mappings[i].memory.size = sizeof(ring.mappings[i].memory);
		cr_assert(eq(int, ibvcap_rx_memory(bed.rx, i, &ring.mappings[i].memory), 1));
	}
	cr_assert(zero(int, cuda_device_enter(&device, &mode)));
	r = cuda_ring_attach(&ring, &device, IBVCAP_CUDA_IN_PLACE, piece_bytes, &why);
	cuda_device_leave(&device, mode);
	return r;
}

static void detach_pieces(void)
{
	int mode;

	cr_assert(zero(int, cuda_device_enter(&device, &mode)));
	cuda_ring_detach(&ring, &device);
	cuda_device_leave(&device, mode);
	cuda_device_close(&device);
	cr_expect(zero(u64, softcuda_count().registrations));
}

Test(cuda, a_large_mapping_is_registered_in_pieces_and_unregistered_in_the_same)
{
	uint64_t pieces = 0;

	cr_assert(zero(int, attach_in_pieces(8192)), "%s", why.text);
	for (unsigned i = 0; i < CUDA_RING_MAPPINGS; i++)
		pieces += (ring.mappings[i].memory.bytes + 8191) / 8192;
	cr_expect(gt(u64, pieces, 6));
	cr_expect(eq(u64, softcuda_count().registrations, pieces));
	cr_expect(eq(u64, softcuda_count().registered_bytes, cuda_ring_registered_bytes(&ring)));
	detach_pieces();
}

Test(cuda, pieces_that_are_not_behind_each_other_on_the_device_are_refused)
{
	softcuda_misplace_from(1);
	cr_expect(eq(int, attach_in_pieces(8192), -EOPNOTSUPP));
	cr_expect(ne(ptr, strstr(why.text, "a second piece of the ring is not behind the first"), NULL), "%s",
	          why.text);
	detach_pieces();
}

Test(cuda, a_piece_that_is_refused_undoes_those_before_it)
{
	softcuda_fail("cuMemHostRegister", 3, 2);
	cr_expect(eq(int, attach_in_pieces(8192), -EOPNOTSUPP));
	cr_expect(zero(u64, softcuda_count().registrations));
	cr_expect(eq(u64, softcuda_calls("cuMemHostUnregister"), 3));
	detach_pieces();
}

Test(cuda, the_current_context_of_the_caller_stays)
{
	struct CUctx_st *other, *now;

	cr_assert(zero(int, cuCtxCreate_v2(&other, 0, 0)));
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	attached_publish(&bed.a, 5);
	cr_assert(eq(int, acquire(100), 5));
	cr_assert(zero(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0])));
	cr_assert(zero(int, ibvcap_cuda_wait(bed.cuda, 1000)));
	cr_assert(zero(int, cuCtxGetCurrent(&now)));
	cr_expect(eq(ptr, now, other));
	cr_assert(zero(int, cuCtxDestroy_v2(other)));
}

/* ---- leases ---------------------------------------------------------------------------------------- */

/* Acquire max rows, and release them behind a kernel that does not end before softcuda_run(). */
static struct ibvcap_cuda_batch pass_on(uint32_t max, unsigned stream)
{
	int r = acquire(max);

	cr_assert(gt(int, r, 0), "%s", ibvcap_error_text());
	bed_read(&bed, &batch, stream, &sum);
	cr_assert(zero(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[stream])));
	return batch;
}

Test(cuda, a_lease_ends_when_the_work_on_its_stream_has_ended)
{
	softcuda_set_hold(true);
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	attached_publish(&bed.a, 2 * N);
	pass_on(N, 0);
	pass_on(N, 1);
	cr_expect(eq(uint, bed_count_leases(&bed.a), 2));
	cr_expect(eq(int, ibvcap_cuda_poll(bed.cuda), 2));
	cr_expect(eq(u32, bed_info(&bed).n_pending, 2));
	softcuda_run(bed.streams[1], 2);
	cr_expect(eq(int, ibvcap_cuda_poll(bed.cuda), 2), "its last kernel is not through");
	softcuda_run(bed.streams[1], 1);
	cr_expect(eq(int, ibvcap_cuda_poll(bed.cuda), 1), "the later one is through");
	cr_expect(eq(uint, bed_count_leases(&bed.a), 1));
	softcuda_run(bed.streams[0], 3);
	cr_expect(zero(int, ibvcap_cuda_poll(bed.cuda)));
	cr_expect(zero(uint, bed_count_leases(&bed.a)));
	bed_check_counts(&bed);
}

Test(cuda, batches_of_one_block_share_its_lease)
{
	softcuda_set_hold(true);
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	attached_publish(&bed.a, N);
	for (uint32_t i = 0; i < N; i++)
		pass_on(1, 0);
	cr_expect(eq(uint, bed_count_leases(&bed.a), 1));
	softcuda_run(bed.streams[0], 3 * (N - 1));
	cr_expect(eq(int, ibvcap_cuda_poll(bed.cuda), 1));
	cr_expect(eq(uint, bed_count_leases(&bed.a), 1));
	softcuda_run(bed.streams[0], 3);
	cr_expect(zero(int, ibvcap_cuda_poll(bed.cuda)));
	cr_expect(zero(uint, bed_count_leases(&bed.a)));
}

Test(cuda, when_all_leases_are_in_use_acquire_waits_for_work_and_says_what_gives_more)
{
	softcuda_set_hold(true);
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	attached_publish(&bed.a, (QUOTA + 1) * N);
	for (uint32_t i = 0; i < QUOTA; i++)
		pass_on(N, i % BED_STREAMS);
	cr_expect(eq(int, ibvcap_cuda_acquire(bed.cuda, &batch, N, 1, 5), -ENOBUFS));
	cr_expect(ne(ptr, strstr(ibvcap_error_text(), "3 whose work on the device has not ended"), NULL));
	cr_expect(ne(ptr, strstr(ibvcap_error_text(), "lease_blocks"), NULL));
	softcuda_run(bed.streams[2], 3);
	cr_expect(eq(int, ibvcap_cuda_acquire(bed.cuda, &batch, N, 1, 1000), (int)N));
	cr_expect(eq(u64, batch.rows.sequence, QUOTA * N));
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &batch, NULL)));
	bed_check_counts(&bed);
}

Test(cuda, acquire_goes_on_when_work_ends_while_it_waits)
{
	softcuda_set_delay_us(30000);
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	attached_publish(&bed.a, (QUOTA + 1) * N);
	for (uint32_t i = 0; i < QUOTA; i++)
		pass_on(N, 0);
	cr_expect(eq(int, ibvcap_cuda_acquire(bed.cuda, &batch, N, 1, 20000), (int)N));
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &batch, NULL)));
	cr_expect(zero(int, ibvcap_cuda_wait(bed.cuda, -1)));
}

Test(cuda, work_that_never_ends_keeps_its_lease_and_the_handle)
{
	softcuda_set_hold(true);
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	attached_publish(&bed.a, 2 * N);
	pass_on(N, 0);
	pass_on(N, 1);
	cr_expect(eq(int, ibvcap_cuda_wait(bed.cuda, 5), -ETIMEDOUT));
	cr_expect(ne(ptr, strstr(ibvcap_error_text(), "2 batches on 2 streams"), NULL), "%s", ibvcap_error_text());
	cr_expect(eq(int, ibvcap_cuda_close(bed.cuda, 5), -ETIMEDOUT));
	cr_expect(eq(uint, bed_count_leases(&bed.a), 2));
	softcuda_run((void *)-1, -1u);
	cr_expect(zero(int, ibvcap_cuda_wait(bed.cuda, 0)), "it goes on");
}

Test(cuda, a_handle_is_not_closed_while_the_caller_holds_a_batch)
{
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	attached_publish(&bed.a, 5);
	cr_assert(eq(int, acquire(5), 5));
	cr_expect(eq(int, ibvcap_cuda_close(bed.cuda, 0), -EBUSY));
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &batch, NULL)));
}

Test(cuda, a_handle_is_not_closed_while_work_is_queued_also_of_a_consumer_that_was_disconnected)
{
	struct ibvcap_cuda_batch second = IBVCAP_INIT(struct ibvcap_cuda_batch);

	softcuda_set_hold(true);
	bed_open(&bed, IBVCAP_CUDA_IN_PLACE);
	attached_publish(&bed.a, 2 * N);
	cr_assert(eq(int, acquire(N), (int)N));
	cr_assert(eq(int, ibvcap_cuda_acquire(bed.cuda, &second, N, 1, 0), (int)N));
	bed_read(&bed, &second, 1, &sum);
	cr_assert(zero(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0])));
	cr_assert(zero(int, ibvcap_cuda_release(bed.cuda, &second, bed.streams[1])));
	daemon_disconnect(&bed.a.consumer.state->link, IBVCAP_DISCONNECT_RIGHTS);
	cr_assert(eq(int, ibvcap_cuda_close(bed.cuda, 0), -ETIMEDOUT), "the first has ended, which is an error");
	cr_assert(eq(int, ibvcap_cuda_close(bed.cuda, 5), -ETIMEDOUT));
	cr_expect(eq(u64, softcuda_count().registrations, 3));
	softcuda_run((void *)-1, -1u);
	cr_expect(eq(u64, sum, bed_sum(&second)), "the device has read it");
	cr_expect(eq(int, ibvcap_cuda_wait(bed.cuda, -1), -ECONNABORTED));
}

Test(cuda, a_wait_goes_on_behind_the_error_of_a_lease)
{
	struct ibvcap_cuda_batch second = IBVCAP_INIT(struct ibvcap_cuda_batch);

	bed_open(&bed, IBVCAP_CUDA_IN_PLACE);
	attached_publish(&bed.a, 2 * N);
	cr_assert(eq(int, acquire(N), (int)N));
	cr_assert(eq(int, ibvcap_cuda_acquire(bed.cuda, &second, N, 1, 0), (int)N));
	cr_assert(zero(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0])));
	softcuda_set_delay_us(100000);
	cr_assert(zero(int, ibvcap_cuda_release(bed.cuda, &second, bed.streams[1])));
	daemon_disconnect(&bed.a.consumer.state->link, IBVCAP_DISCONNECT_RIGHTS);
	cr_expect(eq(int, ibvcap_cuda_wait(bed.cuda, -1), -ECONNABORTED));
	cr_expect(zero(u32, bed_info(&bed).n_pending));
	cr_expect(zero(uint, bed_count_leases(&bed.a)));
}

Test(cuda, a_batch_is_released_once)
{
	struct ibvcap_cuda_batch stale;

	bed_open(&bed, IBVCAP_CUDA_AUTO);
	attached_publish(&bed.a, 10);
	cr_assert(eq(int, acquire(5), 5));
	stale = batch;
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &stale, NULL)));
	cr_expect(eq(int, ibvcap_cuda_release(bed.cuda, &stale, NULL), -EINVAL));
	cr_assert(eq(int, acquire(5), 5), "in the same slot");
	cr_expect(eq(int, ibvcap_cuda_release(bed.cuda, &stale, NULL), -EINVAL));
	stale.ticket = UINT64_MAX;
	cr_expect(eq(int, ibvcap_cuda_release(bed.cuda, &stale, NULL), -EINVAL));
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &batch, NULL)));
}

Test(cuda, a_stream_of_another_context_is_refused_and_the_batch_stays)
{
	struct CUctx_st *other;
	struct CUstream_st *stream;

	bed_open(&bed, IBVCAP_CUDA_AUTO);
	attached_publish(&bed.a, 5);
	cr_assert(eq(int, acquire(5), 5));
	cr_assert(zero(int, cuCtxCreate_v2(&other, 0, 0)));
	cr_assert(zero(int, cuStreamCreate(&stream, 0)));
	cr_expect(eq(int, ibvcap_cuda_release(bed.cuda, &batch, stream), -EINVAL));
	cr_expect(ne(ptr, strstr(ibvcap_error_text(), "CUDA_ERROR_INVALID_HANDLE (400)"), NULL));
	cr_assert(zero(int, cuStreamDestroy_v2(stream)));
	cr_assert(zero(int, cuCtxDestroy_v2(other)));
	cr_expect(eq(u32, bed_info(&bed).n_held, 1));
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0])));
}

Test(cuda, a_stream_that_is_being_captured_is_refused_and_the_batch_stays)
{
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	attached_publish(&bed.a, 5);
	cr_assert(eq(int, acquire(5), 5));
	softcuda_set_capturing(bed.streams[0], true);
	cr_expect(eq(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0]), -EINVAL));
	softcuda_set_capturing(bed.streams[0], false);
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0])));
}

Test(cuda, an_error_of_the_stream_is_no_failure_of_the_device)
{
	static const char *const functions[] = {"cuStreamIsCapturing", "cuEventRecord"};
	static const int results[] = {1, 201, 400, 709, 801, 900, 901, 906};

	softcuda_set_hold(true);
	bed_open(&bed, IBVCAP_CUDA_IN_PLACE);
	attached_publish(&bed.a, 2 * N);
	pass_on(N, 1);
	cr_assert(eq(int, acquire(N), (int)N));
	for (unsigned i = 0; i < 16; i++) {
		softcuda_fail(functions[i / 8], 0, results[i % 8]);
		cr_expect(eq(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0]), -EINVAL), "%d",
		          results[i % 8]);
		cr_expect(ne(ptr, strstr(ibvcap_error_text(), functions[i / 8]), NULL));
		cr_expect(eq(uint, bed_count_leases(&bed.a), 2));
		cr_expect(eq(u32, bed_info(&bed).n_held, 1));
		cr_expect(eq(u32, bed_info(&bed).n_pending, 1));
		cr_expect(zero(u32, bed_info(&bed).has_failed));
	}
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0])));
}

Test(cuda, while_another_stream_is_captured_leases_last_as_long_as_their_work)
{
	softcuda_set_hold(true);
	softcuda_set_capturing(bed.streams[2], true);
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	cr_expect(eq(u32, bed_info(&bed).way, IBVCAP_CUDA_IN_PLACE), "%s", bed_info(&bed).why);
	attached_publish(&bed.a, 2 * N);
	pass_on(N, 0);
	pass_on(N, 1);
	cr_expect(eq(int, ibvcap_cuda_poll(bed.cuda), 2), "%s", ibvcap_error_text());
	cr_expect(eq(uint, bed_count_leases(&bed.a), 2));
	softcuda_run(bed.streams[0], 3);
	cr_expect(eq(int, ibvcap_cuda_poll(bed.cuda), 1), "%s", ibvcap_error_text());
	cr_expect(zero(u64, softcuda_count().capture_mode));
	softcuda_run(bed.streams[1], 3);
	softcuda_fail("cuThreadExchangeStreamCaptureMode", 0, 801);
	cr_expect(eq(int, ibvcap_cuda_poll(bed.cuda), 1), "the driver answers 900 now");
	cr_expect(zero(int, ibvcap_cuda_poll(bed.cuda)));
	softcuda_set_capturing(bed.streams[2], false);
}

Test(cuda, answers_that_captures_cause_end_no_lease)
{
	static const int results[] = {900, 901, 906, 907};

	softcuda_set_hold(true);
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	attached_publish(&bed.a, N);
	pass_on(N, 0);
	for (unsigned i = 0; i < 4; i++) {
		softcuda_fail("cuEventQuery", 0, results[i]);
		cr_expect(eq(int, ibvcap_cuda_poll(bed.cuda), 1), "%d: %s", results[i], ibvcap_error_text());
		cr_expect(eq(uint, bed_count_leases(&bed.a), 1));
		cr_expect(zero(u32, bed_info(&bed).has_failed));
	}
	softcuda_run(bed.streams[0], 3);
	cr_expect(zero(int, ibvcap_cuda_poll(bed.cuda)));
}

Test(cuda, rows_wait_for_a_program_of_an_older_version)
{
	struct ibvcap_cuda_batch old = {.size = offsetof(struct ibvcap_cuda_batch, rows.headers)};

	bed_open(&bed, IBVCAP_CUDA_AUTO);
	attached_publish(&bed.a, 5);
	old.rows.epoch = 1234;
	cr_assert(eq(int, ibvcap_cuda_acquire(bed.cuda, &old, 5, 1, 0), 5));
	cr_expect(eq(sz, old.size, offsetof(struct ibvcap_cuda_batch, rows.headers)));
	cr_expect(eq(sz, old.rows.size, offsetof(struct ibvcap_rx_batch, headers)));
	cr_expect(eq(u64, old.rows.epoch, 1234), "not written");
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &old, NULL)));
	old.size = 0;
	cr_expect(eq(int, ibvcap_cuda_acquire(bed.cuda, &old, 5, 1, 0), -EINVAL));
}

/* ---- staged ---------------------------------------------------------------------------------------- */

static void open_staged(uint64_t bytes)
{
	const struct ibvcap_cuda_options options = {
		.size = sizeof(options), .way = IBVCAP_CUDA_STAGED, .staging_bytes = bytes};

	cr_assert(zero(int, ibvcap_cuda_open(bed.rx, &options, &bed.cuda)), "%s", ibvcap_error_text());
}

Test(cuda, staged_batches_are_as_large_as_the_memory_allows_and_no_row_is_lost)
{
	uint64_t next = 0;

	open_staged(4096);
	attached_publish(&bed.a, 2 * N);
	while (next < 2 * N) {
		int n = acquire(100);

		cr_assert(gt(int, n, 0), "%s", ibvcap_error_text());
		cr_expect(lt(int, n, 25));
		cr_expect(eq(u64, batch.rows.sequence, next));
		expect_read(next, 0);
		next += (uint64_t)n;
		cr_assert(zero(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0])));
	}
	cr_expect(zero(int, acquire(100)));
	bed_check_counts(&bed);
	cr_expect(zero(uint, bed_count_leases(&bed.a)));
}

Test(cuda, staged_memory_in_use_by_work_is_not_given_out_again)
{
	uint64_t sums[8], expected[8];
	unsigned n = 0;

	softcuda_set_hold(true);
	open_staged(5 * 3072); /* 16 rows take 3072 bytes */
	attached_publish(&bed.a, 2 * N);
	while (acquire(16) == 16 && n < 8) {
		expected[n] = bed_sum(&batch);
		bed_read(&bed, &batch, n % BED_STREAMS, &sums[n]);
		cr_assert(zero(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[n % BED_STREAMS])));
		n++;
	}
	cr_expect(eq(uint, n, 5));
	cr_expect(eq(int, acquire(16), -ENOBUFS));
	cr_expect(ne(ptr, strstr(ibvcap_error_text(), "staging_bytes"), NULL));
	softcuda_run((void *)-1, -1u);
	for (unsigned i = 0; i < n; i++)
		cr_expect(eq(u64, sums[i], expected[i]), "batch %u", i);
	cr_expect(gt(int, acquire(16), 0));
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &batch, NULL)));
}

Test(cuda, a_row_that_never_fits_is_an_error_of_its_own)
{
	open_staged(256);
	attached_publish(&bed.a, 1);
	cr_expect(eq(int, acquire(1), -EMSGSIZE));
	cr_expect(ne(ptr, strstr(ibvcap_error_text(), "staging_bytes is 256"), NULL));
}

/* The ring's description may be anybody's. */
Test(cuda, rows_without_headers_are_staged_within_the_memory)
{
	struct ibvcap_rx_info *info = &bed.rx->parts[0]->info;

	info->header_bytes = info->header_stride = info->application_header_bytes = 0;
	open_staged(512);
	attached_publish(&bed.a, N);
	for (int left = (int)N, n; left > 0; left -= n) {
		n = acquire(N);
		cr_assert(gt(int, n, 0), "%s", ibvcap_error_text());
		cr_assert(le(u64, bed_info(&bed).staging_used_bytes, 512));
		bed_read(&bed, &batch, 0, &sum);
		cr_expect(eq(u64, sum, bed_sum(&batch)));
		cr_assert(zero(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0])));
	}
}

/* The daemon ends the ring's lease before all of its rows are copied. All are handed out, the last with an error. */
static void expect_all_rows_despite(enum ibvcap_disconnect reason)
{
	uint64_t next = 0;

	open_staged(4096);
	attached_publish(&bed.a, N);
	while (next < N) {
		int n = acquire(N);

		cr_assert(gt(int, n, 0), "after %d rows: %s", (int)next, ibvcap_error_text());
		expect_read(next, 0);
		next += (uint64_t)n;
		cr_assert(zero(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0])));
		daemon_disconnect(&bed.a.consumer.state->link, reason);
	}
	cr_expect(eq(int, ibvcap_cuda_poll(bed.cuda), -ECONNABORTED));
	cr_expect(ne(ptr, strstr(ibvcap_error_text(), "while rows were copied"), NULL), "%s", ibvcap_error_text());
	cr_expect(zero(int, ibvcap_cuda_poll(bed.cuda)));
	cr_expect(zero(u64, bed_info(&bed).staging_used_bytes));
}

Test(cuda, rows_that_were_staged_are_handed_out_also_when_the_daemon_has_disconnected)
{
	expect_all_rows_despite(IBVCAP_DISCONNECT_RIGHTS);
	cr_expect(eq(int, acquire(N), -ECONNABORTED));
}

Test(cuda, rows_that_were_staged_are_handed_out_also_when_the_group_has_taken_the_queue)
{
	bed.rx->is_group = true;
	bed.rx->is_single = false;
	bed.rx->n_queues = 1;
	expect_all_rows_despite(IBVCAP_DISCONNECT_RECALLED);
}

/* ---- failures of the device ------------------------------------------------------------------------ */

Test(cuda, a_device_that_fails_ends_all_leases_and_says_so_from_then_on)
{
	softcuda_set_hold(true);
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	attached_publish(&bed.a, 3 * N);
	pass_on(N, 0);
	pass_on(N, 1);
	cr_assert(eq(int, acquire(N), (int)N));
	softcuda_lose_device(0, 719);
	cr_expect(eq(int, ibvcap_cuda_poll(bed.cuda), -EIO));
	cr_expect(ne(ptr, strstr(ibvcap_error_text(), "CUDA_ERROR_LAUNCH_FAILED (719): unspecified launch failure"),
	             NULL),
	          "%s", ibvcap_error_text());
	cr_expect(eq(uint, bed_count_leases(&bed.a), 1), "the caller's");
	cr_expect(eq(u32, bed_info(&bed).has_failed, 1));
	cr_expect(eq(int, ibvcap_cuda_wait(bed.cuda, 1000), -EIO));
	cr_expect(eq(int, acquire(N), -EIO));
	cr_expect(eq(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0]), -EIO));
	cr_expect(zero(uint, bed_count_leases(&bed.a)));
	cr_expect(zero(u32, bed_info(&bed).n_held));
	bed_revive_device(&bed);
}

Test(cuda, a_device_that_fails_while_a_batch_is_held_is_closed_at_once)
{
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	attached_publish(&bed.a, N);
	cr_assert(eq(int, acquire(N), (int)N));
	softcuda_lose_device(0, 700);
	cr_expect(eq(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0]), -EIO), "found by the release");
	cr_expect(zero(uint, bed_count_leases(&bed.a)));
	attached_publish(&bed.a, N);
	bed_revive_device(&bed);
}

Test(cuda, a_kernel_that_reads_past_the_ring_is_found)
{
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	attached_publish(&bed.a, N);
	cr_assert(eq(int, acquire(N), (int)N));
	cr_assert(zero(int, softcuda_launch_sum(bed.streams[0], 4096, 1, &sum)));
	cr_expect(eq(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0]), -EIO));
	cr_expect(ne(ptr, strstr(ibvcap_error_text(), "CUDA_ERROR_ILLEGAL_ADDRESS (700)"), NULL));
	cr_expect(eq(int, ibvcap_cuda_poll(bed.cuda), -EIO));
	bed_revive_device(&bed);
}

/* ---- opening --------------------------------------------------------------------------------------- */

Test(cuda, a_device_that_is_none_is_named)
{
	struct ibvcap_cuda_options options = {.size = sizeof(options), .device = 1};

	cr_expect(eq(int, ibvcap_cuda_open(bed.rx, &options, &bed.cuda), -ENODEV));
	cr_expect(ne(ptr, strstr(ibvcap_error_text(), "CUDA device 1: the driver has 1"), NULL));
	softcuda_set_devices(2);
	cr_expect(zero(int, ibvcap_cuda_open(bed.rx, &options, &bed.cuda)));
	cr_expect(eq(u32, bed_info(&bed).device, 1));
	cr_expect(eq(str, bed_info(&bed).bus, (char *)"0000:01:00.0"));
}

Test(cuda, a_receive_handle_has_one_device)
{
	struct ibvcap_cuda *second = NULL;

	bed_open(&bed, IBVCAP_CUDA_AUTO);
	cr_expect(eq(int, ibvcap_cuda_open(bed.rx, NULL, &second), -EBUSY));
	cr_expect(eq(ptr, second, NULL));
	cr_assert(zero(int, ibvcap_cuda_close(bed.cuda, 0)));
	bed.cuda = NULL;
	bed_open(&bed, IBVCAP_CUDA_AUTO);
}

Test(cuda, a_child_of_fork_may_only_close)
{
	int status;
	pid_t child;

	bed_open(&bed, IBVCAP_CUDA_AUTO);
	attached_publish(&bed.a, N);
	cr_assert(eq(int, acquire(N), (int)N));
	child = fork();
	if (child == 0) {
		bool is_refused = acquire(1) == -ECHILD && ibvcap_cuda_poll(bed.cuda) == -ECHILD &&
		                  ibvcap_cuda_wait(bed.cuda, 0) == -ECHILD &&
		                  ibvcap_cuda_release(bed.cuda, &batch, NULL) == -ECHILD;
		uint64_t calls = softcuda_calls(NULL);
		int r = ibvcap_cuda_close(bed.cuda, 0);

		is_refused &= ibvcap_cuda_open(bed.rx, NULL, &bed.cuda) == -ECHILD;
		_exit(is_refused && r == 0 && softcuda_calls(NULL) == calls ? 0 : 1);
	}
	waitpid(child, &status, 0);
	cr_expect(zero(int, status));
	cr_expect(eq(uint, bed_count_leases(&bed.a), 1));
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &batch, NULL)));
}

Test(cuda, nothing_asks_the_driver_where_nothing_is_pending)
{
	uint64_t calls;

	bed_open(&bed, IBVCAP_CUDA_AUTO);
	attached_publish(&bed.a, 2);
	cr_assert(eq(int, acquire(1), 1));
	cr_assert(zero(int, ibvcap_cuda_release(bed.cuda, &batch, NULL)));
	cr_assert(zero(int, ibvcap_cuda_poll(bed.cuda)));
	calls = softcuda_calls(NULL);
	cr_assert(eq(int, acquire(1), 1));
	cr_assert(eq(int, ibvcap_cuda_poll(bed.cuda), 0));
	cr_assert(zero(int, ibvcap_cuda_poll(bed.cuda)));
	cr_expect(eq(u64, softcuda_calls(NULL), calls));
	cr_assert(zero(int, ibvcap_cuda_release(bed.cuda, &batch, NULL)));
}

Test(cuda, events_behind_one_that_has_not_passed_are_not_asked_for)
{
	uint64_t calls;

	softcuda_set_hold(true);
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	attached_publish(&bed.a, N);
	for (uint32_t i = 0; i < N; i++)
		pass_on(1, i % 2);
	calls = softcuda_calls("cuEventQuery");
	cr_expect(eq(int, ibvcap_cuda_poll(bed.cuda), (int)N));
	cr_expect(eq(u64, softcuda_calls("cuEventQuery") - calls, 2));
}

/* ---- the next daemon ------------------------------------------------------------------------------- */

static void go_on(void)
{
	for (int i = 0; i < 1000 && !bed_next_daemon(&bed); i++)
		cr_assert(zero(int, ibvcap_cuda_acquire(bed.cuda, &batch, N, 1, 10)), "%s", ibvcap_error_text());
	cr_assert(bed.has_next);
}

Test(cuda, a_ring_is_unregistered_only_when_its_last_event_has_passed)
{
	softcuda_set_hold(true);
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	attached_publish(&bed.a, N + 3);
	pass_on(N, 0);
	pass_on(N, 1);
	bed_end_daemon(&bed);
	cr_expect(eq(int, ibvcap_cuda_acquire(bed.cuda, &batch, N, 1, 10), -ENOBUFS));
	softcuda_run(bed.streams[0], 3);
	cr_expect(eq(int, ibvcap_cuda_acquire(bed.cuda, &batch, N, 1, 10), -ENOBUFS));
	cr_expect(eq(u64, softcuda_count().registrations, 3));
	softcuda_run(bed.streams[1], 3);
	cr_expect(zero(int, ibvcap_cuda_acquire(bed.cuda, &batch, N, 1, 10)));
	cr_expect(zero(u64, softcuda_count().registrations));
	cr_expect(zero(u64, bed_info(&bed).registered_bytes));
	softcuda_set_hold(false);
	go_on();
	bed.b.numbers_ahead = 500;
	attached_publish(&bed.b, 7);
	cr_assert(eq(int, ibvcap_cuda_acquire(bed.cuda, &batch, N, 1, 1000), 7));
	cr_expect(eq(u32, batch.rows.flags, IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN));
	cr_expect(eq(u64, batch.rows.epoch, EPOCH + 1));
	expect_read(500, 2);
	cr_expect(eq(u64, softcuda_count().registrations, 3));
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[2])));
	bed_check_counts(&bed);
}

Test(cuda, the_way_is_found_anew_for_the_next_ring)
{
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	bed_end_daemon(&bed);
	go_on();
	softcuda_set_attribute(113, 0);
	softcuda_fail("cuMemHostRegister", 0, 801);
	attached_publish(&bed.b, 7);
	cr_assert(eq(int, ibvcap_cuda_acquire(bed.cuda, &batch, N, 1, 1000), 7));
	cr_expect(eq(u32, bed_info(&bed).way, IBVCAP_CUDA_STAGED));
	cr_expect(ne(ptr, strstr(bed_info(&bed).why, "in place: no, cuMemHostRegister(READ_ONLY)"), NULL));
	expect_read(0, 0);
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0])));
}

Test(cuda, rows_of_a_ring_that_cannot_be_read_wait_until_it_can)
{
	bed_open(&bed, IBVCAP_CUDA_IN_PLACE);
	bed_end_daemon(&bed);
	go_on();
	attached_publish(&bed.b, 7);
	softcuda_fail("cuMemHostRegister", 0, 2);
	cr_assert(eq(int, ibvcap_cuda_acquire(bed.cuda, &batch, N, 1, 1000), -EOPNOTSUPP));
	cr_expect(ne(ptr, strstr(ibvcap_error_text(), "CUDA_ERROR_OUT_OF_MEMORY"), NULL));
	cr_assert(eq(int, ibvcap_cuda_acquire(bed.cuda, &batch, 6, 1, 1000), -EINVAL), "7 rows wait");
	cr_assert(eq(int, ibvcap_cuda_acquire(bed.cuda, &batch, N, 1, 1000), 7));
	cr_expect(eq(u32, batch.rows.flags, IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN));
	expect_read(0, 0);
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0])));
	bed_check_counts(&bed);
}

/* ---- several queues -------------------------------------------------------------------------------- */

/* A second queue of the same epoch, as bed.b. */
static void add_queue(void)
{
	const struct ibvcap_rx_options options = {.size = sizeof(options), .queue = 1, .reattach_ms = 20000};
	int fds[PROTOCOL_FD_N], fd;
	struct rx_queue *queue;

	bed.b = (struct attached){.queue = 1, .n_queues = 2};
	bed.has_next = true;
	attached_prepare(&bed.b, fds, &fd);
	cr_assert(zero(int, rx_queue_new(&queue, &bed.rx->shared, &options, fd, fds, EPOCH)));
	rx_part_put(bed.rx, 1, queue);
	bed.rx->is_single = false;
	bed.rx->n_queues = 2;
}

Test(cuda, a_ring_that_batches_read_is_read_on_in_its_way_when_a_later_ring_needs_another)
{
	struct ibvcap_cuda_batch first = IBVCAP_INIT(struct ibvcap_cuda_batch);

	softcuda_set_attribute(88, 1);
	softcuda_set_attribute(100, 1);
	softcuda_set_offset(OFFSET);
	bed_open(&bed, IBVCAP_CUDA_AUTO);
	attached_publish(&bed.a, N);
	cr_assert(eq(int, ibvcap_cuda_acquire(bed.cuda, &first, N / 2, 1, 0), (int)N / 2));
	cr_expect(eq(u32, bed_info(&bed).way, IBVCAP_CUDA_IN_PLACE));
	add_queue();
	attached_publish(&bed.b, N);
	bed.rx->turn = 1;
	softcuda_fail("cuMemHostRegister", 0, 2);
	cr_assert(eq(int, acquire(N), (int)N));
	cr_expect(eq(u32, batch.rows.queue, 1));
	cr_expect(eq(u32, bed_info(&bed).way, IBVCAP_CUDA_PAGEABLE));
	expect_read(0, 1);
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[1])));
	cr_assert(eq(int, acquire(N), (int)N / 2));
	cr_expect(zero(u32, batch.rows.queue));
	cr_expect(eq(u64, batch.payload, (uintptr_t)batch.rows.payload + OFFSET), "in place");
	expect_read(N / 2, 0);
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &batch, bed.streams[0])));
	cr_expect(zero(int, ibvcap_cuda_release(bed.cuda, &first, bed.streams[0])));
}

Test(cuda, while_all_queues_are_away_there_is_no_way_yet)
{
	struct ibvcap_rx_batch rows = IBVCAP_INIT(struct ibvcap_rx_batch);

	bed.rx->is_single = false;
	bed.rx->n_queues = 1;
	bed_end_daemon(&bed);
	cr_assert(zero(int, ibvcap_rx_acquire(bed.rx, &rows, 1, 1, 0)));
	bed_open(&bed, IBVCAP_CUDA_IN_PLACE);
	cr_expect(eq(u32, bed_info(&bed).way, IBVCAP_CUDA_AUTO));
	cr_expect(eq(str, bed_info(&bed).why, (char *)""));
}

/* ---- without a stream ------------------------------------------------------------------------------ */

Test(cuda, a_probe_says_what_a_ring_would_get)
{
	struct ibvcap_cuda_info info = IBVCAP_INIT(struct ibvcap_cuda_info);

	cr_assert(zero(int, ibvcap_cuda_probe(0, 4096, &info)), "%s", ibvcap_error_text());
	cr_expect(eq(u32, info.way, IBVCAP_CUDA_IN_PLACE));
	softcuda_set_attribute(113, 0);
	cr_assert(zero(int, ibvcap_cuda_probe(0, 4096, &info)));
	cr_expect(eq(u32, info.way, IBVCAP_CUDA_STAGED));
	cr_expect(ne(ptr, strstr(info.why, "READ_ONLY_HOST_REGISTER_SUPPORTED is 0"), NULL));
	softcuda_set_attribute(88, 1);
	cr_assert(zero(int, ibvcap_cuda_probe(0, 4096, &info)));
	cr_expect(eq(u32, info.way, IBVCAP_CUDA_STAGED));
	cr_expect(ne(ptr, strstr(info.why, "only if it is asked for"), NULL));
	softcuda_set_attribute(100, 1);
	cr_assert(zero(int, ibvcap_cuda_probe(0, 4096, &info)));
	cr_expect(eq(u32, info.way, IBVCAP_CUDA_PAGEABLE));
	cr_expect(eq(int, ibvcap_cuda_probe(7, 4096, &info), -ENODEV));
}

Test(cuda, words_of_ways)
{
	cr_expect(eq(str, (char *)ibvcap_cuda_way_word(IBVCAP_CUDA_AUTO), (char *)"auto"));
	cr_expect(eq(str, (char *)ibvcap_cuda_way_word(IBVCAP_CUDA_IN_PLACE), (char *)"in place"));
	cr_expect(eq(str, (char *)ibvcap_cuda_way_word(IBVCAP_CUDA_PAGEABLE), (char *)"pageable"));
	cr_expect(eq(str, (char *)ibvcap_cuda_way_word(IBVCAP_CUDA_STAGED), (char *)"staged"));
	cr_expect(eq(ptr, (char *)ibvcap_cuda_way_word(4), NULL));
}
