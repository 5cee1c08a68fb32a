// SPDX-License-Identifier: Apache-2.0
/* Makes JSON strings of texts that may not be UTF-8. */
#include "lib/json/text_to_json.h"

#include <stdlib.h>
#include <string.h>

json_t *text_to_json(const char *text)
{
	json_t *json = json_string(text);
	char *copy = json ? NULL : strdup(text);

	if (!copy)
		return json;
	for (char *c = copy; *c; c++)
		if ((unsigned char)*c > '~')
			*c = '?';
	json = json_string(copy);
	free(copy);
	return json;
}
