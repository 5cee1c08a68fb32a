// SPDX-License-Identifier: Apache-2.0
/*
 * A placer. Packets are copied without the interpreter's lock; an array that another thread gives up in
 * the meantime is returned after it.
 */
#include "python/binding.h"

#include "lib/base/time.h"

#include <string.h>

struct placer_object {
	PyObject base;
	struct placer *placer;
};

static struct placer *placer_of(PyObject *object)
{
	return ((struct placer_object *)object)->placer;
}

/* ---- life ---------------------------------------------------------------------------------------- */

/* A placer with the program's memory, if there is any. NULL: an exception is set. */
static struct placer *placer_open(const struct ibvcap_sequence *sequence, struct ibvcap_placer_options *options,
                                  PyObject *memory)
{
	struct placer *placer = PyMem_Calloc(1, sizeof(*placer));
	int r;

	if (!placer)
		return (struct placer *)PyErr_NoMemory();
	placer->n_references = 1;
	if (memory == Py_None || place_memory_open(&placer->memory, memory, options)) {
		r = ibvcap_placer_new(sequence, options, &placer->placer);
		if (r < 0)
			raise_error(r);
		else if (memory == Py_None ||
		         place_memory_divide(&placer->memory, options, ibvcap_place_bytes(placer->placer)))
			return placer;
	}
	placer_unref(placer);
	return NULL;
}

static PyObject *placer_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"of",   "sources",     "numbers",     "row_bytes", "skip_bytes", "window", "sides",
	                        "fill", "deadline_ns", "max_sources", "align",     "memory",     NULL};
	struct ibvcap_placer_options options = IBVCAP_INIT(struct ibvcap_placer_options);
	const char *description, *sources;
	Py_ssize_t description_bytes, sources_bytes;
	struct ibvcap_sequence sequence;
	struct placer_object *object;
	struct placer *placer;
	PyObject *memory;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "y#y#O&O&O&O&O&O&O&O&O&O:Placer", names, &description,
	                                 &description_bytes, &sources, &sources_bytes, u32_of, &options.numbers, u32_of,
	                                 &options.row_bytes, u32_of, &options.skip_bytes, u32_of, &options.window,
	                                 u32_of, &options.sides, u32_of, &options.fill, u64_of, &options.deadline_ns,
	                                 u32_of, &options.max_sources, u32_of, &options.align, &memory))
		return NULL;
	if (description_bytes != sizeof(sequence) || sources_bytes % (Py_ssize_t)sizeof(*options.sources)) {
		PyErr_SetString(PyExc_ValueError, "the description, or a source, has not its size");
		return NULL;
	}
	memcpy(&sequence, description, sizeof(sequence));
	options.n_sources = (uint32_t)((size_t)sources_bytes / sizeof(*options.sources));
	options.sources = (const struct ibvcap_place_source *)sources;
	placer = placer_open(&sequence, &options, memory);
	if (!placer)
		return NULL;
	object = object_new(type);
	if (!object) {
		placer_unref(placer);
		return NULL;
	}
	object->placer = placer;
	return &object->base;
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
	if (placer_of(object)) {
		placer_let_batch_go(placer_of(object));
		placer_unref(placer_of(object));
	}
	object_free(object);
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

/* Takes a method's batch and side. The rest of the batch before is placed first. False: an exception is set. */
static bool placer_begin_batch(struct placer *placer, PyObject *arguments, PyObject *keywords, const char *format)
{
	static char *names[] = {"batch", "side", NULL};
	struct batch *batch;
	uint32_t side = 0;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, format, names, batch_type, &batch, u32_of, &side) ||
	    !placer_begin(placer))
		return false;
	while (placer->batch)
		if (!placer_step(placer, NULL))
			return false;
	if (batch->owner.is_gone) {
		PyErr_SetString(PyExc_BufferError, "the batch was returned: place it before");
		return false;
	}
	batch->owner.n_buffers++; /* so the rows stay where they are */
	placer->batch = (struct batch *)Py_NewRef(&batch->owner.base);
	placer->row = 0;
	placer->side = side;
	return true;
}

static PyObject *placer_add(PyObject *object, PyObject *arguments, PyObject *keywords)
{
	struct placer *placer = placer_of(object);

	if (!placer_begin_batch(placer, arguments, keywords, "O!|O&:add"))
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
	struct placer *placer = placer_of(object);
	PyObject *view;
	void *placed;

	if (!placer_begin_batch(placer, arguments, keywords, "O!|O&:index"))
		return NULL;
	view = view_new_of_memory(&placed, placer->batch->rows.n, PLACED_FORMAT, sizeof(struct ibvcap_placed));
	while (view && placer->batch)
		if (!placer_step(placer, placed))
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
	uint64_t now_ns = time_utc_ns();

	if (!PyArg_ParseTuple(arguments, "|O:expire", &given) || (given != Py_None && !u64_of(given, &now_ns)) ||
	    !placer_begin(placer))
		return NULL;
	ibvcap_place_expire(placer->placer, now_ns);
	Py_RETURN_NONE;
}

