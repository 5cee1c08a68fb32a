// SPDX-License-Identifier: Apache-2.0
/* Reads the events of interfaces from rtnetlink, a bounded number in one turn of the event loop. */
#include "daemon/net/link_watch.h"

#include "daemon/base/log.h"
#include "daemon/net/rtnl.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

struct link_watch {
	struct mnl_socket *socket;
	sd_event_source *source;
	link_watch_changed *changed;
	void *context;
};

static void link_watch_take(void *context, const struct nlmsghdr *event)
{
	const struct link_watch *watch = context;
	struct link_change change = {.vlan = -1};

	if (!event || ((event->nlmsg_type == RTM_NEWLINK || event->nlmsg_type == RTM_DELLINK) &&
	               rtnl_read_link_change(event, &change)))
		watch->changed(watch->context, &change);
}

static int on_link_event(sd_event_source *source, int, uint32_t, void *context)
{
	int r = rtnl_take_events(((struct link_watch *)context)->socket, link_watch_take, context);

	if (r == 0)
		return 0;
	log_warning(
		"interfaces: the kernel's events cannot be read any more (%s): an interface that is deleted and made "
		"again under its name is noticed, but not one of a VLAN",
		strerror(-r));
	return sd_event_source_set_enabled(source, SD_EVENT_OFF); /* a broken socket is always readable */
}

int link_watch_new(struct link_watch **watch, sd_event *event, link_watch_changed *changed, void *context)
{
	static const int group = RTNLGRP_LINK;
	struct link_watch *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	w->changed = changed;
	w->context = context;
	r = rtnl_open_events(&w->socket, &group, 1);
	if (r == 0)
		r = sd_event_add_io(event, &w->source, mnl_socket_get_fd(w->socket), EPOLLIN, on_link_event, w);
	/* First, so that losses that a later reading of the device settles do not hide that the link was down. */
	if (r == 0)
		r = sd_event_source_set_priority(w->source, SD_EVENT_PRIORITY_IMPORTANT);
	if (r < 0) {
		link_watch_free(w);
		return r;
	}
	*watch = w;
	return 0;
}

void link_watch_free(struct link_watch *watch)
{
	if (!watch)
		return;
	sd_event_source_disable_unref(watch->source);
	if (watch->socket)
		mnl_socket_close(watch->socket);
	free(watch);
}
