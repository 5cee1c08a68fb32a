// SPDX-License-Identifier: Apache-2.0
/*
 * Keeps next hops current: looks them up in bounded rounds, and marks those that a kernel event may have changed. A
 * thread asks the kernel, because the answers wait for rtnl, a lock that others may hold for long. The event loop draws
 * the conclusions.
 */
#include "daemon/net/neighbour.h"

#include "daemon/base/background.h"
#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/flow/flow.h"
#include "daemon/net/neighbour_probe.h"
#include "daemon/net/rtnl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>

#define LOOK_AGAIN_US  UINT64_C(30000000)
#define ASK_AGAIN_US   UINT64_C(5000000) /* after no answer; the kernel itself tries for 3 s */
#define ASK_APART_US   UINT64_C(1000000)
#define GIVE_UP_US     UINT64_C(10000000)
#define ROUND_APART_US UINT64_C(20000)    /* between two rounds of lookups, however many events there are */
#define ROUND_MAX      64                 /* lookups in a round, which take about a millisecond */
#define ROUND_LONG_US  UINT64_C(10000000) /* no round takes that long unless rtnl is held */
#define END_US         UINT64_C(1000000)
#define NUD_HAS_MAC    (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP)

/* The kernel's answers about a next hop. A result is -errno if there is no answer, or if it was not asked for. */
struct answers {
	int link_result, route_result, neighbour_result;
	struct rtnl_link link;
	struct rtnl_route route;
	struct rtnl_neighbour neighbour;
};

struct lookup {
	struct neighbour *neighbour; /* the event loop's; NULL: it was removed meanwhile */
	struct neighbour_wanted wanted;
	struct answers answers;
};

struct neighbour {
	TAILQ_ENTRY(neighbour) link;
	struct neighbours *neighbours;
	struct neighbour_wanted wanted;
	struct next_hop next_hop;
	uint64_t look_us;    /* time of the next lookup; a dirty one is looked up in the next round */
	uint64_t asked_us;   /* time of the last probe; 0: never */
	uint64_t waiting_us; /* since then the kernel has not known the MAC; 0: it knows it */
	bool dirty;
};

struct neighbours {
	TAILQ_HEAD(, neighbour) all;
	sd_event *event;
	sd_event_source *events;
	sd_event_source *timer;
	struct mnl_socket *requests; /* of new neighbours */
	struct mnl_socket *groups;
	struct neighbour_probe probe;
	uint64_t round_us; /* time of the last round */

	/* The round on its way; the thread's until the job is done. */
	struct background *thread;
	struct background_job job;
	struct mnl_socket *round_requests;
	struct lookup round[ROUND_MAX];
	uint32_t n_round; /* 0: none is */
};

/* ---- what the kernel says: any thread --------------------------------------------------------------- */

static bool needs_neighbour(const struct neighbour_wanted *wanted)
{
	return !wanted->has_mac && !config_is_multicast(&wanted->destination);
}

static const struct config_address *address_to_resolve(const struct neighbour_wanted *wanted,
                                                       const struct rtnl_route *route)
{
	return route->gateway.family != AF_UNSPEC ? &route->gateway : &wanted->destination;
}

static void ask_kernel(struct mnl_socket *requests, const struct neighbour_wanted *wanted, struct answers *answers)
{
	answers->route_result = answers->neighbour_result = -ENODATA;
	answers->link_result = rtnl_get_link(requests, wanted->interface_index, &answers->link);
	if (answers->link_result < 0 || !answers->link.up ||
	    (!needs_neighbour(wanted) && wanted->source.family != AF_UNSPEC))
		return;
	answers->route_result =
		rtnl_get_route(requests, wanted->interface_index, &wanted->destination, &answers->route);
	if (answers->route_result == 0 && needs_neighbour(wanted) && answers->link.has_mac)
		answers->neighbour_result =
			rtnl_get_neighbour(requests, wanted->interface_index,
		                           address_to_resolve(wanted, &answers->route), &answers->neighbour);
}

/* ---- what follows for one next hop ----------------------------------------------------------------- */

