// SPDX-License-Identifier: Apache-2.0
/*
 * A placer and its arrays. Packets are copied without the interpreter's lock; an array that another thread gives up in
 * the meantime is returned after it.
 */
#include "lib/python/binding.h"

#include <ibvcap/place.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

PyTypeObject *placer_type, *placed_array_type;

/* An array to be returned. */
struct returned {
	struct ibvcap_place_array array;
	struct returned *next;
};

struct placer {
	PyObject base;
	struct ibvcap_placer *placer;
	bool is_busy;              /* a thread places packets */
	struct returned *returned; /* while it did */
	struct batch *batch;       /* whose rows are not all placed yet: a reference, and a buffer of it */
	uint32_t row;
	uint32_t side;
};

struct placed_array {
	struct view_owner owner;
	struct placer *placer; /* a reference; NULL: the memory is returned */
	struct ibvcap_place_array array;
};

static struct placer *placer_of(PyObject *object)
{
	return (struct placer *)object;
}

static struct placed_array *placed_array_of(PyObject *object)
{
	return (struct placed_array *)object;
}

/* ---- arrays -------------------------------------------------------------------------------------- */

static void placed_array_last_view_gone(struct view_owner *owner)
{
	(void)owner;
}

static PyObject *placed_array_new(struct placer *placer, const struct ibvcap_place_array *of)
{
	struct placed_array *array = PyObject_New(struct placed_array, placed_array_type);

	if (!array) {
		ibvcap_place_release(placer->placer, of);
		return NULL;
	}
	array->owner.n_buffers = 0;
	array->owner.is_gone = false;
	array->owner.last_buffer_gone = placed_array_last_view_gone;
	array->placer = (struct placer *)Py_NewRef(&placer->base);
	array->array = *of;
	return &array->owner.base;
}

/* Without memory for the note, the array stays the program's until the placer ends. */
static void placed_array_give_back(struct placed_array *array)
{
	struct placer *placer = array->placer;

	if (!placer)
		return;
	array->placer = NULL;
	array->owner.is_gone = true;
	if (placer->is_busy) {
		struct returned *returned = PyMem_Malloc(sizeof(*returned));

		if (returned) {
			*returned = (struct returned){array->array, placer->returned};
			placer->returned = returned;
		}
	} else {
		ibvcap_place_release(placer->placer, &array->array);
	}
	Py_DECREF(&placer->base);
}

static void placed_array_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);

	placed_array_give_back(placed_array_of(object)); /* its views have gone: each keeps the array */
	PyObject_Free(object);
	Py_DECREF(type);
}

static PyObject *placed_array_release(PyObject *object, PyObject *unused)
{
	struct placed_array *array = placed_array_of(object);

	(void)unused;
	if (array->owner.n_buffers) {
		PyErr_Format(PyExc_BufferError,
		             "%zd views of this array are alive: delete them, or copy what they show",
		             array->owner.n_buffers);
		return NULL;
	}
	placed_array_give_back(array);
	Py_RETURN_NONE;
}

/* Of each number of each source: an item, or a row of bytes if n_bytes is not 1. */
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

	(void)closure;
	if (!array->payload) {
		PyErr_SetString(PyExc_BufferError, "the placer has no payload: it was made without row_bytes");
		return NULL;
	}
	return placed_array_view(object, array->payload, "B", 1, 3, array->row_bytes);
}

static PyObject *placed_array_present(PyObject *object, void *closure)
{
	(void)closure;
	return placed_array_view(object, placed_array_of(object)->array.present, "B", 1, 2, 1);
}

static PyObject *placed_array_lengths(PyObject *object, void *closure)
{
	(void)closure;
	return placed_array_view(object, placed_array_of(object)->array.lengths, "<H", 2, 2, 2);
}

static int placed_array_get_buffer(PyObject *object, Py_buffer *buffer, int flags)
{
	PyObject *view = placed_array_payload(object, NULL);
	int r;

	buffer->obj = NULL;
	if (!view)
		return -1;
	r = PyObject_GetBuffer(view, buffer, flags);
	Py_DECREF(view); /* buffer->obj has a reference */
	return r;
}

