// SPDX-License-Identifier: Apache-2.0
/* Parses points in time. */
#include "tools/inspect/extract.h"

#include <ctype.h>
#include <stdio.h>
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

static bool parse_clock(const char *text, uint64_t *ns)
{
	unsigned hour, minute, second;
	uint64_t fraction;
	int used = 0;

	if (sscanf(text, "%2u:%2u:%2u%n", &hour, &minute, &second, &used) != 3 || hour > 23 || minute > 59 ||
	    second > 60 || !isdigit((unsigned char)*text) || !parse_fraction(text + used, &fraction))
		return false;
	*ns = (hour * 3600 + minute * 60 + second) * NS_PER_S + fraction;
	return true;
}

static bool parse_date(const char *text, uint64_t *ns)
{
	struct tm date = {0};
	uint64_t of_day;
	time_t day;
	int used = 0;

	if (sscanf(text, "%4d-%2d-%2d%n", &date.tm_year, &date.tm_mon, &date.tm_mday, &used) != 3 || used < 8 ||
	    (text[used] != 'T' && text[used] != ' ') || date.tm_year < 1970 || date.tm_year > 2261 || date.tm_mon < 1 ||
	    date.tm_mon > 12 || date.tm_mday < 1 || date.tm_mday > 31 || !parse_clock(text + used + 1, &of_day))
		return false;
	date.tm_year -= 1900;
	date.tm_mon--;
	day = timegm(&date);
	*ns = (uint64_t)day * NS_PER_S + of_day;
	return true;
}

bool time_text_parse(const char *text, uint64_t begin_ns, uint64_t *ns)
{
	uint64_t value;

	if (*text == '+') {
		if (!parse_decimal(text + 1, &value) || value > UINT64_MAX - begin_ns)
			return false;
		*ns = begin_ns + value;
		return true;
	}
	if (*text == '@')
		return parse_decimal(text + 1, ns);
	if (parse_clock(text, &value)) {
		*ns = begin_ns - begin_ns % (S_PER_DAY * NS_PER_S) + value;
		return true;
	}
	return parse_date(text, ns);
}
