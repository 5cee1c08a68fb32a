// SPDX-License-Identifier: Apache-2.0
/* Keeps what a test's calls print on standard error. */
#ifndef TESTS_UNIT_TOOLS_CAPTURED_H
#define TESTS_UNIT_TOOLS_CAPTURED_H

/** Keep it from now on. */
void captured_begin(void);

/** Print it again, as before. The text since captured_begin(), valid until its next call. */
const char *captured_end(void);

#endif
