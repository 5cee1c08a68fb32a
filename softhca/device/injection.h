// SPDX-License-Identifier: Apache-2.0
/*
 * Faults that a user switches on and off while programs run, each by its name, some with a number or a completion
 * status. A fault is on if a file of its name is in the directory SOFTHCA_FAULTS, or if `softhca inject` has told the
 * process so.
 */
#ifndef SOFTHCA_DEVICE_INJECTION_H
#define SOFTHCA_DEVICE_INJECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct lines;

enum fault {
	/* of commands */
	FAULT_SLOW,
	FAULT_HANG,
	FAULT_FATAL,
	/* of completions */
	FAULT_RECEIVE_ERROR,
	FAULT_SEND_ERROR,
	FAULT_POISON,
	FAULT_SHUFFLE,
	/* of numbers */
	FAULT_REUSE,
	/* of the wire */
	FAULT_LOSE,
	FAULT_DUPLICATE,
	FAULT_REORDER,
	FAULT_CORRUPT,
	FAULT_DELAY,
	FAULT_BANDWIDTH,
	N_FAULTS
};

/* What the device thread does to completions, as it was when it last looked. */
struct injected {
	unsigned int receive_every, receive_count, send_every, send_count; /* 0: never */
	uint8_t receive_status, send_status;                               /* enum hw_syndrome */
	bool poison, shuffle;
};

/* A value that was told, with FAULT_TOLD; 0: none was. */
typedef _Atomic uint64_t fault_told;
#define FAULT_TOLD      (1ull << 32)
#define FAULT_EVERY(v)  ((v)&0xffffffu)
#define FAULT_STATUS(v) ((uint8_t)((v) >> 24))

/* Is the fault on? `*value`, if it is not NULL, becomes its number, or status << 24 | number. */
bool injection_is_on(const struct device *d, enum fault fault, unsigned int *value);

/* A command that the driver would send to the firmware: takes as long as the faults "slow" and "hang" say. 0,
 * -ETIMEDOUT if the firmware did not answer in time, or -EIO with the fault "fatal". Lock not held. */
int injection_command(const struct device *d);

/* Reads NAME, NAME=VALUE or NAME=off into `*told`, for injection_tell(). NULL, or what is wrong. */
const char *injection_parse(const char *text, enum fault *fault, uint64_t *told);
/* Sets a fault of the device; told 0 switches it off. With the lock held. */
void injection_tell(struct device *d, enum fault fault, uint64_t told);
/* Adds a line for each fault that is on. */
void injection_list(struct device *d, struct lines *lines);

/* Names on standard error a file in the directory SOFTHCA_FAULTS that is no fault, once for each new one. Says once if
 * the directory cannot be read. With the lock held, or before the device is used. */
void injection_check_files(struct device *d);

/* Reads which faults are on. With the lock held, by the device thread. */
void injection_look(struct device *d);

#endif
