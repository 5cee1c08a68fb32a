// SPDX-License-Identifier: Apache-2.0
/*
 * A disk whose calls fail when a test wants it. The linker puts it in the calls' place (--wrap, see CMakeLists.txt). It
 * is also the disk of other threads.
 */
#ifndef TESTS_UNIT_TOOLS_DISK_H
#define TESTS_UNIT_TOOLS_DISK_H

#include <stdint.h>
#include <sys/types.h>

enum disk_call {
	DISK_FALLOCATE,
	DISK_FTRUNCATE,
	DISK_PWRITE,
	DISK_FDATASYNC,
	DISK_FSYNC,
	DISK_RENAMEAT,
	DISK_RENAMEAT2,
	DISK_SYNC_FILE_RANGE,
	DISK_N,
};

/** After so many calls, the next n of that kind fail with this errno; error 0: pwrite() writes one byte only. */
void disk_fail(enum disk_call call, unsigned after, unsigned n, int error);

/** Calls of that kind since the test began. */
unsigned disk_count(enum disk_call call);

/** What the last fallocate() was asked for. */
extern off_t disk_allocated_at, disk_allocated_bytes;

/** In place of what fstatvfs() says is free; 0: as it is. */
extern uint64_t disk_free_bytes;
/** And how large the disk is, of which root alone may use 100 bytes. */
extern uint64_t disk_total_bytes;
/** In place of what fstatfs() says; 0: as it is. */
extern long disk_type;

#endif
