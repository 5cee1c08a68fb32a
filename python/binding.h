// SPDX-License-Identifier: Apache-2.0
/*
 * The Python module _ibvcap: libibvcap's handles and batches as objects of Python, on the stable ABI of Python 3.11.
 *
 * Threads: a handle of libibvcap is for one thread at a time. Each object that owns one has a lock for calls that may
 * wait; they wait without the interpreter's lock. Whatever else touches such an object holds the interpreter's lock.
 * Declares batch.c, errors.c, lease.c, place_memory.c, placed_array.c, receiver.c, rx_handle.c, rx_loop.c, view.c.
 */
#ifndef IBVCAP_PYTHON_BINDING_H
#define IBVCAP_PYTHON_BINDING_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <structmember.h>

#include <ibvcap/ibvcap.h>
#include <ibvcap/place.h>
#include <stddef.h>

/* Members of a PyMethodDef for a method that takes keywords. */
#define KEYWORDS(function) (PyCFunction)(void (*)(void))(function), METH_VARARGS | METH_KEYWORDS

/* The PyType_Spec of ibvcap.NAME, whose objects are of this struct. */
#define TYPE_SPEC(type_name, of, type_flags, type_slots)                                                          \
	{                                                                                                         \
		.name = "ibvcap." type_name, .basicsize = sizeof(of), .flags = Py_TPFLAGS_DEFAULT | (type_flags), \
		.slots = (type_slots)                                                                             \
	}

/** A new object of the type, all zero. */
static inline void *object_new(PyTypeObject *type)
{
	return ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
}

/** The method __enter__. */
static inline PyObject *object_enter(PyObject *object, PyObject *unused)
{
	return Py_NewRef(object);
}

/** The end of a tp_dealloc. */
static inline void object_free(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	release(object);
	Py_DECREF(type);
}

struct module_type {
	PyTypeObject **type;
	PyType_Spec *spec;
};

/** Make the types, and add them to the module. False: an exception is set. */
static inline bool module_add_types(PyObject *module, const struct module_type *types, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		*types[i].type = (PyTypeObject *)PyType_FromSpec(types[i].spec);
		if (!*types[i].type || PyModule_AddType(module, *types[i].type) < 0)
			return false;
	}
	return true;
}

/* ---- errors.c ------------------------------------------------------------------------------------ */

/** Raise ibvcap.Error, or the subclass for this negative errno, with the library's text. Returns NULL. */
PyObject *raise_error(int error);
/** The same with a text of one's own, as PyUnicode_FromFormat() makes it. */
PyObject *raise_error_text(int error, const char *format, ...);

/** The same of a file, with its text. */
PyObject *raise_of_file(int error, const char *text);

/** Load the module with the exceptions. False: an exception is set. */
bool errors_init(void);

/** A timeout in seconds as ms, rounded up: None is -1, for ever. -2: an exception is set. */
int timeout_ms_of(PyObject *seconds);

#define WAIT_SLICE_MS 100 /* interval at which a waiting thread does the work that other threads left for it */

/* The lock of an object for calls that may wait. */
struct call_lock {
	PyThread_type_lock lock;
	uint32_t n_waiting; /* threads that wait for it */
	pid_t owner;        /* the process that it is of */
};

/** False: no memory. */
bool call_lock_init(struct call_lock *lock);
/** The threads of the lock's owner are not in a forked child, which gets a lock of its own. */
void call_lock_take(struct call_lock *lock);

/**
 * Wait in slices for what `slice` does with an object, which takes the object's lock for each one: it returns 0: not
 * yet; negative: an exception is set. The result is that of the last slice.
 */
int wait_in_slices(const struct call_lock *lock, int timeout_ms, int (*slice)(void *of, int slice_ms), void *of);

/** Converters for PyArg_Parse…(): a number that the type has, as uint64_t or uint32_t. 0: an exception is set. */
int u64_of(PyObject *number, void *to);
int u32_of(PyObject *number, void *to);
/** A timeout for the daemon's answer, as the uint32_t of an option. There 0 means the default, so no wait is 1 ms. */
int answer_timeout_of(PyObject *seconds, void *to);

