// SPDX-License-Identifier: Apache-2.0
/* The backends of this build by name. */
#include "daemon/backend/backend.h"

#include "daemon/backend/packet/af_packet.h"
#include "daemon/backend/verbs/verbs.h"

#include <string.h>

static const struct backend_ops *const backends[] = {
	&verbs_backend_ops,
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
