// SPDX-License-Identifier: Apache-2.0
/*
 * Acquires rows of the ring and hands them out with device addresses: of the ring itself, or of the pinned memory that
 * they are copied to. Releases a batch by an event behind the work that reads it.
 */
#include "lib/cuda/handle.h"

#include "lib/base/min.h"
#include "lib/base/time.h"
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/client/owner.h"
#include "lib/ibvcap/client/sized_struct.h"

#include <errno.h>
#include <string.h>

/* What ibvcap_cuda_release() reads of a batch. */
#define TICKET_BYTES (offsetof(struct ibvcap_cuda_batch, ticket) + sizeof(uint64_t))

/* While work is queued, the wait for packets is interrupted so often to end leases: other members of a group wait. */
#define SLICE_MS 20

/* ---- rows of the ring ------------------------------------------------------------------------------- */

/* Rows of the ring that are not handed out yet, new ones if there are none. Results of ibvcap_rx_acquire(). */
static int fetch_rest(struct ibvcap_cuda *cuda, uint32_t max, uint32_t min, int timeout_ms)
{
	int r;

	if (cuda->rest.n)
		return 1;
	cuda->rest = (struct ibvcap_rx_batch)IBVCAP_INIT(struct ibvcap_rx_batch);
	r = ibvcap_rx_acquire(cuda->rx, &cuda->rest, max, min, timeout_ms);
	cuda->n_taken = 0;
	if (r <= 0)
		cuda->rest.n = 0;
	else
		ibvcap_rx_add_losses(cuda->rx, &cuda->rest, &cuda->losses);
	return r;
}

/* Does the way hold for these rows? It was found for the newest epoch, and the one before it. */
static bool is_followed(struct ibvcap_cuda *cuda)
{
	if (cuda->way == IBVCAP_CUDA_AUTO || (cuda->rest.epoch != cuda->epoch && cuda->rest.epoch != cuda->last_epoch))
		return false;
	return cuda->way == IBVCAP_CUDA_STAGED || cuda_find_ring(cuda, cuda->rest.payload);
}

/* ---- in place, pageable ----------------------------------------------------------------------------- */

static int hand_out_direct(struct ibvcap_cuda *cuda, struct ibvcap_cuda_batch *batch, uint32_t slot, uint32_t max)
{
	struct cuda_lease *lease = &cuda->leases.slots[slot];
	struct cuda_ring *ring = cuda_find_ring(cuda, cuda->rest.payload);
	const struct cuda_mapping *mappings = ring->mappings;

	if (cuda->rest.n > max)
		return error_set(-EINVAL, "max is %u: %u rows wait since the call that failed, ask for as many", max,
		                 cuda->rest.n);
	batch->rows = cuda->rest;
	batch->lost = cuda->losses.before;
	batch->payload = cuda_mapping_address(&mappings[IBVCAP_RX_MEMORY_PAYLOAD], batch->rows.payload);
	batch->headers = cuda_mapping_address(&mappings[IBVCAP_RX_MEMORY_HEADERS], batch->rows.headers);
	batch->meta = cuda_mapping_address(&mappings[IBVCAP_RX_MEMORY_RING], batch->rows.meta);
	lease->ring = (uint32_t)(ring - cuda->rings);
	lease->rows = cuda->rest;
	ring->n_batches++;
	cuda->rest.n = 0;
	return 0;
}

/* ---- staged ----------------------------------------------------------------------------------------- */

static uint64_t staged_part_bytes(uint64_t bytes)
{
	return (bytes + CUDA_STAGING_ALIGN - 1) / CUDA_STAGING_ALIGN * CUDA_STAGING_ALIGN;
}

static uint64_t staged_bytes(const struct ibvcap_rx_batch *rows, uint32_t n)
{
	return staged_part_bytes((uint64_t)n * rows->stride) + staged_part_bytes((uint64_t)n * rows->header_stride) +
	       staged_part_bytes(n * sizeof(struct ibvcap_meta));
}

