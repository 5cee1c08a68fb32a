// SPDX-License-Identifier: Apache-2.0
/*
 * softcuda: a libcuda.so.1 in software, with the functions of the CUDA driver that libibvcap-cuda calls, and some that
 * tests need. It has no device: "device memory" is the host's, and a kernel is a function of the host. It is strict
 * where drivers are, as their users report, and where a mistake would pass unseen on one driver and not on another:
 *
 *   a call without a current context                            201 INVALID_CONTEXT
 *   a handle that was destroyed, or is of another context       400 INVALID_HANDLE
 *   memory that this process may only read, without READ_ONLY   1 INVALID_VALUE
 *   READ_ONLY where attribute 113 is 0                          801 NOT_SUPPORTED
 *   memory that is registered already, also a part of it        712 HOST_MEMORY_ALREADY_REGISTERED
 *   memory that is not registered                               713 HOST_MEMORY_NOT_REGISTERED
 *   512 GiB and more at once in pages of 4 KiB                  2 OUT_OF_MEMORY
 *   a device address that is none                               700 ILLEGAL_ADDRESS, of all calls from then on
 *   a call in a child of fork()                                 3 NOT_INITIALIZED
 *   a call that captures forbid, while any stream is captured     900 STREAM_CAPTURE_UNSUPPORTED
 *     and the thread's mode is not relaxed
 *   munmap() of memory that is registered                       abort() in the next call
 *
 * Streams. An operation runs when those before it on its stream have: at once, or, if the settings say so, later. There
 * is no order between streams, that of the legacy default stream included.
 *
 * Settings are made by the functions below, or in the environment when the library is loaded: SOFTCUDA_DEVICES,
 * SOFTCUDA_READ_ONLY, SOFTCUDA_PAGEABLE, SOFTCUDA_HOST_TABLES, SOFTCUDA_HOST_REGISTER (numbers), SOFTCUDA_OFFSET,
 * SOFTCUDA_DELAY_US, SOFTCUDA_HOLD=1, SOFTCUDA_FAIL=FUNCTION:N:RESULT.
 */
#ifndef TESTS_SOFTCUDA_H
#define TESTS_SOFTCUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;

/** All settings as they are without an environment. Handles and memory stay. */
void softcuda_reset(void);

void softcuda_set_devices(int n);
/** Of all devices, by the number of CUdevice_attribute. */
void softcuda_set_attribute(int attribute, int value);
/** Device addresses of host memory are so far from the host's; 0 without it. */
void softcuda_set_offset(uint64_t bytes);
/** From the n-th registration on (0: the first), the device pointer is one page off. UINT64_MAX: never. */
void softcuda_misplace_from(uint64_t n);
/** Copies on the device have a wrong byte. */
void softcuda_set_corrupt(bool corrupt);

/** The n-th call of the function from now on (0: the next; its name without _v2) has that result; n < 0: none. */
void softcuda_fail(const char *function, int64_t n, int result);
/** The n-th call of any function from now on fails; n < 0: none. */
void softcuda_fail_any(int64_t n, int result);
/** Has the call that was to fail been made? */
bool softcuda_has_failed(void);

/** An event or a launch ends so long after it was queued. */
void softcuda_set_delay_us(uint64_t us);
/** Launches wait for softcuda_run(), and what is behind them on their stream waits, too. */
void softcuda_set_hold(bool hold);
/** Let n launches that are held run, the oldest of the stream first; stream (void *)-1: of all. Returns how many. */
unsigned softcuda_run(struct CUstream_st *stream, unsigned n);

/** Queue function(context) as a kernel. It may be NULL, and must not call the driver. A CUresult. */
int softcuda_launch(struct CUstream_st *stream, void (*function)(void *context), void *context);
/** Queue a kernel that reads bytes at a device address, and adds them up. If it may not read them, the device fails. */
int softcuda_launch_sum(struct CUstream_st *stream, unsigned long long address, size_t bytes, uint64_t *sum);

/** All calls in contexts of the device return that result from now on. 0: it works again. */
void softcuda_lose_device(int device, int result);
/** Begin or end to capture the stream. */
void softcuda_set_capturing(struct CUstream_st *stream, bool capturing);

struct softcuda_counts {
	uint64_t registrations;
	uint64_t registered_bytes;
	uint64_t host_allocations;
	uint64_t device_allocations;
	uint64_t events;
	uint64_t streams;
	uint64_t retained;    /* primary contexts, each as often as it is retained */
	uint64_t pushed;      /* contexts on the calling thread's stack */
	uint64_t left_behind; /* handles and memory that a primary context had at its end */
	uint64_t registered_so_far;
	uint64_t capture_mode; /* of the calling thread; 0: global, as it begins */
};

/** What there is now. */
struct softcuda_counts softcuda_count(void);
/** Calls of the function so far; NULL: of all. */
uint64_t softcuda_calls(const char *function);

#endif
