// SPDX-License-Identifier: Apache-2.0
/* The text of the last failure in this thread, for ibvcap_error_text(). */
#ifndef IBVCAP_ERROR_H
#define IBVCAP_ERROR_H

/* libibvcap exports the function under this name, for libibvcap-cuda of the same version: see libibvcap.map. */
#define IBVCAP_PRIVATE(name) __asm__("ibvcap_private_" #name)

/** Store the text, the first 1023 bytes of it. */
void error_set_text(const char *format, ...) IBVCAP_PRIVATE(error_set_text) __attribute__((format(printf, 1, 2)));

/** The same, and its value is error, a negative errno: a macro, so that a checker of the code knows the value. */
#define error_set(error, ...) (error_set_text(__VA_ARGS__), (error))

#endif
