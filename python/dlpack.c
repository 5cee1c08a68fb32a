// SPDX-License-Identifier: Apache-2.0
/*
 * Exports what the buffer protocol exports by DLPack, too. The structs are those of DLPack 1.0, whose consumers learn
 * from a flag that memory is read-only; older consumers would write to it.
 */
#include "python/binding.h"

#include <string.h>

#define DLPACK_READ_ONLY UINT64_C(1)
#define DLPACK_IS_COPIED UINT64_C(2)
#define DLPACK_UINT      1

struct dlpack_tensor {
	void *data;
	struct dlpack_device device;
	int32_t n_dimensions;
	uint8_t type_code;
	uint8_t type_bits;
	uint16_t type_lanes;
	int64_t *shape;
	int64_t *strides; /* in items */
	uint64_t byte_offset;
};

struct dlpack_managed {
	struct dlpack_tensor tensor;
	void *context;
	void (*deleter)(struct dlpack_managed *managed);
};

struct dlpack_versioned {
	uint32_t major;
	uint32_t minor;
	void *context;
	void (*deleter)(struct dlpack_versioned *versioned);
	uint64_t flags;
	struct dlpack_tensor tensor;
};

static const char unversioned_name[] = "dltensor", versioned_name[] = "dltensor_versioned";

/* What a capsule points to, and what it keeps. */
struct dlpack {
	union {
		struct dlpack_managed managed;
		struct dlpack_versioned versioned;
	};
	Py_buffer buffer; /* of the exporter */
	void *copy;       /* NULL: the tensor is the buffer */
	int64_t shape[VIEW_DIMENSIONS];
	int64_t strides[VIEW_DIMENSIONS];
};

/* What the consumer asks for. */
struct dlpack_request {
	struct dlpack_device device;
	bool is_versioned;
	bool wants_copy;
};

/* A consumer may call the deleter in any thread, and after the interpreter's end, where nothing can be given back. */
static void dlpack_free(struct dlpack *dlpack)
{
	PyGILState_STATE state;

	if (!Py_IsInitialized())
		return;
	state = PyGILState_Ensure();
	PyBuffer_Release(&dlpack->buffer);
	PyMem_Free(dlpack->copy);
	PyMem_Free(dlpack);
	PyGILState_Release(state);
}

static void delete_managed(struct dlpack_managed *managed)
{
	dlpack_free(managed->context);
}

static void delete_versioned(struct dlpack_versioned *versioned)
{
	dlpack_free(versioned->context);
}

/* A consumer that took the tensor has renamed the capsule, and calls the deleter itself. */
static void capsule_destroy(PyObject *capsule)
{
	if (PyCapsule_IsValid(capsule, versioned_name))
		dlpack_free(((struct dlpack_versioned *)PyCapsule_GetPointer(capsule, versioned_name))->context);
	else if (PyCapsule_IsValid(capsule, unversioned_name))
		dlpack_free(((struct dlpack_managed *)PyCapsule_GetPointer(capsule, unversioned_name))->context);
}

/* 0: an exception is set. */
static uint8_t type_bits_of(const Py_buffer *buffer)
{
	const char *format = buffer->format[0] == '<' ? buffer->format + 1 : buffer->format;

	if (strlen(format) == 1 && strchr("BHIQ", *format))
		return (uint8_t)(buffer->itemsize * 8);
	PyErr_SetString(PyExc_BufferError, "DLPack has no type for records: make an array with numpy.frombuffer() and "
	                                   "ibvcap.META, TRACKED, PLACED or SLOTS, and take its fields");
	return 0;
}

static bool fill_tensor(struct dlpack *dlpack, struct dlpack_tensor *tensor, struct dlpack_device device)
{
	const Py_buffer *buffer = &dlpack->buffer;
	int64_t n_items = 1;

	*tensor = (struct dlpack_tensor){.data = dlpack->copy ? dlpack->copy : buffer->buf,
	                                 .device = device,
	                                 .n_dimensions = buffer->ndim,
	                                 .type_code = DLPACK_UINT,
	                                 .type_bits = type_bits_of(buffer),
	                                 .type_lanes = 1,
	                                 .shape = dlpack->shape,
	                                 .strides = dlpack->strides};
	for (int i = buffer->ndim; i-- > 0; n_items *= buffer->shape[i]) {
		dlpack->shape[i] = buffer->shape[i];
		dlpack->strides[i] = dlpack->copy ? n_items : buffer->strides[i] / buffer->itemsize;
	}
	return tensor->type_bits;
}

static bool dlpack_copy(struct dlpack *dlpack)
{
	Py_ssize_t bytes = dlpack->buffer.len;

	dlpack->copy = PyMem_Malloc((size_t)bytes);
	if (dlpack->copy)
		return PyBuffer_ToContiguous(dlpack->copy, &dlpack->buffer, bytes, 'C') == 0;
	PyErr_NoMemory();
	return false;
}

