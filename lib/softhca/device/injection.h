// SPDX-License-Identifier: Apache-2.0
/*
 * Faults that a user switches on and off while programs run: a file in the directory SOFTHCA_FAULTS switches the fault
 * of its name on, and removing the file switches it off. A number in the file is the fault's parameter.
 */
#ifndef SOFTHCA_DEVICE_INJECTION_H
#define SOFTHCA_DEVICE_INJECTION_H

#include <stdbool.h>

struct device;

/* Is the fault on? `*value`, if it is not NULL, becomes the number in its file, or `fallback` if the file has none. */
bool injection_is_on(const struct device *d, const char *fault, unsigned int fallback, unsigned int *value);

/* A command that the driver would send to the firmware: takes as long as the faults "slow" and "hang" say. 0,
 * -ETIMEDOUT if the firmware did not answer in time, or -EIO with the fault "fatal". Lock not held. */
int injection_command(const struct device *d);

#endif
