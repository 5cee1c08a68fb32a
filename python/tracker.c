// SPDX-License-Identifier: Apache-2.0
/* A tracker: counts lost packets by the packets' own numbers, wherever they were lost. */
#include "python/binding.h"

#include <errno.h>
#include <string.h>

struct tracker {
	PyObject base;
	struct ibvcap_tracker *counts;
};

static struct tracker *tracker_of(PyObject *object)
{
	return (struct tracker *)object;
}

/* ---- life ---------------------------------------------------------------------------------------- */

static PyObject *tracker_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"sequence", "max_sources", "own", "max_missing", NULL};
	struct ibvcap_tracker_options options = IBVCAP_INIT(struct ibvcap_tracker_options);
	struct ibvcap_sequence sequence;
	Py_ssize_t description_bytes;
	struct tracker *tracker;
	const char *description;
	int r;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "y#O&O&O&:Tracker", names, &description,
	                                 &description_bytes, u32_of, &options.max_sources, u32_of, &options.own, u32_of,
	                                 &options.max_missing))
		return NULL;
	if (description_bytes != sizeof(sequence)) {
		PyErr_SetString(PyExc_ValueError, "not a struct ibvcap_sequence");
		return NULL;
	}
	memcpy(&sequence, description, sizeof(sequence));
	tracker = object_new(type);
	r = tracker ? ibvcap_tracker_new(&sequence, &options, &tracker->counts) : 0;
	if (r < 0) {
		Py_DECREF(&tracker->base);
		return raise_error(r);
	}
	return (PyObject *)tracker;
}

static void tracker_dealloc(PyObject *object)
{
	ibvcap_tracker_free(tracker_of(object)->counts);
	object_free(object);
}

/* ---- packets ------------------------------------------------------------------------------------- */

#define TRACKED_FORMAT "T{<Q:number:<I:source:<I:kind:}"

/* Track a batch of a receiver. This may wait for its lock, and another thread may return the batch meanwhile. */
static int track_leased(struct tracker *tracker, const struct batch *batch, struct ibvcap_tracked *tracked)
{
	struct receiver *receiver = receiver_ref(batch->receiver);
	int r;

	if (!receiver_begin(receiver)) {
		receiver_unref(receiver);
		return -EBADF;
	}
	r = ibvcap_rx_track(receiver->rx, &batch->rows, tracker->counts, tracked);
	if (r < 0)
		raise_error(r);
	receiver_unlock(receiver);
	receiver_unref(receiver);
	return r;
}

/* Track a batch of a recording, whose rows all have header_bytes of headers. */
static int track_recorded(struct tracker *tracker, const struct batch *batch, struct ibvcap_tracked *tracked)
{
	const struct ibvcap_rx_batch *rows = &batch->rows;

	for (uint32_t i = 0; i < rows->n; i++) {
		const struct ibvcap_packet packet = {
			.headers = rows->header_bytes ? ibvcap_rx_headers(rows, i) : NULL,
			.row = ibvcap_rx_payload(rows, i),
			.header_bytes = rows->header_bytes,
			.row_bytes = rows->meta[i].length,
			.payload_at = rows->header_bytes,
			.has_headers = rows->header_bytes != 0,
			.timestamp_ns = rows->meta[i].timestamp_ns,
		};
		int r = ibvcap_tracker_add(tracker->counts, &packet, &tracked[i]);

		if (r < 0) {
			raise_error(r);
			return r;
		}
	}
	return 0;
}

static PyObject *tracker_track(PyObject *object, PyObject *argument)
{
	const struct batch *batch = (struct batch *)argument;
	PyObject *view;
	void *tracked;
	int r;

	if (!PyObject_TypeCheck(argument, batch_type)) {
		PyErr_SetString(PyExc_TypeError, "track() takes a Batch");
		return NULL;
	}
	if (batch->owner.is_gone) {
		PyErr_SetString(PyExc_ValueError, "the batch was returned");
		return NULL;
	}
	view = view_new_of_memory(&tracked, batch->rows.n, TRACKED_FORMAT, sizeof(struct ibvcap_tracked));
	if (!view)
		return NULL;
	r = batch->receiver ? track_leased(tracker_of(object), batch, tracked)
	                    : track_recorded(tracker_of(object), batch, tracked);
	if (r < 0)
		Py_CLEAR(view);
	return view;
}

