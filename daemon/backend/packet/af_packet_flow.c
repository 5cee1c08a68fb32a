// SPDX-License-Identifier: Apache-2.0
/*
 * The flows of receive queues: entries in the table of the interface's program, or a filter for all flows of a queue
 * outside the fanout group. Also keeps the kernel from handling the packets of flows.
 *
 * The kernel gets every packet too, after the packet socket. That is what a flow with copy asks for. The packets of the
 * others are dropped at the tcx ingress. Without tcx the kernel would answer packets to a port that nobody reads by
 * ICMP "port unreachable": on lo each packet, elsewhere one a second and sender (net.ipv4.icmp_ratelimit). That ends
 * many senders, and takes more time than a UDP socket whose filter drops the packets. Hence such a socket, which owns
 * the port of a flow to one unicast address; the packets count in InErrors of /proc/net/snmp. If a program reads the
 * port already, it goes on reading. A program that binds the port later gets EADDRINUSE. SO_REUSEADDR is no help: this
 * socket, which has an address and an interface, would get the packets of a program that binds the port alone.
 */
#include "daemon/backend/bpf/flow_table.h"
#include "daemon/backend/packet/af_packet.h"

#include "daemon/base/log.h"
#include "daemon/net/net.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the reader ---------------------------------------------------------------------------------- */

/*
 * The socket or -errno: EADDRINUSE if a program or another flow reads the port, EACCES if the port needs a privilege
 * (below 1024). Capturing works without the socket. FREEBIND, because the interface may get the address later.
 */
static int flow_open_reader(const struct flow_rule *rule, const struct af_packet *backend)
{
	struct sockaddr_storage address;
	socklen_t bytes = net_socket_address(rule->family, rule->value.destination, rule->value.destination_port_be,
	                                     (unsigned)backend->index, &address);
	int fd = socket(rule->family, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1, r;

	if (fd < 0)
		return -errno;
	if (af_packet_refuse_all(fd) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, backend->interface, sizeof(backend->interface)) == 0 &&
	    setsockopt(fd, rule->family == AF_INET6 ? SOL_IPV6 : SOL_IP,
	               rule->family == AF_INET6 ? IPV6_FREEBIND : IP_FREEBIND, &on, sizeof(on)) == 0 &&
	    bind(fd, (struct sockaddr *)&address, bytes) == 0)
		return fd;
	r = -errno;
	close(fd);
	return r;
}

static void flow_warn_reader(const struct af_packet *backend, const struct flow_rule *rule)
{
	char text[FLOW_TEXT_MAX];
	int fd = flow_open_reader(rule, backend);

	if (fd >= 0)
		close(fd);
	if (fd == -EADDRINUSE)
		log_message(LOG_WARNING, &(struct log_about){.interface = backend->interface},
		            "interface %s: flow %s: another program reads the port, and gets none of these packets any "
		            "more: copy = true in the flow leaves them to it, too",
		            backend->interface, flow_format(rule, text, sizeof(text)));
}

/* Does the program drop the packets of the flow? The kernel has those with copy and the leftover ones, too. */
static bool flow_is_dropped(const struct af_packet *backend, const struct af_packet_flow *flow)
{
	return backend->drops && flow->is_in_table && !flow->rule.copy && flow->rule.match != CONFIG_MATCH_DEFAULT;
}

/* No effect if it was done before. After a failure the kernel handles the packets, too, which costs time only. */
static void flow_keep_from_kernel(struct af_packet *backend, struct af_packet_flow *flow)
{
	const struct flow_rule *rule = &flow->rule;

	if (rule->copy || rule->match == CONFIG_MATCH_DEFAULT)
		return;
	if (flow_is_dropped(backend, flow))
		fd_close(&flow->reader);
	else if (flow_table_is_exact(rule) && !(rule->value.destination_mac[0] & 1) && flow->reader < 0)
		flow->reader = flow_open_reader(rule, backend); /* ICMP answers no group */
}

/* Flows may share a port, and one of them has the reader: when it goes, another one needs it. */
static void flows_keep_from_kernel(struct af_packet *backend)
{
	for (struct af_packet_flow *flow = backend->flows; flow; flow = flow->next)
		flow_keep_from_kernel(backend, flow);
}

static int flow_failed(const struct af_packet *backend, const struct af_packet_flow *flow, int error,
                       struct failure *failure)
{
	char text[FLOW_TEXT_MAX];

