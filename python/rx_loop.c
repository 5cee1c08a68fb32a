// SPDX-License-Identifier: Apache-2.0
/* The methods by which a receiver of either module gives out batches: acquire(), take() and iteration. */
#include "python/binding.h"

static struct rx_loop *loop_of(PyObject *object)
{
	return ((struct rx_loop_object *)object)->loop;
}

PyObject *rx_loop_acquire(PyObject *object, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"max", "timeout", "min", NULL};
	uint32_t max = UINT32_MAX, min = 1;
	PyObject *timeout = Py_None;
	int timeout_ms;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O&OO&:acquire", names, u32_of, &max, &timeout, u32_of,
	                                 &min))
		return NULL;
	timeout_ms = timeout_ms_of(timeout);
	return timeout_ms == -2 ? NULL : loop_of(object)->wait(loop_of(object), max, min, timeout_ms);
}

void rx_loop_return_newest(struct rx_loop *loop)
{
	if (loop->newest)
		view_owner_return_softly(loop->newest);
}

/* The one before is returned when its views have gone. */
static PyObject *take_next(struct rx_loop *loop, int timeout_ms)
{
	PyObject *batch;

	rx_loop_return_newest(loop);
	batch = loop->wait(loop, UINT32_MAX, 1, timeout_ms);
	loop->newest = batch == Py_None ? NULL : (struct view_owner *)batch;
	return batch;
}

PyObject *rx_loop_next(PyObject *object)
{
	return take_next(loop_of(object), -1);
}

PyObject *rx_loop_take(PyObject *object, PyObject *timeout)
{
	int timeout_ms = timeout_ms_of(timeout);

	return timeout_ms == -2 ? NULL : take_next(loop_of(object), timeout_ms);
}
