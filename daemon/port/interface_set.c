// SPDX-License-Identifier: Apache-2.0
/* The list of interfaces: takes, opens, serves and releases them; each has the number of its services. */
#include "daemon/port/interface_set.h"

#include "daemon/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

static const char *interface_backend_name(enum config_backend backend)
{
	switch (backend) {
	case CONFIG_BACKEND_VERBS:
		break;
	}
	return "verbs";
}

int interface_set_take(struct daemon *daemon, const char *name, enum config_backend backend, struct interface **out,
                       struct failure *failure)
{
	struct interface *interface;
	int r;

	TAILQ_FOREACH (interface, &daemon->interfaces, link)
		if (strcmp(interface->name, name) == 0)
			break;
	if (!interface) {
		interface = calloc(1, sizeof(*interface));
		if (!interface)
			return failure_set(failure, EX_OSERR, ENOMEM, "interface %s: out of memory", name);
		r = interface_init(interface, name, interface_backend_name(backend), failure);
		if (r < 0) {
			free(interface);
			return r;
		}
		TAILQ_INSERT_TAIL(&daemon->interfaces, interface, link);
	}
	interface->n_users++;
	*out = interface;
	return 0;
}

int interface_set_open(struct interface *interface, struct failure *failure)
{
	return interface->backend ? 0 : interface_open(interface, failure);
}

/* The handler is the daemon's: a notice may end or refresh everything. */
static int interface_set_watch(struct daemon *daemon, struct interface *interface)
{
	int r;

	if (interface->notices || !interface->ops->notice_fd)
		return 0;
	r = sd_event_add_io(daemon->event, &interface->notices, interface->ops->notice_fd(interface->backend), EPOLLIN,
	                    daemon->on_notices, daemon);
	return r < 0 ? r : 0;
}

int interface_set_serve(struct daemon *daemon, struct interface *interface)
{
	int r = interface_set_watch(daemon, interface);

	if (r < 0 || interface->in_control)
		return r;
	interface->port = (struct control_interface){
		.name = interface->name,
		.device = interface->capabilities.device,
		.read = interface_read_counters,
		.context = interface,
	};
	control_add_interface(daemon->control, &interface->port);
	interface->in_control = true;
	return 0;
}

void interface_set_release(struct daemon *daemon, struct interface *interface)
{
	if (--interface->n_users > 0)
		return;
	if (interface->in_control && daemon->control)
		control_remove_interface(daemon->control, &interface->port);
	sd_event_source_disable_unref(interface->notices);
	interface_close(interface);
	TAILQ_REMOVE(&daemon->interfaces, interface, link);
	free(interface);
}
