// SPDX-License-Identifier: Apache-2.0
/* What the files of libfail_calls share. */
#ifndef TESTS_SUPPORT_FAIL_CALLS_H
#define TESTS_SUPPORT_FAIL_CALLS_H

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Is this the call that has to fail? caller: where it returns to. first_only: of other threads' it never is. */
bool fail_calls_now(const void *caller, bool first_only);

/*
 * Likewise for a call that the program repeats for as long as it wants to. Such a row counts as one call, because its
 * length differs from run to run. row: initially -1, for each such function its own.
 */
bool fail_calls_row_now(const void *caller, _Atomic int64_t *row);

/* What the program was given, and has to give back: counted until it is freed, by whomever. */
void *fail_calls_note(void *given, const void *caller);
void fail_calls_forget(const void *given);

#define CALLER  __builtin_return_address(0)
#define FAILS() fail_calls_now(CALLER, false)

#define GIVEN(object) fail_calls_note(object, CALLER)

/* result NAME(parameters): failure with errno, or what the real one says. take: GIVEN for what is to be given back. */
#define FAILING(...) FAILING_AND(, __VA_ARGS__)
#define FAILING_AND(take, result, failure, error, name, parameters, arguments) \
	result name parameters;                                                \
	result name parameters                                                 \
	{                                                                      \
		static result(*_Atomic next) parameters;                       \
                                                                               \
		if (FAILS()) {                                                 \
			errno = error;                                         \
			return failure;                                        \
		}                                                              \
		if (!next)                                                     \
			next = (result(*) parameters)dlsym(RTLD_NEXT, #name);  \
		return take(next arguments);                                   \
	}

#endif
