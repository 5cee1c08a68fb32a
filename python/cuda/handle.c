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

/* Without a reference no thread is in a call, and no batch is left. */
void cuda_handle_unref(struct cuda_handle *handle)
{
	if (--handle->n_references)
		return;
	cuda_stream_drop(&handle->stream);
	PyThread_free_lock(handle->lock.lock);
	PyMem_Free(handle);
}

/* With the lock. -EINVAL: the stream is gone, or of another context; -ENOMEM. The batch is not returned then. */
static int release_batch(struct cuda_handle *handle, const struct ibvcap_cuda_batch *batch,
                         const struct cuda_stream *stream)
{
	int r = ibvcap_cuda_release(handle->cuda, batch, stream->handle);

	if (r == -EINVAL || r == -ENOMEM)
		return r;
	handle->n_batches--; /* -EIO: the next acquire says it */
	return 0;
}

/* With the lock. Nobody is left who could be told. */
static void release_batch_anyhow(struct cuda_handle *handle, const struct ibvcap_cuda_batch *batch,
                                 const struct cuda_stream *stream)
{
	static const struct cuda_stream legacy;

	if (release_batch(handle, batch, stream) < 0 && stream->handle)
		release_batch(handle, batch, &legacy);
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
	while (handle->returned) {
		struct cuda_returned *returned = handle->returned;

		handle->returned = returned->next;
		release_batch_anyhow(handle, &returned->batch, &returned->stream);
		cuda_stream_drop(&returned->stream);
		PyMem_Free(returned);
	}
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

int cuda_handle_take_back(struct cuda_handle *handle, const struct ibvcap_cuda_batch *batch, struct cuda_stream *stream,
                          bool is_told)
{
	struct cuda_returned *returned;
	int r = 0;

	if (PyThread_acquire_lock(handle->lock.lock, NOWAIT_LOCK)) {
		if (is_told)
			r = release_batch(handle, batch, stream);
		else
			release_batch_anyhow(handle, batch, stream);
		if (r == 0)
			cuda_stream_drop(stream);
		cuda_handle_unlock(handle);
		return r;
	}
	returned = PyMem_Malloc(sizeof(*returned)); /* a thread is in a call: it returns the batch in WAIT_SLICE_MS */
	if (!returned)
		return -ENOMEM;
	*returned = (struct cuda_returned){*batch, *stream, handle->returned};
	stream->object = NULL;
	handle->returned = returned;
	return 0;
}
