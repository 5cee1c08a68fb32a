// SPDX-License-Identifier: Apache-2.0
/* One line about what failed last in this thread: what ibvcap_error_text() says. */
#ifndef IBVCAP_ERROR_H
#define IBVCAP_ERROR_H

/** Remember the line (cut off at 511 bytes) and return error, a negative errno. */
int error_set(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
