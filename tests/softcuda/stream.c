// SPDX-License-Identifier: Apache-2.0
/* Streams, the operations that are queued on them, and events. */
#include "tests/softcuda/state.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STREAM_LEGACY     ((struct CUstream_st *)1)
#define STREAM_PER_THREAD ((struct CUstream_st *)2)
#define EVENT_FLAGS       7u

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void softcuda_init_stream(struct CUstream_st *stream, struct CUctx_st *context)
{
	*stream = (struct CUstream_st){.context = context};
	stream->last = &stream->first;
}

/* The stream of a handle in the current context. NULL: there is none. */
static struct CUstream_st *find_stream(struct CUstream_st *handle)
{
	struct CUctx_st *context = softcuda_current();

	if (!handle || handle == STREAM_LEGACY)
		return &context->legacy;
	if (handle == STREAM_PER_THREAD)
		return &context->own;
	for (struct CUstream_st *each = softcuda.streams; each; each = each->next)
		if (each == handle && each->context == context)
			return each;
	return NULL;
}

static bool is_event(const struct CUevent_st *event)
{
	for (const struct CUevent_st *each = softcuda.events; each; each = each->next)
		if (each == event)
			return each->context == softcuda_current();
	return false;
}

/* ---- operations ------------------------------------------------------------------------------------- */

static void lose(const struct CUstream_st *stream, int result)
{
	if (softcuda.lost[stream->context->device])
		return;
	softcuda.lost[stream->context->device] = result;
	softcuda_unregister_of(stream->context);
}

static void run_copy(const struct CUstream_st *stream, const struct operation *operation)
{
	const void *from = softcuda_resolve(operation->from, operation->bytes, false);
	void *to = operation->to_host ? (void *)(uintptr_t)operation->to
	                              : softcuda_resolve(operation->to, operation->bytes, true);

	if (!from || !to) {
		lose(stream, ILLEGAL_ADDRESS);
		return;
	}
	memcpy(to, from, operation->bytes);
	if (softcuda.is_corrupt)
		*(uint8_t *)to += 1;
}

static void run_sum(const struct CUstream_st *stream, const struct operation *operation)
{
	const uint8_t *bytes = softcuda_resolve(operation->from, operation->bytes, false);

	if (!bytes) {
		lose(stream, ILLEGAL_ADDRESS);
		return;
	}
	for (size_t i = 0; i < operation->bytes; i++)
		*operation->sum += bytes[i];
}

static void run_operation(const struct CUstream_st *stream, const struct operation *operation)
{
	if (softcuda.lost[stream->context->device])
		return;
	switch (operation->kind) {
	case OPERATION_EVENT:
		if (operation->event)
			operation->event->is_pending = false;
		break;
	case OPERATION_LAUNCH:
		if (operation->function)
			operation->function(operation->context);
		break;
	case OPERATION_SUM:
		run_sum(stream, operation);
		break;
	case OPERATION_COPY:
		run_copy(stream, operation);
		break;
	}
}

/* Run what does not wait. */
static void progress_stream(struct CUstream_st *stream, uint64_t now_ns)
{
	struct operation *operation;

	while ((operation = stream->first) && !operation->is_held && operation->due_ns <= now_ns) {
		stream->first = operation->next;
		if (!stream->first)
			stream->last = &stream->first;
		run_operation(stream, operation);
		free(operation);
	}
}

void softcuda_progress(void)
{
	uint64_t now_ns = monotonic_ns();

	for (struct CUctx_st *context = softcuda.contexts; context; context = context->next) {
		progress_stream(&context->legacy, now_ns);
		progress_stream(&context->own, now_ns);
	}
	for (struct CUstream_st *stream = softcuda.streams; stream; stream = stream->next)
		progress_stream(stream, now_ns);
}

static int queue(struct CUstream_st *handle, const struct operation *operation)
{
	struct CUstream_st *stream = find_stream(handle);
	struct operation *new;

	if (!stream)
		return INVALID_HANDLE;
	new = malloc(sizeof(*new));
	*new = *operation;
	if (new->kind != OPERATION_COPY)
		new->due_ns = softcuda.delay_ns ? monotonic_ns() + softcuda.delay_ns : 0;
	*stream->last = new;
	stream->last = &new->next;
	progress_stream(stream, monotonic_ns());
	return SUCCESS;
}

