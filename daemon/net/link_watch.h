// SPDX-License-Identifier: Apache-2.0
/*
 * The kernel's events of interfaces that come, change and go. An interface that is deleted and made again under its
 * name has another index. Groups, packet sockets and devices that were bound to the old index are not bound to it.
 * Control thread only.
 */
#ifndef DAEMON_NET_LINK_WATCH_H
#define DAEMON_NET_LINK_WATCH_H

#include <stdbool.h>
#include <systemd/sd-event.h>

struct link_change {
	unsigned index;       /* 0: the kernel dropped events, so that anything may have changed */
	bool is_gone;         /* deleted, or moved to another network namespace */
	bool is_down;         /* now, or it was for a moment: each change of the link is an event */
	unsigned lower_index; /* the interface that it stands on in this network namespace; 0: none */
	int vlan;             /* 802.1Q; -1: it is not the interface of a VLAN */
	uint32_t xdp_program; /* ID of one that is attached; 0: none */
};

typedef void link_watch_changed(void *context, const struct link_change *change);

struct link_watch;

/** Call changed from the event loop at each event. 0 or -errno. */
int link_watch_new(struct link_watch **watch, sd_event *event, link_watch_changed *changed, void *context);
/** NULL is fine. */
void link_watch_free(struct link_watch *watch);

#endif
