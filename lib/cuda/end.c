// SPDX-License-Identifier: Apache-2.0
/*
 * Ends the leases of batches whose work on the device has ended. The calling thread asks the driver for the events, in
 * the order of the releases.
 */
#include "lib/cuda/handle.h"

#include "lib/base/min.h"
#include "lib/base/time.h"
#include "lib/ibvcap/client/error.h"

#include <errno.h>
#include <time.h>

#define NAP_NS_FIRST UINT64_C(20000)
#define NAP_NS_MAX   UINT64_C(1000000)
#define BUSY_STREAMS 8

int cuda_end_lease(struct ibvcap_cuda *cuda, const struct cuda_lease *lease)
{
	if (lease->ring == CUDA_LEASE_STAGED) {
		cuda_staging_give_back(&cuda->staging, lease->piece);
		return lease->is_late ? error_set(-ECONNABORTED,
		                                  "stream '%s': the daemon had disconnected this consumer, which ended "
		                                  "the lease, while rows were copied: they may be of newer packets",
		                                  cuda->stream)
		                      : 0;
	}
	/* Before the release, which may give the queue of the ring up, and unmap it. */
	cuda->rings[lease->ring].n_batches--;
	return ibvcap_rx_release(cuda->rx, &lease->rows);
}

/* End the lease of a pending slot. *error is the first error, if there is one already. */
static void end_pending(struct ibvcap_cuda *cuda, uint32_t slot, int *error)
{
	struct cuda_lease *lease = &cuda->leases.slots[slot];
	int r = cuda_end_lease(cuda, lease);

	lease->state = CUDA_LEASE_FREE;
	if (*error == 0)
		*error = r;
}

int cuda_fail(struct ibvcap_cuda *cuda, const char *function, int result)
{
	struct cuda_leases *leases = &cuda->leases;
	int unused = 0;

	cuda_driver_describe(&cuda->device.driver, function, result, cuda->failure, sizeof(cuda->failure));
	while (leases->n_pending)
		end_pending(cuda, leases->pending[--leases->n_pending], &unused);
	return cuda_check_device(cuda);
}

int cuda_check_device(const struct ibvcap_cuda *cuda)
{
	if (!cuda->failure[0])
		return 0;
	return error_set(-EIO,
	                 "stream '%s': CUDA device %u (%s) has failed in this process: %s; close the handle, and start "
	                 "the process again",
	                 cuda->stream, cuda->device.info.device, cuda->device.info.name, cuda->failure);
}

/* ---- events ----------------------------------------------------------------------------------------- */

/* Streams of which an event was not ready. Those behind it on the same stream are not either. */
struct busy_streams {
	const struct CUstream_st *streams[BUSY_STREAMS];
	unsigned n;
};

static bool is_busy(const struct busy_streams *busy, const struct CUstream_st *stream)
{
	for (unsigned i = 0; i < busy->n; i++)
		if (busy->streams[i] == stream)
			return true;
	return false;
}

/* Captures into graphs, which forbid calls, say nothing about the device, nor about its work. */
static bool is_of_capture(int result)
{
	return result == CUDA_DRIVER_STREAM_CAPTURE_UNSUPPORTED || result == CUDA_DRIVER_STREAM_CAPTURE_INVALIDATED ||
	       result == CUDA_DRIVER_STREAM_CAPTURE_IMPLICIT || result == CUDA_DRIVER_CAPTURED_EVENT;
}

/* CUDA_DRIVER_SUCCESS, _NOT_READY or an error. */
static int look_at(struct ibvcap_cuda *cuda, const struct cuda_lease *lease, struct busy_streams *busy)
{
	int result;

	if (is_busy(busy, lease->stream))
		return CUDA_DRIVER_NOT_READY;
	result = cuda->device.driver.event_query(lease->event);
	if (is_of_capture(result))
		result = CUDA_DRIVER_NOT_READY;
	if (result == CUDA_DRIVER_NOT_READY && busy->n < BUSY_STREAMS)
		busy->streams[busy->n++] = lease->stream;
	return result;
}

/* In the device's context. 0, or an error of the driver. */
static int end_passed(struct ibvcap_cuda *cuda, int *error)
{
	struct cuda_leases *leases = &cuda->leases;
	struct busy_streams busy = {.n = 0};
	uint32_t n = leases->n_pending, left = 0;
	int failed = CUDA_DRIVER_SUCCESS;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t slot = leases->pending[i];
		int result = failed ? CUDA_DRIVER_NOT_READY : look_at(cuda, &leases->slots[slot], &busy);

		if (result == CUDA_DRIVER_SUCCESS) {
			end_pending(cuda, slot, error);
			continue;
		}
		leases->pending[left++] = slot;
		failed = result == CUDA_DRIVER_NOT_READY ? failed : result;
	}
	leases->n_pending = left;
	return failed;
}

int cuda_end_leases(struct ibvcap_cuda *cuda)
{
	int mode, error = 0, result = cuda_check_device(cuda);

	if (result < 0 || cuda->leases.n_pending == 0)
		return result;
	result = cuda_device_push(&cuda->device, &mode);
	if (result != CUDA_DRIVER_SUCCESS)
		return cuda_fail(cuda, "cuCtxPushCurrent", result);
	result = end_passed(cuda, &error);
	cuda_device_leave(&cuda->device, mode);
	if (result != CUDA_DRIVER_SUCCESS)
		return cuda_fail(cuda, "cuEventQuery", result);
	return error < 0 ? error : (int)cuda->leases.n_pending;
}

/* ---- waiting ---------------------------------------------------------------------------------------- */

uint64_t cuda_deadline_ns(int timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX : time_monotonic_ns() + (uint64_t)timeout_ms * 1000000;
}

void cuda_nap(uint64_t *nap_ns, uint64_t deadline_ns)
{
	uint64_t now_ns = time_monotonic_ns(), ns;

	*nap_ns = *nap_ns ? u64_min(2 * *nap_ns, NAP_NS_MAX) : NAP_NS_FIRST;
	ns = u64_min(*nap_ns, deadline_ns > now_ns ? deadline_ns - now_ns : 0);
	nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

int cuda_wait_leases(struct ibvcap_cuda *cuda, int timeout_ms)
{
	const uint64_t deadline_ns = cuda_deadline_ns(timeout_ms);
	uint64_t nap_ns = 0;
	int first = 0;

	for (;;) {
		int r = cuda_end_leases(cuda);

		if (first == 0 && r < 0)
			first = r;
		if (cuda->leases.n_pending == 0)
			return first;
		if (time_monotonic_ns() >= deadline_ns)
			break;
		cuda_nap(&nap_ns, deadline_ns);
	}
	return error_set(-ETIMEDOUT,
	                 "stream '%s': the work of %u batches on %u streams of CUDA device %u has not ended within %d "
	                 "ms",
	                 cuda->stream, cuda->leases.n_pending, cuda_leases_count_streams(&cuda->leases),
	                 cuda->device.info.device, timeout_ms);
}
