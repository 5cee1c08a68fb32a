// SPDX-License-Identifier: Apache-2.0
/* A batch: packets under one lease, for work on the device. The lease ends with that work, not with the batch. */
#include "python/cuda/cuda_binding.h"

#include <errno.h>
#include <stddef.h>

static struct cuda_batch *batch_at(PyObject *object)
{
	return (struct cuda_batch *)object;
}

/* 0: returned; -errno, only with is_told: it is not. */
static int cuda_batch_give_back(struct cuda_batch *batch, bool is_told)
{
	struct cuda_returned *returned = batch->to_return;
	struct cuda_handle *handle = batch->handle;
	bool is_newest;
	int r;

	if (!returned)
		return 0;
	is_newest = handle->loop.newest == &batch->owner;
	if (!batch->has_stream)
		returned->stream = cuda_stream_ref(&handle->stream);
	/* First: other threads run below, and find a batch that is returned. It may even be freed. */
	batch->to_return = NULL;
	batch->owner.is_gone = true;
	if (is_newest)
		handle->loop.newest = NULL;
	r = cuda_handle_take_back(handle, returned, is_told);
	if (r == 0) {
		cuda_handle_unref(handle);
		return 0;
	}
	if (!batch->has_stream)
		cuda_stream_drop(&returned->stream);
	batch->to_return = returned;
	batch->owner.is_gone = false;
	batch->is_refused = batch->has_stream && r == -EINVAL;
	if (is_newest)
		handle->loop.newest = &batch->owner;
	return r;
}

static void give_back_untold(struct view_owner *owner)
{
	cuda_batch_give_back((struct cuda_batch *)owner, false);
}

/* Memory of libcuda's knowledge; HMM and ATS read any memory of the process. */
static struct dlpack_device device_of_memory(const struct cuda_handle *handle)
{
	struct ibvcap_cuda_info info = IBVCAP_INIT(struct ibvcap_cuda_info);

	ibvcap_cuda_info(handle->cuda, &info);
	return (struct dlpack_device){info.way == IBVCAP_CUDA_PAGEABLE ? DLPACK_CPU : DLPACK_CUDA_HOST, 0};
}

PyObject *cuda_batch_new(struct cuda_handle *handle, struct cuda_returned *acquired)
{
	struct cuda_batch *batch = object_new(cuda_batch_type);

	if (!batch)
		return NULL;
	batch->owner.name = "batch";
	batch->owner.give_back = give_back_untold;
	batch->handle = cuda_handle_ref(handle);
	batch->to_return = acquired;
	batch->batch = acquired->batch;
	batch->device = device_of_memory(handle);
	return &batch->owner.base;
}

static PyObject *cuda_batch_use_stream(PyObject *object, PyObject *argument)
{
	struct cuda_stream stream;

	if (!cuda_stream_of(argument, &stream) || !cuda_batch_use(batch_at(object), &stream))
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *cuda_batch_release(PyObject *object, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"cuda_stream", NULL};
	struct cuda_batch *batch = batch_at(object);
	PyObject *argument = Py_None;
	struct cuda_stream stream;
	int r;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O:release", names, &argument))
		return NULL;
	if (batch->owner.n_buffers)
		return PyErr_Format(PyExc_BufferError,
		                    "%zd views of this batch are alive: delete them, and the arrays that show them",
		                    batch->owner.n_buffers);
	if (batch->owner.is_gone)
		Py_RETURN_NONE;
	if (argument != Py_None && (!cuda_stream_of(argument, &stream) || !cuda_batch_use(batch, &stream)))
		return NULL;
	r = cuda_batch_give_back(batch, true);
	if (r < 0)
		return raise_error(r);
	Py_RETURN_NONE;
}

static PyObject *cuda_batch_exit(PyObject *object, PyObject *arguments)
{
	view_owner_return_softly(&batch_at(object)->owner);
	Py_RETURN_NONE;
}

/* ---- rows ------------------------------------------------------------------------------------------ */

static PyObject *cuda_batch_payload(PyObject *object, void *closure)
{
	const struct ibvcap_cuda_batch *batch = &batch_at(object)->batch;

	return cuda_view_new(batch_at(object), batch->rows.payload, batch->payload, batch->rows.stride,
	                     batch->rows.stride);
}

