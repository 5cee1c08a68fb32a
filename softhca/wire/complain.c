// SPDX-License-Identifier: Apache-2.0
/* Writes one line on standard error, with a system call: the program may have closed or redirected stdio. */
#include "complain.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void complain(const char *format, ...)
{
	static const char prefix[] = "softhca: ";
	char line[640] = "";
	int saved = errno;
	va_list ap;

	strcpy(line, prefix);
	va_start(ap, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start() is above; clang 14 does not see it */
	vsnprintf(line + sizeof(prefix) - 1, sizeof(line) - sizeof(prefix), format, ap);
	va_end(ap);
	strcat(line, "\n");
	syscall(SYS_write, STDERR_FILENO, line, strlen(line));
	errno = saved;
}
