// SPDX-License-Identifier: Apache-2.0
/* Exports memory of a handle by Python's buffer protocol, and counts the exported buffers. */
#include "python/binding.h"

/* Bytes of all items; *is_contiguous: without gaps between them. */
static Py_ssize_t count_bytes(const struct view_shape *shape, bool *is_contiguous)
{
	Py_ssize_t bytes = shape->item_bytes;

	*is_contiguous = true;
	for (int i = shape->n_dimensions; i-- > 0; bytes *= shape->shape[i])
		*is_contiguous &= shape->strides[i] == bytes || shape->shape[i] <= 1;
	return bytes;
}

static bool asks_for(int flags, int layout)
{
	return (flags & layout) == layout;
}

static bool asks_for_rows_without_gaps(int flags)
{
	return !asks_for(flags, PyBUF_STRIDES) || asks_for(flags, PyBUF_C_CONTIGUOUS) ||
	       asks_for(flags, PyBUF_ANY_CONTIGUOUS);
}

PyObject *view_owner_give_back(PyObject *object, PyObject *unused)
{
	struct view_owner *owner = (struct view_owner *)object;

	if (owner->n_buffers)
		return PyErr_Format(PyExc_BufferError,
		                    "%zd views of this %s are alive: delete them, or copy what they show",
		                    owner->n_buffers, owner->name);
	owner->give_back(owner);
	Py_RETURN_NONE;
}

void view_owner_dealloc(PyObject *object)
{
	struct view_owner *owner = (struct view_owner *)object;

	owner->give_back(owner);
	object_free(object);
}

void view_owner_release(struct view_owner *owner)
{
	if (--owner->n_buffers == 0 && owner->is_soft)
		owner->give_back(owner);
	else if (owner->n_buffers == 0 && owner->last_buffer_gone)
		owner->last_buffer_gone(owner);
}

void view_owner_return_softly(struct view_owner *owner)
{
	Py_INCREF(&owner->base); /* give_back() may let other threads run, which drop theirs */
	owner->is_soft = true;
	if (owner->n_buffers == 0)
		owner->give_back(owner);
	Py_DECREF(&owner->base);
}

/* memoryview and numpy keep a pointer to the shape until they release the buffer, so each gets a view of its own. */
int view_export(PyObject *view, Py_buffer *buffer, int flags)
{
	int r;

	buffer->obj = NULL;
	if (!view)
		return -1;
	r = PyObject_GetBuffer(view, buffer, flags);
	Py_DECREF(view); /* buffer->obj has a reference */
	return r;
}

int view_fill_buffer(struct view *view, Py_buffer *buffer, int flags)
{
	struct view_shape *shape = &view->shape;
	bool is_contiguous;
	Py_ssize_t bytes = count_bytes(shape, &is_contiguous);
	const char *why = NULL;

	buffer->obj = NULL;
	if (view->owner->is_gone)
		why = "this memory was given back: take its views before, or copy them";
	else if ((flags & PyBUF_WRITABLE) && !shape->is_writable)
		why = "received packets are read-only";
	else if (asks_for_rows_without_gaps(flags) && !is_contiguous)
		why = "the rows have gaps between them: ask for a buffer with strides";
	else if (asks_for(flags, PyBUF_F_CONTIGUOUS) && shape->n_dimensions > 1)
		why = "the rows are one behind the other, not their columns";
	if (why) {
		PyErr_SetString(PyExc_BufferError, why);
		return -1;
	}
	*buffer = (Py_buffer){
		.buf = shape->bytes,
		.obj = Py_NewRef(&view->base),
		.len = bytes,
		.itemsize = shape->item_bytes,
		.readonly = !shape->is_writable,
		.ndim = flags & PyBUF_ND ? shape->n_dimensions : 1,
		.format = flags & PyBUF_FORMAT ? (char *)shape->format : NULL,
		.shape = flags & PyBUF_ND ? shape->shape : NULL,
		.strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? shape->strides : NULL,
	};
	return 0;
}

static int view_get_buffer(struct view *view, Py_buffer *buffer, int flags)
{
	int r = view_fill_buffer(view, buffer, flags);

	view->owner->n_buffers += r == 0;
	return r;
}

