// SPDX-License-Identifier: Apache-2.0
/* The settings, all of them environment variables: one table, which parses and documents them. */
#ifndef SOFTHCA_SETTINGS_H
#define SOFTHCA_SETTINGS_H

#include "device/device.h"

#define SETTINGS_MAX_NETDEVS 16

struct settings {
	const char *interfaces; /* "" where nothing is to be emulated */
	unsigned int clock_us;
	struct device_config device; /* but for netdev and clock */
};

/*
 * From the environment. False where a value is not accepted: `message` (`size` bytes) says which
 * and what is, in one line.
 */
bool settings_read(struct settings *s, char *message, size_t size);

/* Row `i` of the table as a row of Markdown, or false past the end. */
bool settings_describe(size_t i, char *row, size_t size);

#endif