/* At most n rows that find room; 0: not one does now. */
static uint32_t count_staged_rows(const struct cuda_staging *staging, const struct ibvcap_rx_batch *rows, uint32_t n)
{
	uint64_t room = cuda_staging_room(staging);
	uint64_t each = (uint64_t)rows->stride + rows->header_stride + sizeof(struct ibvcap_meta);

	if (staged_bytes(rows, n) <= room)
		return n;
	if (staged_bytes(rows, 1) > room)
		return 0;
	/* Fewer by what the alignment of the three parts may take. */
	return room < each + 3 * CUDA_STAGING_ALIGN ? 1 : (uint32_t)((room - 3 * CUDA_STAGING_ALIGN) / each);
}

/* The rest as a batch that begins with its first row that is not handed out yet, and has n rows. */
static struct ibvcap_rx_batch cut_rest(const struct ibvcap_cuda *cuda, uint32_t n)
{
	struct ibvcap_rx_batch rows = cuda->rest;
	uint32_t at = cuda->n_taken;

	rows.payload += (size_t)at * rows.stride;
	rows.headers += (size_t)at * rows.header_stride;
	rows.meta += at;
	rows.sequence += at;
	rows.n = n;
	if (at) {
		rows.gap = 0;
		rows.flags = 0;
	}
	return rows;
}

/* Copy a part of a batch to the offset, which then is behind it. The part's address for the host. */
static const void *stage_part(const struct cuda_staging *staging, uint64_t *offset, const void *from, uint64_t bytes)
{
	uint8_t *to = staging->host + *offset;

	memcpy(to, from, bytes);
	*offset += staged_part_bytes(bytes);
	return to;
}

static void stage_rows(const struct cuda_staging *staging, struct ibvcap_cuda_batch *batch, uint64_t offset)
{
	struct ibvcap_rx_batch *rows = &batch->rows;

	batch->payload = staging->device + offset;
	rows->payload = stage_part(staging, &offset, rows->payload, (uint64_t)rows->n * rows->stride);
	batch->headers = staging->device + offset;
	rows->headers = stage_part(staging, &offset, rows->headers, (uint64_t)rows->n * rows->header_stride);
	batch->meta = staging->device + offset;
	rows->meta = stage_part(staging, &offset, rows->meta, rows->n * sizeof(struct ibvcap_meta));
}

/* Copies as many rows as find room. With the last one the lease of the ring ends. */
static int hand_out_staged(struct ibvcap_cuda *cuda, struct ibvcap_cuda_batch *batch, uint32_t slot, uint32_t max)
{
	struct cuda_staging *staging = &cuda->staging;
	struct cuda_lease *lease = &cuda->leases.slots[slot];
	uint32_t n = count_staged_rows(staging, &cuda->rest, u32_min(max, cuda->rest.n - cuda->n_taken));
	uint64_t offset;
	int r;

	if (n == 0 && staging->head == staging->tail)
		return error_set(-EMSGSIZE, "stream '%s': a row takes %llu bytes, and staging_bytes is %llu",
		                 cuda->stream, (unsigned long long)staged_bytes(&cuda->rest, 1),
		                 (unsigned long long)staging->bytes);
	if (n == 0)
		return -ENOBUFS;
	batch->rows = cut_rest(cuda, n);
	batch->lost = cuda->n_taken ? 0 : cuda->losses.before;
	r = cuda_staging_take(staging, staged_bytes(&batch->rows, n), &offset, &lease->piece);
	if (r < 0)
		return r;
	lease->ring = CUDA_LEASE_STAGED;
	lease->is_late = false;
	stage_rows(staging, batch, offset);
	cuda->n_taken += n;
	if (cuda->n_taken < cuda->rest.n)
		return 0;
	/* The caller gets the rows in any case; what is to be said of them is said when the batch is over. */
	lease->is_late = ibvcap_rx_release(cuda->rx, &cuda->rest) < 0;
	cuda->rest.n = 0;
	return 0;
}

/* ---- acquiring -------------------------------------------------------------------------------------- */