static void view_release_buffer(struct view *view, Py_buffer *buffer)
{
	view_owner_release(view->owner);
}

PyObject *view_new(struct view_owner *owner, const struct view_shape *shape)
{
	struct view *view = PyObject_New(struct view, view_type);

	if (!view)
		return NULL;
	view->owner = (struct view_owner *)Py_NewRef((PyObject *)owner);
	view->shape = *shape;
	return &view->base;
}

PyObject *view_new_of_rows(struct view_owner *owner, const void *rows, Py_ssize_t n, Py_ssize_t row_bytes,
                           Py_ssize_t stride, bool is_writable)
{
	const struct view_shape shape = {.bytes = (void *)rows,
	                                 .format = "B",
	                                 .item_bytes = 1,
	                                 .n_dimensions = 2,
	                                 .shape = {n, row_bytes},
	                                 .strides = {stride, 1},
	                                 .is_writable = is_writable};

	return view_new(owner, &shape);
}

PyObject *view_new_of_records(struct view_owner *owner, const void *records, Py_ssize_t n, const char *format,
                              size_t record_bytes, bool is_writable)
{
	const struct view_shape shape = {.bytes = (void *)records,
	                                 .format = format,
	                                 .item_bytes = (Py_ssize_t)record_bytes,
	                                 .n_dimensions = 1,
	                                 .shape = {n},
	                                 .strides = {(Py_ssize_t)record_bytes},
	                                 .is_writable = is_writable};

	return view_new(owner, &shape);
}

/* Memory of Python's own, until the last view of it has gone. */
struct memory {
	struct view_owner owner;
	void *bytes;
};

static void memory_free(struct view_owner *owner)
{
	PyMem_Free(((struct memory *)owner)->bytes);
}

PyObject *view_new_of_memory(void **records, Py_ssize_t n, const char *format, size_t record_bytes)
{
	struct memory *memory = object_new(memory_type);
	PyObject *view;

	if (!memory)
		return NULL;
	memory->owner.give_back = memory_free;
	*records = memory->bytes = PyMem_Malloc((size_t)n * record_bytes);
	view = *records ? view_new_of_records(&memory->owner, *records, n, format, record_bytes, false)
	                : PyErr_NoMemory();
	Py_DECREF((PyObject *)memory);
	return view;
}

static PyType_Slot memory_slots[] = {
	{Py_tp_dealloc, view_owner_dealloc},
	{0, NULL},
};

PyType_Spec memory_spec = TYPE_SPEC("_Memory", struct memory, Py_TPFLAGS_DISALLOW_INSTANTIATION, memory_slots);

/*
 * NumPy asks for this if it got no buffer. Else it would make an array of the object itself. So the reason why there
 * is no buffer is raised.
 */
PyObject *raise_no_buffer(PyObject *exporter, PyObject *arguments, PyObject *keywords)
{
	return PyMemoryView_FromObject(exporter);
}

PyMethodDef view_methods[] = {
	EXPORT_METHODS,
	{NULL, NULL, 0, NULL},
};

static PyObject *view_subscript(PyObject *view, PyObject *key)
{
	PyErr_SetString(PyExc_TypeError,
	                "a View only shows memory to others: numpy.frombuffer(batch.meta, ibvcap.META), "
	                "numpy.frombuffer(slots.packets, ibvcap.SLOTS) or numpy.asarray(view) read it");
	return NULL;
}

static void view_dealloc(struct view *view)
{
	Py_DECREF((PyObject *)view->owner);
	object_free(&view->base);
}

static PyType_Slot view_slots[] = {
	{Py_tp_doc, "Memory of a batch or of reserved rows. numpy.asarray() and memoryview() show it without a copy."},
	{Py_tp_dealloc, view_dealloc},
	{Py_tp_methods, view_methods},
	{Py_mp_subscript, view_subscript},
	{Py_bf_getbuffer, view_get_buffer},
	{Py_bf_releasebuffer, view_release_buffer},
	{0, NULL},
};

PyType_Spec view_spec = TYPE_SPEC("View", struct view, Py_TPFLAGS_DISALLOW_INSTANTIATION, view_slots);