static PyObject *capsule_of(struct dlpack *dlpack, const struct dlpack_request *request)
{
	bool is_read_only = dlpack->buffer.readonly && !dlpack->copy;
	struct dlpack_tensor tensor;

	if (!fill_tensor(dlpack, &tensor, request->device))
		return NULL;
	if (request->is_versioned) {
		dlpack->versioned = (struct dlpack_versioned){.major = 1,
		                                              .context = dlpack,
		                                              .deleter = delete_versioned,
		                                              .flags = (is_read_only ? DLPACK_READ_ONLY : 0) |
		                                                       (dlpack->copy ? DLPACK_IS_COPIED : 0),
		                                              .tensor = tensor};
		return PyCapsule_New(&dlpack->versioned, versioned_name, capsule_destroy);
	}
	if (is_read_only)
		return PyErr_Format(PyExc_BufferError,
		                    "received packets are read-only, which only DLPack 1.0 or later can say; this "
		                    "consumer did not ask for it (max_version): show them by numpy.asarray(), or make "
		                    "a copy");
	dlpack->managed = (struct dlpack_managed){.tensor = tensor, .context = dlpack, .deleter = delete_managed};
	return PyCapsule_New(&dlpack->managed, unversioned_name, capsule_destroy);
}

static PyObject *dlpack_new(PyObject *exporter, const struct dlpack_request *request)
{
	struct dlpack *dlpack = PyMem_Calloc(1, sizeof(*dlpack));
	PyObject *capsule = NULL;

	if (!dlpack)
		return PyErr_NoMemory();
	if (PyObject_GetBuffer(exporter, &dlpack->buffer, PyBUF_FULL_RO) < 0) {
		PyMem_Free(dlpack);
		return NULL;
	}
	if (!request->wants_copy || dlpack_copy(dlpack))
		capsule = capsule_of(dlpack, request);
	if (!capsule)
		dlpack_free(dlpack);
	return capsule;
}

/* Of a tuple of two numbers. */
static bool parse_pair(PyObject *pair, const char *name, int *first, int *second)
{
	if (PyTuple_Check(pair) && PyArg_ParseTuple(pair, "ii", first, second))
		return true;
	PyErr_Format(PyExc_TypeError, "%s is a tuple of two numbers, or None", name);
	return false;
}

/* Memory that a device reads in the host's memory is the host's, too. */
static bool choose_device(PyObject *wanted, struct dlpack_device own, struct dlpack_device *device)
{
	int type, id;

	*device = own;
	if (wanted == Py_None)
		return true;
	if (!parse_pair(wanted, "dl_device", &type, &id))
		return false;
	*device = (struct dlpack_device){type, id};
	if ((type == own.type && id == own.id) || (type == DLPACK_CPU && id == 0))
		return true;
	PyErr_Format(PyExc_BufferError,
	             "the packets are in the host's memory, device (%d, %d), and not on device (%d, %d): copy them to "
	             "it from there",
	             own.type, own.id, type, id);
	return false;
}

PyObject *dlpack_export(PyObject *exporter, PyObject *arguments, PyObject *keywords, struct dlpack_device own,
                        bool (*use_stream)(PyObject *exporter, PyObject *stream))
{
	static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
	PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None;
	struct dlpack_request request;
	int major = 0, minor, wants_copy;
	PyObject *capsule;

	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$OOOO:__dlpack__", names, &stream, &max_version,
	                                 &device, &copy))
		return NULL;
	if (!use_stream && stream != Py_None)
		return PyErr_Format(PyExc_ValueError, "the packets are in the host's memory, which has no stream");
	if (max_version != Py_None && !parse_pair(max_version, "max_version", &major, &minor))
		return NULL;
	wants_copy = PyObject_IsTrue(copy);
	if (wants_copy > 0)
		own = (struct dlpack_device){DLPACK_CPU, 0};
	if (wants_copy < 0 || !choose_device(device, own, &request.device))
		return NULL;
	request.is_versioned = major >= 1;
	request.wants_copy = wants_copy;
	capsule = dlpack_new(exporter, &request);
	/* Last, so that what fails names no stream. Nothing on a stream reads the memory that was copied. */
	if (capsule && use_stream && !wants_copy && !use_stream(exporter, stream))
		Py_CLEAR(capsule);
	return capsule;
}

PyObject *dlpack_export_of_host(PyObject *exporter, PyObject *arguments, PyObject *keywords)
{
	return dlpack_export(exporter, arguments, keywords, (struct dlpack_device){DLPACK_CPU, 0}, NULL);
}

PyObject *dlpack_device_of_host(PyObject *exporter, PyObject *unused)
{
	return Py_BuildValue("ii", DLPACK_CPU, 0);
}
