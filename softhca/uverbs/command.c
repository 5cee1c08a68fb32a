// SPDX-License-Identifier: Apache-2.0
/* What all commands share: requests and responses, whose length differs between versions of the library, and their end.
 */
#include "command.h"

#include "../device/refuse.h"
#include "../wire/complain.h"

#include <errno.h>
#include <stdio.h>

int command_in(void *to, size_t bytes, const void *from, size_t from_bytes)
{
	const uint8_t *p = from;

	memset(to, 0, bytes);
	if (from_bytes)
		memcpy(to, from, from_bytes < bytes ? from_bytes : bytes);
	for (size_t i = bytes; i < from_bytes; i++)
		if (p[i])
			return refuse(EOPNOTSUPP, "request", "longer than this kernel knows, and not 0 there",
			              "ib_uverbs: ib_is_udata_cleared");
	return 0;
}

void command_out(void *to, size_t to_bytes, const void *from, size_t bytes)
{
	if (to_bytes)
		memcpy(to, from, to_bytes < bytes ? to_bytes : bytes);
}

/* EPROTONOSUPPORT only makes libibverbs use the write command. */
void command_ended(struct device *d, const char *name, uint32_t number, int result, uint64_t began_ns)
{
	struct refusal why = refusal_take();
	char text[16];

	snprintf(text, sizeof(text), "command %u", number);
	if (result >= 0)
		why = (struct refusal){0};
	trace_command(d, name, number, result, &why, began_ns);
	if (result >= 0 || result == -EPROTONOSUPPORT || !d->config.explain)
		return;
	if (why.rule)
		complain("%s: %s: %s: %s (%s)", name ? name : text, strerrorname_np(-result), why.attribute, why.rule,
		         why.source);
	else
		complain("%s: %s", name ? name : text, strerrorname_np(-result));
}
