// SPDX-License-Identifier: Apache-2.0
/* Compares what arrives on this machine with the flows of a stream. */
#include "tools/status/why_look.h"

#include "lib/base/time.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- one destination and one flow ---------------------------------------------------------------- */

/* Is the address in the prefix that the text says? Empty: any. */
static bool is_in_prefix(const struct arrival_address *address, const char *text)
{
	char prefix[sizeof(((struct ibvcap_status_flow *)NULL)->destination)];
	const char *slash = strchr(text, '/');
	size_t length = slash ? (size_t)(slash - text) : strlen(text);
	const uint8_t *bytes = address->ip.s6_addr;
	struct in6_addr wanted;
	unsigned n_bits;

	if (!*text)
		return true;
	memcpy(prefix, text, length);
	prefix[length] = '\0';
	if (inet_pton(address->family, prefix, &wanted) != 1)
		return false;
	n_bits = address->family == AF_INET6 ? 128 : 32;
	if (slash && strtoul(slash + 1, NULL, 10) < n_bits)
		n_bits = (unsigned)strtoul(slash + 1, NULL, 10);
	if (memcmp(bytes, wanted.s6_addr, n_bits / 8) != 0)
		return false;
	return n_bits % 8 == 0 || (bytes[n_bits / 8] ^ wanted.s6_addr[n_bits / 8]) >> (8 - n_bits % 8) == 0;
}

static bool has_source(const struct arrival *arrival, const struct ibvcap_status_flow *flow, bool compare_port)
{
	for (unsigned i = 0; i < arrival->n_sources; i++)
		if (is_in_prefix(&arrival->sources[i], flow->source) &&
		    (!compare_port || !flow->source_port || arrival->sources[i].port == flow->source_port))
			return true;
	return arrival->has_more_sources;
}

static unsigned compare_with_flow(const struct why_look *look, const struct arrival *arrival,
                                  const struct ibvcap_status_flow *flow)
{
	unsigned differs = arrival->interface == look->interface_index ? 0 : WHY_INTERFACE;

	if (flow->vlan && flow->vlan != arrival->vlan)
		differs |= WHY_VLAN;
	if (!is_in_prefix(&arrival->destination, flow->destination))
		differs |= WHY_DESTINATION;
	if (flow->destination_port && flow->destination_port != arrival->destination.port)
		differs |= WHY_PORT;
	if (!has_source(arrival, flow, false))
		differs |= WHY_SOURCE;
	else if (!has_source(arrival, flow, true))
		differs |= WHY_SOURCE_PORT;
	return differs;
}

/* ---- all ----------------------------------------------------------------------------------------- */

/* Fewer differences first; then the nearer port; then the more datagrams. */
static int compare_distances(const void *one_of, const void *other_of)
{
	const struct why_arrival *one = one_of, *other = other_of;
	int n_one = __builtin_popcount(one->differs), n_other = __builtin_popcount(other->differs);

	if (n_one != n_other)
		return n_one < n_other ? -1 : 1;
	if (one->port_distance != other->port_distance)
		return one->port_distance < other->port_distance ? -1 : 1;
	return (one->arrival->n_datagrams < other->arrival->n_datagrams) -
	       (one->arrival->n_datagrams > other->arrival->n_datagrams);
}

static struct why_arrival find_nearest_flow(const struct status_view *view, const struct why_look *look,
                                            const struct arrival *arrival)
{
	struct why_arrival nearest = {.arrival = arrival, .differs = UINT_MAX};

	for (int i = 0; i < view->n_flows; i++) {
		const struct ibvcap_status_flow *flow = &view->flows[i];
		struct why_arrival at = {.arrival = arrival, .flow = flow};

		if (!flow_view_is_of(flow, look->stream))
			continue;
		at.differs = compare_with_flow(look, arrival, flow);
		if (at.differs & WHY_PORT)
			at.port_distance = (unsigned)abs(arrival->destination.port - flow->destination_port);
		if (compare_distances(&at, &nearest) < 0)
			nearest = at;
	}
	return nearest;
}

