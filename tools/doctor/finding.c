// SPDX-License-Identifier: Apache-2.0
/* The list of findings, and the formatting of their texts. */
#include "tools/doctor/finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Names of files, and text of the configuration, must not send control sequences to the terminal. */
static void blank_control_characters(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = ' ';
}

__attribute__((format(printf, 3, 0))) static void write_text(char *text, size_t bytes, const char *format,
                                                             va_list arguments)
{
	vsnprintf(text, bytes, format, arguments);
	blank_control_characters(text);
}

struct finding *finding_add(struct findings *findings, const char *check, const char *subject, ...)
{
	struct finding *finding = &findings->entries[findings->n];
	va_list arguments;

	/* The bounds of the facts keep n below the maximum. */
	if (findings->n < FINDINGS_MAX - 1)
		findings->n++;
	*finding = (struct finding){.check = check};
	va_start(arguments, subject);
	write_text(finding->subject, sizeof(finding->subject), subject, arguments);
	va_end(arguments);
	return finding;
}

void finding_fail(struct finding *finding, enum finding_level level, const char *why, const char *wanted, ...)
{
	va_list arguments;

	finding->level = level;
	finding_write(finding->why, "%s", why);
	va_start(arguments, wanted);
	write_text(finding->wanted, sizeof(finding->wanted), wanted, arguments);
	va_end(arguments);
}

void finding_fix(struct finding *finding, unsigned int kind, const char *format, ...)
{
	va_list arguments;

	finding->fix_survives_reboot = kind & FIX_LASTS;
	finding->fix_is_host = kind & FIX_ON_HOST;
	va_start(arguments, format);
	write_text(finding->fix, sizeof(finding->fix), format, arguments);
	va_end(arguments);
}

void finding_fix_by_edit(struct finding *finding, const char *file, int line, const char *format, ...)
{
	va_list arguments;
	size_t n;

	finding_write(finding->fix, "editor +%d %s   # ", line, file);
	n = strlen(finding->fix);
	va_start(arguments, format);
	write_text(finding->fix + n, sizeof(finding->fix) - n, format, arguments);
	va_end(arguments);
	finding->fix_survives_reboot = finding->fix_is_edit = true;
}

void findings_name_host(struct findings *findings)
{
	char fix[FINDING_TEXT_BYTES];

	for (unsigned int i = 0; i < findings->n; i++) {
		struct finding *finding = &findings->entries[i];

		if (!finding->fix_is_host)
			continue;
		memcpy(fix, *finding->fix ? finding->fix : finding->advice, sizeof(fix));
		finding_write(finding->advice, "on the host: %s", fix);
		finding->fix[0] = '\0';
	}
}

void finding_write(char text[FINDING_TEXT_BYTES], const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	write_text(text, FINDING_TEXT_BYTES, format, arguments);
	va_end(arguments);
}

void finding_append(char text[FINDING_TEXT_BYTES], const char *format, ...)
{
	size_t n = strlen(text);
	va_list arguments;

	va_start(arguments, format);
	write_text(text + n, FINDING_TEXT_BYTES - n, format, arguments);
	va_end(arguments);
}

const char *finding_format_cpus(const cpu_set_t *cpus, char text[FINDING_TEXT_BYTES])
{
	unsigned int last;

	finding_write(text, "%s", CPU_COUNT(cpus) ? "" : "none");
	for (unsigned int first = 0; first < CPU_SETSIZE; first = last + 1) {
		last = first;
		if (!CPU_ISSET(first, cpus))
			continue;
		while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, cpus))
			last++;
		finding_append(text, *text ? ",%u" : "%u", first);
		if (last > first)
			finding_append(text, "-%u", last);
	}
	return text;
}

enum finding_level findings_worst_level(const struct findings *findings)
{
	enum finding_level worst = FINDING_OK;

	for (unsigned int i = 0; i < findings->n; i++)
		if (findings->entries[i].level > worst)
			worst = findings->entries[i].level;
	return worst;
}