/* The link first: without it there is no route. */
static enum next_hop_state neighbour_take_route(const struct neighbour_wanted *wanted, const struct answers *answers,
                                                struct next_hop *next)
{
	if (answers->link_result < 0 || !answers->link.up)
		return NEXT_HOP_LINK_DOWN;
	next->mtu = answers->link.mtu;
	memcpy(next->source_mac, answers->link.mac, sizeof(next->source_mac));
	next->source = wanted->source;
	if (!needs_neighbour(wanted) && wanted->source.family != AF_UNSPEC)
		return NEXT_HOP_READY;
	if (answers->route_result < 0)
		return NEXT_HOP_NO_ROUTE;
	if (needs_neighbour(wanted) && answers->route.type != RTN_UNICAST)
		return NEXT_HOP_NOT_A_HOST;
	if (needs_neighbour(wanted) && answers->link.has_mac)
		next->address = *address_to_resolve(wanted, &answers->route);
	if (next->source.family == AF_UNSPEC)
		next->source = answers->route.source;
	return next->source.family == AF_UNSPEC ? NEXT_HOP_NO_SOURCE : NEXT_HOP_READY;
}

static void neighbour_ask_for(struct neighbour *neighbour, const struct next_hop *next, uint64_t now, uint64_t apart_us)
{
	bool is_new = !config_is_same_address(&next->address, &neighbour->next_hop.address);

	if (neighbour->asked_us && !is_new && now - neighbour->asked_us < apart_us)
		return;
	neighbour->asked_us = now;
	neighbour_probe_send(&neighbour->neighbours->probe, neighbour->wanted.interface_index, &next->address);
}

/*
 * The kernel is resolving the neighbour, or has forgotten it. The known MAC stays valid until the kernel reports that
 * the neighbour does not answer. It reports nothing if a packet filter drops our probes, so there is a time limit,
 * too.
 */
static enum next_hop_state neighbour_wait_for_answer(struct neighbour *neighbour, struct next_hop *next, uint64_t now)
{
	const struct next_hop *before = &neighbour->next_hop;
	bool is_same = config_is_same_address(&next->address, &before->address);
	bool gives_up, is_kept;

	if (!is_same || !neighbour->waiting_us)
		neighbour->waiting_us = now;
	gives_up = now - neighbour->waiting_us >= GIVE_UP_US || (is_same && before->state == NEXT_HOP_NO_ANSWER);
	is_kept = is_same && before->state == NEXT_HOP_READY && !gives_up;
	neighbour_ask_for(neighbour, next, now, is_kept ? ASK_APART_US : ASK_AGAIN_US);
	neighbour->look_us = now + (is_kept ? ASK_APART_US : ASK_AGAIN_US);
	if (is_kept)
		memcpy(next->mac, before->mac, sizeof(next->mac));
	return is_kept ? NEXT_HOP_READY : gives_up ? NEXT_HOP_NO_ANSWER : NEXT_HOP_ASKED_FOR;
}

static enum next_hop_state neighbour_take_mac(struct neighbour *neighbour, const struct answers *answers,
                                              struct next_hop *next, uint64_t now)
{
	const struct neighbour_wanted *wanted = &neighbour->wanted;
	const struct rtnl_neighbour *found = &answers->neighbour;
	int r = answers->neighbour_result;

	if (next->address.family == AF_UNSPEC) {
		if (config_is_multicast(&wanted->destination))
			flow_group_mac(&wanted->destination, next->mac);
		else
			memcpy(next->mac, wanted->mac, sizeof(next->mac));
		return NEXT_HOP_READY;
	}
	if (r == 0 && (found->state & NUD_FAILED)) {
		neighbour_ask_for(neighbour, next, now, ASK_AGAIN_US);
		neighbour->look_us = now + ASK_AGAIN_US;
		return NEXT_HOP_NO_ANSWER;
	}
	if (r < 0 || !(found->state & NUD_HAS_MAC) || !found->has_mac)
		return neighbour_wait_for_answer(neighbour, next, now);
	neighbour->waiting_us = 0;
	memcpy(next->mac, found->mac, sizeof(next->mac));
	if (found->state & NUD_STALE) /* it may have gone, and the kernel checks only when it sends something itself */
		neighbour_ask_for(neighbour, next, now, ASK_APART_US);
	return NEXT_HOP_READY;
}

static void neighbour_log(const struct neighbour *neighbour)
{
	const struct config_address *destination = &neighbour->wanted.destination;
	char interface[IF_NAMESIZE] = "?", address[INET6_ADDRSTRLEN], text[256];

	if_indextoname(neighbour->wanted.interface_index, interface);
	inet_ntop(destination->family, destination->address, address, sizeof(address));
	log_debug("destination %s on %s: %s", address, interface,
	          next_hop_explain(&neighbour->next_hop, interface, text, sizeof(text)));
}

