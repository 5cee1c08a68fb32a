// SPDX-License-Identifier: Apache-2.0
/* The settings are environment variables. One table parses and describes them. */
#ifndef SOFTHCA_SETTINGS_H
#define SOFTHCA_SETTINGS_H

#include "device/device.h"

#define SETTINGS_MAX_NETDEVS 16

struct settings {
	const char *interfaces; /* "": nothing is emulated */
	unsigned int clock_us;
	struct device_config device; /* all but netdev and clock */
};

/* Reads the settings from the environment. False if a value is not accepted; `message` (`size` bytes) then names the
 * setting, the error and the accepted values in one line. */
bool settings_read(struct settings *s, char *message, size_t size);

/* Row `i` of the table as a row of Markdown, or false past the end. */
bool settings_describe(size_t i, char *row, size_t size);

#endif
