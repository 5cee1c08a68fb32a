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

#define EVENTS_MAX  32
#define EVENT_BYTES 32768

struct link_watch {
	struct mnl_socket *socket;
	sd_event_source *source;
	link_watch_changed *changed;
	void *context;
};

/* Returns 1 to go on, 0 if there is no more, or -errno. */
static int link_watch_take_datagram(struct link_watch *watch)
{
	char buffer[EVENT_BYTES];
	ssize_t n = mnl_socket_recvfrom(watch->socket, buffer, sizeof(buffer));
	struct link_change change = {.vlan = -1};
	int left = (int)n;

	if (n < 0 && errno != ENOBUFS && errno != ENOSPC)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n < 0)
		watch->changed(watch->context, &change);
	for (const struct nlmsghdr *m = (void *)buffer; n > 0 && mnl_nlmsg_ok(m, left); m = mnl_nlmsg_next(m, &left))
		if ((m->nlmsg_type == RTM_NEWLINK || m->nlmsg_type == RTM_DELLINK) && rtnl_read_link_change(m, &change))
			watch->changed(watch->context, &change);
	return 1;
}

static int on_link_event(sd_event_source *source, int fd, uint32_t events, void *context)
{
	int r = 1;

	(void)fd;
	(void)events;
	for (int i = 0; i < EVENTS_MAX && r == 1; i++)
		r = link_watch_take_datagram(context);
	if (r >= 0)
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
	/* Before readings of the device that began later: what they settle must not hide that the link was down. */
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
