// SPDX-License-Identifier: Apache-2.0
/*
 * A file's text before libconfig sees it, and what libconfig 1.5 would not report: it cuts integers over
 * 32 bits without a word, and ends the process when an included file can't be read. Inside the config room only.
 */
#ifndef DAEMON_CONFIG_CONFIG_TEXT_H
#define DAEMON_CONFIG_CONFIG_TEXT_H

#include "daemon/config/config_reader.h"

#define CONFIG_TEXT_BYTES_MAX (1u << 20)

/** All of a file, NUL-terminated, to be freed. Read once and in order: it may be a pipe. 0 or -errno, -EFBIG, -EILSEQ. */
int config_text_read(const char *path, char **text);

/** What an error of config_text_read() means. */
const char *config_text_error(int error);

/** Check the main file's text and the files it includes. 0, or the failure at its file:line. */
int config_text_check(const struct config_reader *reader, const char *text);

#endif