static PyObject *cuda_batch_headers(PyObject *object, void *closure)
{
	const struct ibvcap_cuda_batch *batch = &batch_at(object)->batch;

	return cuda_view_new(batch_at(object), batch->rows.headers, batch->headers, batch->rows.header_bytes,
	                     batch->rows.header_stride);
}

static PyObject *cuda_batch_meta(PyObject *object, void *closure)
{
	const struct ibvcap_cuda_batch *batch = &batch_at(object)->batch;

	return cuda_view_new(batch_at(object), batch->rows.meta, batch->meta, sizeof(*batch->rows.meta),
	                     sizeof(*batch->rows.meta));
}

static Py_ssize_t cuda_batch_length(PyObject *object)
{
	return batch_at(object)->batch.rows.n;
}

static PyGetSetDef cuda_batch_getters[] = {
	{"payload", cuda_batch_payload, NULL,
         "Payload rows, uint8 of shape (n, stride). What is behind a packet may be of older ones.", NULL},
	{"headers", cuda_batch_headers, NULL, "First bytes of each frame, uint8 of shape (n, header_bytes).", NULL},
	{"meta", cuda_batch_meta, NULL,
         "uint8 of shape (n, 16), the bytes of ibvcap.META: on the host numpy.frombuffer(batch.meta, ibvcap.META).",
         NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

#define AT(member) offsetof(struct cuda_batch, member), READONLY

static PyMemberDef cuda_batch_members[] = {
	{"sequence", T_ULONGLONG, AT(batch.rows.sequence), "Number of the first packet, in its queue and epoch."},
	{"gap", T_ULONGLONG, AT(batch.rows.gap), "Packets that this reader was too slow for, just before the batch."},
	{"lost", T_ULONGLONG, AT(batch.lost), "Packets that came since the batch before and got no row."},
	{"epoch", T_ULONGLONG, AT(batch.rows.epoch), "Number of the daemon's run."},
	{"queue", T_UINT, AT(batch.rows.queue), "The stream's queue by which the packets came."},
	{"flags", T_UINT, AT(batch.rows.flags), "ibvcap.GAP_UNKNOWN, DEMOTED, TAKEN_OVER."},
	{"is_released", T_BOOL, AT(owner.is_gone), "True: the batch was returned, and has no data."},
	{NULL, 0, 0, 0, NULL},
};

static PyMethodDef cuda_batch_methods[] = {
	{"use", cuda_batch_use_stream, METH_O,
         "use($self, cuda_stream, /)\n--\n\n"
         "Name the stream whose work reads the batch: the lease ends when all work that is queued on it when\n"
         "the batch is returned has ended. A handle, or a stream of CuPy, PyTorch, Numba or cuda.core. ValueError: "
         "the\nbatch has another one."},
	{"release", KEYWORDS(cuda_batch_release),
         "release($self, cuda_stream=None)\n--\n\n"
         "Return the batch, at once: its lease ends with the work on its stream. cuda_stream names that, as use()\n"
         "does; None: the batch keeps the one that it has. BufferError: a view is alive."},
	{"__enter__", object_enter, METH_NOARGS, NULL},
	{"__exit__", cuda_batch_exit, METH_VARARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot cuda_batch_slots[] = {
	{Py_tp_doc, "Packets under one lease, read-only, for work on the device: cupy.asarray(batch.payload).\n"
                    "The batch is returned by release(), at the end of a `with`, when the loop takes the next one, or\n"
                    "when it is deleted; but not before its last view has gone. Its lease ends when the work that is\n"
                    "queued on its stream by then has ended."},
	{Py_tp_dealloc, view_owner_dealloc},
	{Py_tp_methods, cuda_batch_methods},
	{Py_tp_getset, cuda_batch_getters},
	{Py_tp_members, cuda_batch_members},
	{Py_sq_length, cuda_batch_length},
	{0, NULL},
};

PyType_Spec cuda_batch_spec =
	TYPE_SPEC("cuda.Batch", struct cuda_batch, Py_TPFLAGS_DISALLOW_INSTANTIATION, cuda_batch_slots);
