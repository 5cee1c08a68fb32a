// SPDX-License-Identifier: Apache-2.0
/* A receiver with a device: waits for packets, and for work on the device, without the interpreter's lock. */
#include "python/cuda/cuda_binding.h"

#include <errno.h>
#include <time.h>

static struct cuda_handle *handle_at(PyObject *object)
{
	return (struct cuda_handle *)((struct rx_loop_object *)object)->loop;
}

/* ---- packets ------------------------------------------------------------------------------------- */

/* Packets that a call wants, and gets. */
struct cuda_acquisition {
	struct cuda_handle *handle;
	uint32_t max;
	uint32_t min; /* after a slice of a wait fewer will do */
	bool is_full; /* the last slice found all leases taken, some by work that is queued */
	PyObject *batch;
};

static bool is_work_queued(const struct cuda_handle *handle)
{
	struct ibvcap_cuda_info info = IBVCAP_INIT(struct ibvcap_cuda_info);

	return ibvcap_cuda_info(handle->cuda, &info) == 0 && info.n_pending > 0;
}

/* With the lock. A batch without an object goes back. */
static int take_cuda_batch(struct cuda_acquisition *wanted, struct cuda_returned *acquired, int n)
{
	struct cuda_handle *handle = wanted->handle;

	handle->n_batches++;
	handle->n_lost += acquired->batch.lost;
	wanted->batch = cuda_batch_new(handle, acquired);
	if (wanted->batch)
		return n;
	acquired->stream = cuda_stream_ref(&handle->stream);
	cuda_handle_append(handle, acquired);
	return -ENOMEM;
}

/* With the lock. As cuda_receiver_slice(). */
static int acquire_cuda_batch(struct cuda_acquisition *wanted, int slice_ms)
{
	struct cuda_handle *handle = wanted->handle;
	struct cuda_returned *acquired = PyMem_Calloc(1, sizeof(*acquired));
	int n;

	if (!acquired) {
		PyErr_NoMemory();
		return -ENOMEM;
	}
	acquired->batch = (struct ibvcap_cuda_batch)IBVCAP_INIT(struct ibvcap_cuda_batch);
	Py_BEGIN_ALLOW_THREADS
	n = ibvcap_cuda_acquire(handle->cuda, &acquired->batch, wanted->max, wanted->min, slice_ms);
	Py_END_ALLOW_THREADS
	if (n > 0)
		return take_cuda_batch(wanted, acquired, n);
	PyMem_Free(acquired);
	wanted->is_full = n == -ENOBUFS && is_work_queued(handle);
	if (n == -EINTR || wanted->is_full)
		return 0;
	if (n < 0)
		raise_error(n);
	return n;
}

/* One slice of a wait. 0: no packet came; negative: an exception. */
static int cuda_receiver_slice(void *of, int slice_ms)
{
	struct cuda_acquisition *wanted = of;
	int n;

	if (!cuda_handle_begin(wanted->handle))
		return -EINVAL;
	n = acquire_cuda_batch(wanted, slice_ms);
	cuda_handle_unlock(wanted->handle);
	return n;
}

static PyObject *cuda_receiver_wait_for(struct rx_loop *loop, uint32_t max, uint32_t min, int timeout_ms)
{
	struct cuda_handle *handle = (struct cuda_handle *)loop;
	struct cuda_acquisition wanted = {.handle = handle, .max = max, .min = min};
	int n = wait_in_slices(&handle->lock, timeout_ms, cuda_receiver_slice, &wanted);

	if (n == 0 && wanted.is_full)
		return raise_error_text(
			-ENOBUFS, "all leases of the receiver, or all of its staging memory, are in use by work "
				  "that is queued on the device: wait for it, or attach with more leases: "
				  "lease_blocks, and extra_lease_blocks of the stream in ibvcapd.conf(5); or with "
				  "more staging_bytes");
	return n == 0 ? Py_NewRef(Py_None) : wanted.batch;
}

/* ---- life ---------------------------------------------------------------------------------------- */

/* Both handles, by the arguments and keywords of ibvcap.Receiver. False: an exception is set. */
static bool open_handles(PyObject *arguments, PyObject *keywords, const struct ibvcap_cuda_options *options,
                         struct ibvcap_rx **rx, struct ibvcap_cuda **cuda)
{
	int r;

	*rx = rx_open_by_keywords(arguments, keywords);
	if (!*rx)
		return false;
	Py_BEGIN_ALLOW_THREADS
	r = ibvcap_cuda_open(*rx, options, cuda);
	Py_END_ALLOW_THREADS
	if (r == 0)
		return true;
	cuda_raise_of_device(r); /* before ibvcap_rx_close() changes the text */
	ibvcap_rx_close(*rx);
	return false;
}

static PyObject *cuda_receiver_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
	struct ibvcap_cuda_options options = IBVCAP_INIT(struct ibvcap_cuda_options);
	PyObject *rx_arguments, *rx_keywords, *stream_object;
	struct rx_loop_object *object;
	struct cuda_handle *handle;
	struct ibvcap_cuda *cuda;
	struct cuda_stream stream;
	struct ibvcap_rx *rx;
	int way;

	if (!PyArg_ParseTuple(arguments, "O&iO&OO!O!:_Receiver", u32_of, &options.device, &way, u64_of,
	                      &options.staging_bytes, &stream_object, &PyTuple_Type, &rx_arguments, &PyDict_Type,
	                      &rx_keywords))
		return NULL;
	options.way = (enum ibvcap_cuda_way)way;
	if (!cuda_stream_of(stream_object, &stream))
		return NULL;
	if (!open_handles(rx_arguments, rx_keywords, &options, &rx, &cuda)) {
		cuda_stream_drop(&stream);
		return NULL;
	}
	object = object_new(type);
	handle = object ? cuda_handle_new(rx, cuda, stream) : NULL;
	if (handle) {
		handle->loop.wait = cuda_receiver_wait_for;
		object->loop = &handle->loop;
		return &object->base;
	}
	cuda_stream_drop(&stream);
	ibvcap_cuda_close(cuda, 0);
	ibvcap_rx_close(rx);
	Py_XDECREF((PyObject *)object);
	return PyErr_NoMemory();
}