static void drop_operations(struct CUstream_st *stream)
{
	while (stream->first) {
		struct operation *operation = stream->first;

		stream->first = operation->next;
		free(operation);
	}
	stream->last = &stream->first;
}

/* The event is recorded anew, or goes: what was recorded before is nobody's. */
static void forget_event_on(struct CUstream_st *stream, const struct CUevent_st *event)
{
	for (struct operation *operation = stream->first; operation; operation = operation->next)
		if (operation->event == event)
			operation->event = NULL;
}

static void forget_event(const struct CUevent_st *event)
{
	for (struct CUctx_st *context = softcuda.contexts; context; context = context->next) {
		forget_event_on(&context->legacy, event);
		forget_event_on(&context->own, event);
	}
	for (struct CUstream_st *stream = softcuda.streams; stream; stream = stream->next)
		forget_event_on(stream, event);
}

static unsigned run_held(struct CUstream_st *stream, unsigned n)
{
	unsigned n_run = 0;

	while (n_run < n && stream->first && stream->first->is_held) {
		stream->first->is_held = false;
		stream->first->due_ns = 0;
		n_run++;
		progress_stream(stream, monotonic_ns());
	}
	return n_run;
}

SOFTCUDA_EXPORT unsigned softcuda_run(struct CUstream_st *handle, unsigned n)
{
	unsigned n_run = 0;

	softcuda_enter("softcuda_run", false);
	for (struct CUctx_st *context = softcuda.contexts; context; context = context->next) {
		if (handle == (void *)-1 || !handle || handle == STREAM_LEGACY)
			n_run += run_held(&context->legacy, n - n_run);
		if (handle == (void *)-1 || handle == STREAM_PER_THREAD)
			n_run += run_held(&context->own, n - n_run);
	}
	for (struct CUstream_st *stream = softcuda.streams; stream; stream = stream->next)
		if (handle == (void *)-1 || handle == stream)
			n_run += run_held(stream, n - n_run);
	softcuda_leave(0);
	return n_run;
}

SOFTCUDA_EXPORT int softcuda_launch(struct CUstream_st *stream, void (*function)(void *context), void *context)
{
	int r = softcuda_enter(__func__, true);

	if (r == SUCCESS)
		r = queue(stream, &(struct operation){.kind = OPERATION_LAUNCH,
		                                      .is_held = softcuda.is_holding,
		                                      .function = function,
		                                      .context = context});
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int softcuda_launch_sum(struct CUstream_st *stream, unsigned long long address, size_t bytes,
                                        uint64_t *sum)
{
	int r = softcuda_enter(__func__, true);

	if (r == SUCCESS)
		r = queue(stream, &(struct operation){.kind = OPERATION_SUM,
		                                      .is_held = softcuda.is_holding,
		                                      .from = address,
		                                      .bytes = bytes,
		                                      .sum = sum});
	return softcuda_leave(r);
}

/* ---- copies ----------------------------------------------------------------------------------------- */

SOFTCUDA_EXPORT int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes,
                                         struct CUstream_st *stream);
SOFTCUDA_EXPORT int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes,
                                         struct CUstream_st *stream)
{
	int r = softcuda_enter(__func__, true);

	if (r == SUCCESS && (!softcuda_resolve(to, bytes, true) || !softcuda_resolve(from, bytes, false)))
		r = INVALID_VALUE;
	if (r == SUCCESS)
		r = queue(stream, &(struct operation){.kind = OPERATION_COPY, .to = to, .from = from, .bytes = bytes});
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, struct CUstream_st *stream);
SOFTCUDA_EXPORT int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, struct CUstream_st *stream)
{
	int r = softcuda_enter(__func__, true);

	if (r == SUCCESS && !softcuda_resolve(from, bytes, false))
		r = INVALID_VALUE;
	if (r == SUCCESS)
		r = queue(stream, &(struct operation){.kind = OPERATION_COPY,
		                                      .to = (uintptr_t)to,
		                                      .to_host = true,
		                                      .from = from,
		                                      .bytes = bytes});
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes);
SOFTCUDA_EXPORT int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes)
{
	int r = softcuda_enter(__func__, true);
	const void *source = r == SUCCESS ? softcuda_resolve(from, bytes, false) : NULL;

	if (r == SUCCESS && !source)
		r = INVALID_VALUE;
	if (r == SUCCESS)
		memcpy(to, source, bytes);
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes);
SOFTCUDA_EXPORT int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes)
{
	int r = softcuda_enter(__func__, true);
	void *target = r == SUCCESS ? softcuda_resolve(to, bytes, true) : NULL;

	if (r == SUCCESS && !target)
		r = INVALID_VALUE;
	if (r == SUCCESS)
		memcpy(target, from, bytes);
	return softcuda_leave(r);
}

