// SPDX-License-Identifier: Apache-2.0
/* Lines for the user on standard error. */
#ifndef SOFTHCA_WIRE_COMPLAIN_H
#define SOFTHCA_WIRE_COMPLAIN_H

/* Writes "softhca: ", the text and a newline in one piece. If nobody reads it, nothing can be done. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