/* ---- view.c: memory of a handle as a buffer ------------------------------------------------------ */

#define VIEW_DIMENSIONS 3

/* The owner of memory that views show. It counts the buffers of it that Python holds. */
struct view_owner {
	PyObject base;
	const char *name; /* for messages: "batch", "array" */
	Py_ssize_t n_buffers;
	bool is_gone;                                       /* the memory is not the owner's any more */
	bool is_soft;                                       /* it is given back when Python releases the last buffer */
	void (*give_back)(struct view_owner *owner);        /* give the memory back; no effect a second time */
	void (*last_buffer_gone)(struct view_owner *owner); /* Python has released the last buffer; NULL: no effect */
};

struct view_shape {
	void *bytes;
	const char *format; /* format of an item, as in module struct and PEP 3118 */
	Py_ssize_t item_bytes;
	int n_dimensions;
	Py_ssize_t shape[VIEW_DIMENSIONS];
	Py_ssize_t strides[VIEW_DIMENSIONS];
	bool is_writable;
};

struct view {
	PyObject base;
	struct view_owner *owner; /* a reference */
	struct view_shape shape;
};

extern PyType_Spec view_spec, memory_spec;
extern PyTypeObject *view_type, *memory_type;

/** A new object that exports this memory, and keeps its owner. */
PyObject *view_new(struct view_owner *owner, const struct view_shape *shape);
/** The same of n rows of bytes, or of n records of this format, without a gap. */
PyObject *view_new_of_rows(struct view_owner *owner, const void *rows, Py_ssize_t n, Py_ssize_t row_bytes,
                           Py_ssize_t stride, bool is_writable);
PyObject *view_new_of_records(struct view_owner *owner, const void *records, Py_ssize_t n, const char *format,
                              size_t record_bytes, bool is_writable);
/** A view of n records in new memory, to which *records is set. */
PyObject *view_new_of_memory(void **records, Py_ssize_t n, const char *format, size_t record_bytes);
/** For the getbuffer of a view: fill the buffer, which is not counted. -1: an exception is set. */
int view_fill_buffer(struct view *view, Py_buffer *buffer, int flags);
void view_owner_release(struct view_owner *owner);
/** Give the memory back, now or when the last buffer goes. */
void view_owner_return_softly(struct view_owner *owner);
/** The method release(), which gives the memory back. BufferError if there are views. */
PyObject *view_owner_give_back(PyObject *object, PyObject *unused);
/** The tp_dealloc of an owner that gives its memory back. Its views have gone: each keeps the owner. */
void view_owner_dealloc(PyObject *object);
/** For a getbuffer of an object that exports a view, or NULL. Takes the reference to the view. */
int view_export(PyObject *view, Py_buffer *buffer, int flags);
/** The method __array__. */
PyObject *raise_no_buffer(PyObject *exporter, PyObject *arguments, PyObject *keywords);

/* The methods of all that exports a buffer; view_methods has these alone. */
#define EXPORT_METHODS                                                                           \
	{"__array__", KEYWORDS(raise_no_buffer), NULL},                                          \
		{"__dlpack__", KEYWORDS(dlpack_export_of_host), DLPACK_SIGNATURE},               \
	{                                                                                        \
		"__dlpack_device__", dlpack_device_of_host, METH_NOARGS, DLPACK_DEVICE_SIGNATURE \
	}
extern PyMethodDef view_methods[];

/* ---- dlpack.c: the same memory by DLPack ----------------------------------------------------------- */

#define DLPACK_CPU       1
#define DLPACK_CUDA_HOST 3 /* memory of the host that CUDA knows, and its devices read */

#define DLPACK_SIGNATURE                                                                                      \
	"__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"              \
	"A capsule for from_dlpack() of other packages. It keeps the lease as a view does. BufferError: the " \
	"memory is\nread-only, and the consumer is older than DLPack 1.0, which can say so."
#define DLPACK_DEVICE_SIGNATURE "__dlpack_device__($self)\n--\n\nType and number of the device: (1, 0) is the host."

struct dlpack_device {
	int32_t type;
	int32_t id;
};

