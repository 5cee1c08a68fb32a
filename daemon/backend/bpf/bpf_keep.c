// SPDX-License-Identifier: Apache-2.0
/* The list of loaded programs that wait for their interface. */
#include "daemon/backend/bpf/bpf_keep.h"

#include "daemon/priv/priv.h"

#include <linux/capability.h>
#include <net/if.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

struct kept {
	SLIST_ENTRY(kept) link;
	const struct bpf_code *code;
	char interface[IFNAMSIZ];
	void *program;
};

static SLIST_HEAD(, kept) all = SLIST_HEAD_INITIALIZER(all);

static struct kept *keep_find(const struct bpf_code *code, const char *interface)
{
	struct kept *kept;

	SLIST_FOREACH (kept, &all, link)
		if (kept->code == code && strcmp(kept->interface, interface) == 0)
			break;
	return kept;
}

bool bpf_keep_put(const struct bpf_code *code, const char *interface, void *program)
{
	bool may_load = priv_has(CAP_BPF) && priv_has(CAP_NET_ADMIN);
	struct kept *kept = may_load ? NULL : calloc(1, sizeof(*kept));

	if (!kept)
		return false;
	kept->code = code;
	kept->program = program;
	snprintf(kept->interface, sizeof(kept->interface), "%s", interface);
	SLIST_INSERT_HEAD(&all, kept, link);
	return true;
}

void *bpf_keep_take(const struct bpf_code *code, const char *interface)
{
	struct kept *kept = keep_find(code, interface);
	void *program = kept ? kept->program : NULL;

	if (kept)
		SLIST_REMOVE(&all, kept, kept, link);
	free(kept);
	return program;
}

bool bpf_keep_has(const struct bpf_code *code, const char *interface)
{
	return keep_find(code, interface) != NULL;
}