static PyObject *placed_array_end(PyObject *object, void *closure)
{
	static const char *const words[] = {[IBVCAP_PLACE_COMPLETE] = "complete",
	                                    [IBVCAP_PLACE_WINDOW] = "window",
	                                    [IBVCAP_PLACE_DEADLINE] = "deadline",
	                                    [IBVCAP_PLACE_RESET] = "reset",
	                                    [IBVCAP_PLACE_FLUSH] = "flush"};

	(void)closure;
	return PyUnicode_FromString(words[placed_array_of(object)->array.end]);
}

static PyObject *placed_array_first(PyObject *object, void *closure)
{
	(void)closure;
	return PyLong_FromLongLong(placed_array_of(object)->array.first);
}

static PyObject *placed_array_n_missing(PyObject *object, void *closure)
{
	const struct ibvcap_place_array *array = &placed_array_of(object)->array;

	(void)closure;
	return PyLong_FromUnsignedLongLong(array->n_expected - array->n_present);
}

#define ARRAY_GETTER(member)                                                               \
	static PyObject *placed_array_##member(PyObject *object, void *closure)            \
	{                                                                                  \
		(void)closure;                                                             \
		return PyLong_FromUnsignedLongLong(placed_array_of(object)->array.member); \
	}
ARRAY_GETTER(run)
ARRAY_GETTER(frame)
ARRAY_GETTER(n_expected)
ARRAY_GETTER(n_present)
ARRAY_GETTER(before)
ARRAY_GETTER(first_ns)
ARRAY_GETTER(last_ns)
ARRAY_GETTER(index)
ARRAY_GETTER(at)

static PyGetSetDef placed_array_getters[] = {
	{"payload", placed_array_payload, NULL, "uint8 of shape (sources, numbers, row_bytes), writable.", NULL},
	{"present", placed_array_present, NULL,
         "uint8 of shape (sources, numbers): bit k: side k brought it; 0: it is missing.", NULL},
	{"lengths", placed_array_lengths, NULL, "uint16 of shape (sources, numbers): bytes of the packet in each row.",
         NULL},
	{"first", placed_array_first, NULL, "Number of row 0, counted on where the packets' numbers begin again at 0.",
         NULL},
	{"frame", placed_array_frame, NULL, "Value of the description's frame.", NULL},
	{"run", placed_array_run, NULL, "From 1; one more after each restart of the sources.", NULL},
	{"end", placed_array_end, NULL, "Why it was closed: complete, window, deadline, reset, flush.", NULL},
	{"n_expected", placed_array_n_expected, NULL, "Numbers of all sources = n_present + n_missing.", NULL},
	{"n_present", placed_array_n_present, NULL, "Numbers that came, on any side.", NULL},
	{"n_missing", placed_array_n_missing, NULL, "Numbers that did not come.", NULL},
	{"before", placed_array_before, NULL, "Numbers between the last array and this one, missing in each source.",
         NULL},
	{"first_ns", placed_array_first_ns, NULL, "Timestamp of the packet that began the array, ns UTC.", NULL},
	{"last_ns", placed_array_last_ns, NULL, "Timestamp of the last packet that was placed in it, ns UTC.", NULL},
	{"index", placed_array_index, NULL,
         "Index of the array's memory: what the records of Placer.index() call array.", NULL},
	{"at", placed_array_at, NULL, "Row of the number `first` in that memory.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef placed_array_methods[] = {
	{"release", placed_array_release, METH_NOARGS,
         "release($self, /)\n--\n\nReturn the memory to the placer. BufferError: a view of it is alive."},
	{"__array__", (PyCFunction)(void (*)(void))raise_no_buffer, METH_VARARGS | METH_KEYWORDS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot placed_array_slots[] = {
	{Py_tp_doc,
         "Packets by their numbers: numpy.asarray(array) is uint8 of shape (sources, numbers, row_bytes), without\n"
         "a copy. The memory is the program's own until it is deleted, or release() is called."},
	{Py_tp_dealloc, placed_array_dealloc},
	{Py_tp_methods, placed_array_methods},
	{Py_tp_getset, placed_array_getters},
	{Py_bf_getbuffer, placed_array_get_buffer},
	{0, NULL},
};

PyType_Spec placed_array_spec = {.name = "ibvcap.PlacedArray",
                                 .basicsize = sizeof(struct placed_array),
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .slots = placed_array_slots};

/* ---- life ---------------------------------------------------------------------------------------- */

static PyObject *placer_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"of",    "sources", "numbers",     "row_bytes",   "skip_bytes", "window",
	                        "sides", "fill",    "deadline_ns", "max_sources", NULL};
	struct ibvcap_placer_options options = IBVCAP_INIT(struct ibvcap_placer_options);
	allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	const char *description, *sources;
	Py_ssize_t description_bytes, sources_bytes;
	struct ibvcap_sequence sequence;
	struct ibvcap_placer *new;
	struct placer *placer;
	int r;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "y#y#O&O&O&O&O&O&O&O&:Placer", names, &description,
	                                 &description_bytes, &sources, &sources_bytes, u32_of, &options.numbers, u32_of,
	                                 &options.row_bytes, u32_of, &options.skip_bytes, u32_of, &options.window,
	                                 u32_of, &options.sides, u32_of, &options.fill, u64_of, &options.deadline_ns,
	                                 u32_of, &options.max_sources))
		return NULL;
	if (description_bytes != sizeof(sequence) || sources_bytes % (Py_ssize_t)sizeof(*options.sources)) {
		PyErr_SetString(PyExc_ValueError, "the description, or a source, has not its size");
		return NULL;
	}
	memcpy(&sequence, description, sizeof(sequence));
	options.n_sources = (uint32_t)((size_t)sources_bytes / sizeof(*options.sources));
	options.sources = (const struct ibvcap_place_source *)sources;
	r = ibvcap_placer_new(&sequence, &options, &new);
	if (r < 0)
		return raise_error(r);
	placer = (struct placer *)allocate(type, 0);
	if (placer)
		placer->placer = new;
	else
		ibvcap_placer_free(new);
	return (PyObject *)placer;
}

