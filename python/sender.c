// SPDX-License-Identifier: Apache-2.0
/* A sender: rows of a channel that Python writes, submits, and waits for. */
#include "python/binding.h"

#include <errno.h>

/* Its buffers are those of all rows that it gave out, so the memory stays while one of them is alive. */
struct sender {
	struct view_owner owner;
	struct ibvcap_tx *tx; /* NULL: closed, and no view is left */
	struct call_lock lock;
	bool is_closed;
};

/* Rows that are reserved. */
struct slots {
	PyObject base;
	struct sender *sender;
	struct ibvcap_tx_slots rows;
};

static struct sender *py_sender_of(PyObject *object)
{
	return (struct sender *)object;
}

static void py_sender_unlock(struct sender *sender)
{
	if (sender->is_closed && sender->owner.n_buffers == 0 && sender->tx) {
		ibvcap_tx_close(sender->tx);
		sender->tx = NULL;
		sender->owner.is_gone = true;
	}
	PyThread_release_lock(sender->lock.lock);
}

/* False: an exception is set, and the lock is not held. */
static bool py_sender_begin(struct sender *sender)
{
	call_lock_take(&sender->lock);
	if (sender->tx && !sender->is_closed)
		return true;
	py_sender_unlock(sender);
	PyErr_SetString(PyExc_ValueError, "the sender is closed");
	return false;
}

static void py_sender_try_close(struct view_owner *owner)
{
	struct sender *sender = (struct sender *)owner;

	if (sender->is_closed && PyThread_acquire_lock(sender->lock.lock, NOWAIT_LOCK))
		py_sender_unlock(sender); /* else the thread in a call closes the handle */
}

static PyObject *py_sender_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"channel", "socket", "timeout", NULL};
	struct ibvcap_tx_options options = IBVCAP_INIT(struct ibvcap_tx_options);
	const char *channel, *socket_path = NULL;
	struct sender *sender;
	struct ibvcap_tx *tx;
	int r;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "s|$zO&:Sender", names, &channel, &socket_path,
	                                 answer_timeout_of, &options.timeout_ms))
		return NULL;
	sender = object_new(type);
	if (!sender || !call_lock_init(&sender->lock)) {
		Py_XDECREF((PyObject *)sender);
		return PyErr_NoMemory();
	}
	sender->owner.last_buffer_gone = py_sender_try_close;
	Py_BEGIN_ALLOW_THREADS
	r = ibvcap_tx_open(socket_path, channel, &options, &tx);
	Py_END_ALLOW_THREADS
	if (r < 0) {
		Py_DECREF((PyObject *)sender);
		return raise_error(r);
	}
	sender->tx = tx;
	return (PyObject *)sender;
}

static void py_sender_dealloc(PyObject *object)
{
	struct sender *sender = py_sender_of(object);

	if (sender->tx)
		ibvcap_tx_close(sender->tx);
	if (sender->lock.lock)
		PyThread_free_lock(sender->lock.lock);
	object_free(object);
}

/* ---- reserve, submit ----------------------------------------------------------------------------- */

/* What a method waits for. */
struct sender_call {
	struct sender *sender;
	int (*call)(struct ibvcap_tx *tx, void *of, int slice_ms);
	void *of;
};

static int py_sender_slice(void *of, int slice_ms)
{
	const struct sender_call *call = of;
	int r;

	if (!py_sender_begin(call->sender))
		return -EINVAL;
	Py_BEGIN_ALLOW_THREADS
	r = call->call(call->sender->tx, call->of, slice_ms);
	Py_END_ALLOW_THREADS
	if (r < 0 && r != -EINTR)
		raise_error(r);
	py_sender_unlock(call->sender);
	return r == -EINTR ? 0 : r;
}

/* Wait for what call does with the handle. 0: not in time; negative: an exception is set. */
static int py_sender_wait(struct sender *sender, PyObject *timeout,
                          int (*call)(struct ibvcap_tx *tx, void *of, int slice_ms), void *of)
{
	struct sender_call what = {sender, call, of};
	int timeout_ms = timeout_ms_of(timeout);

	return timeout_ms == -2 ? -EINVAL : wait_in_slices(&sender->lock, timeout_ms, py_sender_slice, &what);
}

struct reservation {
	struct ibvcap_tx_slots rows;
	uint32_t max;
	uint32_t min;
};

static int reserve_rows(struct ibvcap_tx *tx, void *of, int slice_ms)
{
	struct reservation *reservation = of;

	reservation->rows = (struct ibvcap_tx_slots)IBVCAP_INIT(struct ibvcap_tx_slots);
	return ibvcap_tx_reserve(tx, &reservation->rows, reservation->max, reservation->min, slice_ms);
}

