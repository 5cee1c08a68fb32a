// SPDX-License-Identifier: Apache-2.0
/*
 * An engine without a wire: it brings one UDP frame again and again, as often as receives are posted for it, and
 * accepts every frame that is sent. With it one can measure what the device costs, and what a program costs above
 * it.
 */
#include "wire.h"
#include "link.h"
#include "clock_now.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HEADROOM_BYTES 4 /* the device may move the start of a frame */
#define BURST          256
#define MAX_WAIT_US    100         /* no event wakes us when a receive is posted */
#define SOURCE_ADDRESS 0xc0000201u /* 192.0.2.1: for documentation (RFC 5737) */
#define SOURCE_PORT    1000

struct generator {
	struct wire base;
	bool unwritten;
	enum wire_addressed addressed;
	uint32_t len;
	uint8_t buffer[HEADROOM_BYTES + 65536];
};

static int generator_receive(struct wire *wire, struct wire_frame *frames, int max)
{
	struct generator *g = (struct generator *)wire;

	(void)max;
	frames[0] = (struct wire_frame){
		.data = g->buffer + HEADROOM_BYTES,
		.len = g->len,
		.up_to = BURST,
		.unwritten = g->unwritten,
		.csum_trusted = true,
		.addressed = g->addressed,
		.realtime_ns = clock_now_ns(CLOCK_REALTIME),
	};
	return 1;
}

static void generator_release(struct wire *wire)
{
	(void)wire;
}

static int generator_send(struct wire *wire, const struct iovec *const *iov, const int *iovcnt, int n)
{
	(void)wire;
	(void)iov;
	(void)iovcnt;
	return n;
}

static void generator_wait(struct wire *wire, unsigned int timeout_us)
{
	struct timespec ts = {.tv_nsec = MAX_WAIT_US * 1000};

	(void)wire;
	if (timeout_us < MAX_WAIT_US)
		ts.tv_nsec = (long)timeout_us * 1000;
	nanosleep(&ts, NULL);
}

static void generator_stats(struct wire *wire, struct wire_stats *s)
{
	(void)wire;
	*s = (struct wire_stats){};
}

static void generator_close(struct wire *wire)
{
	free(wire);
}

static uint16_t generator_ip_csum(const struct iphdr *ip)
{
	uint16_t words[sizeof(*ip) / 2];
	uint32_t sum = 0;

	memcpy(words, ip, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~(sum + (sum >> 16));
}

/* The MAC address for a multicast address (RFC 1112, section 6.4), else the netdev's own. */
static void generator_destination_mac(const struct link_facts *link, in_addr_t address_be, uint8_t mac[6])
{
	const uint8_t *a = (const uint8_t *)&address_be;

	if (IN_MULTICAST(ntohl(address_be)))
		memcpy(mac, (uint8_t[6]){0x01, 0x00, 0x5e, a[1] & 0x7f, a[2], a[3]}, 6);
	else
		memcpy(mac, link->mac, 6);
}

static int generator_build(struct generator *g, const struct wire_config *config, const struct link_facts *link)
{
	uint32_t bytes = config->generator.payload_bytes;
	struct ethhdr eth = {.h_source = {2, 0, 0, 0, 0, 2}, .h_proto = htons(ETH_P_IP)};
	struct iphdr ip = {.version = 4, .ihl = 5, .frag_off = htons(IP_DF), .ttl = 64, .protocol = IPPROTO_UDP};
	struct udphdr udp = {.source = htons(SOURCE_PORT)};
	uint8_t *p = g->buffer + HEADROOM_BYTES;

	g->len = (uint32_t)(sizeof(eth) + sizeof(ip) + sizeof(udp)) + bytes;
	if (g->len > link->mtu + sizeof(eth))
		return -EMSGSIZE;
	ip.tot_len = htons((uint16_t)(sizeof(ip) + sizeof(udp) + bytes));
	udp.len = htons((uint16_t)(sizeof(udp) + bytes));
	udp.dest = htons((uint16_t)config->generator.port);
	if (inet_pton(AF_INET, config->generator.destination, &ip.daddr) != 1)
		return -EINVAL;
	ip.saddr = htonl(SOURCE_ADDRESS);
	ip.check = generator_ip_csum(&ip);
	generator_destination_mac(link, ip.daddr, eth.h_dest);
	memcpy(p, &eth, sizeof(eth));
	memcpy(p + sizeof(eth), &ip, sizeof(ip));
	memcpy(p + sizeof(eth) + sizeof(ip), &udp, sizeof(udp));
	for (uint32_t i = 0; i < bytes; i++)
		p[g->len - bytes + i] = (uint8_t)i;
	/* A wire carries no shorter frame (without FCS). */
	if (g->len < ETH_ZLEN)
		g->len = ETH_ZLEN;
	g->addressed = link_addressed(link, eth.h_dest);
	return 0;
}

int generator_open(struct wire **wire, const struct wire_config *config)
{
	static const struct wire_ops ops = {
		.receive = generator_receive,
		.release = generator_release,
		.send = generator_send,
		.wait = generator_wait,
		.stats = generator_stats,
		.close = generator_close,
	};
	struct link_facts link;
	struct generator *g;
	int r = link_read(config->netdev, &link);

	if (r)
		return r;
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->base.ops = &ops;
	g->unwritten = config->generator.writes == WIRE_WRITES_COMPLETIONS;
	r = generator_build(g, config, &link);
	if (r)
		free(g);
	else
		*wire = &g->base;
	return r;
}
