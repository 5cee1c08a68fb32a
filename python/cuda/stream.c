// SPDX-License-Identifier: Apache-2.0
/*
 * Streams of CUDA, as the packages that make them show them: as a number, or by a method or an attribute. A batch has
 * one.
 */
#include "python/cuda/cuda_binding.h"

#define LEGACY     1 /* what cuda.h calls CU_STREAM_LEGACY */
#define PER_THREAD 2 /* and CU_STREAM_PER_THREAD */

/*
 * The legacy default stream waits for each thread's default stream. The latter depends on the thread that names it, and
 * a batch may be returned by another thread.
 */
static struct CUstream_st *handle_of_number(uint64_t number)
{
	return number == LEGACY || number == PER_THREAD ? NULL : (struct CUstream_st *)(uintptr_t)number;
}

/* A new reference to the number, or to what has it as its `value`; NULL: the object has none, and no exception. */
static PyObject *find_number(PyObject *object)
{
	static const char *const names[] = {"ptr", "cuda_stream", "handle"}; /* CuPy; PyTorch; Numba and cuda.core */
	PyObject *found = NULL, *value;

	if (PyObject_HasAttrString(object, "__cuda_stream__")) {
		PyObject *pair = PyObject_CallMethod(object, "__cuda_stream__", NULL); /* version, number */

		found = pair ? PySequence_GetItem(pair, 1) : NULL;
		Py_XDECREF(pair);
		return found;
	}
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]) && !found; i++)
		if (PyObject_HasAttrString(object, names[i]))
			found = PyObject_GetAttrString(object, names[i]);
	if (!found || !PyObject_HasAttrString(found, "value"))
		return found;
	value = PyObject_GetAttrString(found, "value");
	Py_DECREF(found);
	return value == Py_None ? PyLong_FromLong(0) : value; /* ctypes has no 0 in a pointer */
}

bool cuda_stream_of(PyObject *object, struct cuda_stream *stream)
{
	PyObject *number = NULL;
	uint64_t value;

	*stream = (struct cuda_stream){NULL, NULL};
	if (object == Py_None)
		return true;
	number = PyIndex_Check(object) ? Py_NewRef(object) : find_number(object);
	if (!number) {
		if (!PyErr_Occurred())
			PyErr_Format(PyExc_TypeError,
			             "%R is no stream of CUDA: give its handle as a number, or an object with "
			             "__cuda_stream__(), ptr, cuda_stream or handle",
			             object);
		return false;
	}
	if (!u64_of(number, &value)) {
		Py_DECREF(number);
		return false;
	}
	Py_DECREF(number);
	stream->handle = handle_of_number(value);
	if (stream->handle && !PyLong_Check(object))
		stream->object = Py_NewRef(object);
	return true;
}

bool cuda_stream_of_dlpack(PyObject *object, struct cuda_stream *stream, bool *is_named)
{
	long number;

	*stream = (struct cuda_stream){NULL, NULL};
	*is_named = object != Py_None;
	if (!*is_named)
		return true;
	number = PyLong_AsLong(object);
	if (number == -1 && PyErr_Occurred())
		return false;
	if (number == 0 || number < -1) {
		PyErr_Format(PyExc_ValueError,
		             "stream %ld: accepted are -1 (no order), 1 (the legacy default stream), 2 (the thread's "
		             "default stream) and handles of streams",
		             number);
		return false;
	}
	*is_named = number != -1;
	if (*is_named)
		stream->handle = handle_of_number((uint64_t)number);
	return true;
}

struct cuda_stream cuda_stream_ref(const struct cuda_stream *stream)
{
	Py_XINCREF(stream->object);
	return *stream;
}

void cuda_stream_drop(struct cuda_stream *stream)
{
	Py_CLEAR(stream->object);
}

/* False: an exception is set. */
static bool may_use(const struct cuda_batch *batch, const struct cuda_stream *stream)
{
	const struct cuda_returned *has = batch->to_return;

	if (!has)
		PyErr_SetString(PyExc_ValueError, "the batch was returned: name its stream before");
	else if (batch->has_stream && !batch->is_refused && has->stream.handle != stream->handle)
		PyErr_Format(PyExc_ValueError,
		             "this batch has stream %p, and its lease cannot wait for %p, too: let one stream wait for "
		             "the other by an event, and name that one alone",
		             (void *)has->stream.handle, (void *)stream->handle);
	else
		return true;
	return false;
}

bool cuda_batch_use(struct cuda_batch *batch, struct cuda_stream *stream)
{
	bool may = may_use(batch, stream);
	struct cuda_stream unused = *stream;

	/* A number keeps no stream alive, and does not take the place of the object that does. */
	if (may && (!batch->has_stream || stream->object || batch->to_return->stream.handle != stream->handle)) {
		unused = batch->to_return->stream;
		batch->to_return->stream = *stream;
	}
	if (may) {
		batch->has_stream = true;
		batch->is_refused = false;
	}
	cuda_stream_drop(&unused);
	return may;
}
