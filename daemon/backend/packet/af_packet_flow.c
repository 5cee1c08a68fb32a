// SPDX-License-Identifier: Apache-2.0
/*
 * The flows of a receive queue: one filter for all of them, and what keeps the kernel from handling their packets.
 *
 * The kernel gets every packet too, after the packet socket. Without a reader it would answer each one of unicast with
 * an ICMP "port unreachable", which costs time and may stop the sender. Hence a UDP socket that owns the port, and a
 * drop at the tcx ingress for each flow whose port is free or owned so. If a program reads the port already, its
 * packets are not dropped and it goes on reading. Without tcx the packets reach the UDP socket, whose filter drops
 * them; they count in InErrors of /proc/net/snmp.
 *
 * The packets of a group are for any number of readers, so its port is not kept: it has to be free when the flow is
 * added.
 */
#include "daemon/backend/packet/af_packet.h"

#include "daemon/base/fd.h"
#include "daemon/base/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct af_packet_flow {
	struct backend_flow base;
	struct af_packet_flow *next;
	struct flow_rule rule;
	int reader; /* -1: none */
	bool dropped;
};

/* ---- the reader ---------------------------------------------------------------------------------- */

static socklen_t flow_address(const struct flow_rule *rule, int index, struct sockaddr_storage *storage)
{
	*storage = (struct sockaddr_storage){.ss_family = rule->family};
	if (rule->family == AF_INET) {
		struct sockaddr_in *ipv4 = (struct sockaddr_in *)storage;

		ipv4->sin_port = rule->value.destination_port_be;
		memcpy(&ipv4->sin_addr, rule->value.destination, 4);
		return sizeof(*ipv4);
	}
	struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)storage;

	ipv6->sin6_port = rule->value.destination_port_be;
	memcpy(&ipv6->sin6_addr, rule->value.destination, 16);
	if (IN6_IS_ADDR_LINKLOCAL(&ipv6->sin6_addr))
		ipv6->sin6_scope_id = (uint32_t)index;
	return sizeof(*ipv6);
}

/*
 * -1 if there can be none: a program or another flow reads the port already (EADDRINUSE), or the port needs a privilege
 * (EACCES, below 1024). Capturing works without it. The interface may get the address later: hence FREEBIND.
 */
static int flow_open_reader(const struct flow_rule *rule, const struct af_packet *backend)
{
	struct sock_filter nothing = {BPF_RET | BPF_K, 0, 0, 0};
	const struct sock_fprog program = {1, &nothing};
	struct sockaddr_storage address;
	socklen_t bytes = flow_address(rule, backend->index, &address);
	int fd = socket(rule->family, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, backend->interface, sizeof(backend->interface)) == 0 &&
	    setsockopt(fd, rule->family == AF_INET6 ? SOL_IPV6 : SOL_IP,
	               rule->family == AF_INET6 ? IPV6_FREEBIND : IP_FREEBIND, &on, sizeof(on)) == 0 &&
	    bind(fd, (struct sockaddr *)&address, bytes) == 0)
		return fd;
	close(fd);
	return -1;
}

static bool flow_has_same_port(const struct flow_rule *a, const struct flow_rule *b)
{
	return a->family == b->family && a->value.destination_port_be == b->value.destination_port_be &&
	       memcmp(a->value.destination, b->value.destination, a->family == AF_INET6 ? 16 : 4) == 0;
}

/* Does this flow, or another one with the same port, have the reader? */
static bool flow_owns_port(const struct af_packet *backend, const struct af_packet_flow *flow)
{
	for (const struct af_packet_flow *other = backend->flows; other; other = other->next)
		if (other->reader >= 0 && flow_has_same_port(&other->rule, &flow->rule))
			return true;
	return false;
}

/* No effect if it was done before. A failure leaves the packets to the kernel, which costs time and nothing else. */
static void flow_keep_from_kernel(struct af_packet *backend, struct af_packet_flow *flow)
{
	struct failure failure;

	if (flow->reader < 0 && !flow->dropped && (backend->drop || !flow->rule.multicast))
		flow->reader = flow_open_reader(&flow->rule, backend);
	if (backend->drop && !flow->dropped && flow_owns_port(backend, flow)) {
		int r = tcx_drop_add(backend->drop, &flow->rule, &failure);

		flow->dropped = r == 0;
		if (r < 0 && r != -EEXIST) /* the flow of a stream that is about to end: this one follows it */
			log_warning("%s: the kernel handles its packets, too", failure.text);
	}
	if (flow->rule.multicast)
		fd_close(&flow->reader);
}

/* Flows may share a port, and one of them has the reader: when it goes, another one needs it. */
static void flows_keep_from_kernel(struct af_packet *backend)
{
	for (struct af_packet_flow *flow = backend->flows; flow; flow = flow->next)
		flow_keep_from_kernel(backend, flow);
}