	return failure_set(failure, EX_UNAVAILABLE, error, "interface %s: no filter for %s: %s%s", backend->interface,
	                   flow_format(&flow->rule, text, sizeof(text)), strerror(error),
	                   error == E2BIG ? ": the flows of the stream are too many for one filter: put some of them "
	                                    "into another stream"
	                   : error == ENOMEM ? ": sysctl -w net.core.optmem_max=262144 allows longer filters"
	                                     : "");
}

/* ---- the table of the program -------------------------------------------------------------------- */

/* A queue outside the fanout group has index 0: the program has its flows, too, but gives their frames to no socket. */
static struct flow_target flow_target(const struct af_packet *backend, const struct af_packet_flow *flow)
{
	const struct af_packet_receive *first = af_packet_first(flow->base.queue);

	return (struct flow_target){
		.queue = first->fanout_index,
		.is_group = first->fanout_index && flow->base.queue != &first->queue.base,
		.drops = backend->drops && !flow->rule.copy && flow->rule.match != CONFIG_MATCH_DEFAULT,
	};
}

/* A flow of an ending stream may be the flow of a new one: the newest has its packets. NULL: there is none. */
static struct af_packet_flow *flow_find_same(const struct af_packet *backend, const struct af_packet_flow *flow)
{
	const struct flow_condition mine = flow_table_condition(&flow->rule, backend->has_ethernet);

	for (struct af_packet_flow *other = backend->flows; other; other = other->next) {
		const struct flow_condition theirs = flow_table_condition(&other->rule, backend->has_ethernet);

		if (other != flow && other->is_in_table &&
		    flow_table_rank(&flow->rule) == flow_table_rank(&other->rule) &&
		    memcmp(&mine, &theirs, sizeof(mine)) == 0)
			return other;
	}
	return NULL;
}

/* The kernel's own packets come before the leftover ones. It does not say which groups it has joined. */
static int flow_add_kernels(const struct af_packet *backend, struct failure *failure)
{
	const struct flow_target nowhere = {0};
	struct flow_rule rule = {.match = CONFIG_MATCH_DEFAULT};
	int r;

	memset(rule.mask.destination_mac, 0xff, 6);
	memset(rule.value.destination_mac, 0xff, 6);
	r = flow_table_add(&backend->program->table, &rule, &nowhere, failure);
	memcpy(rule.value.destination_mac, backend->mac, 6);
	if (r == 0 || r == -EEXIST)
		r = flow_table_add(&backend->program->table, &rule, &nowhere, failure);
	return r == -EEXIST ? 0 : r;
}

static int flow_add_to_table(struct af_packet *backend, struct af_packet_flow *flow, struct failure *failure)
{
	const struct flow_target target = flow_target(backend, flow);
	int r = 0;

	if (af_packet_is_beside(flow))
		return 0;
	if (!backend->program) {
		r = backend->fanout.n ? af_packet_apply_group(backend) : 0;
		return r < 0 ? flow_failed(backend, flow, -r, failure) : 0;
	}
	if (flow->rule.match == CONFIG_MATCH_DEFAULT)
		r = flow_add_kernels(backend, failure);
	if (r == 0)
		r = flow_find_same(backend, flow)
		            ? flow_table_replace(&backend->program->table, &flow->rule, &target)
		            : flow_table_add(&backend->program->table, &flow->rule, &target, failure);
	flow->is_in_table = r == 0;
	if (r < 0 && !target.queue)
		log_warning("%s: the kernel handles its packets, too", failure->text);
	return target.queue ? r : 0;
}

static void flow_remove_from_table(struct af_packet *backend, struct af_packet_flow *flow)
{
	const struct af_packet_flow *other = flow_find_same(backend, flow);

	if (!backend->program && backend->fanout.n)
		af_packet_apply_group(backend);
	if (!flow->is_in_table)
		return;
	flow->is_in_table = false;
	if (other) {
		const struct flow_target target = flow_target(backend, other);

		flow_table_replace(&backend->program->table, &other->rule, &target);
	} else {
		flow_table_remove(&backend->program->table, &flow->rule);
	}
}

/*
 * The program gives a packet to one queue. Another flow that could have it, too, needs a queue beside the group, and a
 * queue that runs cannot change.
 */
