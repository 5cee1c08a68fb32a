// SPDX-License-Identifier: Apache-2.0
/* A receiver: waits for packets without the interpreter's lock, and takes batches back. */
#include "python/binding.h"

#include <errno.h>

struct receiver *receiver_of(PyObject *object)
{
	return (struct receiver *)((struct rx_loop_object *)object)->loop;
}

/* ---- packets ------------------------------------------------------------------------------------- */

static PyObject *raise_of_acquire(const struct receiver *receiver, int error)
{
	static const char text[] =
		"%u batches are not returned, and these are all leases of the receiver, or they are of a "
		"daemon that has ended: keep copies of their arrays, and call release() or delete them; or attach "
		"with more leases: lease_blocks of ibvcap.open(), and extra_lease_blocks of the stream in "
		"ibvcapd.conf(5)";

	return error == -ENOBUFS ? raise_error_text(error, text, receiver->n_batches) : raise_error(error);
}

/* Packets that a call wants, and gets. */
struct acquisition {
	struct receiver *receiver;
	uint32_t max;
	uint32_t min; /* after a slice of a wait fewer will do */
	PyObject *batch;
};

/* One slice of a wait. 0: no packet came; negative: an exception. */
static int receiver_slice(void *of, int slice_ms)
{
	struct ibvcap_rx_batch rows = IBVCAP_INIT(struct ibvcap_rx_batch);
	struct acquisition *wanted = of;
	struct receiver *receiver = wanted->receiver;
	int n;

	if (!receiver_begin(receiver))
		return -EINVAL;
	Py_BEGIN_ALLOW_THREADS
	n = ibvcap_rx_acquire(receiver->rx, &rows, wanted->max, wanted->min, slice_ms);
	Py_END_ALLOW_THREADS
	if (n > 0) {
		receiver->n_batches++;
		ibvcap_rx_add_losses(receiver->rx, &rows, &receiver->losses);
		wanted->batch = (PyObject *)batch_new(receiver, &rows, receiver->losses.before);
		if (!wanted->batch)
			receiver_release_rows(receiver, &rows);
	} else if (n == -EINTR) {
		n = 0;
	} else if (n < 0) {
		raise_of_acquire(receiver, n);
	}
	receiver_unlock(receiver);
	return n;
}

static PyObject *receiver_wait(struct rx_loop *loop, uint32_t max, uint32_t min, int timeout_ms)
{
	struct receiver *receiver = (struct receiver *)loop;
	struct acquisition wanted = {receiver, max, min, NULL};
	int n = wait_in_slices(&receiver->lock, timeout_ms, receiver_slice, &wanted);

	return n == 0 ? Py_NewRef(Py_None) : wanted.batch;
}

/* ---- life ---------------------------------------------------------------------------------------- */

static PyObject *receiver_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
	struct ibvcap_rx *rx = rx_open_by_keywords(arguments, keywords);
	struct rx_loop_object *object;
	struct receiver *receiver;

	if (!rx)
		return NULL;
	object = object_new(type);
	receiver = object ? receiver_new_of(rx) : NULL;
	if (!receiver) {
		ibvcap_rx_close(rx);
		Py_XDECREF((PyObject *)object);
		return PyErr_NoMemory();
	}
	receiver->loop.wait = receiver_wait;
	object->loop = &receiver->loop;
	return &object->base;
}

static void receiver_close_softly(struct receiver *receiver)
{
	rx_loop_return_newest(&receiver->loop);
	receiver->is_closed = true;
	if (receiver->rx && PyThread_acquire_lock(receiver->lock.lock, NOWAIT_LOCK))
		receiver_unlock(receiver); /* else the thread in a call closes the handle */
}

static void receiver_dealloc(PyObject *object)
{
	if (receiver_of(object)) {
		receiver_close_softly(receiver_of(object));
		receiver_unref(receiver_of(object));
	}
	object_free(object);
}

/* ---- what is known ------------------------------------------------------------------------------- */

static PyObject *receiver_info(PyObject *object, void *closure)
{
	PyObject *dict;

	if (!receiver_begin(receiver_of(object)))
		return NULL;
	dict = rx_info_to_dict(receiver_of(object)->rx);
	receiver_unlock(receiver_of(object));
	return dict;
}

static PyObject *receiver_counts(PyObject *object, void *closure)
{
	struct receiver *receiver = receiver_of(object);
	PyObject *dict;

	if (!receiver_begin(receiver))
		return NULL;
	dict = rx_counts_to_dict(receiver->rx, receiver->losses.packets);
	receiver_unlock(receiver);
	return dict;
}

static PyObject *receiver_fileno(PyObject *object, PyObject *unused)
{
	int fd;

	if (!receiver_begin(receiver_of(object)))
		return NULL;
	fd = ibvcap_rx_fd(receiver_of(object)->rx);
	receiver_unlock(receiver_of(object));
	return fd < 0 ? raise_error(fd) : PyLong_FromLong(fd);
}

static PyObject *receiver_close(PyObject *object, PyObject *unused)
{
	receiver_close_softly(receiver_of(object));
	Py_RETURN_NONE;
}

static PyMethodDef receiver_methods[] = {
	{"acquire", KEYWORDS(rx_loop_acquire),
         "acquire($self, max=4294967295, timeout=None, min=1)\n--\n\n"
         "The next packets, at most max, as a Batch; None: none came within timeout seconds (None: wait for ever). "
         "With\n"
         "min it waits for so many, but not past 0.1 s or the end of a block: a program wakes less often."},
	RX_LOOP_TAKE,
	{"fileno", receiver_fileno, METH_NOARGS,
         "fileno($self)\n--\n\n"
         "A descriptor for select, poll and asyncio: readable when acquire(timeout=0), after it "
         "returned\n"
         "None, may have something new."},
	{"close", receiver_close, METH_NOARGS,
         "close($self)\n--\n\nTake no more packets. Batches with views stay valid until the last view goes."},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef receiver_getters[] = {
	{"info", receiver_info, NULL, "Properties of the stream's ring, as a dict.", NULL},
	{"counts", receiver_counts, NULL,
         "Packets since the attach, as a dict: published = delivered + skipped + lag; lost: dropped by the card.",
         NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot receiver_slots[] = {
	{Py_tp_doc, "_Receiver(stream, *, start=NEWEST, back=0, queue=0, policy=LOSSY, lease_blocks=0, group=None,\n"
                    "         socket=None, timeout=5, reattach=30)\n--\n\n"},
	{Py_tp_new, receiver_new},
	{Py_tp_dealloc, receiver_dealloc},
	{Py_tp_methods, receiver_methods},
	{Py_tp_getset, receiver_getters},
	{Py_tp_iter, PyObject_SelfIter},
	{Py_tp_iternext, rx_loop_next},
	{0, NULL},
};

PyType_Spec receiver_spec = TYPE_SPEC("_Receiver", struct rx_loop_object, Py_TPFLAGS_BASETYPE, receiver_slots);