/* Rows; 0: no packets in time; -ENOBUFS; -errno. */
static int acquire_once(struct ibvcap_cuda *cuda, struct ibvcap_cuda_batch *batch, uint32_t max, uint32_t min,
                        int timeout_ms)
{
	uint32_t slot;
	int r = cuda_leases_prepare(&cuda->leases, &cuda->device, &slot);

	if (r < 0)
		return r;
	r = fetch_rest(cuda, max, min, timeout_ms);
	if (r <= 0)
		return r;
	r = cuda->n_taken || is_followed(cuda) ? 0 : cuda_follow(cuda, cuda->rest.epoch);
	if (r == 0)
		r = cuda->way == IBVCAP_CUDA_STAGED ? hand_out_staged(cuda, batch, slot, max)
		                                    : hand_out_direct(cuda, batch, slot, max);
	if (r < 0)
		return r;
	batch->ticket = cuda_leases_hand_out(&cuda->leases, slot);
	cuda->batches++;
	return (int)batch->rows.n;
}

static int explain_no_lease(const struct ibvcap_cuda *cuda)
{
	const struct cuda_leases *leases = &cuda->leases;

	if (cuda->way == IBVCAP_CUDA_STAGED)
		return error_set(
			-ENOBUFS,
			"stream '%s': the %llu KiB of staging memory are in use, by %u batches that the caller "
			"holds and %u whose work on the device has not ended: more staging_bytes give more depth",
			cuda->stream, (unsigned long long)(cuda->staging.bytes >> 10), leases->n_held,
			leases->n_pending);
	return error_set(-ENOBUFS,
	                 "stream '%s': all leases are in use, by %u batches that the caller holds and %u whose work on "
	                 "the device has not ended: attach with more lease_blocks (a stream has them by "
	                 "extra_lease_blocks), or give the stream larger blocks (slots_per_block)",
	                 cuda->stream, leases->n_held, leases->n_pending);
}

static int slice_ms(const struct ibvcap_cuda *cuda, uint64_t deadline_ns, int timeout_ms)
{
	uint64_t now_ns, left_ms;

	if (timeout_ms <= 0)
		return timeout_ms < 0 && cuda->leases.n_pending ? SLICE_MS : timeout_ms;
	now_ns = time_monotonic_ns();
	left_ms = deadline_ns > now_ns ? (deadline_ns - now_ns + 999999) / 1000000 : 0;
	return (int)(cuda->leases.n_pending ? u64_min(left_ms, SLICE_MS) : left_ms);
}

static int acquire_in_time(struct ibvcap_cuda *cuda, struct ibvcap_cuda_batch *batch, uint32_t max, uint32_t min,
                           int timeout_ms)
{
	const uint64_t deadline_ns = timeout_ms ? cuda_deadline_ns(timeout_ms) : 0;
	uint64_t nap_ns = 0;
	int r;

	for (;;) {
		r = cuda_end_leases(cuda);
		if (r < 0 && r != -ECONNABORTED) /* which the next call on the ring says, too */
			return r;
		r = acquire_once(cuda, batch, max, min, slice_ms(cuda, deadline_ns, timeout_ms));
		if (r != 0 && (r != -ENOBUFS || !cuda->leases.n_pending))
			return r == -ENOBUFS ? explain_no_lease(cuda) : r;
		if (timeout_ms == 0 || time_monotonic_ns() >= deadline_ns)
			return r == -ENOBUFS ? explain_no_lease(cuda) : r;
		if (r == -ENOBUFS)
			cuda_nap(&nap_ns, deadline_ns);
	}
}

/* Copy to the caller's batch, which may be of an older version. */
static void copy_batch(struct ibvcap_cuda_batch *to, struct ibvcap_cuda_batch *ours)
{
	size_t size = to->size < sizeof(*ours) ? to->size : sizeof(*ours);

	ours->rows.size = size - offsetof(struct ibvcap_cuda_batch, rows);
	sized_struct_copy(to, ours, sizeof(*ours));
}

