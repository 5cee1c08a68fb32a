// SPDX-License-Identifier: Apache-2.0
/* The text of the last failure in this thread, for ibvcap_error_text(). */
#ifndef IBVCAP_ERROR_H
#define IBVCAP_ERROR_H

/** Store the text (the first 1023 bytes of it) and return error, a negative errno. */
int error_set(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
