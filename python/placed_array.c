// SPDX-License-Identifier: Apache-2.0
/* A closed array of a placer, as arrays of Python that may be written to. */
#include "python/binding.h"

#include <stddef.h>

struct placed_array {
	struct view_owner owner;
	struct placer *placer; /* a reference; NULL: the memory is returned */
	Py_ssize_t offset;     /* of the payload in the program's memory; -1: it is in memory of the placer */
	struct ibvcap_place_array array;
};

static struct placed_array *placed_array_of(PyObject *object)
{
	return (struct placed_array *)object;
}

void placer_unref(struct placer *placer)
{
	if (--placer->n_references)
		return;
	ibvcap_placer_free(placer->placer);
	place_memory_close(&placer->memory);
	PyMem_Free(placer);
}

/* Without memory for the note, the array stays the program's until the placer ends. */
static void placer_take_back(struct placer *placer, const struct ibvcap_place_array *array)
{
	struct returned *returned;

	if (!placer->is_busy) {
		ibvcap_place_release(placer->placer, array);
		return;
	}
	returned = PyMem_Malloc(sizeof(*returned));
	if (!returned)
		return;
	*returned = (struct returned){*array, placer->returned};
	placer->returned = returned;
}

static void placed_array_give_back(struct view_owner *owner)
{
	struct placed_array *array = (struct placed_array *)owner;
	struct placer *placer = array->placer;

	if (!placer)
		return;
	array->placer = NULL;
	array->owner.is_gone = true;
	placer_take_back(placer, &array->array);
	placer_unref(placer);
}

PyObject *placed_array_new(struct placer *placer, const struct ibvcap_place_array *of)
{
	struct placed_array *array = object_new(placed_array_type);

	if (!array) {
		ibvcap_place_release(placer->placer, of);
		return NULL;
	}
	array->owner.name = "array";
	array->owner.give_back = placed_array_give_back;
	array->placer = placer;
	placer->n_references++;
	array->offset = placer->memory.buffer.obj ? of->payload - (uint8_t *)placer->memory.buffer.buf : -1;
	array->array = *of;
	return &array->owner.base;
}

/* A view with an item for each number of each source; the item is a row of bytes if n_bytes is not 1. */
static PyObject *placed_array_view(PyObject *object, void *bytes, const char *format, uint64_t item_bytes,
                                   int n_dimensions, uint64_t row_bytes)
{
	const struct ibvcap_place_array *array = &placed_array_of(object)->array;
	const struct view_shape shape = {
		.bytes = bytes,
		.format = format,
		.item_bytes = (Py_ssize_t)item_bytes,
		.n_dimensions = n_dimensions,
		.shape = {array->n_sources, array->n_numbers, (Py_ssize_t)row_bytes},
		.strides = {(Py_ssize_t)(array->stride_numbers * row_bytes), (Py_ssize_t)row_bytes, 1},
		.is_writable = true};

	return view_new(&placed_array_of(object)->owner, &shape);
}

static PyObject *placed_array_payload(PyObject *object, void *closure)
{
	const struct ibvcap_place_array *array = &placed_array_of(object)->array;

	if (!array->payload) {
		PyErr_SetString(PyExc_BufferError, "the placer has no payload: it was made without row_bytes");
		return NULL;
	}
	return placed_array_view(object, array->payload, "B", 1, 3, array->row_bytes);
}

static PyObject *placed_array_present(PyObject *object, void *closure)
{
	return placed_array_view(object, placed_array_of(object)->array.present, "B", 1, 2, 1);
}

static PyObject *placed_array_lengths(PyObject *object, void *closure)
{
	return placed_array_view(object, placed_array_of(object)->array.lengths, "<H", 2, 2, 2);
}

static int placed_array_get_buffer(PyObject *object, Py_buffer *buffer, int flags)
{
	return view_export(placed_array_payload(object, NULL), buffer, flags);
}

