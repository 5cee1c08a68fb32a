// SPDX-License-Identifier: Apache-2.0
/* Writes a whole configuration as a file. */
#include "daemon/config/config.h"
#include "daemon/config/key.h"

#include <string.h>

/* Indent each line. */
static void dump_lines(FILE *to, const char *text, int depth)
{
	while (*text) {
		size_t n = strcspn(text, "\n") + 1;

		fprintf(to, "%*s%.*s", depth * 4, "", (int)n, text);
		text += n;
	}
}

static void dump_group(FILE *to, const struct key_group *group, const void *base, int depth);

static void dump_list(FILE *to, const struct key *key, const void *base, int depth)
{
	uint32_t n = key_count(key, base);

	for (uint32_t i = 0; i < n; i++) {
		fprintf(to, "%*s{\n", depth * 4, "");
		dump_group(to, key->group, key_entry(key, base, i), depth + 1);
		fprintf(to, "%*s}%s\n", depth * 4, "", i + 1 == n ? "" : ",");
	}
}

static void dump_group(FILE *to, const struct key_group *group, const void *base, int depth)
{
	dump_lines(to, key_group_text(group, base), depth);
	for (unsigned i = 0; i < group->n_keys; i++) {
		const struct key *key = &group->keys[i];

		if (key->type == KEY_GROUP) {
			fprintf(to, "%*s%s = {\n", depth * 4, "", key->name);
			dump_group(to, key->group, base, depth + 1);
			fprintf(to, "%*s};\n", depth * 4, "");
		} else if (key->type == KEY_LIST && key_count(key, base) > 0) {
			fprintf(to, "%*s%s = (\n", depth * 4, "", key->name);
			dump_list(to, key, base, depth + 1);
			fprintf(to, "%*s);\n", depth * 4, "");
		}
	}
}

void config_dump(const struct config *config, FILE *to)
{
	dump_group(to, &top_keys, config, 0);
}
