// SPDX-License-Identifier: Apache-2.0
/* Parses points in time. */
#include "tools/inspect/extract.h"

#include <ctype.h>
#include <string.h>
#include <time.h>

#define NS_PER_S    UINT64_C(1000000000)
#define S_PER_DAY   86400
#define SECONDS_MAX (UINT64_C(9223372035)) /* in ns it fits an int64_t */

/* A decimal fraction of digits, exact to the ns, that reaches to the end of the text. */
static bool parse_fraction(const char *text, uint64_t *ns)
{
	uint64_t scale = NS_PER_S / 10;

	*ns = 0;
	if (*text == '.') {
		if (!isdigit((unsigned char)text[1]))
			return false;
		for (text++; isdigit((unsigned char)*text); text++, scale /= 10)
			*ns += (uint64_t)(*text - '0') * scale;
	}
	return *text == '\0' || !strcmp(text, "Z");
}

static bool parse_decimal(const char *text, uint64_t *ns)
{
	uint64_t seconds = 0, fraction;

	if (!isdigit((unsigned char)*text))
		return false;
	for (; isdigit((unsigned char)*text); text++) {
		seconds = 10 * seconds + (uint64_t)(*text - '0');
		if (seconds > SECONDS_MAX)
			return false;
	}
	if (!parse_fraction(text, &fraction))
		return false;
	*ns = seconds * NS_PER_S + fraction;
	return true;
}

/* "08:17:45.402" of the day in utc. */
static bool parse_clock(const char *text, struct tm *utc, uint64_t *ns)
{
	const char *rest = isdigit((unsigned char)*text) ? strptime(text, "%H:%M:%S", utc) : NULL;

	if (!rest || !parse_fraction(rest, ns))
		return false;
	*ns += (uint64_t)timegm(utc) * NS_PER_S;
	return true;
}

bool time_text_parse(const char *text, uint64_t begin_ns, uint64_t *ns)
{
	struct tm utc = {.tm_year = 70, .tm_mday = 1};
	const char *rest;
	uint64_t value;

	if (*text == '+' || *text == '@') {
		if (*text == '@')
			begin_ns = 0;
		if (!parse_decimal(text + 1, &value) || value > UINT64_MAX - begin_ns)
			return false;
		*ns = begin_ns + value;
		return true;
	}
	if (parse_clock(text, &utc, &value)) {
		*ns = begin_ns - begin_ns % (S_PER_DAY * NS_PER_S) + value;
		return true;
	}
	utc = (struct tm){0};
	rest = isdigit((unsigned char)*text) ? strptime(text, "%Y-%m-%d", &utc) : NULL;
	if (!rest || (*rest != 'T' && *rest != ' ') || utc.tm_year < 70 || utc.tm_year > 361 ||
	    !parse_clock(rest + 1, &utc, &value))
		return false;
	*ns = value;
	return true;
}