static void flow_tell_of_reader(const struct af_packet *backend, const struct af_packet_flow *flow)
{
	char text[FLOW_TEXT_MAX];

	if (backend->drop && !flow->dropped)
		log_info("interface %s: flow %s: the kernel handles its packets, too, because another program reads "
		         "the port, or the daemon may not bind it (ports below sysctl "
		         "net.ipv4.ip_unprivileged_port_start)",
		         backend->interface, flow_format(&flow->rule, text, sizeof(text)));
}

/* ---- flows --------------------------------------------------------------------------------------- */

static int flow_attach_filter(const struct af_packet_receive *receive, const struct flow_rule *rules, uint32_t n)
{
	struct sock_filter *code = malloc(AF_PACKET_FILTER_MAX * sizeof(*code));
	int r = code ? af_packet_filter_build(rules, n, receive->queue.backend->has_ethernet, code) : -ENOMEM;

	if (r > 0) {
		struct sock_fprog program = {(unsigned short)r, code};

		r = setsockopt(receive->queue.fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0
		            ? 0
		            : -errno;
	}
	free(code);
	return r;
}

int af_packet_apply_flows(const struct af_packet_receive *receive)
{
	struct flow_rule *rules;
	uint32_t n = 0;
	int r;

	for (const struct af_packet_flow *flow = receive->queue.backend->flows; flow; flow = flow->next)
		n += flow->base.queue == &receive->queue.base;
	rules = calloc(n ? n : 1, sizeof(*rules));
	if (!rules)
		return -ENOMEM;
	n = 0;
	for (const struct af_packet_flow *flow = receive->queue.backend->flows; flow; flow = flow->next)
		if (flow->base.queue == &receive->queue.base)
			rules[n++] = flow->rule;
	r = flow_attach_filter(receive, rules, n);
	free(rules);
	return r;
}

int af_packet_add_flow(struct backend_queue *base, const struct flow_rule *rule, struct backend_flow **out,
                       struct failure *failure)
{
	struct af_packet_receive *receive = af_packet_receive(base);
	struct af_packet_flow **flows = &receive->queue.backend->flows, *flow;
	char text[FLOW_TEXT_MAX];
	const char *beyond = flow_rule_key_beyond_udp(rule);
	int r;

	if (beyond)
		return failure_set(failure, EX_CONFIG, EOPNOTSUPP,
		                   "interface %s: backend packet cannot match the flow %s, because of its key '%s': "
		                   "accepted are flows of UDP to one destination and port, with source, source_port "
		                   "and vlan",
		                   receive->queue.backend->interface, flow_format(rule, text, sizeof(text)), beyond);
	if (rule->mask.vlan_be && !receive->queue.backend->has_ethernet)
		return failure_set(
			failure, EX_CONFIG, EPROTONOSUPPORT,
			"interface %s has no Ethernet headers, and so no VLANs: take vlan out of the flow %s",
			receive->queue.backend->interface, flow_format(rule, text, sizeof(text)));
	flow = malloc(sizeof(*flow));
	if (!flow)
		return failure_set(failure, EX_OSERR, ENOMEM, "no memory for a flow");
	*flow = (struct af_packet_flow){.base.queue = base, .next = *flows, .rule = *rule, .reader = -1};
	*flows = flow;
	r = af_packet_apply_flows(receive);
	if (r < 0) {
		*flows = flow->next;
		free(flow);
		return failure_set(failure, EX_UNAVAILABLE, -r, "interface %s: no filter for %s: %s%s",
		                   receive->queue.backend->interface, flow_format(rule, text, sizeof(text)),
		                   strerror(-r),
		                   r == -E2BIG    ? ": a stream can have about 220 flows here, of IPv6 about 100"
		                   : r == -ENOMEM ? ": sysctl -w net.core.optmem_max=262144 allows longer filters"
		                                  : "");
	}
	flows_keep_from_kernel(receive->queue.backend);
	flow_tell_of_reader(receive->queue.backend, flow);
	*out = &flow->base;
	return 0;
}

void af_packet_remove_flow(struct backend_flow *base)
{
	struct af_packet_flow *flow = (struct af_packet_flow *)base, **at;
	struct af_packet_receive *receive = af_packet_receive(base->queue);

	for (at = &receive->queue.backend->flows; *at != flow; at = &(*at)->next)
		;
	*at = flow->next;
	/* It fails for want of memory only, and then the queue takes more than it should. */
	af_packet_apply_flows(receive);
	if (flow->dropped)
		tcx_drop_remove(receive->queue.backend->drop, &flow->rule);
	fd_close(&flow->reader);
	flows_keep_from_kernel(receive->queue.backend);
	free(flow);
}