static PyObject *placed_array_end(PyObject *object, void *closure)
{
	static const char *const words[] = {[IBVCAP_PLACE_COMPLETE] = "complete",
	                                    [IBVCAP_PLACE_WINDOW] = "window",
	                                    [IBVCAP_PLACE_DEADLINE] = "deadline",
	                                    [IBVCAP_PLACE_RESET] = "reset",
	                                    [IBVCAP_PLACE_FLUSH] = "flush"};

	return PyUnicode_FromString(words[placed_array_of(object)->array.end]);
}

static PyObject *placed_array_n_missing(PyObject *object, void *closure)
{
	const struct ibvcap_place_array *array = &placed_array_of(object)->array;

	return PyLong_FromUnsignedLongLong(array->n_expected - array->n_present);
}

static PyObject *placed_array_offset(PyObject *object, void *closure)
{
	const Py_ssize_t offset = placed_array_of(object)->offset;

	return offset < 0 ? Py_NewRef(Py_None) : PyLong_FromSsize_t(offset);
}

static PyGetSetDef placed_array_getters[] = {
	{"payload", placed_array_payload, NULL, "uint8 of shape (sources, numbers, row_bytes), writable.", NULL},
	{"present", placed_array_present, NULL,
         "uint8 of shape (sources, numbers): bit k: side k brought it; 0: it is missing.", NULL},
	{"lengths", placed_array_lengths, NULL, "uint16 of shape (sources, numbers): bytes of the packet in each row.",
         NULL},
	{"end", placed_array_end, NULL, "Why it was closed: complete, window, deadline, reset, flush.", NULL},
	{"offset", placed_array_offset, NULL,
         "Where the payload begins in the placer's `memory`, in bytes; None: the placer has memory of its own.", NULL},
	{"n_missing", placed_array_n_missing, NULL, "Numbers that did not come.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

#define AT(member) offsetof(struct placed_array, array.member), READONLY

static PyMemberDef placed_array_members[] = {
	{"first", T_LONGLONG, AT(first), "Number of row 0, counted on where the packets' numbers begin again at 0."},
	{"frame", T_ULONGLONG, AT(frame), "Value of the description's frame."},
	{"run", T_ULONGLONG, AT(run), "From 1; one more after each restart of the sources."},
	{"n_expected", T_ULONGLONG, AT(n_expected), "Numbers of all sources = n_present + n_missing."},
	{"n_present", T_ULONGLONG, AT(n_present), "Numbers that came, on any side."},
	{"before", T_ULONGLONG, AT(before), "Numbers between the last array and this one, missing in each source."},
	{"first_ns", T_ULONGLONG, AT(first_ns), "Timestamp of the packet that began the array, ns UTC."},
	{"last_ns", T_ULONGLONG, AT(last_ns), "Timestamp of the last packet that was placed in it, ns UTC."},
	{"index", T_UINT, AT(index), "Index of the array's memory: what the records of Placer.index() call array."},
	{"at", T_UINT, AT(at), "Row of the number `first` in that memory."},
	{NULL, 0, 0, 0, NULL},
};

static PyMethodDef placed_array_methods[] = {
	{"release", view_owner_give_back, METH_NOARGS,
         "release($self, /)\n--\n\nReturn the memory to the placer. BufferError: a view of it is alive."},
	EXPORT_METHODS,
	{NULL, NULL, 0, NULL},
};

static PyType_Slot placed_array_slots[] = {
	{Py_tp_doc,
         "Packets by their numbers: numpy.asarray(array) is uint8 of shape (sources, numbers, row_bytes), without\n"
         "a copy. The memory is the program's own until it is deleted, or release() is called."},
	{Py_tp_dealloc, view_owner_dealloc},
	{Py_tp_methods, placed_array_methods},
	{Py_tp_getset, placed_array_getters},
	{Py_tp_members, placed_array_members},
	{Py_bf_getbuffer, placed_array_get_buffer},
	{0, NULL},
};

PyType_Spec placed_array_spec =
	TYPE_SPEC("PlacedArray", struct placed_array, Py_TPFLAGS_DISALLOW_INSTANTIATION, placed_array_slots);
