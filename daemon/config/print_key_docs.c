// SPDX-License-Identifier: Apache-2.0
/*
 * Generates parts of the manual page and of the shells' completion from the key tables: print_key_docs < FILE > FILE
 *
 *   @WORDS stream@       becomes a line for each key of that group: its name and the values that it takes
 *   .\" @KEYS stream@    the entries of that group's keys in mdoc follow, instead of the lines up to
 *   .\" @END@
 */
#include "daemon/config/key.h"
#include "lib/mdoc/mdoc_text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

static const struct {
	const char *name;
	const struct key_group *group;
} groups[] = {
	{"top", &top_keys},           {"control", &control_keys},         {"stream", &stream_keys},
	{"flow", &flow_keys},         {"channel", &channel_keys},         {"destination", &destination_keys},
	{"sequence", &sequence_keys}, {"sensor_time", &sensor_time_keys},
};

static const struct key_group *find_key_group(const char *name)
{
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
		if (strcmp(groups[i].name, name) == 0)
			return groups[i].group;
	return NULL;
}

/* A value's name stays as it is. */
static bool begins_with_choice(const struct key *key)
{
	size_t n = strcspn(key->help, ":");

	for (const struct key_choice *choice = key->choices; choice && choice->name; choice++)
		if (strlen(choice->name) == n && strncmp(choice->name, key->help, n) == 0)
			return true;
	return false;
}

static void print_mdoc_entry(const struct key *key)
{
	char help[256], accepted[256], value[128];

	snprintf(help, sizeof(help), "%s", key->help);
	if (!begins_with_choice(key))
		help[0] = (char)toupper((unsigned char)help[0]);
	printf(".It Ic %s\n", key->name);
	mdoc_text_print(help, ".");
	fputs("Accepted is ", stdout);
	mdoc_text_print(key_accepted(key, accepted, sizeof(accepted)),
	                key_default(key, value, sizeof(value))[0] ? ";" : ".");
	if (value[0]) {
		fputs("the default is ", stdout);
		mdoc_text_print(value, ".");
	}
	if (key->required)
		puts("Required.");
	if (key->live && !key->group)
		puts("A reload changes it.");
}

static void print_completion_words(const struct key_group *group)
{
	for (unsigned i = 0; i < group->n_keys; i++) {
		const struct key *key = &group->keys[i];

		if (key->group)
			continue;
		fputs(key->name, stdout);
		for (const struct key_choice *choice = key->choices; choice && choice->name; choice++)
			printf(" %s", choice->name);
		puts(key->type == KEY_BOOLEAN ? " true false" : "");
	}
}

int main(void)
{
	char line[1024], name[32], end;
	bool is_old = false;

	while (fgets(line, sizeof(line), stdin)) {
		bool is_keys = sscanf(line, ".\\\" @KEYS %31[a-z_]%c", name, &end) == 2 && end == '@';
		bool is_words = sscanf(line, "@WORDS %31[a-z_]%c", name, &end) == 2 && end == '@';
		const struct key_group *group = is_keys || is_words ? find_key_group(name) : NULL;

		if ((is_keys || is_words) && !group) {
			fprintf(stderr, "print_key_docs: no group of keys '%s'\n", name);
			return EX_DATAERR;
		}
		is_old = is_old && strcmp(line, ".\\\" @END@\n") != 0;
		if (!is_old && !is_words)
			fputs(line, stdout);
		if (is_words)
			print_completion_words(group);
		if (is_keys) {
			puts(".Bl -tag -width Ds");
			for (unsigned i = 0; i < group->n_keys; i++)
				print_mdoc_entry(&group->keys[i]);
			puts(".El");
			is_old = true;
		}
	}
	return fflush(stdout) || ferror(stdin) ? EX_IOERR : EX_OK;
}
