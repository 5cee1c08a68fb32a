// SPDX-License-Identifier: Apache-2.0
/*
 * Memory of a program for the arrays of a placer: a buffer, such as a NumPy array over memory that a GPU reads, cut
 * into pieces of the same size.
 */
#include "python/binding.h"

#define WINDOW_DEFAULT 4 /* of ibvcap_placer_new() */

/* Called without the interpreter's lock; an array is returned by another thread only after the placer's call. */
static void *piece_take(void *context, size_t align, size_t bytes)
{
	struct place_memory *memory = context;

	return memory->n_free ? memory->free[--memory->n_free] : NULL;
}

static void piece_give_back(void *context, void *piece)
{
	struct place_memory *memory = context;

	memory->free[memory->n_free++] = piece;
}

/* The exception of the object says why it gives no such buffer. */
static void raise_no_memory_buffer(PyObject *of)
{
	PyObject *type, *error, *traceback;

	PyErr_Fetch(&type, &error, &traceback);
	if (PyErr_GivenExceptionMatches(type, PyExc_MemoryError)) {
		PyErr_Restore(type, error, traceback);
		return;
	}
	PyErr_Format(PyErr_GivenExceptionMatches(type, PyExc_TypeError) ? PyExc_TypeError : PyExc_BufferError,
	             "memory = an object of type %R: a buffer is needed that may be written to and has no gaps, as of "
	             "numpy.empty(n, numpy.uint8): %S",
	             (PyObject *)Py_TYPE(of), error ? error : type);
	Py_XDECREF(type);
	Py_XDECREF(error);
	Py_XDECREF(traceback);
}

bool place_memory_open(struct place_memory *memory, PyObject *of, struct ibvcap_placer_options *options)
{
	if (PyObject_GetBuffer(of, &memory->buffer, PyBUF_WRITABLE | PyBUF_ANY_CONTIGUOUS) < 0) {
		memory->buffer.obj = NULL;
		raise_no_memory_buffer(of);
		return false;
	}
	options->take = piece_take;
	options->give_back = piece_give_back;
	options->context = memory;
	return true;
}

bool place_memory_divide(struct place_memory *memory, const struct ibvcap_placer_options *options, uint64_t array_bytes)
{
	const uint64_t align = options->align > 64 ? options->align : 64;
	const uint64_t stride = (array_bytes + align - 1) / align * align, bytes = (uint64_t)memory->buffer.len;
	const uint64_t lead = (align - (uintptr_t)memory->buffer.buf % align) % align;
	const uint64_t n = bytes < lead + array_bytes ? 0 : (bytes - lead - array_bytes) / stride + 1;
	const uint32_t n_needed = (options->window ? options->window : WINDOW_DEFAULT) + 1;

	if (n < n_needed) {
		PyErr_Format(
			PyExc_ValueError,
			"memory has %zd bytes, room for %llu arrays of %llu bytes: window + 1 = %u are needed, so %llu "
			"bytes, or a smaller window, numbers, row_bytes or max_sources",
			memory->buffer.len, n, array_bytes, n_needed, n_needed * stride + (lead ? align : 0));
		return false;
	}
	memory->free = PyMem_Calloc(n, sizeof(*memory->free));
	if (!memory->free) {
		PyErr_NoMemory();
		return false;
	}
	for (uint64_t i = n; i-- > 0;)
		piece_give_back(memory, (uint8_t *)memory->buffer.buf + lead + i * stride);
	return true;
}

void place_memory_close(struct place_memory *memory)
{
	PyMem_Free(memory->free);
	PyBuffer_Release(&memory->buffer); /* no effect if there is none */
}