/* True: the next hop has changed. */
static bool neighbour_take(struct neighbour *neighbour, const struct answers *answers, uint64_t now)
{
	struct next_hop next;

	memset(&next, 0, sizeof(next)); /* also clears padding, since next hops are compared as bytes */
	neighbour->look_us = now + LOOK_AGAIN_US;
	next.state = neighbour_take_route(&neighbour->wanted, answers, &next);
	if (next.state == NEXT_HOP_READY)
		next.state = neighbour_take_mac(neighbour, answers, &next, now);
	if (memcmp(&next, &neighbour->next_hop, sizeof(next)) == 0)
		return false;
	memcpy(&neighbour->next_hop, &next, sizeof(next));
	neighbour_log(neighbour);
	return true;
}

/* ---- rounds of lookups ----------------------------------------------------------------------------- */

static void neighbours_set_timer(struct neighbours *neighbours)
{
	uint64_t soonest = neighbours->round_us + ROUND_APART_US, at = UINT64_MAX;
	const struct neighbour *neighbour;

	TAILQ_FOREACH (neighbour, &neighbours->all, link) {
		uint64_t look_us = neighbours->n_round ? UINT64_MAX : neighbour->dirty ? 0 : neighbour->look_us;

		at = look_us < at ? look_us : at;
	}
	sd_event_source_set_time(neighbours->timer, at < soonest ? soonest : at);
	sd_event_source_set_enabled(neighbours->timer, at == UINT64_MAX ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
}

static void round_work(void *context)
{
	struct neighbours *neighbours = context;

	for (uint32_t i = 0; i < neighbours->n_round; i++)
		ask_kernel(neighbours->round_requests, &neighbours->round[i].wanted, &neighbours->round[i].answers);
}

static void round_done(void *context)
{
	struct neighbours *neighbours = context;
	uint64_t now = loop_now_us(neighbours->event);

	for (uint32_t i = 0; i < neighbours->n_round; i++) {
		struct neighbour *neighbour = neighbours->round[i].neighbour;

		if (neighbour && neighbour_take(neighbour, &neighbours->round[i].answers, now))
			neighbour->wanted.changed(neighbour->wanted.context, &neighbour->next_hop);
	}
	neighbours->n_round = 0;
	neighbours_set_timer(neighbours);
}

/* A neighbour that is looked up moves to the end, so those left over are first in the next round. */
static int on_neighbours_timer(sd_event_source *, uint64_t, void *context)
{
	struct neighbours *neighbours = context;
	struct neighbour *neighbour, *next;
	uint64_t now = loop_now_us(neighbours->event);
	uint32_t n = 0;

	neighbours->round_us = now;
	for (neighbour = TAILQ_FIRST(&neighbours->all); neighbour && n < ROUND_MAX; neighbour = next) {
		next = TAILQ_NEXT(neighbour, link);
		if (!neighbour->dirty && neighbour->look_us > now)
			continue;
		TAILQ_REMOVE(&neighbours->all, neighbour, link);
		TAILQ_INSERT_TAIL(&neighbours->all, neighbour, link);
		neighbour->dirty = false; /* an event of the kernel from here on causes another lookup */
		neighbours->round[n++] = (struct lookup){.neighbour = neighbour, .wanted = neighbour->wanted};
	}
	neighbours->n_round = n;
	neighbours_set_timer(neighbours);
	if (n)
		background_add(neighbours->thread, &neighbours->job);
	return 0;
}

/* ---- events of the kernel -------------------------------------------------------------------------- */

/* About a neighbour, about all of an interface, or about any. */
static void neighbours_take_event(void *context, const struct nlmsghdr *event)
{
	struct rtnl_neighbour told = {.interface_index = 0};
	struct neighbours *neighbours = context;
	struct neighbour *neighbour;

	switch (event ? event->nlmsg_type : RTM_NEWROUTE) {
	case RTM_NEWNEIGH:
	case RTM_DELNEIGH:
		if (!rtnl_read_neighbour(event, &told))
			return;
		break;
	case RTM_NEWLINK:
	case RTM_DELLINK:
		told.interface_index = (unsigned)((const struct ifinfomsg *)mnl_nlmsg_get_payload(event))->ifi_index;
		break;
	case RTM_NEWROUTE:
	case RTM_DELROUTE:
	case RTM_NEWADDR:
	case RTM_DELADDR:
		break;
	default:
		return;
	}
	TAILQ_FOREACH (neighbour, &neighbours->all, link)
		neighbour->dirty |=
			(!told.interface_index || neighbour->wanted.interface_index == told.interface_index) &&
			(told.address.family == AF_UNSPEC ||
		         config_is_same_address(&neighbour->next_hop.address, &told.address));
}

static int on_neighbours_event(sd_event_source *source, int, uint32_t, void *context)
{
	struct neighbours *neighbours = context;
	int r = rtnl_take_events(neighbours->groups, neighbours_take_event, neighbours);

	neighbours_set_timer(neighbours);
	if (r == 0)
		return 0;
	log_warning("routes and neighbours: the kernel's events cannot be read any more (%s): changes are noticed "
	            "within %llu s",
	            strerror(-r), (unsigned long long)LOOK_AGAIN_US / 1000000);
	return sd_event_source_set_enabled(source, SD_EVENT_OFF); /* a broken socket is always readable */
}

/* ---- life ----------------------------------------------------------------------------------------- */

static int neighbours_open(struct neighbours *neighbours)
{
	static const int groups[] = {RTNLGRP_LINK,        RTNLGRP_NEIGH,      RTNLGRP_IPV4_IFADDR,
	                             RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE};
	int r = rtnl_open(&neighbours->requests, NETLINK_ROUTE);

	if (r == 0)
		r = rtnl_open(&neighbours->round_requests, NETLINK_ROUTE);
	if (r == 0)
		r = background_new(&neighbours->thread, neighbours->event, "next-hops", 0);
	if (r == 0)
		r = rtnl_open_events(&neighbours->groups, groups, sizeof(groups) / sizeof(groups[0]));
	if (r == 0)
		r = neighbour_probe_open(&neighbours->probe);
	if (r == 0)
		r = sd_event_add_io(neighbours->event, &neighbours->events, mnl_socket_get_fd(neighbours->groups),
		                    EPOLLIN, on_neighbours_event, neighbours);
	if (r >= 0)
		r = loop_add_timer(neighbours->event, &neighbours->timer, on_neighbours_timer, neighbours);
	return r < 0 ? r : 0;
}

int neighbours_new(struct neighbours **neighbours, sd_event *event, struct failure *failure)
{
	struct neighbours *n = calloc(1, sizeof(*n));
	int r;

	if (!n)
		return failure_no_memory(failure);
	TAILQ_INIT(&n->all);
	n->event = sd_event_ref(event);
	n->job = (struct background_job){
		.work = round_work, .done = round_done, .context = n, .allowance_us = ROUND_LONG_US};
	n->probe = (struct neighbour_probe){-1, -1};
	r = neighbours_open(n);
	if (r < 0) {
		neighbours_free(n);
		return failure_set(failure, EX_OSERR, -r,
		                   "the kernel cannot be asked for routes and neighbours (rtnetlink): %s",
		                   strerror(-r));
	}
	*neighbours = n;
	return 0;
}

void neighbours_free(struct neighbours *neighbours)
{
	if (!neighbours)
		return;
	if (neighbours->thread) {
		background_drain(neighbours->thread, END_US);
		if (!background_abandon(neighbours->thread)) /* it has all that follows until the process ends */
			return;
	}
	sd_event_source_disable_unref(neighbours->events);
	sd_event_source_disable_unref(neighbours->timer);
	sd_event_unref(neighbours->event);
	neighbour_probe_close(&neighbours->probe);
	if (neighbours->groups)
		mnl_socket_close(neighbours->groups);
	if (neighbours->requests)
		mnl_socket_close(neighbours->requests);
	if (neighbours->round_requests)
		mnl_socket_close(neighbours->round_requests);
	free(neighbours);
}

int neighbours_add(struct neighbours *neighbours, const struct neighbour_wanted *wanted, struct neighbour **neighbour)
{
	struct neighbour *n = calloc(1, sizeof(*n));
	struct answers answers = {0};

	if (!n)
		return -ENOMEM;
	n->neighbours = neighbours;
	n->wanted = *wanted;
	n->next_hop.state = NEXT_HOP_ASKED_FOR;
	TAILQ_INSERT_TAIL(&neighbours->all, n, link);
	ask_kernel(neighbours->requests, wanted, &answers);
	neighbour_take(n, &answers, loop_now_us(neighbours->event));
	neighbours_set_timer(neighbours);
	*neighbour = n;
	return 0;
}

void neighbours_remove(struct neighbour *neighbour)
{
	if (!neighbour)
		return;
	TAILQ_REMOVE(&neighbour->neighbours->all, neighbour, link);
	for (uint32_t i = 0; i < neighbour->neighbours->n_round; i++)
		if (neighbour->neighbours->round[i].neighbour == neighbour)
			neighbour->neighbours->round[i].neighbour = NULL;
	neighbours_set_timer(neighbour->neighbours);
	free(neighbour);
}

const struct next_hop *neighbour_next_hop(const struct neighbour *neighbour)
{
	return &neighbour->next_hop;
}