/**
 * A capsule of what the exporter's buffer shows, on its own device or as the host's memory, or of a copy, which is the
 * host's. use_stream: for the argument stream, unless it is a copy; false: an exception is set. NULL: None alone is
 * accepted.
 */
PyObject *dlpack_export(PyObject *exporter, PyObject *arguments, PyObject *keywords, struct dlpack_device own,
                        bool (*use_stream)(PyObject *exporter, PyObject *stream));
/** The methods __dlpack__ and __dlpack_device__ of the host's memory. */
PyObject *dlpack_export_of_host(PyObject *exporter, PyObject *arguments, PyObject *keywords);
PyObject *dlpack_device_of_host(PyObject *exporter, PyObject *unused);

#define META_FORMAT "T{<Q:timestamp_ns:<H:length:<H:flags:B:header_length:B:flow:<H:wire_length:}"

/* ---- rx_handle.c: receive handles of libibvcap ------------------------------------------------------ */

/** A handle, by the arguments of a receiver. NULL: an exception is set. */
struct ibvcap_rx *rx_open_by_keywords(PyObject *arguments, PyObject *keywords);
PyObject *rx_info_to_dict(struct ibvcap_rx *rx);
/** Its counts, and "lost": packets that came and got no row. */
PyObject *rx_counts_to_dict(struct ibvcap_rx *rx, uint64_t n_lost);

/* ---- rx_loop.c: the methods by which receivers give out batches ------------------------------------- */

/* The first member of a receiver's handle. */
struct rx_loop {
	/* A new reference to a batch, which is a view_owner; Py_None: no packet in time; NULL: an exception. */
	PyObject *(*wait)(struct rx_loop *loop, uint32_t max, uint32_t min, int timeout_ms);
	struct view_owner *newest; /* that iteration gave out; not a reference */
};

/* A receiver. */
struct rx_loop_object {
	PyObject base;
	struct rx_loop *loop;
};

PyObject *rx_loop_acquire(PyObject *object, PyObject *arguments, PyObject *keywords);
PyObject *rx_loop_take(PyObject *object, PyObject *timeout);
PyObject *rx_loop_next(PyObject *object);
void rx_loop_return_newest(struct rx_loop *loop);

#define RX_LOOP_TAKE                                                                                             \
	{                                                                                                        \
		"take", rx_loop_take, METH_O,                                                                    \
			"take($self, timeout, /)\n--\n\n"                                                        \
			"As a step of a loop: the batch of the step before is returned when its last view goes." \
	}

/* ---- receiver.c, batch.c, sender.c, status.c, tracker.c, recording.c, place.c -------------------- */

/*
 * A handle of libibvcap, which a Receiver and its batches share. It is no object of Python: so a Receiver that keeps
 * its own arrays makes no cycle of references, which NumPy's arrays would hide from the garbage collector.
 */
struct receiver {
	struct rx_loop loop;
	uint32_t n_references;
	struct ibvcap_rx *rx; /* NULL: closed, and no batch is left */
	struct call_lock lock;
	bool is_closed;         /* to be closed when the last batch is returned */
	uint32_t n_batches;     /* acquired, and not returned yet */
	struct batch *returned; /* by threads that did not get the lock; linked by next */
	struct ibvcap_rx_losses losses;
};

/* Packets under one lease. */
struct batch {
	struct view_owner owner;
	struct receiver *receiver; /* a reference; NULL: the lease is returned, or the rows are in own_memory */
	void *own_memory;
	struct ibvcap_rx_batch rows;
	uint64_t lost;
	struct batch *next;
};

extern PyType_Spec receiver_spec, batch_spec, sender_spec, slots_spec, tracker_spec, recording_spec, placer_spec,
	placed_array_spec;
extern PyTypeObject *receiver_type, *batch_type, *sender_type, *slots_type, *tracker_type, *recording_type,
	*placer_type, *placed_array_type;