/* ---- counts -------------------------------------------------------------------------------------- */

#define COUNT(name)          MEMBER(ibvcap_place_counts, name)
#define CLOSED(name, reason) MEMBER_AS(ibvcap_place_counts, arrays[reason], #name)
#define SIDE(name)           MEMBER(ibvcap_place_side, name)

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
	COUNT(n_open),
	COUNT(n_sources),
	{NULL, 0, 0},
};

static const struct member side_members[] = {
	SIDE(packets), SIDE(unread),   SIDE(unlisted), SIDE(empty),     SIDE(cut),    SIDE(arrived),
	SIDE(open),    SIDE(expected), SIDE(present),  SIDE(missing),   SIDE(only),   SIDE(duplicate),
	SIDE(late),    SIDE(far),      SIDE(outside),  SIDE(no_memory), {NULL, 0, 0},
};

static PyObject *placer_counts(PyObject *object, void *closure)
{
	struct ibvcap_place_counts counts = IBVCAP_INIT(struct ibvcap_place_counts);

	if (!placer_begin(placer_of(object)))
		return NULL;
	ibvcap_place_counts(placer_of(object)->placer, &counts);
	return members_to_dict(count_members, &counts);
}

static PyObject *placer_sides(PyObject *object, void *closure)
{
	struct ibvcap_place_side side = IBVCAP_INIT(struct ibvcap_place_side);
	PyObject *list = placer_begin(placer_of(object)) ? PyList_New(0) : NULL;

	for (uint32_t i = 0; list && ibvcap_place_side(placer_of(object)->placer, i, &side) > 0; i++)
		list_append(&list, members_to_dict(side_members, &side));
	return list;
}

/* A struct ibvcap_place_source each, as bytes. */
static PyObject *placer_sources(PyObject *object, PyObject *unused)
{
	struct ibvcap_place_source source;
	PyObject *list = placer_begin(placer_of(object)) ? PyList_New(0) : NULL;

	for (uint32_t i = 0; list && ibvcap_place_source(placer_of(object)->placer, i, &source) > 0; i++)
		list_append(&list, PyBytes_FromStringAndSize((const char *)&source, sizeof(source)));
	return list;
}

static PyObject *placer_rows(PyObject *object, void *closure)
{
	return PyLong_FromUnsignedLong(ibvcap_place_rows(placer_of(object)->placer));
}

static PyObject *placer_array_bytes(PyObject *object, void *closure)
{
	return PyLong_FromUnsignedLongLong(ibvcap_place_bytes(placer_of(object)->placer));
}

static PyMethodDef placer_methods[] = {
	{"add", KEYWORDS(placer_add),
         "add($self, batch, side=0)\n--\n\n"
         "Place the packets of a batch, which came on this side. Then iterate over the placer: it gives the arrays "
         "that\n"
         "were closed, and places the rest. The batch is kept until all of its packets are placed."},
	{"index", KEYWORDS(placer_index),
         "index($self, batch, side=0)\n--\n\n"
         "The same, and say where each packet belongs, as records of shape (n,), PLACED: kind (index of PLACED_KINDS), "
         "array\n"
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
	{"array_bytes", placer_array_bytes, NULL, "Bytes of an array's payload: of `memory`, each array takes so many.",
         NULL},
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

PyType_Spec placer_spec = TYPE_SPEC("_Placer", struct placer_object, Py_TPFLAGS_BASETYPE, placer_slots);

PyObject *sequence_to_bytes(PyObject *module, PyObject *of)
{
	struct ibvcap_sequence sequence = {0};
	struct receiver *receiver;
	int r;

	if (PyObject_TypeCheck(of, recording_type))
		return recording_sequence_to_bytes(of);
	if (!PyObject_TypeCheck(of, receiver_type)) {
		PyErr_SetString(PyExc_TypeError, "neither a Receiver nor a Recording");
		return NULL;
	}
	receiver = receiver_of(of);
	if (!receiver_begin(receiver))
		return NULL;
	r = ibvcap_rx_sequence(receiver->rx, &sequence);
	receiver_unlock(receiver);
	return r < 0 ? raise_error(r) : PyBytes_FromStringAndSize((const char *)&sequence, sizeof(sequence));
}