/* Other interfaces have much that has nothing to do with the flows. */
static bool is_worth_a_line(const struct why_arrival *at)
{
	return at->flow && (!(at->differs & WHY_INTERFACE) || __builtin_popcount(at->differs) <= 2);
}

static void write_advice_on_nothing(struct why_look *look)
{
	const char *firewall = "a firewall of this machine does not hide packets from this look";

	if (look->n_nearest == 0 && strcmp(look->interface, "lo") == 0)
		why_append(look->advice, "no UDP arrives on lo: check the sender's destination; %s", firewall);
	else if (look->n_nearest == 0)
		why_append(look->advice,
		           "no UDP for this machine arrives on %s: check the cable, the sender's destination and its "
		           "route; a switch sends a group's packets only to ports that joined it; %s",
		           look->interface, firewall);
}

void why_look_compare(const struct status_view *view, struct why_look *look)
{
	for (unsigned i = 0; i < look->arrivals.n; i++) {
		const struct arrival *arrival = &look->arrivals.at[i];
		struct why_arrival at = {.arrival = arrival};

		if (look->stream)
			at = find_nearest_flow(view, look, arrival);
		if (look->stream ? is_worth_a_line(&at) : arrival->interface == look->interface_index)
			look->nearest[look->n_nearest++] = at;
	}
	qsort(look->nearest, look->n_nearest, sizeof(look->nearest[0]), compare_distances);
	write_advice_on_nothing(look);
}

/* For sudo, which drops IBVCAP_SOCKET. An interface needs no daemon, so there may be no view. */
static void write_command(char *text, size_t bytes, const struct status_view *view, const char *name)
{
	const char *socket = view ? view->socket_path : NULL;

	snprintf(text, bytes, "ibvcap why %s%s%s", name, socket ? " --socket " : "", socket ? socket : "");
}

/* Only root may look at the namespace of a daemon that is another user's. */
static void why_advise_on_no_interface(struct why_look *look, const struct status_view *view, const char *command)
{
	struct stat own, daemons;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)view->daemon.pid);
	if (!flow_view_sees_daemon(view) || stat("/proc/self/ns/net", &own) < 0 || stat(path, &daemons) < 0)
		why_append(look->advice,
		           "there is no interface %s in this network namespace, and which one the daemon has cannot be "
		           "seen%s%s",
		           look->interface, geteuid() ? ": sudo " : " from here", geteuid() ? command : "");
	else if (own.st_dev == daemons.st_dev && own.st_ino == daemons.st_ino)
		why_append(look->advice, "there is no interface %s now: ip -br link lists those there are",
		           look->interface);
	else
		why_append(look->advice,
		           "%s is not in this network namespace: sudo nsenter --net --target %d %s looks at what "
		           "arrives there",
		           look->interface, (int)view->daemon.pid, command);
}

struct why_look *why_look_new(const struct status_view *view, const struct ibvcap_status_stream *stream,
                              const char *interface)
{
	struct why_look *look = calloc(1, sizeof(*look));
	const char *name = stream ? stream->name : interface;
	char command[WHY_TEXT_BYTES];

	if (!look)
		return NULL;
	write_command(command, sizeof(command), view, name);
	look->stream = stream;
	look->interface = interface;
	look->interface_index = if_nametoindex(interface);
	look->error = look->interface_index ? arrivals_look(TIME_SECOND_NS, &look->arrivals) : -ENODEV;
	if (look->error == 0)
		why_look_compare(view, look);
	else if (look->error == -ENODEV)
		why_advise_on_no_interface(look, view, command);
	else if (look->error == -EPERM)
		why_append(look->advice, "sudo %s looks for a second at what UDP does arrive", command);
	else
		why_append(look->advice, "no look at what UDP does arrive: %s", strerror(-look->error));
	return look;
}
