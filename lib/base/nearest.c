// SPDX-License-Identifier: Apache-2.0
/* Counts how many letters two words differ by. */
#include "lib/base/nearest.h"

#include "lib/base/min.h"

#include <stddef.h>
#include <string.h>

#define NAME_MAX_COMPARED 40u

/*
 * How many letters were left out, added, replaced, or exchanged with their neighbour (optimal string alignment
 * distance). rows[i % 3][j] is the distance of the first i letters of a from the first j letters of b.
 */
static unsigned nearest_count(const char *a, size_t n_a, const char *b, size_t n_b)
{
	unsigned rows[3][NAME_MAX_COMPARED + 1];

	for (unsigned i = 0; i <= n_a; i++) {
		unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];

		for (unsigned j = 0; j <= n_b; j++) {
			if (i == 0 || j == 0) {
				row[j] = i + j;
				continue;
			}
			row[j] = u32_min(above[j], row[j - 1]) + 1;
			row[j] = u32_min(row[j], above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = u32_min(row[j], two_above[j - 2] + 1);
		}
	}
	return rows[n_a % 3][n_b];
}

/* A third of the letters, and one of two. */
static size_t mistakes_max(size_t length)
{
	return length == 2 ? 1 : length / 3;
}

void nearest_offer(struct nearest *nearest, const char *candidate)
{
	size_t length = strlen(nearest->word), n = strlen(candidate);
	unsigned distance;

	if (length > NAME_MAX_COMPARED || n > NAME_MAX_COMPARED)
		return;
	distance = nearest_count(nearest->word, length, candidate, n);
	if (nearest->best ? distance >= nearest->distance : distance > mistakes_max(length))
		return;
	nearest->best = candidate;
	nearest->distance = distance;
}

const char *nearest_option(const struct option *options, const char *argument)
{
	char name[NAME_MAX_COMPARED + 1];
	struct nearest nearest = {.word = name};
	size_t n;

	if (strncmp(argument, "--", 2) != 0)
		return NULL;
	n = strcspn(argument + 2, "=");
	if (n > NAME_MAX_COMPARED)
		return NULL;
	memcpy(name, argument + 2, n);
	name[n] = '\0';
	for (; options->name; options++)
		nearest_offer(&nearest, options->name);
	return nearest.best && nearest.distance > 0 ? nearest.best : NULL; /* 0: only its value is missing */
}