/* All rows of the batch are placed. */
static void placer_let_batch_go(struct placer *placer)
{
	struct batch *batch = placer->batch;

	if (!batch)
		return;
	placer->batch = NULL;
	view_owner_release(&batch->owner);
	Py_DECREF(&batch->owner.base);
}

static void placer_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	placer_let_batch_go(placer_of(object));
	ibvcap_placer_free(placer_of(object)->placer);
	release(object);
	Py_DECREF(type);
}

/* ---- packets ------------------------------------------------------------------------------------- */

static bool placer_begin(struct placer *placer)
{
	if (placer->is_busy) {
		PyErr_SetString(PyExc_RuntimeError, "another thread uses this placer");
		return false;
	}
	return true;
}

/* Place the next rows of the batch, until one closes arrays. False: an exception is set. */
static bool placer_step(struct placer *placer, struct ibvcap_placed *placed)
{
	int r;

	placer->is_busy = true;
	Py_BEGIN_ALLOW_THREADS
	r = ibvcap_place_add(placer->placer, &placer->batch->rows, placer->row, placer->side, placed);
	Py_END_ALLOW_THREADS
	placer->is_busy = false;
	while (placer->returned) {
		struct returned *returned = placer->returned;

		placer->returned = returned->next;
		ibvcap_place_release(placer->placer, &returned->array);
		PyMem_Free(returned);
	}
	if (r < 0) {
		raise_error(r);
		return false;
	}
	placer->row += (uint32_t)r;
	if (placer->row >= placer->batch->rows.n)
		placer_let_batch_go(placer);
	return true;
}

/* The rest of the batch before is placed first. False: an exception is set. */
static bool placer_begin_batch(struct placer *placer, PyObject *object, uint32_t side)
{
	struct batch *batch = (struct batch *)object;

	if (!placer_begin(placer))
		return false;
	while (placer->batch)
		if (!placer_step(placer, NULL))
			return false;
	if (batch->owner.is_gone) {
		PyErr_SetString(PyExc_BufferError, "the batch was returned: place it before");
		return false;
	}
	batch->owner.n_buffers++; /* so the rows stay where they are */
	placer->batch = (struct batch *)Py_NewRef(object);
	placer->row = 0;
	placer->side = side;
	return true;
}

static PyObject *placer_add(PyObject *object, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"batch", "side", NULL};
	struct placer *placer = placer_of(object);
	uint32_t side = 0;
	PyObject *batch;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!|O&:add", names, batch_type, &batch, u32_of, &side) ||
	    !placer_begin_batch(placer, batch, side))
		return NULL;
	if (!placer_step(placer, NULL)) {
		placer_let_batch_go(placer);
		return NULL;
	}
	Py_RETURN_NONE;
}

