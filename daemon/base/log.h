// SPDX-License-Identifier: Apache-2.0
/* One line a message, to stderr; with the journal's <level> prefix where stderr is the journal. Any thread. */
#ifndef DAEMON_BASE_LOG_H
#define DAEMON_BASE_LOG_H

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
