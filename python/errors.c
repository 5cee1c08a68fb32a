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

struct error_class {
	const char *name;
	const char *doc;
	int errors[4];   /* ends with 0 */
	PyObject **also; /* a class of Python's own that it is, too; NULL: none but OSError */
	PyObject *class;
};

/* The first is the base class of all, for errors that none of the others names. */
static struct error_class error_classes[] = {
	{"ibvcap.Error", "A call of libibvcap failed. errno and strerror say why, and what to do.", {0}, NULL, NULL},
	{"ibvcap.NoDaemon", "No ibvcapd answers on the socket.", {ENOENT, ECONNREFUSED, ETIMEDOUT}, NULL, NULL},
	{"ibvcap.NotFound", "The daemon has no stream or channel of that name.", {ESRCH}, NULL, NULL},
	{"ibvcap.NoAccess",
         "This user may not use the socket, the stream, the channel or the file.",
         {EACCES, EPERM},
         &PyExc_PermissionError,
         NULL},
	{"ibvcap.Busy", "All places or leases of the daemon are taken.", {EAGAIN}, NULL, NULL},
	{"ibvcap.TooManyBatches",
         "All leases of the receiver are taken by batches that are not returned.",
         {ENOBUFS},
         NULL,
         NULL},
	{"ibvcap.Ended",
         "The daemon ended and none came back, or the administrator removed the stream or channel.",
         {ESHUTDOWN, ENODEV},
         NULL,
         NULL},
	{"ibvcap.Disconnected",
         "The daemon disconnected this program, or the handle is of another process.",
         {ECONNABORTED, ECHILD},
         NULL,
         NULL},
};
/* Error class for recordings. For the others, ENOENT means that nobody made the socket. */
static struct error_class no_file = {
	"ibvcap.NoFile", "There is no file of that name.", {0}, &PyExc_FileNotFoundError, NULL};
#define N_ERROR_CLASSES (sizeof(error_classes) / sizeof(error_classes[0]))

static PyObject *error_class_of(int error)
{
	for (size_t i = 1; i < N_ERROR_CLASSES; i++)
		for (const int *known = error_classes[i].errors; *known; known++)
			if (*known == error)
				return error_classes[i].class;
	return error_classes[0].class;
}

static PyObject *raise_object(PyObject *class, int error, PyObject *text)
{
	PyObject *arguments = text ? Py_BuildValue("(iN)", -error, text) : NULL;

	if (arguments)
		PyErr_SetObject(class, arguments);
	Py_XDECREF(arguments);
	return NULL;
}

static PyObject *decode(const char *text)
{
	return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "backslashreplace");
}

PyObject *raise_error(int error)
{
	const char *text = ibvcap_error_text();

	return raise_object(error_class_of(-error), error, decode(*text ? text : strerror(-error)));
}

PyObject *raise_of_file(int error, const char *text)
{
	return raise_object(error == -ENOENT ? no_file.class : error_class_of(-error), error, decode(text));
}

PyObject *raise_error_text(int error, const char *format, ...)
{
	va_list values;
	PyObject *text;

	va_start(values, format);
	text = PyUnicode_FromFormatV(format, values);
	va_end(values);
	return raise_object(error_class_of(-error), error, text);
}

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
		uint64_t large;
		PyObject *value;

		if (members->type == 's') {
			value = PyUnicode_FromString(at);
		} else if (members->type == 'u') {
			memcpy(&number, at, sizeof(number));
			value = PyLong_FromUnsignedLong(number);
		} else {
			memcpy(&large, at, sizeof(large));
			value = PyLong_FromUnsignedLongLong(large);
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

static bool add_class(PyObject *module, struct error_class *error)
{
	PyObject *base = error == &error_classes[0] ? PyExc_OSError : error_classes[0].class;
	PyObject *bases = error->also ? PyTuple_Pack(2, base, *error->also) : Py_NewRef(base);

	error->class = bases ? PyErr_NewExceptionWithDoc(error->name, error->doc, bases, NULL) : NULL;
	Py_XDECREF(bases);
	return error->class && PyModule_AddObjectRef(module, strchr(error->name, '.') + 1, error->class) == 0;
}

bool errors_add_to(PyObject *module)
{
	for (size_t i = 0; i < N_ERROR_CLASSES; i++)
		if (!add_class(module, &error_classes[i]))
			return false;
	return add_class(module, &no_file);
}