static PyObject *py_sender_reserve(PyObject *object, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"max", "timeout", NULL};
	struct reservation reservation = {.min = 1};
	struct sender *sender = py_sender_of(object);
	struct slots *slots = NULL;
	PyObject *timeout = Py_None;
	int n;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O&|O:reserve", names, u32_of, &reservation.max,
	                                 &timeout))
		return NULL;
	n = py_sender_wait(sender, timeout, reserve_rows, &reservation);
	if (n == 0)
		Py_RETURN_NONE;
	if (n > 0)
		slots = PyObject_New(struct slots, slots_type);
	if (slots) {
		slots->sender = (struct sender *)Py_NewRef(object);
		slots->rows = reservation.rows;
	}
	return (PyObject *)slots;
}

static PyObject *py_sender_submit(PyObject *object, PyObject *argument)
{
	uint32_t n;
	int r;

	if (!u32_of(argument, &n) || !py_sender_begin(py_sender_of(object)))
		return NULL;
	r = ibvcap_tx_submit(py_sender_of(object)->tx, n);
	if (r < 0)
		raise_error(r);
	py_sender_unlock(py_sender_of(object));
	return r < 0 ? NULL : Py_NewRef(Py_None);
}

struct packet {
	const void *payload;
	size_t bytes;
	uint32_t destination;
};

static int py_send_packet(struct ibvcap_tx *tx, void *of, int slice_ms)
{
	const struct packet *packet = of;

	return ibvcap_tx_send(tx, packet->payload, packet->bytes, packet->destination, slice_ms);
}

static PyObject *py_sender_send(PyObject *object, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"payload", "destination", "timeout", NULL};
	PyObject *timeout = Py_None;
	struct packet packet = {0};
	Py_buffer payload;
	int r;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "y*|O&O:send", names, &payload, u32_of,
	                                 &packet.destination, &timeout))
		return NULL;
	packet.payload = payload.buf;
	packet.bytes = (size_t)payload.len;
	r = py_sender_wait(py_sender_of(object), timeout, py_send_packet, &packet);
	PyBuffer_Release(&payload);
	return r < 0 ? NULL : PyBool_FromLong(r);
}

/* ibvcap_tx_flush() returns -ETIMEDOUT where the other calls return 0. */
static int flush_packets(struct ibvcap_tx *tx, void *of, int slice_ms)
{
	int r = ibvcap_tx_flush(tx, slice_ms);

	return r == -ETIMEDOUT ? 0 : r == 0 ? 1 : r;
}

static PyObject *py_sender_flush(PyObject *object, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"timeout", NULL};
	PyObject *timeout = Py_None;
	int r;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O:flush", names, &timeout))
		return NULL;
	r = py_sender_wait(py_sender_of(object), timeout, flush_packets, NULL);
	return r < 0 ? NULL : PyBool_FromLong(r);
}

/* ---- what is known ------------------------------------------------------------------------------- */

#define INFO(name)  MEMBER(ibvcap_tx_info, name)
#define COUNT(name) MEMBER(ibvcap_tx_counts, name)

static const struct member info_members[] = {
	INFO(channel),    INFO(epoch),    INFO(n_slots),       INFO(slot_bytes),  INFO(n_destinations),
	INFO(page_bytes), INFO(rate_bps), INFO(late_after_ns), INFO(burst_bytes), {NULL, 0, 0},
};

static const struct member count_members[] = {
	COUNT(submitted), COUNT(completed),         COUNT(errored),
	COUNT(flushed),   COUNT(late_dropped),      COUNT(pending),
	COUNT(late),      COUNT(completed_bytes),   COUNT(wire_bytes),
	COUNT(timed),     COUNT(timed_lateness_ns), COUNT(timed_lateness_max_ns),
	{NULL, 0, 0},
};

/* The getters of info and counts, by their tables. */
static PyObject *py_sender_facts(PyObject *object, void *members)
{
	struct ibvcap_tx_counts counts = IBVCAP_INIT(struct ibvcap_tx_counts);
	struct ibvcap_tx_info info = IBVCAP_INIT(struct ibvcap_tx_info);
	const bool is_info = members == info_members;
	struct sender *sender = py_sender_of(object);
	int r;

	if (!py_sender_begin(sender))
		return NULL;
	r = is_info ? ibvcap_tx_info(sender->tx, &info) : ibvcap_tx_counts(sender->tx, &counts);
	py_sender_unlock(sender);
	return r < 0 ? raise_error(r) : members_to_dict(members, is_info ? (void *)&info : &counts);
}

