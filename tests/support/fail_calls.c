// SPDX-License-Identifier: Apache-2.0
/*
 * To be preloaded into the daemon: lets one call of it fail, the one at which a countdown comes to 0. The countdown is
 * in a file that the test maps too (FAIL_CALLS), three int64: the calls still to be let through (below 0: all), the
 * calls made, and the pieces of memory that the program has allocated and nobody has freed.
 *
 * Only what the program itself calls counts, and not its libraries' own calls; and of what workers and notifiers call
 * for every packet only the first thread's: how they bear a device that fails is for the scripted backend to show, and
 * a run is to be the same twice. Left out is what gives something back (close, munmap, unlink, ibv_destroy_*: nothing
 * can be done about it), and what can't fail for want of anything (clocks, signal sets, sd-event's arming of what it
 * has).
 */
#include "tests/support/fail_calls.h"

#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct control {
	_Atomic int64_t countdown;
	_Atomic int64_t calls;
	_Atomic int64_t allocated;
};

static struct control *control;
static uintptr_t program_start, program_end;

/* The program is the first that is told of. */
static int find_program(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	(void)data;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type == PT_LOAD && header->p_flags & PF_X) {
			program_start = info->dlpi_addr + header->p_vaddr;
			program_end = program_start + header->p_memsz;
		}
	}
	return 1;
}

static __attribute__((constructor)) void set_up(void)
{
	const char *path = getenv("FAIL_CALLS");
	int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
	void *address;

	if (fd < 0)
		return;
	address = (void *)syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	syscall(SYS_close, fd);
	if (address == MAP_FAILED)
		return;
	dl_iterate_phdr(find_program, NULL);
	control = address;
}

static bool is_program(const void *caller)
{
	return control && (uintptr_t)caller >= program_start && (uintptr_t)caller < program_end;
}

/* The system calls' own numbers are the kernel's word; glibc's functions could be ours. */
static bool is_first_thread(void)
{
	static _Thread_local int first
		__attribute__((tls_model("initial-exec"))); /* 0: not asked yet; 1: it is; 2: it is not */

	if (!first)
		first = getpid() == gettid() ? 1 : 2;
	return first == 1;
}

bool fail_calls_now(const void *caller, bool first_only)
{
	if (!is_program(caller) || (first_only && !is_first_thread()))
		return false;
	atomic_fetch_add(&control->calls, 1);
	return atomic_load(&control->countdown) >= 0 && atomic_fetch_sub(&control->countdown, 1) == 0;
}

bool fail_calls_row_now(const void *caller, _Atomic int64_t *row)
{
	bool fails;

	if (!is_program(caller) || atomic_load(&control->calls) == atomic_load(row))
		return false;
	fails = fail_calls_now(caller, false);
	atomic_store(row, atomic_load(&control->calls));
	return fails;
}

/* ---- memory -------------------------------------------------------------------------------------- */
/*
 * These come before the dynamic linker can be asked for others. What the program allocated is noted, so that what
 * nobody frees (its libraries free some of it) shows.
 */

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *memory);

#define NOTES (1u << 14)
#define GONE  ((void *)1)

static void *notes[NOTES]; /* open addressing; GONE: was taken, look on */
static atomic_flag notes_lock = ATOMIC_FLAG_INIT;

/* Its place, or NULL. */
static void **find_note(const void *memory)
{
	size_t at = ((uintptr_t)memory >> 4) * 0x9e3779b1u;

	for (size_t i = 0; i < NOTES; i++) {
		void **note = &notes[(at + i) % NOTES];

		if (*note == memory)
			return note;
		if (!*note)
			return NULL;
	}
	return NULL;
}

static void note(void *memory)
{
	size_t at = ((uintptr_t)memory >> 4) * 0x9e3779b1u;

	for (size_t i = 0; i < NOTES; i++) {
		void **free_note = &notes[(at + i) % NOTES];

		if (*free_note && *free_note != GONE)
			continue;
		*free_note = memory;
		atomic_fetch_add(&control->allocated, 1);
		return;
	}
	abort(); /* far more than it ever has */
}

void *fail_calls_note(void *memory, const void *caller)
{
	if (!memory || !is_program(caller))
		return memory;
	while (atomic_flag_test_and_set(&notes_lock))
		;
	note(memory);
	atomic_flag_clear(&notes_lock);
	return memory;
}

void fail_calls_forget(const void *memory)
{
	void **place;

	if (!memory || !control)
		return;
	while (atomic_flag_test_and_set(&notes_lock))
		;
	place = find_note(memory);
	if (place) {
		*place = GONE;
		atomic_fetch_sub(&control->allocated, 1);
	}
	atomic_flag_clear(&notes_lock);
}

static void *out_of_memory(void)
{
	errno = ENOMEM;
	return NULL;
}

void *malloc(size_t bytes)
{
	return FAILS() ? out_of_memory() : fail_calls_note(__libc_malloc(bytes), CALLER);
}

void *calloc(size_t n, size_t bytes)
{
	return FAILS() ? out_of_memory() : fail_calls_note(__libc_calloc(n, bytes), CALLER);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	return FAILS() ? out_of_memory() : fail_calls_note(__libc_memalign(alignment, bytes), CALLER);
}

/* Forgotten first: another thread may be given the same place as soon as it is free. */
static void *resize(void *memory, size_t bytes, const void *caller)
{
	void *moved;

	fail_calls_forget(memory);
	moved = __libc_realloc(memory, bytes);
	if (moved || bytes == 0)
		return fail_calls_note(moved, caller);
	fail_calls_note(memory, caller);
	return NULL;
}

void *realloc(void *memory, size_t bytes)
{
	return FAILS() ? out_of_memory() : resize(memory, bytes, CALLER);
}

void *reallocarray(void *memory, size_t n, size_t bytes)
{
	size_t all;

	if (FAILS() || __builtin_mul_overflow(n, bytes, &all))
		return out_of_memory();
	return resize(memory, all, CALLER);
}

char *strdup(const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *copy = FAILS() ? out_of_memory() : fail_calls_note(__libc_malloc(bytes), CALLER);

	return copy ? memcpy(copy, text, bytes) : NULL;
}

void free(void *memory)
{
	fail_calls_forget(memory);
	__libc_free(memory);
}