static int flow_check_copy(const struct af_packet *backend, const struct af_packet_flow *flow, struct failure *failure)
{
	const struct flow_condition mine = flow_table_condition(&flow->rule, backend->has_ethernet);

	for (const struct af_packet_flow *other = backend->flows; other; other = other->next) {
		const struct flow_condition theirs = flow_table_condition(&other->rule, backend->has_ethernet);
		char text[FLOW_TEXT_MAX];

		if (!(flow->rule.copy || other->rule.copy) || flow->base.queue == other->base.queue ||
		    af_packet_is_beside(flow) || af_packet_is_beside(other) || !flow_condition_overlaps(&mine, &theirs))
			continue;
		return failure_set(failure, EX_CONFIG, EBUSY,
		                   "interface %s: flow %s has packets in common with a flow of another stream, and its "
		                   "stream began without copy = true: systemctl restart ibvcapd",
		                   backend->interface, flow_format(&flow->rule, text, sizeof(text)));
	}
	return 0;
}

/* ---- filters ------------------------------------------------------------------------------------- */

/* Queues of a group get the packets that this host sends, too. */
static const struct sock_filter refuse_sent[] = {
	{BPF_LD | BPF_B | BPF_ABS, 0, 0, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)},
	{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, PACKET_OUTGOING},
	{BPF_RET | BPF_K, 0, 0, 0},
};

#define N_REFUSE_SENT (sizeof(refuse_sent) / sizeof(refuse_sent[0]))

static int filter_set(int fd, int level, int option, const struct af_packet *backend,
                      const struct af_packet_claim *claims, uint32_t n, uint32_t n_before)
{
	struct sock_filter *code = malloc((AF_PACKET_FILTER_MAX + N_REFUSE_SENT) * sizeof(*code));
	uint32_t data_at = level == SOL_PACKET && backend->has_ethernet ? ETH_HLEN : 0;
	int r;

	if (!code)
		return -ENOMEM;
	memcpy(code, refuse_sent, n_before * sizeof(*code));
	r = af_packet_filter_build(claims, n, backend->has_ethernet, data_at, code + n_before);
	if (r > (int)(AF_PACKET_FILTER_MAX - n_before))
		r = -E2BIG;
	if (r > 0) {
		struct sock_fprog program = {(unsigned short)((uint32_t)r + n_before), code};

		r = setsockopt(fd, level, option, &program, sizeof(program)) == 0 ? 0 : -errno;
	}
	free(code);
	return r;
}

int af_packet_apply_flows(const struct af_packet_receive *receive)
{
	struct af_packet_claim *claims;
	int r = af_packet_claims_new(receive, &claims);

	if (r < 0)
		return r;
	r = filter_set(receive->queue.fd, SOL_SOCKET, SO_ATTACH_FILTER, receive->queue.backend, claims, (uint32_t)r,
	               receive->group || receive->fanout_index ? N_REFUSE_SENT : 0);
	free(claims);
	return r;
}

int af_packet_apply_group(const struct af_packet *backend)
{
	struct af_packet_claim *claims;
	int r = af_packet_claims_of_group(backend, &claims);

	if (r < 0)
		return r;
	r = filter_set(backend->fanout.at[0].fd, SOL_PACKET, PACKET_FANOUT_DATA, backend, claims, (uint32_t)r,
	               N_REFUSE_SENT);
	free(claims);
	return r;
}

/* A flow was added: the queues that it leads to take its packets. 0 or -errno. */
static int flow_give(const struct af_packet *backend, const struct af_packet_flow *flow)
{
	int r = 0;

	for (const struct af_packet_receive *own = backend->queues; own && r == 0; own = own->next) {
		if (!af_packet_is_flow_of(own, flow))
			continue;
		r = flow_tags_add(own->tags, &flow->rule, backend->has_ethernet);
		if (r == 0 && af_packet_has_filter(own))
			r = af_packet_apply_flows(own);
	}
	return r;
}

/* A flow was removed. Without memory for another filter, a queue takes more packets than it should. */
static void flow_take_back(const struct af_packet *backend, const struct af_packet_flow *flow)
{
	for (const struct af_packet_receive *own = backend->queues; own; own = own->next) {
		if (!af_packet_is_flow_of(own, flow))
			continue;
		flow_tags_remove(own->tags, &flow->rule, backend->has_ethernet);
		if (af_packet_has_filter(own))
			af_packet_apply_flows(own);
	}
}