static PyObject *py_sender_close(PyObject *object, PyObject *unused)
{
	py_sender_of(object)->is_closed = true;
	py_sender_try_close(&py_sender_of(object)->owner);
	Py_RETURN_NONE;
}

static PyMethodDef py_sender_methods[] = {
	{"reserve", KEYWORDS(py_sender_reserve),
         "reserve($self, max, timeout=None)\n--\n\n"
         "Rows to write to, at most max, as Slots; None: no row became free in "
         "time."},
	{"submit", py_sender_submit, METH_O,
         "submit($self, n, /)\n--\n\n"
         "Send the first n of the reserved rows. Do not write to them until they are completed."},
	{"send", KEYWORDS(py_sender_send),
         "send($self, payload, destination=0, timeout=None)\n--\n\n"
         "Copy one payload into a row and send it. False: no row in "
         "time."},
	{"flush", KEYWORDS(py_sender_flush),
         "flush($self, timeout=None)\n--\n\n"
         "Wait until no submitted packet is pending, sent or not: see counts. False: some are, after timeout."},
	{"close", py_sender_close, METH_NOARGS,
         "close($self)\n--\n\nGive the channel's rows back; views of rows stay valid until the last one goes."},
	{"__enter__", object_enter, METH_NOARGS, NULL},
	{"__exit__", py_sender_close, METH_VARARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef py_sender_getters[] = {
	{"info", py_sender_facts, NULL, "Properties of the channel, as a dict.", (void *)info_members},
	{"counts", py_sender_facts, NULL,
         "Packets, as a dict: submitted = completed + errored + flushed + late_dropped + pending.",
         (void *)count_members},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot sender_type_slots[] = {
	{Py_tp_doc, "Sender(channel, *, socket=None, timeout=5)\n--\n\nA sender on a channel of ibvcapd."},
	{Py_tp_new, py_sender_new},
	{Py_tp_dealloc, py_sender_dealloc},
	{Py_tp_methods, py_sender_methods},
	{Py_tp_getset, py_sender_getters},
	{0, NULL},
};

PyType_Spec sender_spec = TYPE_SPEC("Sender", struct sender, 0, sender_type_slots);

/* ---- rows ---------------------------------------------------------------------------------------- */

#define PACKET_FORMAT "T{<Q:not_before_ns:<H:length:<H:destination:<I:flags:}"

static PyObject *slots_payload(PyObject *object, void *closure)
{
	struct slots *slots = (struct slots *)object;

	return view_new_of_rows(&slots->sender->owner, slots->rows.payload, slots->rows.n, slots->rows.stride,
	                        slots->rows.stride, true);
}

static int slots_get_buffer(PyObject *object, Py_buffer *buffer, int flags)
{
	return view_export(slots_payload(object, NULL), buffer, flags);
}

static Py_ssize_t slots_length(PyObject *object)
{
	return ((struct slots *)object)->rows.n;
}

static void slots_dealloc(PyObject *object)
{
	Py_DECREF((PyObject *)((struct slots *)object)->sender);
	object_free(object);
}

static PyObject *slots_packets(PyObject *object, void *closure)
{
	struct slots *slots = (struct slots *)object;

	return view_new_of_records(&slots->sender->owner, slots->rows.packets, slots->rows.n, PACKET_FORMAT,
	                           sizeof(*slots->rows.packets), true);
}

static PyGetSetDef slots_getters[] = {
	{"payload", slots_payload, NULL, "Payload rows, writable uint8 of shape (n, stride).", NULL},
	{"packets", slots_packets, NULL,
         "Writable records of shape (n,): not_before_ns (UTC, 0: at once), length (preset: stride), destination, "
         "flags.",
         NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef slots_members[] = {
	{"sequence", T_ULONGLONG, offsetof(struct slots, rows.sequence), READONLY,
         "Number of the first row's packet among all of this sender."},
	{NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots_slots[] = {
	{Py_tp_doc, "Reserved rows of a sender: numpy.asarray(slots) is writable uint8 of shape (n, stride)."},
	{Py_tp_dealloc, slots_dealloc},
	{Py_tp_methods, view_methods},
	{Py_tp_getset, slots_getters},
	{Py_tp_members, slots_members},
	{Py_sq_length, slots_length},
	{Py_bf_getbuffer, slots_get_buffer},
	{0, NULL},
};

PyType_Spec slots_spec = TYPE_SPEC("Slots", struct slots, Py_TPFLAGS_DISALLOW_INSTANTIATION, slots_slots);