static void close_softly(struct cuda_handle *handle)
{
	rx_loop_return_newest(&handle->loop);
	cuda_handle_close(handle);
}

static void cuda_receiver_dealloc(PyObject *object)
{
	if (handle_at(object)) {
		close_softly(handle_at(object));
		cuda_handle_unref(handle_at(object));
	}
	object_free(object);
}

/* ---- work on the device ---------------------------------------------------------------------------- */

/*
 * One slice of a wait. 0: work is still queued, or may be on a stream that the driver refuses; 1: none is; negative: an
 * exception.
 */
static int cuda_work_slice(void *of, int slice_ms)
{
	const struct timespec slice = {.tv_nsec = (long)slice_ms * 1000000}; /* below a second */
	struct cuda_handle *handle = of;
	bool is_refused;
	int r;

	if (!cuda_handle_begin(handle))
		return -EINVAL;
	cuda_handle_return_batches(handle);
	is_refused = handle->returned;
	Py_BEGIN_ALLOW_THREADS
	r = ibvcap_cuda_wait(handle->cuda, slice_ms);
	if (r == 0 && is_refused) {
		nanosleep(&slice, NULL);
		r = -ETIMEDOUT;
	}
	Py_END_ALLOW_THREADS
	if (r < 0 && r != -ETIMEDOUT && r != -EINTR)
		raise_error(r);
	cuda_handle_unlock(handle);
	return r == 0 ? 1 : r == -ETIMEDOUT || r == -EINTR ? 0 : r;
}

static PyObject *cuda_receiver_wait(PyObject *object, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"timeout", NULL};
	PyObject *timeout = Py_None;
	int timeout_ms, r;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O:wait", names, &timeout))
		return NULL;
	timeout_ms = timeout_ms_of(timeout);
	if (timeout_ms == -2)
		return NULL;
	r = wait_in_slices(&handle_at(object)->lock, timeout_ms, cuda_work_slice, handle_at(object));
	return r < 0 ? NULL : PyBool_FromLong(r);
}

/* ---- what is known ------------------------------------------------------------------------------- */

static PyObject *cuda_receiver_info(PyObject *object, void *closure)
{
	struct ibvcap_cuda_info info = IBVCAP_INIT(struct ibvcap_cuda_info);
	PyObject *dict;

	if (!cuda_handle_begin(handle_at(object)))
		return NULL;
	dict = rx_info_to_dict(handle_at(object)->rx);
	ibvcap_cuda_info(handle_at(object)->cuda, &info);
	cuda_handle_unlock(handle_at(object));
	if (dict && !cuda_info_add(dict, &info))
		Py_CLEAR(dict);
	return dict;
}

static PyObject *cuda_receiver_counts(PyObject *object, void *closure)
{
	PyObject *dict;

	if (!cuda_handle_begin(handle_at(object)))
		return NULL;
	dict = rx_counts_to_dict(handle_at(object)->rx, handle_at(object)->n_lost);
	cuda_handle_unlock(handle_at(object));
	return dict;
}

static PyObject *cuda_receiver_close(PyObject *object, PyObject *unused)
{
	close_softly(handle_at(object));
	Py_RETURN_NONE;
}

static PyMethodDef cuda_receiver_methods[] = {
	{"acquire", KEYWORDS(rx_loop_acquire),
         "acquire($self, max=4294967295, timeout=None, min=1)\n--\n\n"
         "The next packets, at most max, as a Batch; None: none came within timeout seconds (None: wait for ever).\n"
         "TooManyBatches: all leases are taken, by batches that are not returned or by work that is queued."},
	RX_LOOP_TAKE,
	{"wait", KEYWORDS(cuda_receiver_wait),
         "wait($self, timeout=None)\n--\n\n"
         "Wait until the work of all returned batches has ended. False: it has not, in timeout seconds."},
	{"close", cuda_receiver_close, METH_NOARGS,
         "close($self)\n--\n\n"
         "Take no more packets, and wait until the work of the returned batches has ended, 10 s at most. Batches with\n"
         "views stay valid until the last view goes."},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef cuda_receiver_getters[] = {
	{"info", cuda_receiver_info, NULL,
         "Properties of the stream's ring and of the device, as a dict: way and why say how the device reads.", NULL},
	{"counts", cuda_receiver_counts, NULL,
         "Packets since the attach, as a dict: published = delivered + skipped + lag; lost: dropped by the card.",
         NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot cuda_receiver_slots[] = {
	{Py_tp_new, cuda_receiver_new},
	{Py_tp_dealloc, cuda_receiver_dealloc},
	{Py_tp_methods, cuda_receiver_methods},
	{Py_tp_getset, cuda_receiver_getters},
	{Py_tp_iter, PyObject_SelfIter},
	{Py_tp_iternext, rx_loop_next},
	{0, NULL},
};

PyType_Spec cuda_receiver_spec =
	TYPE_SPEC("cuda._Receiver", struct rx_loop_object, Py_TPFLAGS_BASETYPE, cuda_receiver_slots);