/** A batch of rows that the receiver has acquired. */
struct batch *batch_new(struct receiver *receiver, const struct ibvcap_rx_batch *rows, uint64_t lost);
/** A batch that frees its rows, of which rows->payload is the allocation. */
struct batch *batch_new_of_memory(const struct ibvcap_rx_batch *rows, uint64_t lost);
/** The handle of an object of type Receiver. */
struct receiver *receiver_of(PyObject *object);
/** NULL: no memory. The first reference is the caller's, and so is rx then. */
struct receiver *receiver_new_of(struct ibvcap_rx *rx);
struct receiver *receiver_ref(struct receiver *receiver);
void receiver_unref(struct receiver *receiver);
/** The batch's lease is to be returned, by this thread or by the one that has the handle's lock. */
void receiver_take_back(struct receiver *receiver, struct batch *batch);
/** Take the lock of an open receiver. False: it is closed, an exception is set, and the lock is not held. */
bool receiver_begin(struct receiver *receiver);
void receiver_unlock(struct receiver *receiver);
/** With the lock. */
void receiver_release_rows(struct receiver *receiver, const struct ibvcap_rx_batch *rows);

/** Members of a struct of the library as a dict. The table ends with one without a name. */
struct member {
	const char *name;
	uint16_t offset;
	/* 'u' uint32_t, 'q' uint64_t, 's' char[]; 'Q' uint64_t, 'L' int64_t, 'I' int32_t: None if all bits are 1 */
	char type;
};
/* A row of the table, which has the type of the struct's member. */
#define MEMBER(of, name) MEMBER_AS(of, name, #name)
#define MEMBER_AS(of, member, name)                                                                         \
	{                                                                                                   \
		name, offsetof(struct of, member),                                                        \
			_Generic(((struct of *)NULL)->member, uint32_t : 'u', uint64_t : 'q', char * : 's') \
	}
/* The row of a number that may not be known. */
#define MEMBER_LACK(of, member, name)                                  \
	{                                                              \
		name, offsetof(struct of, member),                     \
			_Generic(((struct of *)NULL)->member, uint64_t \
		                 : 'Q', int64_t                        \
		                 : 'L', int32_t                        \
		                 : 'I')                                \
	}
PyObject *members_to_dict(const struct member *members, const void *object);

/** Append to the list, which is cleared if that fails or value is NULL. Takes the reference to value. */
void list_append(PyObject **list, PyObject *value);

/* ---- a placer and its arrays ------------------------------------------------------------------------ */

/* An array that was given up while its placer was busy. */
struct returned {
	struct ibvcap_place_array array;
	struct returned *next;
};

/* A buffer of the program, in pieces for arrays. */
struct place_memory {
	Py_buffer buffer; /* .obj NULL: the placer has memory of its own */
	void **free;      /* pieces that no array has */
	uint64_t n_free;
};

/* It is no object of Python, as a receiver is none: so a Placer that keeps its arrays makes no cycle of references. */
struct placer {
	uint32_t n_references; /* of its Placer, and of its arrays */
	struct ibvcap_placer *placer;
	struct place_memory memory;
	bool is_busy;              /* a thread places packets */
	struct returned *returned; /* while it did */
	struct batch *batch;       /* whose rows are not all placed yet: a reference, and a buffer of it */
	uint32_t row;
	uint32_t side;
};

/** The options get the buffer of this object. False: an exception is set. */
bool place_memory_open(struct place_memory *memory, PyObject *of, struct ibvcap_placer_options *options);
/** Cut it into arrays of so many bytes. False: an exception is set. */
bool place_memory_divide(struct place_memory *memory, const struct ibvcap_placer_options *options,
                         uint64_t array_bytes);
/** Release the buffer. */
void place_memory_close(struct place_memory *memory);

/** Without a reference there is no Placer and no array. */
void placer_unref(struct placer *placer);

/** An array of a closed one, whose memory it returns. NULL: it is returned, and an exception is set. */
PyObject *placed_array_new(struct placer *placer, const struct ibvcap_place_array *of);

/* ---- functions of the module ---------------------------------------------------------------------- */

PyObject *status_to_text(PyObject *module, PyObject *arguments);
/** The description of the numbers of a Receiver's or a Recording's packets, struct ibvcap_sequence; all 0: none. */
PyObject *sequence_to_bytes(PyObject *module, PyObject *of);
/** The same of an object of type Recording, which reads up to its first packet. NULL: an exception is set. */
PyObject *recording_sequence_to_bytes(PyObject *object);

#endif