#define PLACED_FORMAT "T{<I:kind:<I:array:<I:source:<I:row:}"

static PyObject *placer_index(PyObject *object, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"batch", "side", NULL};
	struct view_shape shape = {
		.format = PLACED_FORMAT, .item_bytes = sizeof(struct ibvcap_placed), .n_dimensions = 1};
	struct placer *placer = placer_of(object);
	uint32_t side = 0;
	PyObject *batch, *view;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!|O&:index", names, batch_type, &batch, u32_of,
	                                 &side) ||
	    !placer_begin_batch(placer, batch, side))
		return NULL;
	shape.shape[0] = placer->batch->rows.n;
	shape.strides[0] = shape.item_bytes;
	view = view_new_of_memory(&shape);
	while (view && placer->batch)
		if (!placer_step(placer, shape.bytes))
			Py_CLEAR(view);
	placer_let_batch_go(placer);
	return view;
}

static PyObject *placer_next(PyObject *object)
{
	struct ibvcap_place_array array = IBVCAP_INIT(struct ibvcap_place_array);
	struct placer *placer = placer_of(object);

	if (!placer_begin(placer))
		return NULL;
	while (ibvcap_place_next(placer->placer, &array) == 0) {
		if (!placer->batch || !placer_step(placer, NULL))
			return NULL;
	}
	return placed_array_new(placer, &array);
}

static PyObject *placer_flush(PyObject *object, PyObject *unused)
{
	struct placer *placer = placer_of(object);

	(void)unused;
	if (!placer_begin(placer))
		return NULL;
	while (placer->batch)
		if (!placer_step(placer, NULL))
			return NULL;
	ibvcap_place_flush(placer->placer);
	Py_RETURN_NONE;
}

static PyObject *placer_expire(PyObject *object, PyObject *arguments)
{
	struct placer *placer = placer_of(object);
	PyObject *given = Py_None;
	struct timespec now;
	uint64_t now_ns;

	clock_gettime(CLOCK_REALTIME, &now);
	now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	if (!PyArg_ParseTuple(arguments, "|O:expire", &given) || (given != Py_None && !u64_of(given, &now_ns)) ||
	    !placer_begin(placer))
		return NULL;
	ibvcap_place_expire(placer->placer, now_ns);
	Py_RETURN_NONE;
}

/* ---- counts -------------------------------------------------------------------------------------- */

#define COUNT(name)                                                    \
	{                                                              \
#name, offsetof(struct ibvcap_place_counts, name), 'q' \
	}
#define CLOSED(name, reason)                                                                           \
	{                                                                                              \
#name, offsetof(struct ibvcap_place_counts, arrays) + (reason) * sizeof(uint64_t), 'q' \
	}
static const struct member count_members[] = {
	COUNT(expected),
	COUNT(present),
	COUNT(missing),
	COUNT(between),
	CLOSED(complete, IBVCAP_PLACE_COMPLETE),
	CLOSED(window, IBVCAP_PLACE_WINDOW),
	CLOSED(deadline, IBVCAP_PLACE_DEADLINE),
	CLOSED(reset, IBVCAP_PLACE_RESET),
	CLOSED(flush, IBVCAP_PLACE_FLUSH),
	COUNT(runs),
	{"n_open", offsetof(struct ibvcap_place_counts, n_open), 'u'},
	{"n_sources", offsetof(struct ibvcap_place_counts, n_sources), 'u'},
	{NULL, 0, 0},
};

#define SIDE(name)                                                   \
	{                                                            \
#name, offsetof(struct ibvcap_place_side, name), 'q' \
	}
static const struct member side_members[] = {
	SIDE(packets), SIDE(unread),   SIDE(unlisted), SIDE(empty),   SIDE(cut),  SIDE(arrived),
	SIDE(open),    SIDE(expected), SIDE(present),  SIDE(missing), SIDE(only), SIDE(duplicate),
	SIDE(late),    SIDE(far),      SIDE(outside),  {NULL, 0, 0},
};

static PyObject *placer_counts(PyObject *object, void *closure)
{
	struct ibvcap_place_counts counts = IBVCAP_INIT(struct ibvcap_place_counts);

	(void)closure;
	if (!placer_begin(placer_of(object)))
		return NULL;
	ibvcap_place_counts(placer_of(object)->placer, &counts);
	return members_to_dict(count_members, &counts);
}

