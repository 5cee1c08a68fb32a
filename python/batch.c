// SPDX-License-Identifier: Apache-2.0
/* A batch: packets under one lease, as arrays that Python reads where the card wrote them. */
#include "python/binding.h"

#include "lib/recording/row_frame.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static struct batch *batch_of(PyObject *object)
{
	return (struct batch *)object;
}

static void batch_give_back(struct view_owner *owner)
{
	struct batch *batch = (struct batch *)owner;
	struct receiver *receiver = batch->receiver;

	if (batch->own_memory) {
		free(batch->own_memory);
		batch->own_memory = NULL;
		batch->owner.is_gone = true;
	}
	if (!receiver)
		return;
	if (receiver->loop.newest == owner)
		receiver->loop.newest = NULL;
	batch->receiver = NULL;
	batch->owner.is_gone = true;
	receiver_take_back(receiver, batch);
	receiver_unref(receiver);
}

static struct batch *batch_allocate(const struct ibvcap_rx_batch *rows, uint64_t lost)
{
	struct batch *batch = object_new(batch_type);

	if (!batch)
		return NULL;
	batch->owner.name = "batch";
	batch->owner.give_back = batch_give_back;
	batch->rows = *rows;
	batch->lost = lost;
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

static PyObject *batch_payload(PyObject *object, void *closure)
{
	const struct ibvcap_rx_batch *rows = &batch_of(object)->rows;

	return view_new_of_rows(&batch_of(object)->owner, rows->payload, rows->n, rows->stride, rows->stride, false);
}

static PyObject *batch_headers(PyObject *object, void *closure)
{
	const struct ibvcap_rx_batch *rows = &batch_of(object)->rows;

	return view_new_of_rows(&batch_of(object)->owner, rows->headers, rows->n, rows->header_bytes,
	                        rows->header_stride, false);
}

static PyObject *batch_meta(PyObject *object, void *closure)
{
	const struct ibvcap_rx_batch *rows = &batch_of(object)->rows;

	return view_new_of_records(&batch_of(object)->owner, rows->meta, rows->n, META_FORMAT, sizeof(*rows->meta),
	                           false);
}

static Py_ssize_t batch_length(PyObject *object)
{
	return batch_of(object)->rows.n;
}

/* The payload of one packet, as long as it is. A row without a usable packet has no byte. */
static PyObject *batch_packet(PyObject *object, Py_ssize_t i)
{
	const struct batch *batch = batch_of(object);
	const void *payload;
	PyObject *view, *memory;
	uint16_t length;

	if (i < 0 || i >= batch->rows.n) {
		PyErr_SetString(PyExc_IndexError, "the batch has no packet of that index");
		return NULL;
	}
	if (batch->owner.is_gone) {
		PyErr_SetString(PyExc_BufferError, "the batch was returned: copy what is needed later");
		return NULL;
	}
	length = batch->rows.meta[i].length;
	payload = length ? ibvcap_rx_payload(&batch->rows, (uint32_t)i) : batch->rows.payload;
	view = view_new_of_records((struct view_owner *)object, payload, length, "B", 1, false);
	if (!view)
		return NULL;
	memory = PyMemoryView_FromObject(view);
	Py_DECREF(view);
	return memory;
}

static int batch_get_buffer(PyObject *object, Py_buffer *buffer, int flags)
{
	return view_export(batch_payload(object, NULL), buffer, flags);
}

static PyGetSetDef batch_getters[] = {
	{"payload", batch_payload, NULL,
         "Payload rows, uint8 of shape (n, stride). What is behind a packet may be of older ones.", NULL},
	{"headers", batch_headers, NULL, "First bytes of each frame, uint8 of shape (n, header_bytes).", NULL},
	{"meta", batch_meta, NULL,
         "Records of shape (n,): timestamp_ns (UTC), length, flags, header_length, flow, wire_length: "
         "numpy.frombuffer(batch.meta, ibvcap.META).",
         NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

#define AT(member) offsetof(struct batch, member), READONLY

static PyMemberDef batch_members[] = {
	{"sequence", T_ULONGLONG, AT(rows.sequence), "Number of the first packet, in its queue and epoch."},
	{"gap", T_ULONGLONG, AT(rows.gap), "Packets that this reader was too slow for, just before the batch."},
	{"lost", T_ULONGLONG, AT(lost), "Packets that came since the batch before and got no row."},
	{"epoch", T_ULONGLONG, AT(rows.epoch), "Number of the daemon's run."},
	{"queue", T_UINT, AT(rows.queue), "The stream's queue by which the packets came."},
	{"flags", T_UINT, AT(rows.flags), "GAP_UNKNOWN, DEMOTED, TAKEN_OVER."},
	{"header_bytes", T_UINT, AT(rows.header_bytes), "Bytes of a frame that are in its row of headers."},
	{"application_header_bytes", T_UINT, AT(rows.application_header_bytes),
         "The last so many of header_bytes are of the application."},
	{"is_released", T_BOOL, AT(owner.is_gone), "True: the lease was returned, and the batch has no data."},
	{NULL, 0, 0, 0, NULL},
};

static void fill_checksums(const struct ibvcap_rx_batch *rows, uint8_t *copy, struct ibvcap_meta *meta)
{
	struct row_frame frame;

	for (uint32_t i = 0; i < rows->n; i++) {
		if (!(rows->meta[i].flags & IBVCAP_PACKET_FLAG_PARTIAL_CHECKSUM))
			continue;
		row_frame_of(rows, i, &frame);
		if (frame.checksum_at < frame.bytes[0] || !frame.checksum_at)
			continue;
		memcpy(copy + (size_t)i * rows->stride + (frame.checksum_at - frame.bytes[0]), &frame.checksum,
		       sizeof(frame.checksum));
		meta[i].flags &= (uint16_t)~IBVCAP_PACKET_FLAG_PARTIAL_CHECKSUM;
	}
}

/* Of copies of the payload rows and of meta. */
static PyObject *batch_fill_checksums(PyObject *object, PyObject *arguments)
{
	const struct batch *batch = batch_of(object);
	const struct ibvcap_rx_batch *rows = &batch->rows;
	Py_buffer copy, meta;
	bool fits;

	if (!PyArg_ParseTuple(arguments, "w*w*:_fill_checksums", &copy, &meta))
		return NULL;
	fits = !batch->owner.is_gone && (size_t)copy.len == (size_t)rows->n * rows->stride &&
	       (size_t)meta.len == rows->n * sizeof(*rows->meta);
	if (fits)
		fill_checksums(rows, copy.buf, meta.buf);
	PyBuffer_Release(&copy);
	PyBuffer_Release(&meta);
	if (!fits)
		return PyErr_Format(PyExc_ValueError, "these are no copies of the batch");
	Py_RETURN_NONE;
}

static PyMethodDef batch_methods[] = {
	{"_fill_checksums", batch_fill_checksums, METH_VARARGS, NULL},
	{"release", view_owner_give_back, METH_NOARGS,
         "release($self)\n--\n\nReturn the packets' memory to the daemon. BufferError: a view of it is alive."},
	EXPORT_METHODS,
	{NULL, NULL, 0, NULL},
};

static PyType_Slot batch_slots[] = {
	{Py_tp_doc, "Packets under one lease, read-only, where the card wrote them: numpy.asarray(batch) is "
                    "uint8 of shape\n"
                    "(n, stride). batch[i] is the payload of packet i, as long as it is. The lease ends at release(), "
                    "or when the\n"
                    "next batch is taken and the last view has gone. A batch that is not returned holds memory "
                    "of the daemon."},
	{Py_tp_dealloc, view_owner_dealloc},
	{Py_tp_methods, batch_methods},
	{Py_tp_getset, batch_getters},
	{Py_tp_members, batch_members},
	{Py_sq_length, batch_length},
	{Py_sq_item, batch_packet},
	{Py_bf_getbuffer, batch_get_buffer},
	{0, NULL},
};

PyType_Spec batch_spec = TYPE_SPEC("Batch", struct batch, Py_TPFLAGS_DISALLOW_INSTANTIATION, batch_slots);
