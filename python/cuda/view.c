// SPDX-License-Identifier: Apache-2.0
/*
 * Rows of a batch for packages that compute on the device: by __cuda_array_interface__ with the device's address, by
 * DLPack and the buffer protocol with the host's. Packages keep the view while they use the rows, so each view counts.
 */
#include "python/cuda/cuda_binding.h"

#include <stddef.h>

struct cuda_view {
	struct view view;
	uint64_t address;
};

PyObject *cuda_view_new(struct cuda_batch *batch, const void *rows, uint64_t address, Py_ssize_t row_bytes,
                        Py_ssize_t stride)
{
	struct cuda_view *view;

	if (batch->owner.is_gone)
		return PyErr_Format(PyExc_BufferError, "the batch was returned: take its views before");
	view = object_new(cuda_view_type);
	if (!view)
		return NULL;
	view->view.owner = (struct view_owner *)Py_NewRef(&batch->owner.base);
	view->view.shape = (struct view_shape){.bytes = (void *)rows,
	                                       .format = "B",
	                                       .item_bytes = 1,
	                                       .n_dimensions = 2,
	                                       .shape = {batch->batch.rows.n, row_bytes},
	                                       .strides = {stride, 1}};
	view->address = address;
	batch->owner.n_buffers++;
	return &view->view.base;
}

static void cuda_view_dealloc(struct cuda_view *view)
{
	struct view_owner *owner = view->view.owner;

	if (owner) {
		view_owner_release(owner);
		Py_DECREF(&owner->base);
	}
	object_free(&view->view.base);
}

/* The buffer keeps the view, which counts already. */
static int cuda_view_get_buffer(struct cuda_view *view, Py_buffer *buffer, int flags)
{
	return view_fill_buffer(&view->view, buffer, flags);
}

/* Version 3. The rows are complete: no stream has to be waited for. */
static PyObject *cuda_view_interface(PyObject *object, void *closure)
{
	const struct cuda_view *view = (struct cuda_view *)object;
	const struct view_shape *shape = &view->view.shape;

	return Py_BuildValue("{s(nn)s(nn)sss(KO)sOsi}", "shape", shape->shape[0], shape->shape[1], "strides",
	                     shape->strides[0], shape->strides[1], "typestr", "|u1", "data",
	                     (unsigned long long)view->address, Py_True, "stream", Py_None, "version", 3);
}

static bool use_stream_of_consumer(PyObject *object, PyObject *argument)
{
	struct cuda_batch *batch = (struct cuda_batch *)((struct cuda_view *)object)->view.owner;
	struct cuda_stream stream;
	bool is_named;

	return cuda_stream_of_dlpack(argument, &stream, &is_named) && (!is_named || cuda_batch_use(batch, &stream));
}

static PyObject *cuda_view_dlpack(PyObject *object, PyObject *arguments, PyObject *keywords)
{
	const struct cuda_batch *batch = (struct cuda_batch *)((struct cuda_view *)object)->view.owner;

	return dlpack_export(object, arguments, keywords, batch->device, use_stream_of_consumer);
}

static PyObject *cuda_view_dlpack_device(PyObject *object, PyObject *unused)
{
	const struct cuda_batch *batch = (struct cuda_batch *)((struct cuda_view *)object)->view.owner;

	return Py_BuildValue("ii", batch->device.type, batch->device.id);
}

static PyMethodDef cuda_view_methods[] = {
	{"__array__", KEYWORDS(raise_no_buffer), NULL},
	{"__dlpack__", KEYWORDS(cuda_view_dlpack), DLPACK_SIGNATURE},
	{"__dlpack_device__", cuda_view_dlpack_device, METH_NOARGS,
         "__dlpack_device__($self)\n--\n\n"
         "(3, 0): memory of the host that the device reads; (1, 0): the host's, which the driver does not know."},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef cuda_view_getters[] = {
	{"__cuda_array_interface__", cuda_view_interface, NULL,
         "Version 3: uint8 of shape (n, bytes), read-only, by the device's address.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef cuda_view_members[] = {
	{"address", T_ULONGLONG, offsetof(struct cuda_view, address), READONLY,
         "Address of the first row on the device, for kernels."},
	{NULL, 0, 0, 0, NULL},
};

static PyType_Slot cuda_view_slots[] = {
	{Py_tp_doc, "Rows of a batch, uint8 of shape (n, bytes), read-only: cupy.asarray(view) on the device,\n"
                    "numpy.asarray(view) on the host. The batch's lease lasts while the view, or an array of it, is "
                    "alive."},
	{Py_tp_dealloc, cuda_view_dealloc},
	{Py_tp_methods, cuda_view_methods},
	{Py_tp_getset, cuda_view_getters},
	{Py_tp_members, cuda_view_members},
	{Py_bf_getbuffer, cuda_view_get_buffer},
	{0, NULL},
};

PyType_Spec cuda_view_spec =
	TYPE_SPEC("cuda.View", struct cuda_view, Py_TPFLAGS_DISALLOW_INSTANTIATION, cuda_view_slots);