static PyObject *placer_sides(PyObject *object, void *closure)
{
	struct ibvcap_place_side side = IBVCAP_INIT(struct ibvcap_place_side);
	PyObject *list = placer_begin(placer_of(object)) ? PyList_New(0) : NULL;

	(void)closure;
	for (uint32_t i = 0; list && ibvcap_place_side(placer_of(object)->placer, i, &side) > 0; i++) {
		PyObject *dict = members_to_dict(side_members, &side);

		if (!dict || PyList_Append(list, dict) < 0)
			Py_CLEAR(list);
		Py_XDECREF(dict);
	}
	return list;
}

/* A struct ibvcap_place_source each, as bytes. */
static PyObject *placer_sources(PyObject *object, PyObject *unused)
{
	struct ibvcap_place_source source;
	PyObject *list = placer_begin(placer_of(object)) ? PyList_New(0) : NULL;

	(void)unused;
	for (uint32_t i = 0; list && ibvcap_place_source(placer_of(object)->placer, i, &source) > 0; i++) {
		PyObject *bytes = PyBytes_FromStringAndSize((const char *)&source, sizeof(source));

		if (!bytes || PyList_Append(list, bytes) < 0)
			Py_CLEAR(list);
		Py_XDECREF(bytes);
	}
	return list;
}

static PyObject *placer_rows(PyObject *object, void *closure)
{
	(void)closure;
	return PyLong_FromUnsignedLong(ibvcap_place_rows(placer_of(object)->placer));
}

static PyMethodDef placer_methods[] = {
	{"add", (PyCFunction)(void (*)(void))placer_add, METH_VARARGS | METH_KEYWORDS,
         "add($self, batch, side=0)\n--\n\n"
         "Place the packets of a batch, which came on this side. Then iterate over the placer: it gives the arrays "
         "that\n"
         "were closed, and places the rest. The batch is kept until all of its packets are placed."},
	{"index", (PyCFunction)(void (*)(void))placer_index, METH_VARARGS | METH_KEYWORDS,
         "index($self, batch, side=0)\n--\n\n"
         "The same, and say where each packet belongs, as records of shape (n,): kind (index of PLACED_KINDS), array\n"
         "(index of a PlacedArray), source and row. With row_bytes=0, this is all: rows[source, row] = packets copies "
         "them\n"
         "in NumPy."},
	{"flush", placer_flush, METH_NOARGS,
         "flush($self, /)\n--\n\nClose all arrays. The next packet begins a new run."},
	{"expire", placer_expire, METH_VARARGS,
         "expire($self, now_ns=None, /)\n--\n\n"
         "Close the arrays whose deadline is over; for the time in which no packets come. Default: now."},
	{"_sources", placer_sources, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef placer_getters[] = {
	{"counts", placer_counts, NULL,
         "Numbers of closed arrays as a dict, expected = present + missing, and how many arrays were closed why.",
         NULL},
	{"sides", placer_sides, NULL,
         "Counts of each side: arrived = open + present + duplicate + late + far + outside. libibvcap_place(3) has "
         "each.",
         NULL},
	{"rows", placer_rows, NULL, "Rows of a source in an array's memory, for arrays of the program's own.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot placer_slots[] = {
	{Py_tp_new, placer_new},
	{Py_tp_dealloc, placer_dealloc},
	{Py_tp_methods, placer_methods},
	{Py_tp_getset, placer_getters},
	{Py_tp_iter, PyObject_SelfIter},
	{Py_tp_iternext, placer_next},
	{0, NULL},
};

PyType_Spec placer_spec = {.name = "ibvcap._Placer",
                           .basicsize = sizeof(struct placer),
                           .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                           .slots = placer_slots};

PyObject *sequence_to_bytes(PyObject *module, PyObject *of)
{
	struct ibvcap_sequence sequence = {0};
	struct receiver *receiver;
	int r;

	(void)module;
	if (!PyObject_TypeCheck(of, receiver_type)) {
		PyErr_SetString(PyExc_TypeError, "not a Receiver");
		return NULL;
	}
	receiver = receiver_of(of);
	if (!receiver_begin(receiver))
		return NULL;
	r = ibvcap_rx_sequence(receiver->rx, &sequence);
	receiver_unlock(receiver);
	return r < 0 ? raise_error(r) : PyBytes_FromStringAndSize((const char *)&sequence, sizeof(sequence));
}
