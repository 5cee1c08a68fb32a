// SPDX-License-Identifier: Apache-2.0
/* Settings of softcuda, the checks of each call, and the calls that are to fail. */
#include "tests/softcuda/state.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FUNCTIONS_MAX 64

struct softcuda softcuda;
_Thread_local struct CUctx_st *softcuda_stack[16];
_Thread_local unsigned softcuda_depth;
_Thread_local int softcuda_capture_mode;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	const char *function;
	uint64_t n;
} calls[FUNCTIONS_MAX];

/* "cuMemFree_v2" is "cuMemFree". */
static bool is_named(const char *function, const char *name)
{
	size_t length = strlen(name);

	return strncmp(function, name, length) == 0 &&
	       (function[length] == '\0' || strcmp(function + length, "_v2") == 0);
}

static void count_call(const char *function)
{
	unsigned i = 0;

	while (i < FUNCTIONS_MAX - 1 && calls[i].function && strcmp(calls[i].function, function) != 0)
		i++;
	calls[i].function = function;
	calls[i].n++;
}

static bool is_to_fail(const char *function)
{
	if (softcuda.fail_after < 0 || (softcuda.failing[0] && !is_named(function, softcuda.failing)))
		return false;
	if (softcuda.fail_after-- > 0)
		return false;
	softcuda.has_failed = true;
	return true;
}

struct CUctx_st *softcuda_current(void)
{
	return softcuda_depth ? softcuda_stack[softcuda_depth - 1] : NULL;
}

static bool is_context(const struct CUctx_st *context)
{
	for (const struct CUctx_st *each = softcuda.contexts; each; each = each->next)
		if (each == context)
			return true;
	return false;
}

/* Of captures in the global mode, by any thread. */
static bool is_forbidden(const char *function)
{
	static const char *const names[] = {"cuEventQuery", "cuStreamQuery",  "cuStreamSynchronize",
	                                    "cuMemAlloc",   "cuMemHostAlloc", "cuMemHostRegister"};

	if (softcuda_capture_mode == CAPTURE_RELAXED || !softcuda_is_capturing())
		return false;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (is_named(function, names[i]))
			return true;
	return false;
}

int softcuda_enter(const char *function, bool needs_context)
{
	const struct CUctx_st *current;

	pthread_mutex_lock(&lock);
	count_call(function);
	if (is_to_fail(function))
		return softcuda.fail_result;
	if (softcuda.pid && softcuda.pid != getpid())
		return NOT_INITIALIZED;
	if (strcmp(function, "cuEventQuery") != 0)
		softcuda_check_mappings();
	softcuda_progress();
	if (!needs_context)
		return SUCCESS;
	if (!softcuda.pid)
		return NOT_INITIALIZED;
	current = softcuda_current();
	if (!current)
		return INVALID_CONTEXT;
	if (!is_context(current))
		return CONTEXT_IS_DESTROYED;
	if (softcuda.lost[current->device])
		return softcuda.lost[current->device];
	return is_forbidden(function) ? STREAM_CAPTURE_UNSUPPORTED : SUCCESS;
}

int softcuda_leave(int result)
{
	pthread_mutex_unlock(&lock);
	return result;
}

/* ---- settings -------------------------------------------------------------------------------------- */