/* ---- streams ---------------------------------------------------------------------------------------- */

SOFTCUDA_EXPORT int cuStreamCreate(struct CUstream_st **stream, unsigned int flags);
SOFTCUDA_EXPORT int cuStreamCreate(struct CUstream_st **stream, unsigned int flags)
{
	int r = softcuda_enter(__func__, true);

	if (r == SUCCESS && flags > 1)
		r = INVALID_VALUE;
	if (r == SUCCESS) {
		struct CUstream_st *new = malloc(sizeof(*new));

		softcuda_init_stream(new, softcuda_current());
		new->next = softcuda.streams;
		softcuda.streams = *stream = new;
	}
	return softcuda_leave(r);
}

static void free_stream(struct CUstream_st *stream)
{
	struct CUstream_st **each = &softcuda.streams;

	while (*each != stream)
		each = &(*each)->next;
	*each = stream->next;
	drop_operations(stream);
	free(stream);
}

/* Work of a stream that is destroyed goes on; here, it ends. */
SOFTCUDA_EXPORT int cuStreamDestroy_v2(struct CUstream_st *stream);
SOFTCUDA_EXPORT int cuStreamDestroy_v2(struct CUstream_st *stream)
{
	int r = softcuda_enter(__func__, true);

	if (r == SUCCESS && ((uintptr_t)stream <= 2 || !find_stream(stream)))
		r = INVALID_HANDLE;
	if (r == SUCCESS) {
		run_held(stream, -1u);
		progress_stream(stream, UINT64_MAX);
		free_stream(stream);
	}
	return softcuda_leave(r);
}

