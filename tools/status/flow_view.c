// SPDX-License-Identifier: Apache-2.0
/* Compares the flows of a status with the groups that the kernel has joined, and prints them. */
#include "tools/status/status_view.h"

#include "lib/base/files.h"
#include "tools/groups/joined_groups.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define PRINTED_MAX 16 /* flows of one stream; a line says how many there are beside */

static bool is_ipv6(const struct ibvcap_status_flow *flow)
{
	return strchr(flow->destination, ':') != NULL;
}

static bool is_group(const struct ibvcap_status_flow *flow)
{
	struct in6_addr address;

	if (inet_pton(is_ipv6(flow) ? AF_INET6 : AF_INET, flow->destination, &address) != 1)
		return false;
	return is_ipv6(flow) ? IN6_IS_ADDR_MULTICAST(&address) : (address.s6_addr[0] & 0xf0) == 0xe0;
}

bool flow_view_is_of(const struct ibvcap_status_flow *flow, const struct ibvcap_status_stream *stream)
{
	return strcmp(flow->stream, stream->name) == 0;
}

/* The interface of the flow's stream. A group in a VLAN is joined on the interface of that VLAN, of any name. */
static bool is_joined_on(const struct status_view *view, const struct ibvcap_status_flow *flow, const char *interface)
{
	for (int i = 0; i < view->n_streams; i++)
		if (flow_view_is_of(flow, &view->streams[i]))
			return flow->vlan > 0 || strcmp(view->streams[i].interface, interface) == 0;
	return false;
}

static void note_joined_group(const struct joined_group *group, void *context)
{
	struct status_view *view = context;
	char address[INET6_ADDRSTRLEN];

	inet_ntop(group->family, group->address, address, sizeof(address));
	for (int i = 0; i < view->n_flows; i++)
		if (strcmp(view->flows[i].destination, address) == 0 &&
		    is_joined_on(view, &view->flows[i], group->interface))
			view->groups[i] = FLOW_GROUP_JOINED;
}

bool flow_view_sees_daemon(const struct status_view *view)
{
	char name[16];

	return files_read_line(name, sizeof(name), "/proc/%d/comm", (int)view->daemon.pid) &&
	       strcmp(name, "ibvcapd") == 0;
}

void flow_view_find_groups(struct status_view *view)
{
	bool is_known = flow_view_sees_daemon(view);

	for (int i = 0; i < view->n_flows; i++)
		view->groups[i] = !is_group(&view->flows[i]) ? FLOW_GROUP_NONE
		                  : is_known                 ? FLOW_GROUP_NOT_JOINED
		                                             : FLOW_GROUP_UNKNOWN;
	if (is_known)
		(void)joined_groups_for_each("", view->daemon.pid, note_joined_group, view);
}

void flow_view_print(const struct status_view *view, const struct ibvcap_status_stream *stream)
{
	int n = 0;

	for (int i = 0; i < view->n_flows; i++)
		if (flow_view_is_of(&view->flows[i], stream) && n++ < PRINTED_MAX) {
			static const char *const group_texts[] = {
				[FLOW_GROUP_NONE] = "",
				[FLOW_GROUP_JOINED] = ", joined",
				[FLOW_GROUP_NOT_JOINED] = ", not joined",
				[FLOW_GROUP_UNKNOWN] = "",
			};

			printf("  flow %s%s\n", view->flows[i].text, group_texts[view->groups[i]]);
		}
	if (n > PRINTED_MAX)
		printf("  and %d flows more: --json has all\n", n - PRINTED_MAX);
}

bool flow_view_lacks_group(const struct status_view *view, const struct ibvcap_status_stream *stream)
{
	for (int i = 0; i < view->n_flows; i++)
		if (flow_view_is_of(&view->flows[i], stream) && view->groups[i] == FLOW_GROUP_NOT_JOINED)
			return true;
	return false;
}
