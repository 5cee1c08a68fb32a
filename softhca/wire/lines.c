// SPDX-License-Identifier: Apache-2.0
/* Writes lines of names and values, as text or as JSON. */
#include "lines.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What does not fit is left out: make_room() has failed. */
static void lines_add(struct lines *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void lines_add(struct lines *r, const char *format, ...)
{
	size_t left = r->size - r->bytes;
	va_list ap;
	int n;

	va_start(ap, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start() is above; clang 14 does not see it */
	n = left ? vsnprintf(r->text + r->bytes, left, format, ap) : 0;
	va_end(ap);
	if (n > 0 && (size_t)n < left)
		r->bytes += (size_t)n;
}

void lines_begin(struct lines *r, const char *what)
{
	if (r->size - r->bytes < LINES_LONGEST)
		r->make_room(r);
	lines_add(r, r->json ? "{\"what\": \"%s\"" : "%s", what);
}

static void lines_name(struct lines *r, const char *name)
{
	lines_add(r, r->json ? ", \"%s\": " : " %s=", name);
}

void lines_number(struct lines *r, const char *name, uint64_t value)
{
	lines_name(r, name);
	lines_add(r, "%lu", value);
}

/* JSON has no hexadecimal numbers. */
void lines_hex(struct lines *r, const char *name, uint64_t value)
{
	lines_name(r, name);
	lines_add(r, r->json ? "%lu" : "0x%lx", value);
}

/* RFC 8259: quotes, backslashes and control characters are escaped; the rest is passed on. */
void lines_text(struct lines *r, const char *name, const char *value)
{
	bool quoted = r->json || !*value || strpbrk(value, " \t\"\n");

	lines_name(r, name);
	if (quoted)
		lines_add(r, "\"");
	for (; *value; value++) {
		if ((unsigned char)*value < ' ')
			lines_add(r, "\\u%04x", (unsigned char)*value);
		else
			lines_add(r, quoted && (*value == '"' || *value == '\\') ? "\\%c" : "%c", *value);
	}
	if (quoted)
		lines_add(r, "\"");
}

void lines_flag(struct lines *r, const char *name, bool value)
{
	lines_name(r, name);
	lines_add(r, "%s", r->json ? (value ? "true" : "false") : (value ? "1" : "0"));
}

void lines_time(struct lines *r, const char *name, uint64_t realtime_ns)
{
	lines_name(r, name);
	lines_add(r, "%lu.%09lu", realtime_ns / 1000000000u, realtime_ns % 1000000000u);
}

void lines_end(struct lines *r)
{
	lines_add(r, r->json ? "}\n" : "\n");
}

void lines_enlarge(struct lines *r)
{
	size_t size = r->size ? 2 * r->size : 32 * LINES_LONGEST;
	char *text = realloc(r->text, size);

	if (!text)
		return;
	r->text = text;
	r->size = size;
}
