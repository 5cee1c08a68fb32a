// SPDX-License-Identifier: Apache-2.0
/*
 * Asks the program that keeps the system's clock for what the kernel does not know: its reference, and how far the
 * clock is from it. chrony answers any user, by chronyc, and systemd-timesyncd by timedatectl.
 */
#include "tools/doctor/read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Without names of hosts, which may take long to find. "Leap status" is the last field. */
#define ASK_CHRONY   "timeout -k 1 2 chronyc -n -c tracking 2>&1"
#define ASK_TIMESYNC "LC_ALL=C timeout -k 1 2 timedatectl timesync-status 2>/dev/null"

#define NS_PER_S      1000000000
#define BOUND_MAX_S   1e9 /* above that, or no number: no answer */
#define CHRONY_FIELDS 14

enum chrony_field {
	CHRONY_REFERENCE = 1, /* address, or the name of a clock */
	CHRONY_STRATUM,
	CHRONY_BEHIND = 4, /* s by which the clock is behind */
	CHRONY_DELAY = 10,
	CHRONY_DISPERSION,
	CHRONY_LEAP = 13,
};

bool parse_chrony(char *line, struct doctor_keeper *keeper)
{
	char *fields[CHRONY_FIELDS], *rest = line;
	double behind_s, bound_s;
	unsigned int n = 0;

	line[strcspn(line, "\n")] = '\0';
	while (n < CHRONY_FIELDS && (fields[n] = strsep(&rest, ",")))
		n++;
	if (n < CHRONY_FIELDS)
		return false;
	behind_s = strtod(fields[CHRONY_BEHIND], NULL);
	/* As chronyc(1) has it, of "Root dispersion". */
	bound_s = fabs(behind_s) + strtod(fields[CHRONY_DISPERSION], NULL) + strtod(fields[CHRONY_DELAY], NULL) / 2;
	if (!(bound_s >= 0 && bound_s < BOUND_MAX_S))
		return false;
	*keeper = (struct doctor_keeper){.program = "chrony",
	                                 .has_reference = strcmp(fields[CHRONY_LEAP], "Not synchronised") != 0,
	                                 .stratum = (unsigned int)strtoul(fields[CHRONY_STRATUM], NULL, 10)};
	keeper->ahead_ns = (int64_t)(-behind_s * NS_PER_S);
	keeper->bound_ns = (uint64_t)(bound_s * NS_PER_S);
	snprintf(keeper->reference, sizeof(keeper->reference), "%s",
	         *fields[CHRONY_REFERENCE] ? fields[CHRONY_REFERENCE] : "the clock itself");
	return true;
}

/* "-1min 2.5s" in s. */
static double span_s(const char *text)
{
	static const struct {
		const char *name;
		double s;
	} units[] = {{"us", 1e-6}, {"ms", 1e-3},  {"s", 1},           {"min", 60},    {"h", 3600},
	             {"d", 86400}, {"w", 604800}, {"month", 2629800}, {"y", 31557600}};
	double sign = *text == '-' ? -1 : 1, sum = 0, n;
	char *unit;

	text += *text == '-' || *text == '+';
	while (*text && *text != '\n' && (n = strtod(text, &unit), unit != text)) {
		size_t length = strcspn(unit, " \n");

		for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
			if (length == strlen(units[i].name) && strncmp(unit, units[i].name, length) == 0)
				sum += n * units[i].s;
		text = unit + length;
	}
	return sign * sum;
}

/* What stands behind the label in a line of the text; NULL: there is none. */
static const char *find_labelled(const char *text, const char *label)
{
	const char *found = strstr(text, label);

	return found ? found + strlen(label) : NULL;
}

bool parse_timesync(const char *text, struct doctor_keeper *keeper)
{
	const char *server = find_labelled(text, "Server: "), *stratum = find_labelled(text, "Stratum: ");
	const char *offset = find_labelled(text, "Offset: "), *distance = find_labelled(text, "Root distance: ");
	double behind_s;

	if (!server)
		return false;
	*keeper = (struct doctor_keeper){.program = "systemd-timesyncd", .has_reference = offset && distance};
	snprintf(keeper->reference, sizeof(keeper->reference), "%.*s", (int)strcspn(server, "\n"), server);
	if (!keeper->has_reference)
		return true;
	behind_s = span_s(offset);
	keeper->stratum = stratum ? (unsigned int)strtoul(stratum, NULL, 10) : 0;
	keeper->ahead_ns = (int64_t)(-behind_s * NS_PER_S);
	keeper->bound_ns = (uint64_t)((fabs(behind_s) + span_s(distance)) * NS_PER_S);
	return true;
}

/* The output of a command that ended with 0. */
static bool ask_command(const char *command, char output[DOCTOR_TEXT_BYTES])
{
	FILE *pipe = popen(command, "re");
	size_t n;

	if (!pipe)
		return false;
	n = fread(output, 1, DOCTOR_TEXT_BYTES - 1, pipe);
	output[n] = '\0';
	return pclose(pipe) == 0;
}

void ask_keeper(struct doctor_keeper *keeper)
{
	char output[DOCTOR_TEXT_BYTES];

	if (ask_command(ASK_CHRONY, output) && parse_chrony(output, keeper))
		return;
	if (ask_command(ASK_TIMESYNC, output))
		parse_timesync(output, keeper);
}
