// SPDX-License-Identifier: Apache-2.0
/* The only file that names all backends. */
#include "daemon/backend/choice/backends.h"

#include "daemon/backend/packet/af_packet.h"
#include "daemon/backend/verbs/verbs.h"
#include "daemon/backend/xdp/xdp.h"
#include "daemon/priv/priv.h"

#include <stdio.h>
#include <string.h>

static const struct backend_ops *const backends[] = {
	&verbs_backend_ops,
	&xdp_backend_ops,
	&af_packet_ops,
};

const struct backend_ops *backend_find(const char *name)
{
	for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++) {
		if (!strcmp(backends[i]->name, name))
			return backends[i];
	}
	return NULL;
}

static uint64_t backend_mask(const struct backend_ops *ops, enum backend_phase phase)
{
	uint64_t mask = 0;

	for (const struct backend_privilege *needed = ops->privileges; needed && needed->purpose; needed++)
		if (phase == BACKEND_PHASE_START || !needed->at_start)
			mask |= PRIV_BIT(needed->capability);
	return mask;
}

uint64_t backend_capabilities_of(const struct backend_ops *ops, enum backend_phase phase)
{
	uint64_t mask = 0;

	if (ops)
		return backend_mask(ops, phase);
	for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
		mask |= backend_mask(backends[i], phase);
	return mask;
}

bool backend_keeps_program(const struct backend_ops *ops, const char *interface)
{
	return ops && ops->keeps_program && ops->keeps_program(interface);
}

int backend_check_privileges(const struct backend_ops *ops, const char *interface, struct failure *failure)
{
	bool has_program = backend_keeps_program(ops, interface);
	char who[32];
	int r = 0;

	snprintf(who, sizeof(who), "backend \"%s\"", ops->name);
	for (const struct backend_privilege *needed = ops->privileges; needed && needed->purpose && r == 0; needed++)
		if (needed->required && !(has_program && needed->at_start))
			r = priv_require(needed->capability, who, needed->purpose, failure);
	return r;
}