static void set_defaults(void)
{
	softcuda.n_devices = 1;
	memset(softcuda.attributes, 0, sizeof(softcuda.attributes));
	softcuda.attributes[19] = 1;  /* CAN_MAP_HOST_MEMORY */
	softcuda.attributes[41] = 1;  /* UNIFIED_ADDRESSING */
	softcuda.attributes[99] = 1;  /* HOST_REGISTER_SUPPORTED */
	softcuda.attributes[113] = 1; /* READ_ONLY_HOST_REGISTER_SUPPORTED */
	memset(softcuda.lost, 0, sizeof(softcuda.lost));
	softcuda.offset = 0;
	softcuda.misplaced_from = UINT64_MAX;
	softcuda.is_corrupt = false;
	softcuda.delay_ns = 0;
	softcuda.is_holding = false;
	softcuda.failing[0] = '\0';
	softcuda.fail_after = -1;
	softcuda.has_failed = false;
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

static void read_failure(const char *text)
{
	char name[64];
	long long n;
	int result;

	if (text && sscanf(text, "%63[^:]:%lld:%d", name, &n, &result) == 3) {
		snprintf(softcuda.failing, sizeof(softcuda.failing), "%s", name);
		softcuda.fail_after = n;
		softcuda.fail_result = result;
	}
}

__attribute__((constructor)) static void begin(void)
{
	set_defaults();
	softcuda.n_devices = (int)setting("SOFTCUDA_DEVICES", 1);
	softcuda.attributes[88] = (int)setting("SOFTCUDA_PAGEABLE", 0);
	softcuda.attributes[99] = (int)setting("SOFTCUDA_HOST_REGISTER", 1);
	softcuda.attributes[100] = (int)setting("SOFTCUDA_HOST_TABLES", 0);
	softcuda.attributes[113] = (int)setting("SOFTCUDA_READ_ONLY", 1);
	softcuda.offset = setting("SOFTCUDA_OFFSET", 0);
	softcuda.delay_ns = setting("SOFTCUDA_DELAY_US", 0) * 1000;
	softcuda.is_holding = setting("SOFTCUDA_HOLD", 0);
	read_failure(getenv("SOFTCUDA_FAIL"));
}

/* Each as one step under the lock. */
#define SETTING(statement)                   \
	do {                                 \
		pthread_mutex_lock(&lock);   \
		statement;                   \
		pthread_mutex_unlock(&lock); \
	} while (0)

SOFTCUDA_EXPORT void softcuda_reset(void)
{
	SETTING(set_defaults());
}

SOFTCUDA_EXPORT void softcuda_set_devices(int n)
{
	SETTING(softcuda.n_devices = n);
}

SOFTCUDA_EXPORT void softcuda_set_attribute(int attribute, int value)
{
	SETTING(softcuda.attributes[attribute] = value);
}

SOFTCUDA_EXPORT void softcuda_set_offset(uint64_t bytes)
{
	SETTING(softcuda.offset = bytes);
}

SOFTCUDA_EXPORT void softcuda_misplace_from(uint64_t n)
{
	SETTING(softcuda.misplaced_from = n == UINT64_MAX ? n : softcuda.n_registered + n);
}

SOFTCUDA_EXPORT void softcuda_set_corrupt(bool corrupt)
{
	SETTING(softcuda.is_corrupt = corrupt);
}

SOFTCUDA_EXPORT void softcuda_set_delay_us(uint64_t us)
{
	SETTING(softcuda.delay_ns = us * 1000);
}

SOFTCUDA_EXPORT void softcuda_set_hold(bool hold)
{
	SETTING(softcuda.is_holding = hold);
}

/* The context of a device that is lost has no registrations any more. */
SOFTCUDA_EXPORT void softcuda_lose_device(int device, int result)
{
	pthread_mutex_lock(&lock);
	softcuda.lost[device] = result;
	for (const struct CUctx_st *context = softcuda.contexts; context && result; context = context->next)
		if (context->device == device)
			softcuda_unregister_of(context);
	pthread_mutex_unlock(&lock);
}

SOFTCUDA_EXPORT void softcuda_fail(const char *function, int64_t n, int result)
{
	pthread_mutex_lock(&lock);
	snprintf(softcuda.failing, sizeof(softcuda.failing), "%s", function);
	softcuda.fail_after = n;
	softcuda.fail_result = result;
	softcuda.has_failed = false;
	pthread_mutex_unlock(&lock);
}

SOFTCUDA_EXPORT void softcuda_fail_any(int64_t n, int result)
{
	softcuda_fail("", n, result);
}

SOFTCUDA_EXPORT bool softcuda_has_failed(void)
{
	bool has_failed;

	SETTING(has_failed = softcuda.has_failed);
	return has_failed;
}

/* ---- counts ---------------------------------------------------------------------------------------- */

SOFTCUDA_EXPORT uint64_t softcuda_calls(const char *function)
{
	uint64_t n = 0;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < FUNCTIONS_MAX && calls[i].function; i++)
		if (!function || is_named(calls[i].function, function))
			n += calls[i].n;
	pthread_mutex_unlock(&lock);
	return n;
}

static void count_memory(struct softcuda_counts *counts)
{
	for (const struct memory *each = softcuda.memory; each; each = each->next) {
		counts->registrations += each->kind == MEMORY_REGISTERED;
		counts->registered_bytes += each->kind == MEMORY_REGISTERED ? each->bytes : 0;
		counts->host_allocations += each->kind == MEMORY_HOST;
		counts->device_allocations += each->kind == MEMORY_DEVICE;
	}
}

SOFTCUDA_EXPORT struct softcuda_counts softcuda_count(void)
{
	struct softcuda_counts counts = {.pushed = softcuda_depth, .capture_mode = (uint64_t)softcuda_capture_mode};

	pthread_mutex_lock(&lock);
	count_memory(&counts);
	for (const struct CUevent_st *event = softcuda.events; event; event = event->next)
		counts.events++;
	for (const struct CUstream_st *stream = softcuda.streams; stream; stream = stream->next)
		counts.streams++;
	for (const struct CUctx_st *context = softcuda.contexts; context; context = context->next)
		counts.retained += context->n_retained;
	counts.left_behind = softcuda.left_behind;
	counts.registered_so_far = softcuda.n_registered;
	pthread_mutex_unlock(&lock);
	return counts;
}
