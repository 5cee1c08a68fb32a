// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/tools/captured.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static int kept = -1, before = -1;
static char text[1 << 16];

void captured_begin(void)
{
	fflush(stderr);
	before = dup(STDERR_FILENO);
	kept = memfd_create("captured", MFD_CLOEXEC);
	cr_assert(before >= 0 && kept >= 0 && dup2(kept, STDERR_FILENO) == STDERR_FILENO);
}

const char *captured_end(void)
{
	ssize_t n;

	fflush(stderr);
	n = pread(kept, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	dup2(before, STDERR_FILENO);
	close(before);
	close(kept);
	return text;
}
