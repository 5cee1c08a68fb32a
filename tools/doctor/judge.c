// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/judge.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct doctor_finding *judge_add(struct doctor_findings *findings, const char *check)
{
	static const struct doctor_finding none;
	struct doctor_finding *finding = &findings->entries[findings->n];

	/* Bounded by the facts' own bounds; if the last entry is ever reached, it is used again. */
	if (findings->n < DOCTOR_FINDINGS_MAX - 1)
		findings->n++;
	*finding = none;
	finding->check = check;
	return finding;
}

/* What a file's name or the configuration has in it must not move the cursor. */
static void keep_to_one_line(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = ' ';
}

void judge_say(char text[DOCTOR_TEXT_BYTES], const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, DOCTOR_TEXT_BYTES, format, arguments);
	va_end(arguments);
	keep_to_one_line(text);
}

void judge_append(char text[DOCTOR_TEXT_BYTES], const char *format, ...)
{
	size_t n = strlen(text);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text + n, DOCTOR_TEXT_BYTES - n, format, arguments);
	va_end(arguments);
	keep_to_one_line(text + n);
}

const char *judge_format_cpus(const cpu_set_t *cpus, char text[DOCTOR_TEXT_BYTES])
{
	unsigned int last;

	judge_say(text, "%s", CPU_COUNT(cpus) ? "" : "none");
	for (unsigned int first = 0; first < CPU_SETSIZE; first = last + 1) {
		last = first;
		if (!CPU_ISSET(first, cpus))
			continue;
		while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, cpus))
			last++;
		judge_append(text, *text ? ",%u" : "%u", first);
		if (last > first)
			judge_append(text, "-%u", last);
	}
	return text;
}

const struct doctor_interface *judge_find_interface(const struct doctor_facts *facts, const char *name)
{
	for (unsigned int i = 0; i < facts->n_interfaces; i++)
		if (facts->interfaces[i].exists && strcmp(facts->interfaces[i].name, name) == 0)
			return &facts->interfaces[i];
	return NULL;
}

const struct doctor_device *judge_find_device(const struct doctor_facts *facts, const char *interface)
{
	for (unsigned int i = 0; i < facts->n_devices; i++)
		for (unsigned int j = 0; j < facts->devices[i].n_ports; j++)
			if (strcmp(facts->devices[i].ports[j].netdev, interface) == 0)
				return &facts->devices[i];
	return NULL;
}

void doctor_judge(const struct doctor_facts *facts, struct doctor_findings *findings)
{
	findings->n = 0;
	judge_devices(facts, findings);
	judge_config(facts, findings);
	judge_process(facts, findings);
	judge_limits(facts, findings);
	judge_memory(facts, findings);
	judge_pci(facts, findings);
	judge_interfaces(facts, findings);
	judge_cpus(facts, findings);
	judge_clocks(facts, findings);
	judge_kernel(facts, findings);
}

enum doctor_level doctor_worst(const struct doctor_findings *findings)
{
	enum doctor_level worst = DOCTOR_OK;

	for (unsigned int i = 0; i < findings->n; i++)
		if (findings->entries[i].level > worst)
			worst = findings->entries[i].level;
	return worst;
}
