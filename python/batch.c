// SPDX-License-Identifier: Apache-2.0
/* A batch: packets under one lease, as arrays that Python reads where the card wrote them. */
#include "python/binding.h"

#include <stddef.h>
#include <stdlib.h>

PyTypeObject *batch_type;

static struct batch *batch_of(PyObject *object)
{
	return (struct batch *)object;
}

static void batch_give_back(struct batch *batch)
{
	struct receiver *receiver = batch->receiver;

	if (batch->own_memory) {
		free(batch->own_memory);
		batch->own_memory = NULL;
		batch->owner.is_gone = true;
	}
	if (!receiver)
		return;
	if (receiver->newest == batch)
		receiver->newest = NULL;
	batch->receiver = NULL;
	batch->owner.is_gone = true;
	receiver_take_back(receiver, batch);
	receiver_unref(receiver);
}

static void batch_last_view_gone(struct view_owner *owner)
{
	struct batch *batch = (struct batch *)owner;

	if (batch->is_soft)
		batch_give_back(batch);
}

static struct batch *batch_allocate(const struct ibvcap_rx_batch *rows, uint64_t lost)
{
	struct batch *batch = PyObject_New(struct batch, batch_type);

	if (!batch)
		return NULL;
	batch->owner.n_buffers = 0;
	batch->owner.is_gone = false;
	batch->owner.last_buffer_gone = batch_last_view_gone;
	batch->receiver = NULL;
	batch->own_memory = NULL;
	batch->rows = *rows;
	batch->is_soft = false;
	batch->lost = lost;
	batch->next = NULL;
	return batch;
}

struct batch *batch_new(struct receiver *receiver, const struct ibvcap_rx_batch *rows, uint64_t lost)
{
	struct batch *batch = batch_allocate(rows, lost);

	if (batch)
		batch->receiver = receiver_ref(receiver);
	return batch;
}

struct batch *batch_new_of_memory(const struct ibvcap_rx_batch *rows, uint64_t lost)
{
	struct batch *batch = batch_allocate(rows, lost);

	if (batch)
		batch->own_memory = (void *)rows->payload;
	else
		free((void *)rows->payload);
	return batch;
}

void batch_return_softly(struct batch *batch)
{
	batch->is_soft = true;
	if (batch->owner.n_buffers == 0)
		batch_give_back(batch);
}

static void batch_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);

	batch_give_back(batch_of(object)); /* its views have gone: each keeps the batch */
	PyObject_Free(object);
	Py_DECREF(type);
}

static PyObject *batch_release(PyObject *object, PyObject *unused)
{
	struct batch *batch = batch_of(object);

	(void)unused;
	if (view_owner_has_views(&batch->owner, "batch"))
		return NULL;
	batch_give_back(batch);
	Py_RETURN_NONE;
}

static struct view_shape payload_shape(const struct batch *batch)
{
	const struct ibvcap_rx_batch *rows = &batch->rows;

	return (struct view_shape){.bytes = (void *)rows->payload,
	                           .format = "B",
	                           .item_bytes = 1,
	                           .n_dimensions = 2,
	                           .shape = {rows->n, rows->stride},
	                           .strides = {rows->stride, 1}};
}

static PyObject *batch_payload(PyObject *object, void *closure)
{
	struct view_shape shape = payload_shape(batch_of(object));

	(void)closure;
	return view_new(&batch_of(object)->owner, &shape);
}

static PyObject *batch_headers(PyObject *object, void *closure)
{
	const struct ibvcap_rx_batch *rows = &batch_of(object)->rows;
	const struct view_shape shape = {.bytes = (void *)rows->headers,
	                                 .format = "B",
	                                 .item_bytes = 1,
	                                 .n_dimensions = 2,
	                                 .shape = {rows->n, rows->header_bytes},
	                                 .strides = {rows->header_stride, 1}};

	(void)closure;
	return view_new(&batch_of(object)->owner, &shape);
}

static PyObject *batch_meta(PyObject *object, void *closure)
{
	const struct ibvcap_rx_batch *rows = &batch_of(object)->rows;
	const struct view_shape shape = {.bytes = (void *)rows->meta,
	                                 .format = META_FORMAT,
	                                 .item_bytes = sizeof(*rows->meta),
	                                 .n_dimensions = 1,
	                                 .shape = {rows->n},
	                                 .strides = {sizeof(*rows->meta)}};

	(void)closure;
	return view_new(&batch_of(object)->owner, &shape);
}

static Py_ssize_t batch_length(PyObject *object)
{
	return batch_of(object)->rows.n;
}

