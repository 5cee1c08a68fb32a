// SPDX-License-Identifier: Apache-2.0
/* Shared by all types: exceptions, timeouts, and structs of the library as dicts. */
#include "python/binding.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- exceptions ---------------------------------------------------------------------------------- */

static PyObject *make_error, *make_error_of_file; /* functions of ibvcap._errors, which has the exceptions */

/* Takes the reference to text. */
static PyObject *raise_made(PyObject *make, int error, PyObject *text)
{
	PyObject *exception = text ? PyObject_CallFunction(make, "iN", -error, text) : NULL;

	if (exception)
		PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
	Py_XDECREF(exception);
	return NULL;
}

static PyObject *decode(const char *text)
{
	return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "backslashreplace");
}

PyObject *raise_error(int error)
{
	const char *text = ibvcap_error_text();

	return raise_made(make_error, error, decode(*text ? text : strerror(-error)));
}

PyObject *raise_of_file(int error, const char *text)
{
	return raise_made(make_error_of_file, error, decode(text));
}

PyObject *raise_error_text(int error, const char *format, ...)
{
	va_list values;
	PyObject *text;

	va_start(values, format);
	text = PyUnicode_FromFormatV(format, values);
	va_end(values);
	return raise_made(make_error, error, text);
}

bool errors_init(void)
{
	PyObject *errors = PyImport_ImportModule("ibvcap._errors");

	make_error = errors ? PyObject_GetAttrString(errors, "make") : NULL;
	make_error_of_file = make_error ? PyObject_GetAttrString(errors, "make_of_file") : NULL;
	Py_XDECREF(errors);
	return make_error_of_file;
}

PyTypeObject *view_type, *memory_type, *receiver_type, *batch_type, *sender_type, *slots_type, *tracker_type,
	*recording_type, *placer_type, *placed_array_type;

/* ---- shared by the types ------------------------------------------------------------------------- */

int timeout_ms_of(PyObject *seconds)
{
	double value;

	if (seconds == Py_None)
		return -1;
	value = PyFloat_AsDouble(seconds);
	if (PyErr_Occurred())
		return -2;
	if (!(value >= 0)) {
		PyErr_SetString(PyExc_ValueError, "a timeout is a number of seconds, 0 or more; None: no limit");
		return -2;
	}
	return value * 1000 >= INT32_MAX ? INT32_MAX : (int)ceil(value * 1000);
}

bool call_lock_init(struct call_lock *lock)
{
	*lock = (struct call_lock){.lock = PyThread_allocate_lock(), .owner = getpid()};
	return lock->lock;
}

void call_lock_take(struct call_lock *lock)
{
	struct call_lock own;

	if (PyThread_acquire_lock(lock->lock, NOWAIT_LOCK))
		return;
	if (getpid() != lock->owner && call_lock_init(&own)) {
		lock->lock = own.lock; /* nobody would release the other one */
		lock->owner = own.owner;
	}
	lock->n_waiting++;
	Py_BEGIN_ALLOW_THREADS
	PyThread_acquire_lock(lock->lock, WAIT_LOCK);
	Py_END_ALLOW_THREADS
	lock->n_waiting--;
}

int wait_in_slices(const struct call_lock *lock, int timeout_ms, int (*slice)(void *of, int slice_ms), void *of)
{
	static const struct timespec pause = {.tv_nsec = 1000000};
	int r, slice_ms;

	do {
		slice_ms = timeout_ms < 0 || timeout_ms > WAIT_SLICE_MS ? WAIT_SLICE_MS : timeout_ms;
		if (timeout_ms > 0)
			timeout_ms -= slice_ms;
		r = slice(of, slice_ms);
		/* Not with the lock, because the handler of a signal may use the object. */
		if (r == 0 && PyErr_CheckSignals() < 0)
			return -EINTR;
		if (r == 0 && lock->n_waiting) {
			/* This thread would take the lock again before one that waits for it wakes. */
			Py_BEGIN_ALLOW_THREADS
			nanosleep(&pause, NULL);
			Py_END_ALLOW_THREADS
		}
	} while (r == 0 && timeout_ms != 0);
	return r;
}

int u64_of(PyObject *number, void *to)
{
	PyObject *index = PyNumber_Index(number);
	uint64_t value = index ? PyLong_AsUnsignedLongLong(index) : 0;

	Py_XDECREF(index);
	if (PyErr_Occurred())
		return 0;
	memcpy(to, &value, sizeof(value));
	return 1;
}

int u32_of(PyObject *number, void *to)
{
	uint64_t value;
	uint32_t low;

	if (!u64_of(number, &value))
		return 0;
	if (value > UINT32_MAX) {
		PyErr_SetString(PyExc_OverflowError, "the number is larger than 4294967295");
		return 0;
	}
	low = (uint32_t)value;
	memcpy(to, &low, sizeof(low));
	return 1;
}

int answer_timeout_of(PyObject *seconds, void *to)
{
	int timeout_ms = timeout_ms_of(seconds);
	uint32_t option = timeout_ms == 0 ? 1 : timeout_ms < 0 ? INT32_MAX : (uint32_t)timeout_ms;

	if (timeout_ms == -2)
		return 0;
	memcpy(to, &option, sizeof(option));
	return 1;
}

PyObject *members_to_dict(const struct member *members, const void *object)
{
	PyObject *dict = PyDict_New();

	for (; dict && members->name; members++) {
		const char *at = (const char *)object + members->offset;
		uint32_t number;
		int32_t whole;
		uint64_t large;
		PyObject *value;

		if (members->type == 's') {
			value = PyUnicode_FromString(at);
		} else if (members->type == 'u') {
			memcpy(&number, at, sizeof(number));
			value = PyLong_FromUnsignedLong(number);
		} else if (members->type == 'I') {
			memcpy(&whole, at, sizeof(whole));
			value = whole == -1 ? Py_NewRef(Py_None) : PyLong_FromLong(whole);
		} else {
			memcpy(&large, at, sizeof(large));
			if (members->type != 'q' && large == IBVCAP_NOT_KNOWN)
				value = Py_NewRef(Py_None);
			else
				value = members->type == 'L' ? PyLong_FromLongLong((int64_t)large)
				                             : PyLong_FromUnsignedLongLong(large);
		}
		if (!value || PyDict_SetItemString(dict, members->name, value) < 0)
			Py_CLEAR(dict);
		Py_XDECREF(value);
	}
	return dict;
}

void list_append(PyObject **list, PyObject *value)
{
	if (!value || PyList_Append(*list, value) < 0)
		Py_CLEAR(*list);
	Py_XDECREF(value);
}