/* A flow was added or removed: the queues that it takes packets from need another filter. 0 or -errno. */
static int flow_apply_to_others(const struct af_packet *backend, const struct af_packet_flow *flow)
{
	int r = 0;

	for (const struct af_packet_receive *other = backend->queues; other && r == 0; other = other->next)
		if (af_packet_has_filter(other) && !af_packet_is_flow_of(other, flow) &&
		    af_packet_claims_change_by(other, &flow->rule))
			r = af_packet_apply_flows(other);
	return r;
}

/* The key of the flow that needs an Ethernet header, which packets of a tunnel do not have. NULL: none. */
static const char *flow_key_of_ethernet(const struct flow_rule *rule)
{
	static const uint8_t none[6];

	if (rule->match != CONFIG_MATCH_RULE)
		return rule->match == CONFIG_MATCH_ALL ? NULL : "match";
	if (memcmp(rule->mask.source_mac, none, sizeof(none)) != 0)
		return "source_mac";
	return rule->mask.vlan_be ? "vlan" : rule->mask.ether_type_be ? "ether_type" : NULL;
}

static int flow_check_ethernet(const struct af_packet *backend, const struct flow_rule *rule, struct failure *failure)
{
	const char *key = flow_key_of_ethernet(rule);
	char text[FLOW_TEXT_MAX];

	if (backend->has_ethernet || !key)
		return 0;
	return failure_set(failure, EX_CONFIG, EPROTONOSUPPORT,
	                   "interface %s has no Ethernet headers, and so no VLANs, EtherTypes and MAC addresses: take "
	                   "%s out of the flow %s",
	                   backend->interface, key, flow_format(rule, text, sizeof(text)));
}

/* The table comes last when a flow is added, and first when it is removed: so the queue knows each of its packets. */
static int flow_install(struct af_packet *backend, struct af_packet_flow *flow, struct failure *failure)
{
	int r = flow_give(backend, flow);

	if (r == 0)
		r = flow_apply_to_others(backend, flow);
	return r < 0 ? flow_failed(backend, flow, -r, failure) : flow_add_to_table(backend, flow, failure);
}

/* The flow is in the list no more. For want of memory, others may take less than they should. */
static void flow_uninstall(struct af_packet *backend, struct af_packet_flow *flow)
{
	flow_remove_from_table(backend, flow);
	flow_apply_to_others(backend, flow);
	flow_take_back(backend, flow);
}

static int flow_admit(const struct af_packet *backend, const struct af_packet_flow *flow, struct failure *failure)
{
	int r = flow_check_ethernet(backend, &flow->rule, failure);

	if (r == 0)
		r = af_packet_group_admit(flow->base.queue, &flow->rule, failure);
	return r < 0 ? r : flow_check_copy(backend, flow, failure);
}

static int flow_enter(struct af_packet *backend, struct af_packet_flow *flow, struct failure *failure)
{
	int r = flow_admit(backend, flow, failure);

	if (r < 0)
		return r;
	flow->next = backend->flows;
	backend->flows = flow;
	r = flow_install(backend, flow, failure);
	if (r < 0) {
		backend->flows = flow->next;
		flow_uninstall(backend, flow);
		return r;
	}
	if (flow_is_dropped(backend, flow) && flow_table_is_exact(&flow->rule))
		flow_warn_reader(backend, &flow->rule);
	flows_keep_from_kernel(backend);
	return 0;
}

int af_packet_add_flow(struct backend_queue *base, const struct flow_rule *rule, struct backend_flow **out,
                       struct failure *failure)
{
	struct af_packet *backend = ((struct af_packet_queue *)base)->backend;
	struct af_packet_flow *flow = malloc(sizeof(*flow));
	int r;

	if (!flow)
		return failure_no_memory(failure);
	*flow = (struct af_packet_flow){.base.queue = base, .rule = *rule, .reader = -1};
	pthread_mutex_lock(&backend->changing);
	r = flow_enter(backend, flow, failure);
	pthread_mutex_unlock(&backend->changing);
	if (r < 0)
		free(flow);
	else
		*out = &flow->base;
	return r;
}

void af_packet_remove_flow(struct backend_flow *base)
{
	struct af_packet_flow *flow = (struct af_packet_flow *)base, **at;
	struct af_packet *backend = ((struct af_packet_queue *)base->queue)->backend;

	pthread_mutex_lock(&backend->changing);
	for (at = &backend->flows; *at != flow; at = &(*at)->next)
		;
	*at = flow->next;
	flow_uninstall(backend, flow);
	fd_close(&flow->reader);
	flows_keep_from_kernel(backend);
	pthread_mutex_unlock(&backend->changing);
	free(flow);
}
