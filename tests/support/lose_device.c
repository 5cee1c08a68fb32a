// SPDX-License-Identifier: Apache-2.0
/* To be preloaded into the daemon: while the file named by LOSE_DEVICE is there, each event of a device says that the
 * device has failed. */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <unistd.h>

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	int (*next)(struct ibv_context *, struct ibv_async_event *) =
		(int (*)(struct ibv_context *, struct ibv_async_event *))dlsym(RTLD_NEXT, "ibv_get_async_event");
	int r = next(context, event);
	const char *path = getenv("LOSE_DEVICE");

	if (r == 0 && path && access(path, F_OK) == 0)
		event->event_type = IBV_EVENT_DEVICE_FATAL;
	return r;
}
