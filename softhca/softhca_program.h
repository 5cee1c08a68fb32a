// SPDX-License-Identifier: Apache-2.0
/* What the dynamic linker will do with LD_PRELOAD for a program. */
#ifndef SOFTHCA_PROGRAM_H
#define SOFTHCA_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

struct program {
	char sanitizer[64]; /* the sanitizer's library, which has to be loaded before ours; "": none */
	bool is_static;     /* has no dynamic linker */
	bool is_privileged; /* gets a user, group or capabilities by exec, so LD_PRELOAD is ignored and unset */
};

/* Looks at the program that exec would run for `command`. All fields are empty for a script, or if the file cannot be
 * read. */
void program_read(struct program *p, const char *command);

#endif
