// SPDX-License-Identifier: Apache-2.0
/*
 * The flows of a receive queue: one filter for all of them, and what keeps the kernel from handling their packets.
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

#include "daemon/base/fd.h"
#include "daemon/base/log.h"
#include "daemon/net/net.h"

#include <arpa/inet.h>
#include <errno.h>
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
	struct sock_filter nothing = {BPF_RET | BPF_K, 0, 0, 0};
	const struct sock_fprog program = {1, &nothing};
	struct sockaddr_storage address;
	socklen_t bytes = net_socket_address(rule->family, rule->value.destination, rule->value.destination_port_be,
	                                     (unsigned)backend->index, &address);
	int fd = socket(rule->family, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1, r;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0 &&
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

/* No effect if it was done before. After a failure the kernel handles the packets, too, which costs time only. */
static void flow_keep_from_kernel(struct af_packet *backend, struct af_packet_flow *flow)
{
	const struct flow_rule *rule = &flow->rule;
	bool has_port = flow_table_is_exact(rule);
	struct failure failure;

	if (rule->copy || rule->match == CONFIG_MATCH_DEFAULT)
		return;
	if (backend->drop && !flow->dropped) {
		int r = tcx_drop_add(backend->drop, rule, &failure);

		flow->dropped = r == 0;
		if (r < 0 && r != -EEXIST) /* the flow of a stream that is about to end: this one follows it */
			log_warning("%s: the kernel handles its packets, too", failure.text);
		if (flow->dropped && has_port)
			flow_warn_reader(backend, rule);
	}
	if (flow->dropped)
		fd_close(&flow->reader);
	else if (has_port && !(rule->value.destination_mac[0] & 1) && flow->reader < 0) /* ICMP answers no group */
		flow->reader = flow_open_reader(rule, backend);
}

/* Flows may share a port, and one of them has the reader: when it goes, another one needs it. */
static void flows_keep_from_kernel(struct af_packet *backend)
{
	for (struct af_packet_flow *flow = backend->flows; flow; flow = flow->next)
		flow_keep_from_kernel(backend, flow);
}

/* ---- flows --------------------------------------------------------------------------------------- */

/* Queues of a group get the packets that this host sends, too. */
static const struct sock_filter refuse_sent[] = {
	{BPF_LD | BPF_B | BPF_ABS, 0, 0, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)},
	{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, PACKET_OUTGOING},
	{BPF_RET | BPF_K, 0, 0, 0},
};

#define N_REFUSE_SENT (sizeof(refuse_sent) / sizeof(refuse_sent[0]))

static int flow_attach_filter(const struct af_packet_receive *receive, const struct af_packet_claim *claims, uint32_t n)
{
	struct sock_filter *code = malloc((AF_PACKET_FILTER_MAX + N_REFUSE_SENT) * sizeof(*code));
	uint32_t n_before = receive->group ? N_REFUSE_SENT : 0;
	int r;

	if (!code)
		return -ENOMEM;
	memcpy(code, refuse_sent, n_before * sizeof(*code));
	r = af_packet_filter_build(claims, n, receive->queue.backend->has_ethernet, code + n_before);
	if (r > (int)(AF_PACKET_FILTER_MAX - n_before))
		r = -E2BIG;
	if (r > 0) {
		struct sock_fprog program = {(unsigned short)((uint32_t)r + n_before), code};

		r = setsockopt(receive->queue.fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0
		            ? 0
		            : -errno;
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
	r = flow_attach_filter(receive, claims, (uint32_t)r);
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
		if (r == 0)
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
		af_packet_apply_flows(own);
	}
}

/* A flow was added or removed: the queues that it takes packets from need another filter. 0 or -errno. */
static int flow_apply_to_others(const struct af_packet *backend, const struct af_packet_flow *flow)
{
	int r = 0;

	for (const struct af_packet_receive *other = backend->queues; other && r == 0; other = other->next)
		if (!af_packet_is_flow_of(other, flow) && af_packet_claims_change_by(other, &flow->rule))
			r = af_packet_apply_flows(other);
	return r;
}

/* What no packet of a tunnel has. NULL: nothing. */
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

int af_packet_add_flow(struct backend_queue *base, const struct flow_rule *rule, struct backend_flow **out,
                       struct failure *failure)
{
	struct af_packet *backend = ((struct af_packet_queue *)base)->backend;
	struct af_packet_flow *flow;
	int r = flow_check_ethernet(backend, rule, failure);

	if (r == 0)
		r = af_packet_group_admit(base, rule, failure);
	if (r < 0)
		return r;
	flow = malloc(sizeof(*flow));
	if (!flow)
		return failure_no_memory(failure);
	*flow = (struct af_packet_flow){.base.queue = base, .next = backend->flows, .rule = *rule, .reader = -1};
	backend->flows = flow;
	r = flow_give(backend, flow);
	if (r == 0)
		r = flow_apply_to_others(backend, flow);
	if (r < 0) {
		char text[FLOW_TEXT_MAX];

		backend->flows = flow->next;
		flow_take_back(backend, flow);
		flow_apply_to_others(backend, flow);
		free(flow);
		return failure_set(failure, EX_UNAVAILABLE, -r, "interface %s: no filter for %s: %s%s",
		                   backend->interface, flow_format(rule, text, sizeof(text)), strerror(-r),
		                   -r == E2BIG ? ": the flows of the stream are too many for one filter: put some of "
		                                 "them into another stream"
		                   : -r == ENOMEM ? ": sysctl -w net.core.optmem_max=262144 allows longer filters"
		                                  : "");
	}
	flows_keep_from_kernel(backend);
	*out = &flow->base;
	return 0;
}

void af_packet_remove_flow(struct backend_flow *base)
{
	struct af_packet_flow *flow = (struct af_packet_flow *)base, **at;
	struct af_packet *backend = ((struct af_packet_queue *)base->queue)->backend;

	for (at = &backend->flows; *at != flow; at = &(*at)->next)
		;
	*at = flow->next;
	flow_apply_to_others(backend, flow); /* if this fails, for want of memory, they take less than they should */
	flow_take_back(backend, flow);
	if (flow->dropped)
		tcx_drop_remove(backend->drop, &flow->rule);
	fd_close(&flow->reader);
	flows_keep_from_kernel(backend);
	free(flow);
}
