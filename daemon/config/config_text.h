// SPDX-License-Identifier: Apache-2.0
/*
 * The text of a configuration file before libconfig parses it. It is checked here for errors that libconfig 1.5 does
 * not report: libconfig cuts integers to 32 bits, and ends the process if an included file cannot be read. Inside the
 * config room only.
 */
#ifndef DAEMON_CONFIG_CONFIG_TEXT_H
#define DAEMON_CONFIG_CONFIG_TEXT_H

#include "daemon/config/config_reader.h"

#define CONFIG_TEXT_BYTES_MAX (1u << 20)

/**
 * The whole file, NUL-terminated; the caller frees it. The file may be a pipe. written_ns (or NULL) becomes the time at
 * which the file was written, unless it is a later one. 0 or -errno: config_text_error().
 */
int config_text_read(const char *path, char **text, uint64_t *written_ns);

/** Explains an error of config_text_read(). */
const char *config_text_error(int error);

/** Check the main file's text and the files it includes. 0, or the failure at its file:line. */
int config_text_check(const struct config_reader *reader, const char *text);

#endif
