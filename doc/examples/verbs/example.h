// SPDX-License-Identifier: Apache-2.0
/* What the examples in this directory share: they end at the first call that fails, and open a device by its name. */
#include <infiniband/verbs.h>

#include <err.h>
#include <string.h>

static inline void check(int ok, const char *call)
{
	if (!ok)
		err(1, "%s", call);
}

static inline struct ibv_context *open_device(const char *name)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	for (int i = 0; devices && devices[i] && !context; i++)
		if (!strcmp(ibv_get_device_name(devices[i]), name))
			context = ibv_open_device(devices[i]);
	check(context != NULL, name);
	ibv_free_device_list(devices);
	return context;
}