/* It waits for what is held, too, as for a kernel that does not end. */
SOFTCUDA_EXPORT int cuStreamSynchronize(struct CUstream_st *handle);
SOFTCUDA_EXPORT int cuStreamSynchronize(struct CUstream_st *handle)
{
	int r = softcuda_enter(__func__, true);
	struct CUstream_st *stream = r == SUCCESS ? find_stream(handle) : NULL;

	if (r == SUCCESS && !stream)
		r = INVALID_HANDLE;
	while (r == SUCCESS && stream->first) {
		softcuda_leave(0);
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
		r = softcuda_enter("softcuda_wait", true);
	}
	if (r == SUCCESS)
		r = softcuda.lost[stream->context->device];
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuStreamQuery(struct CUstream_st *handle);
SOFTCUDA_EXPORT int cuStreamQuery(struct CUstream_st *handle)
{
	int r = softcuda_enter(__func__, true);
	struct CUstream_st *stream = r == SUCCESS ? find_stream(handle) : NULL;

	if (r == SUCCESS)
		r = !stream ? INVALID_HANDLE : stream->first ? NOT_READY : SUCCESS;
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuStreamIsCapturing(struct CUstream_st *handle, int *status);
SOFTCUDA_EXPORT int cuStreamIsCapturing(struct CUstream_st *handle, int *status)
{
	int r = softcuda_enter(__func__, true);
	struct CUstream_st *stream = r == SUCCESS ? find_stream(handle) : NULL;

	if (r == SUCCESS && !stream)
		r = INVALID_HANDLE;
	if (r == SUCCESS)
		*status = stream->is_capturing;
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT void softcuda_set_capturing(struct CUstream_st *stream, bool capturing)
{
	softcuda_enter(__func__, false);
	stream->is_capturing = capturing;
	softcuda_leave(0);
}

bool softcuda_is_capturing(void)
{
	for (const struct CUctx_st *context = softcuda.contexts; context; context = context->next)
		if (context->legacy.is_capturing || context->own.is_capturing)
			return true;
	for (const struct CUstream_st *stream = softcuda.streams; stream; stream = stream->next)
		if (stream->is_capturing)
			return true;
	return false;
}

SOFTCUDA_EXPORT int cuThreadExchangeStreamCaptureMode(int *mode);
SOFTCUDA_EXPORT int cuThreadExchangeStreamCaptureMode(int *mode)
{
	int r = softcuda_enter(__func__, false);

	if (r == SUCCESS && !softcuda_current())
		r = INVALID_CONTEXT;
	if (r == SUCCESS && (*mode < 0 || *mode > CAPTURE_RELAXED))
		r = INVALID_VALUE;
	if (r == SUCCESS) {
		int before = softcuda_capture_mode;

		softcuda_capture_mode = *mode;
		*mode = before;
	}
	return softcuda_leave(r);
}

/* ---- events ----------------------------------------------------------------------------------------- */

SOFTCUDA_EXPORT int cuEventCreate(struct CUevent_st **event, unsigned int flags);
SOFTCUDA_EXPORT int cuEventCreate(struct CUevent_st **event, unsigned int flags)
{
	int r = softcuda_enter(__func__, true);

	if (r == SUCCESS && flags & ~EVENT_FLAGS)
		r = INVALID_VALUE;
	if (r == SUCCESS) {
		struct CUevent_st *new = calloc(1, sizeof(*new));

		new->context = softcuda_current();
		new->next = softcuda.events;
		softcuda.events = *event = new;
	}
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuEventRecord(struct CUevent_st *event, struct CUstream_st *handle);
SOFTCUDA_EXPORT int cuEventRecord(struct CUevent_st *event, struct CUstream_st *handle)
{
	int r = softcuda_enter(__func__, true);
	struct CUstream_st *stream = r == SUCCESS ? find_stream(handle) : NULL;

	if (r == SUCCESS && (!stream || !is_event(event)))
		r = INVALID_HANDLE;
	if (r == SUCCESS) {
		forget_event(event);
		event->is_captured = stream->is_capturing;
		event->is_pending = !stream->is_capturing;
		if (event->is_pending)
			r = queue(handle, &(struct operation){.kind = OPERATION_EVENT, .event = event});
	}
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuEventQuery(struct CUevent_st *event);
SOFTCUDA_EXPORT int cuEventQuery(struct CUevent_st *event)
{
	int r = softcuda_enter(__func__, true);

	if (r == SUCCESS)
		r = !is_event(event) ? INVALID_HANDLE : event->is_captured ? CAPTURED_EVENT : SUCCESS;
	if (r == SUCCESS && event->is_pending)
		r = NOT_READY;
	return softcuda_leave(r);
}

static void free_event(struct CUevent_st *event)
{
	struct CUevent_st **each = &softcuda.events;

	while (*each != event)
		each = &(*each)->next;
	*each = event->next;
	forget_event(event);
	free(event);
}

SOFTCUDA_EXPORT int cuEventDestroy_v2(struct CUevent_st *event);
SOFTCUDA_EXPORT int cuEventDestroy_v2(struct CUevent_st *event)
{
	int r = softcuda_enter(__func__, true);

	if (r == SUCCESS && !is_event(event))
		r = INVALID_HANDLE;
	if (r == SUCCESS)
		free_event(event);
	return softcuda_leave(r);
}

uint64_t softcuda_free_streams_of(const struct CUctx_st *context)
{
	uint64_t n = 0;

	for (struct CUevent_st *event = softcuda.events, *next; event; event = next) {
		next = event->next;
		if (event->context == context) {
			free_event(event);
			n++;
		}
	}
	for (struct CUstream_st *stream = softcuda.streams, *next; stream; stream = next) {
		next = stream->next;
		if (stream->context == context) {
			free_stream(stream);
			n++;
		}
	}
	drop_operations((struct CUstream_st *)&context->legacy);
	drop_operations((struct CUstream_st *)&context->own);
	return n;
}
