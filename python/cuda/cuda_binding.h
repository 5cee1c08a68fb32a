// SPDX-License-Identifier: Apache-2.0
/*
 * The Python module _cuda: libibvcap-cuda's handles and batches as objects of Python. It is a module of its own, so
 * that the package is imported without libibvcap-cuda. Locks and threads are as in python/binding.h.
 * Declares device.c, handle.c, stream.c.
 */
#ifndef IBVCAP_PYTHON_CUDA_BINDING_H
#define IBVCAP_PYTHON_CUDA_BINDING_H

#include "python/binding.h"

#include <ibvcap/cuda.h>

struct cuda_batch;

/* ---- stream.c: streams of CUDA -------------------------------------------------------------------- */

/* The stream whose work reads a batch. */
struct cuda_stream {
	struct CUstream_st *handle; /* NULL: the legacy default stream */
	PyObject *object;           /* a reference, so that the stream lives; NULL: it was named by a number */
};

/** The stream that this object is, or has. False: an exception is set. */
bool cuda_stream_of(PyObject *object, struct cuda_stream *stream);
/** The same of the argument of __dlpack__: *is_named is false if the consumer names no stream. */
bool cuda_stream_of_dlpack(PyObject *object, struct cuda_stream *stream, bool *is_named);
struct cuda_stream cuda_stream_ref(const struct cuda_stream *stream);
void cuda_stream_drop(struct cuda_stream *stream);
/** Name the stream whose work reads the batch. Takes the reference. False: it has another one; an exception is set. */
bool cuda_batch_use(struct cuda_batch *batch, struct cuda_stream *stream);

/* ---- device.c: a device ---------------------------------------------------------------------------- */

/** A struct ibvcap_cuda_info as a dict, added to the dict. False: an exception is set. */
bool cuda_info_add(PyObject *dict, const struct ibvcap_cuda_info *info);
/** Raise for an error of ibvcap_cuda_open() or _probe(), with the library's text. Returns NULL. */
PyObject *cuda_raise_of_device(int error);
/** Load what makes these exceptions. False: an exception is set. */
bool cuda_errors_init(void);

/* ---- handle.c: a handle, and the batches that go back to it ---------------------------------------- */

/* What goes back to a handle. It is allocated before the batch is acquired, so no return lacks memory. */
struct cuda_returned {
	struct ibvcap_cuda_batch batch;
	struct cuda_stream stream;
	struct cuda_returned *next;
};

/*
 * A handle of libibvcap-cuda with its receive handle, which a Receiver and its batches share. It is no object of
 * Python, as struct receiver is none.
 */
struct cuda_handle {
	struct rx_loop loop;
	uint32_t n_references;
	struct ibvcap_rx *rx;     /* NULL: closed, and no batch is left */
	struct ibvcap_cuda *cuda; /* the same */
	struct call_lock lock;
	bool is_closed;     /* to be closed when the last batch is returned */
	uint32_t n_batches; /* acquired, and not returned yet */
	/* By threads that did not get the lock, and those that the driver refused: each call tries them again. */
	struct cuda_returned *returned;
	struct cuda_stream stream; /* of batches for which none is named */
	uint64_t n_lost;           /* packets that got no row, before the newest batch */
};

/** NULL: no memory. The first reference is the caller's; rx and cuda are the handle's then. */
struct cuda_handle *cuda_handle_new(struct ibvcap_rx *rx, struct ibvcap_cuda *cuda, struct cuda_stream stream);
struct cuda_handle *cuda_handle_ref(struct cuda_handle *handle);
void cuda_handle_unref(struct cuda_handle *handle);
/** Take the lock of an open handle. False: it is closed, an exception is set, and the lock is not held. */
bool cuda_handle_begin(struct cuda_handle *handle);
void cuda_handle_unlock(struct cuda_handle *handle);
/** Take no more packets. Batches stay; the handle is closed behind the last one. */
void cuda_handle_close(struct cuda_handle *handle);
/**
 * Return a batch, which is the handle's then: its lease ends with the work on the stream. By this thread, or by the one
 * that has the handle's lock. -errno, with is_told: it stays with the caller, and no code of Python has run. Without
 * is_told, a batch that the driver refuses keeps its lease until a later call returns it, since nothing else says that
 * the work on its stream has ended.
 */
int cuda_handle_take_back(struct cuda_handle *handle, struct cuda_returned *returned, bool is_told);
/** With the lock: return what is to be returned, as far as the driver lets. Runs code of Python. */
void cuda_handle_return_batches(struct cuda_handle *handle);
/** With the lock: the next call of cuda_handle_return_batches() returns it, too. */
void cuda_handle_append(struct cuda_handle *handle, struct cuda_returned *returned);

/* ---- batch.c, view.c, receiver.c -------------------------------------------------------------------- */

struct cuda_batch {
	struct view_owner owner;
	struct cuda_handle *handle;      /* a reference, while there is to_return */
	struct cuda_returned *to_return; /* with the batch's stream; NULL: the batch is returned */
	struct ibvcap_cuda_batch batch;
	struct dlpack_device device; /* of its memory */
	bool has_stream;             /* use() named it */
	bool is_refused;             /* that stream, by the driver: another one may be named */
};

extern PyType_Spec cuda_view_spec, cuda_batch_spec, cuda_receiver_spec;
extern PyTypeObject *cuda_view_type, *cuda_batch_type, *cuda_receiver_type;

/** A batch that the handle has acquired, and that is the object's then. NULL: it is not; an exception is set. */
PyObject *cuda_batch_new(struct cuda_handle *handle, struct cuda_returned *acquired);
/** n rows of bytes of the batch, at these addresses of the host and of the device. */
PyObject *cuda_view_new(struct cuda_batch *batch, const void *rows, uint64_t address, Py_ssize_t row_bytes,
                        Py_ssize_t stride);

#endif
