// SPDX-License-Identifier: Apache-2.0
/* Returns batches to a handle, whichever thread is in a call on it, and closes it behind the last one. */
#include "python/cuda/cuda_binding.h"

#include <errno.h>

#define CLOSE_MS 10000 /* a handle whose work takes longer to end is never closed: its device may read on */

struct cuda_handle *cuda_handle_new(struct ibvcap_rx *rx, struct ibvcap_cuda *cuda, struct cuda_stream stream)
{
	struct cuda_handle *handle = PyMem_Calloc(1, sizeof(*handle));

	if (!handle || !call_lock_init(&handle->lock)) {
		PyMem_Free(handle);
		return NULL;
	}
	handle->n_references = 1;
	handle->rx = rx;
	handle->cuda = cuda;
	handle->stream = stream;
	return handle;
}

struct cuda_handle *cuda_handle_ref(struct cuda_handle *handle)
{
	handle->n_references++;
	return handle;
}

static void returned_free(struct cuda_returned *returned)
{
	cuda_stream_drop(&returned->stream);
	PyMem_Free(returned);
}

/* Without a reference no thread is in a call. Batches that the driver refused to the end keep their ring mapped. */
void cuda_handle_unref(struct cuda_handle *handle)
{
	if (--handle->n_references)
		return;
	while (handle->returned) {
		struct cuda_returned *returned = handle->returned;

		handle->returned = returned->next;
		returned_free(returned);
	}
	cuda_stream_drop(&handle->stream);
	PyThread_free_lock(handle->lock.lock);
	PyMem_Free(handle);
}

/* With the lock. -EINVAL: the stream is captured, gone or of another context; -ENOMEM. It is not returned then. */
static int release_batch(struct cuda_handle *handle, const struct cuda_returned *returned)
{
	int r = ibvcap_cuda_release(handle->cuda, &returned->batch, returned->stream.handle);

	if (r == -EINVAL || r == -ENOMEM)
		return r;
	handle->n_batches--; /* -EIO: the next acquire says it */
	return 0;
}

/* Other threads append while the stream of one is dropped; nobody else removes. */
void cuda_handle_return_batches(struct cuda_handle *handle)
{
	struct cuda_returned **at = &handle->returned;

	while (*at) {
		struct cuda_returned *returned = *at;

		if (release_batch(handle, returned) < 0) {
			at = &returned->next;
			continue;
		}
		*at = returned->next;
		returned_free(returned);
	}
}

void cuda_handle_append(struct cuda_handle *handle, struct cuda_returned *returned)
{
	struct cuda_returned **at = &handle->returned;

	while (*at)
		at = &(*at)->next;
	returned->next = NULL;
	*at = returned;
}

/* With the lock, and without the interpreter's for a while: nobody else comes to a closed handle without batches. */
static void close_handles(struct cuda_handle *handle)
{
	struct ibvcap_cuda *cuda = handle->cuda;
	struct ibvcap_rx *rx = handle->rx;

	handle->cuda = NULL;
	handle->rx = NULL;
	Py_BEGIN_ALLOW_THREADS
	if (ibvcap_cuda_close(cuda, CLOSE_MS) == 0)
		ibvcap_rx_close(rx);
	Py_END_ALLOW_THREADS
}

/* With the lock: do the work that other threads left. */
static void handle_settle(struct cuda_handle *handle)
{
	cuda_handle_return_batches(handle);
	if (handle->is_closed && handle->n_batches == 0 && handle->rx)
		close_handles(handle);
}

void cuda_handle_unlock(struct cuda_handle *handle)
{
	handle_settle(handle);
	PyThread_release_lock(handle->lock.lock);
}

bool cuda_handle_begin(struct cuda_handle *handle)
{
	call_lock_take(&handle->lock);
	if (handle->rx && !handle->is_closed)
		return true;
	cuda_handle_unlock(handle);
	PyErr_SetString(PyExc_ValueError, "the receiver is closed");
	return false;
}

void cuda_handle_close(struct cuda_handle *handle)
{
	handle->is_closed = true;
	if (handle->rx && PyThread_acquire_lock(handle->lock.lock, NOWAIT_LOCK))
		cuda_handle_unlock(handle); /* else the thread in a call closes the handle */
}

int cuda_handle_take_back(struct cuda_handle *handle, struct cuda_returned *returned, bool is_told)
{
	bool has_lock = PyThread_acquire_lock(handle->lock.lock, NOWAIT_LOCK); /* else a thread is in a call */
	int r;

	if (!has_lock || !is_told) {
		cuda_handle_append(handle, returned);
		if (has_lock)
			cuda_handle_unlock(handle);
		return 0; /* the thread in a call returns it in WAIT_SLICE_MS */
	}
	r = release_batch(handle, returned);
	if (r < 0) {
		PyThread_release_lock(handle->lock.lock); /* no other thread ran: nothing is to be settled */
		return r;
	}
	returned_free(returned);
	cuda_handle_unlock(handle);
	return 0;
}