int ibvcap_cuda_acquire(struct ibvcap_cuda *cuda, struct ibvcap_cuda_batch *batch, uint32_t max, uint32_t min,
                        int timeout_ms)
{
	struct ibvcap_cuda_batch ours = IBVCAP_INIT(struct ibvcap_cuda_batch);
	int r = owner_check(cuda->owner, cuda->stream);

	if (r == 0)
		r = sized_struct_check(batch, offsetof(struct ibvcap_cuda_batch, rows.lease) + sizeof(uint32_t),
		                       "ibvcap_cuda_batch");
	if (r == 0 && max == 0)
		r = error_set(-EINVAL, "max is 0: ask for at least one packet");
	if (r == 0 && timeout_ms < -1)
		r = error_set(-EINVAL, "timeout_ms is %d: -1 waits for ever, 0 not at all", timeout_ms);
	if (r < 0)
		return r;
	r = acquire_in_time(cuda, &ours, max, min, timeout_ms);
	if (r > 0)
		copy_batch(batch, &ours);
	return r;
}

/* ---- releasing -------------------------------------------------------------------------------------- */

static int refuse_cuda_stream(const struct ibvcap_cuda *cuda, const char *why)
{
	return error_set(-EINVAL,
	                 "stream '%s': the batch stays with the caller: %s; the CUDA stream has to be of the primary "
	                 "context of device %u, which cudaStreamCreate() uses, and in no capture",
	                 cuda->stream, why, cuda->device.info.device);
}

/* In the device's context. By the library's own stream: an error of the program's says nothing about the device. */
static bool is_device_well(const struct cuda_device *device)
{
	int result = device->driver.stream_query(device->stream);

	return result == CUDA_DRIVER_SUCCESS || result == CUDA_DRIVER_NOT_READY ||
	       result == CUDA_DRIVER_STREAM_CAPTURE_UNSUPPORTED;
}

/* In the device's context. 0; -EINVAL, -ENOMEM: the batch stays with the caller; -EIO: the device has failed. */
static int record_event(struct ibvcap_cuda *cuda, const struct cuda_lease *lease, struct CUstream_st *stream)
{
	const struct cuda_driver *driver = &cuda->device.driver;
	int is_capturing = 0;
	int result = driver->stream_is_capturing(stream, &is_capturing);
	const char *function = "cuStreamIsCapturing";
	char text[256];

	if (result == CUDA_DRIVER_SUCCESS && is_capturing)
		return refuse_cuda_stream(cuda, "the CUDA stream is being captured into a graph, and does nothing now");
	if (result == CUDA_DRIVER_SUCCESS) {
		function = "cuEventRecord";
		result = driver->event_record(lease->event, stream);
	}
	if (result == CUDA_DRIVER_SUCCESS)
		return 0;
	if (result == CUDA_DRIVER_OUT_OF_MEMORY)
		return cuda_driver_explain(driver, function, result);
	if (!is_device_well(&cuda->device))
		return cuda_fail(cuda, function, result);
	cuda_driver_describe(driver, function, result, text, sizeof(text));
	return refuse_cuda_stream(cuda, text);
}

/* The batch is over at once, since the device has failed. -EIO. */
static int drop_batch(struct ibvcap_cuda *cuda, struct cuda_lease *lease)
{
	cuda_end_lease(cuda, lease);
	cuda_leases_drop_held(&cuda->leases, lease);
	return cuda_check_device(cuda);
}

int ibvcap_cuda_release(struct ibvcap_cuda *cuda, const struct ibvcap_cuda_batch *batch, struct CUstream_st *stream)
{
	struct cuda_lease *lease;
	int mode, r = owner_check(cuda->owner, cuda->stream);

	if (r == 0)
		r = sized_struct_check(batch, TICKET_BYTES, "ibvcap_cuda_batch");
	if (r < 0)
		return r;
	lease = cuda_leases_find_held(&cuda->leases, batch->ticket);
	if (!lease)
		return error_set(-EINVAL,
		                 "stream '%s': the batch is not one that this handle has acquired and not released",
		                 cuda->stream);
	if (cuda->failure[0])
		return drop_batch(cuda, lease);
	r = cuda_device_push(&cuda->device, &mode);
	if (r != CUDA_DRIVER_SUCCESS) {
		cuda_fail(cuda, "cuCtxPushCurrent", r);
		return drop_batch(cuda, lease);
	}
	r = record_event(cuda, lease, stream);
	cuda_device_leave(&cuda->device, mode);
	if (r == 0)
		cuda_leases_set_pending(&cuda->leases, lease, stream);
	return r == -EIO ? drop_batch(cuda, lease) : r;
}
