// SPDX-License-Identifier: Apache-2.0
/* Keeps the reason of the last refusal of each thread. */
#include "refuse.h"

static _Thread_local struct refusal last;

void refusal_note(const char *attribute, const char *rule, const char *source)
{
	last = (struct refusal){attribute, rule, source};
}

struct refusal refusal_take(void)
{
	struct refusal taken = last;

	last = (struct refusal){0};
	return taken;
}
