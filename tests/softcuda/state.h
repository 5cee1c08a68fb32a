// SPDX-License-Identifier: Apache-2.0
/* What the files of softcuda share. All of it is guarded by the lock that softcuda_enter() takes. */
#ifndef TESTS_SOFTCUDA_STATE_H
#define TESTS_SOFTCUDA_STATE_H

#include "tests/softcuda/softcuda.h"

#include <sys/types.h>

#define SOFTCUDA_EXPORT __attribute__((visibility("default")))

enum {
	SUCCESS = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NOT_INITIALIZED = 3,
	NO_DEVICE = 100,
	INVALID_DEVICE = 101,
	INVALID_CONTEXT = 201,
	INVALID_HANDLE = 400,
	NOT_READY = 600,
	ILLEGAL_ADDRESS = 700,
	CONTEXT_IS_DESTROYED = 709,
	ALREADY_REGISTERED = 712,
	NOT_REGISTERED = 713,
	LAUNCH_FAILED = 719,
	NOT_SUPPORTED = 801,
	STREAM_CAPTURE_UNSUPPORTED = 900,
	CAPTURED_EVENT = 907,
	UNKNOWN = 999,
};

#define DEVICES_MAX     8
#define ATTRIBUTES_MAX  160
#define CAPTURE_RELAXED 2 /* of CUstreamCaptureMode */

struct operation {
	struct operation *next;
	enum { OPERATION_EVENT, OPERATION_LAUNCH, OPERATION_SUM, OPERATION_COPY } kind;
	uint64_t due_ns;
	bool is_held;
	struct CUevent_st *event; /* NULL: recorded again meanwhile, or destroyed */
	void (*function)(void *context);
	void *context;
	unsigned long long to; /* or a host address, if to_host */
	unsigned long long from;
	bool to_host;
	size_t bytes;
	uint64_t *sum;
};

struct CUstream_st {
	struct CUstream_st *next;
	struct CUctx_st *context;
	struct operation *first, **last;
	bool is_capturing;
};

struct CUevent_st {
	struct CUevent_st *next;
	struct CUctx_st *context;
	bool is_pending;
	bool is_captured;
};

struct CUctx_st {
	struct CUctx_st *next;
	int device;
	bool is_primary;
	unsigned n_retained;
	struct CUstream_st legacy; /* NULL and 1 */
	struct CUstream_st own;    /* 2: of the thread; here of the context */
};

struct memory {
	struct memory *next;
	enum { MEMORY_REGISTERED, MEMORY_HOST, MEMORY_DEVICE } kind;
	uintptr_t host;
	size_t bytes;
	unsigned int flags;
	unsigned long long device; /* address */
	struct CUctx_st *context;
	char first_page[64]; /* of the mapping that the first and the last page are in: device, inode and offset */
	char last_page[64];
};

struct softcuda {
	pid_t pid; /* 0: cuInit() was not called */
	int n_devices;
	int attributes[ATTRIBUTES_MAX];
	int lost[DEVICES_MAX]; /* result of all calls; 0: the device works */
	uint64_t offset;
	uint64_t misplaced_from;
	bool is_corrupt;
	uint64_t delay_ns;
	bool is_holding;
	char failing[64]; /* "": any function */
	int64_t fail_after;
	int fail_result;
	bool has_failed;
	uint64_t n_registered;
	uint64_t left_behind;
	struct CUctx_st *contexts;
	struct CUstream_st *streams;
	struct CUevent_st *events;
	struct memory *memory;
};

extern struct softcuda softcuda;
extern _Thread_local struct CUctx_st *softcuda_stack[16];
extern _Thread_local unsigned softcuda_depth;
extern _Thread_local int softcuda_capture_mode;

/** Begin a call: take the lock, and check what is common to all. A result, with which the call ends if it is not 0. */
int softcuda_enter(const char *function, bool needs_context);
/** End it. Returns the result. */
int softcuda_leave(int result);

/** The calling thread's current context. */
struct CUctx_st *softcuda_current(void);

/* maps.c */
/** Is all of it mapped? *is_writable; the identity of its first and its last page. */
bool softcuda_find_mapping(uintptr_t host, size_t bytes, bool *is_writable, char first[64], char last[64]);
/** Is it in pages of 4 KiB? */
bool softcuda_has_small_pages(uintptr_t host);
/** abort() if memory that is registered is not mapped any more. */
void softcuda_check_mappings(void);

/* memory.c */
/** The host's address of a device address. NULL: it is none. */
void *softcuda_resolve(unsigned long long address, size_t bytes, bool is_write);
/** Forget what is registered in the context. */
void softcuda_unregister_of(const struct CUctx_st *context);
/** Free what the context has. Returns how much that was. */
uint64_t softcuda_free_memory_of(const struct CUctx_st *context);

/* stream.c */
void softcuda_init_stream(struct CUstream_st *stream, struct CUctx_st *context);
/** Is any stream being captured? */
bool softcuda_is_capturing(void);
/** Run all that is due. */
void softcuda_progress(void);
uint64_t softcuda_free_streams_of(const struct CUctx_st *context);

#endif