/* ---- counts -------------------------------------------------------------------------------------- */

#define NUMBER(of, name) MEMBER_AS(of, numbers.name, #name)
#define NUMBERS(of)                                                                                      \
	NUMBER(of, arrived), NUMBER(of, once), NUMBER(of, repeated), NUMBER(of, sent), NUMBER(of, lost), \
		NUMBER(of, reordered), NUMBER(of, late), NUMBER(of, stray), NUMBER(of, restarted)
#define COUNT(name) MEMBER(ibvcap_tracker_counts, name)

static const struct member count_members[] = {
	NUMBERS(ibvcap_tracker_counts), COUNT(packets),      COUNT(unread),      COUNT(untracked),
	COUNT(lost_after_card),         COUNT(lost_in_card), COUNT(lost_unread), COUNT(lost_before_card),
	COUNT(lost_in_absence),         COUNT(n_sources),    {NULL, 0, 0},
};

static const struct member source_members[] = {
	NUMBERS(ibvcap_tracker_source),
	MEMBER(ibvcap_tracker_source, packets),
	{NULL, 0, 0},
};

static PyObject *tracker_counts(PyObject *object, void *closure)
{
	struct ibvcap_tracker_counts counts = IBVCAP_INIT(struct ibvcap_tracker_counts);
	int r = ibvcap_tracker_counts(tracker_of(object)->counts, &counts);

	return r < 0 ? raise_error(r) : members_to_dict(count_members, &counts);
}

/* Of each source its counts, and what its packets have in common, as a struct ibvcap_place_source. */
static PyObject *tracker_sources(PyObject *object, PyObject *unused)
{
	struct ibvcap_tracker_source source = IBVCAP_INIT(struct ibvcap_tracker_source);
	PyObject *list = PyList_New(0);

	for (uint32_t i = 0; list && ibvcap_tracker_source(tracker_of(object)->counts, i, &source) > 0; i++)
		list_append(&list, Py_BuildValue("(Ny#)", members_to_dict(source_members, &source), source.address,
		                                 (Py_ssize_t)sizeof(struct ibvcap_place_source)));
	return list;
}

#define MISSING_FORMAT "T{<Q:first:<Q:n:<Q:before_ns:<Q:after_ns:<I:source:<I:run:}"

static PyObject *tracker_missing(PyObject *object, void *closure)
{
	const struct ibvcap_tracker *tracker = tracker_of(object)->counts;
	const uint32_t n = ibvcap_tracker_missing(tracker, 0, NULL, 0);
	PyObject *view;
	void *ranges;

	view = view_new_of_memory(&ranges, n, MISSING_FORMAT, sizeof(struct ibvcap_missing));
	if (view)
		ibvcap_tracker_missing(tracker, 0, ranges, n);
	return view;
}

static PyMethodDef tracker_methods[] = {
	{"track", tracker_track, METH_O,
         "track($self, batch, /)\n--\n\n"
         "Count the packets of a batch, once, in the order in which batches came. What each packet "
         "is, "
         "as records\nof shape (n,), TRACKED: number (counted on over its wraps), source (index of sources), kind "
         "(index of "
         "TRACKED_KINDS)."},
	{"_sources", tracker_sources, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef tracker_getters[] = {
	{"missing", tracker_missing, NULL,
         "Ranges of numbers that are missing so far, as records of shape (n,), MISSING: first number, n, timestamps of "
         "the\n"
         "packets around them (before_ns, after_ns), source (index of sources), run. numpy.frombuffer() shows it.",
         NULL},
	{"counts", tracker_counts, NULL,
         "Numbers of all sources together, as a dict: sent = once + lost, arrived = once + repeated. libibvcap(3) has "
         "each.",
         NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot tracker_slots[] = {
	{Py_tp_new, tracker_new},
	{Py_tp_dealloc, tracker_dealloc},
	{Py_tp_methods, tracker_methods},
	{Py_tp_getset, tracker_getters},
	{0, NULL},
};

PyType_Spec tracker_spec = TYPE_SPEC("_Tracker", struct tracker, Py_TPFLAGS_BASETYPE, tracker_slots);