/* The payload of one packet, as long as it is. A row without a usable packet has no byte. */
static PyObject *batch_packet(PyObject *object, Py_ssize_t i)
{
	const struct batch *batch = batch_of(object);
	const struct ibvcap_meta *meta;
	struct view_shape shape = {.format = "B", .item_bytes = 1, .n_dimensions = 1, .strides = {1}};
	PyObject *view, *memory;

	if (i < 0 || i >= batch->rows.n) {
		PyErr_SetString(PyExc_IndexError, "the batch has no packet of that index");
		return NULL;
	}
	if (batch->owner.is_gone) {
		PyErr_SetString(PyExc_BufferError, "the batch was returned: copy what is needed later");
		return NULL;
	}
	meta = &batch->rows.meta[i];
	shape.shape[0] = meta->length;
	shape.bytes = (void *)(meta->length ? ibvcap_rx_payload(&batch->rows, (uint32_t)i) : batch->rows.payload);
	view = view_new((struct view_owner *)object, &shape);
	if (!view)
		return NULL;
	memory = PyMemoryView_FromObject(view);
	Py_DECREF(view);
	return memory;
}

/* memoryview and numpy keep a pointer to the shape until they release the buffer, so each gets a view of its own. */
static int batch_get_buffer(PyObject *object, Py_buffer *buffer, int flags)
{
	PyObject *view = batch_payload(object, NULL);
	int r;

	buffer->obj = NULL;
	if (!view)
		return -1;
	r = PyObject_GetBuffer(view, buffer, flags);
	Py_DECREF(view); /* buffer->obj has a reference */
	return r;
}

#define ROWS_GETTER(member)                                                        \
	static PyObject *batch_##member(PyObject *object, void *closure)           \
	{                                                                          \
		(void)closure;                                                     \
		return PyLong_FromUnsignedLongLong(batch_of(object)->rows.member); \
	}
ROWS_GETTER(sequence)
ROWS_GETTER(gap)
ROWS_GETTER(epoch)
ROWS_GETTER(queue)
ROWS_GETTER(flags)
ROWS_GETTER(header_bytes)
ROWS_GETTER(application_header_bytes)

static PyObject *batch_lost(PyObject *object, void *closure)
{
	(void)closure;
	return PyLong_FromUnsignedLongLong(batch_of(object)->lost);
}

static PyObject *batch_is_released(PyObject *object, void *closure)
{
	(void)closure;
	return PyBool_FromLong(batch_of(object)->owner.is_gone);
}

static PyGetSetDef batch_getters[] = {
	{"payload", batch_payload, NULL,
         "Payload rows, uint8 of shape (n, stride). What is behind a packet may be of older ones.", NULL},
	{"headers", batch_headers, NULL, "First bytes of each frame, uint8 of shape (n, header_bytes).", NULL},
	{"meta", batch_meta, NULL,
         "Records of shape (n,): timestamp_ns (UTC), length, flags, header_length, flow, wire_length: "
         "numpy.frombuffer(batch.meta, ibvcap.META).",
         NULL},
	{"sequence", batch_sequence, NULL, "Number of the first packet, in its queue and epoch.", NULL},
	{"gap", batch_gap, NULL, "Packets that this reader was too slow for, just before the batch.", NULL},
	{"lost", batch_lost, NULL, "Packets that the card dropped since the batch before: no row was free.", NULL},
	{"epoch", batch_epoch, NULL, "Number of the daemon's run.", NULL},
	{"queue", batch_queue, NULL, "The stream's queue by which the packets came.", NULL},
	{"flags", batch_flags, NULL, "GAP_UNKNOWN, DEMOTED, TAKEN_OVER.", NULL},
	{"header_bytes", batch_header_bytes, NULL, "Bytes of a frame that are in its row of headers.", NULL},
	{"application_header_bytes", batch_application_header_bytes, NULL,
         "The last so many of header_bytes are of the application.", NULL},
	{"is_released", batch_is_released, NULL, "True: the lease was returned, and the batch has no data.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef batch_methods[] = {
	{"release", batch_release, METH_NOARGS,
         "release($self)\n--\n\nReturn the packets' memory to the daemon. BufferError: a view of it is alive."},
	{"__array__", (PyCFunction)(void (*)(void))raise_no_buffer, METH_VARARGS | METH_KEYWORDS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot batch_slots[] = {
	{Py_tp_doc, "Packets under one lease, read-only, where the card wrote them: numpy.asarray(batch) is "
                    "uint8 of shape\n"
                    "(n, stride). batch[i] is the payload of packet i, as long as it is. The lease ends at release(), "
                    "or when the\n"
                    "next batch is taken and the last view has gone. A batch that is not returned holds memory "
                    "of the daemon."},
	{Py_tp_dealloc, batch_dealloc},
	{Py_tp_methods, batch_methods},
	{Py_tp_getset, batch_getters},
	{Py_sq_length, batch_length},
	{Py_sq_item, batch_packet},
	{Py_bf_getbuffer, batch_get_buffer},
	{0, NULL},
};

PyType_Spec batch_spec = {.name = "ibvcap.Batch",
                          .basicsize = sizeof(struct batch),
                          .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                          .slots = batch_slots};
