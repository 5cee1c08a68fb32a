// SPDX-License-Identifier: Apache-2.0
/*
 * Drops the frames that flows take before they reach the kernel's stack: turns each flow rule into rules of the
 * kernel's packet filter, and keeps the table of these rules.
 */
#include "kernel_drop.h"

#include "../wire/complain.h"
#include "nft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define MAX_MATCHES 16

void kernel_drop_init(struct kernel_drop *k, enum kernel_drop_mode mode, const char *netdev)
{
	memset(k, 0, sizeof(*k));
	pthread_mutex_init(&k->lock, NULL);
	k->mode = mode;
	k->netdev = netdev;
}

void kernel_drop_close(struct kernel_drop *k)
{
	pthread_mutex_lock(&k->lock);
	nft_close(k->nft);
	k->nft = NULL;
	pthread_mutex_unlock(&k->lock);
}

void kernel_drop_forked(struct kernel_drop *k)
{
	/* The parent may have held the lock. */
	pthread_mutex_init(&k->lock, NULL);
	nft_close(k->nft);
	k->nft = NULL;
}

struct matches {
	struct nft_match m[MAX_MATCHES];
	size_t n;
};

/* Returns the match; with an empty mask, the place of the next one. */
static struct nft_match *kernel_drop_add_match(struct matches *ms, enum nft_base base, uint8_t offset, const void *mask,
                                               const void *value, uint8_t bytes)
{
	static const uint8_t zeros[NFT_MATCH_BYTES];
	struct nft_match *m = &ms->m[ms->n];

	if (!memcmp(mask, zeros, bytes))
		return m;
	*m = (struct nft_match){.base = base, .offset = offset, .bytes = bytes};
	memcpy(m->mask, mask, bytes);
	memcpy(m->value, value, bytes);
	ms->n++;
	return m;
}

#define MATCH(ms, base, offset, rule, field, bytes) \
	kernel_drop_add_match(ms, base, offset, &(rule)->mask.field, &(rule)->value.field, bytes)

static void kernel_drop_match_link(struct matches *ms, const struct flow_rule *r)
{
	static const uint16_t all = 0xffff;
	const uint16_t cvlan = htons(ETH_P_8021Q);

	MATCH(ms, NFT_BASE_LINK, 0, r, dst_mac, ETH_ALEN);
	MATCH(ms, NFT_BASE_LINK, ETH_ALEN, r, src_mac, ETH_ALEN);
	MATCH(ms, NFT_BASE_PROTOCOL, 0, r, ether_type, 2);
	if (!r->mask.cvlan)
		return;
	kernel_drop_add_match(ms, NFT_BASE_LINK, 2 * ETH_ALEN, &all, &cvlan, 2)->differs = !r->value.cvlan;
	if (!r->value.cvlan)
		return;
	MATCH(ms, NFT_BASE_LINK, 2 * ETH_ALEN + 2, r, vlan_tci, 2);
}

static void kernel_drop_match_ip_version(struct matches *ms, unsigned int version)
{
	static const uint16_t all = 0xffff;
	static const uint8_t high = 0xf0;
	const uint16_t type = htons(version == 4 ? ETH_P_IP : ETH_P_IPV6);
	const uint8_t nibble = (uint8_t)(version << 4);

	kernel_drop_add_match(ms, NFT_BASE_PROTOCOL, 0, &all, &type, 2);
	kernel_drop_add_match(ms, NFT_BASE_NETWORK, 0, &high, &nibble, 1);
}

static void kernel_drop_match_ipv4(struct matches *ms, const struct flow_rule *r)
{
	static const uint16_t none = 0;
	const uint16_t fragment_offset = htons(0x1fff), fragment_fields = htons(0x3fff);

	MATCH(ms, NFT_BASE_NETWORK, 16, r, dst_ip, 4);
	MATCH(ms, NFT_BASE_NETWORK, 12, r, src_ip, 4);
	kernel_drop_match_ip_version(ms, 4);
	/* In a later fragment the kernel would take payload for ports. */
	if (r->mask.src_port || r->mask.dst_port || r->mask.tcp_flags)
		kernel_drop_add_match(ms, NFT_BASE_NETWORK, 6, &fragment_offset, &none, 2);
	MATCH(ms, NFT_BASE_NETWORK, 1, r, tos, 1);
	MATCH(ms, NFT_BASE_NETWORK, 8, r, ttl, 1);
	MATCH(ms, NFT_BASE_NETWORK, 9, r, ip_proto, 1);
	if (r->mask.fragment)
		kernel_drop_add_match(ms, NFT_BASE_NETWORK, 6, &fragment_fields, &none, 2)->differs = r->value.fragment;
}

static void kernel_drop_match_ipv6(struct matches *ms, const struct flow_rule *r)
{
	static const uint8_t all = 0xff, fragment_header = IPPROTO_FRAGMENT;
	/* Version, traffic class and flow label share the first word. */
	const uint32_t mask = htonl((uint32_t)r->mask.tos << 20) | r->mask.flow_label;
	const uint32_t value = htonl((uint32_t)r->value.tos << 20) | r->value.flow_label;

	MATCH(ms, NFT_BASE_NETWORK, 24, r, dst_ip, 16);
	MATCH(ms, NFT_BASE_NETWORK, 8, r, src_ip, 16);
	kernel_drop_match_ip_version(ms, 6);
	kernel_drop_add_match(ms, NFT_BASE_NETWORK, 0, &mask, &value, 4);
	MATCH(ms, NFT_BASE_NETWORK, 6, r, ip_proto, 1);
	MATCH(ms, NFT_BASE_NETWORK, 7, r, ttl, 1);
	if (r->mask.fragment)
		kernel_drop_add_match(ms, NFT_BASE_NETWORK, 6, &all, &fragment_header, 1)->differs = !r->value.fragment;
}

/* Matches the frames of this IP version (0: of any protocol) that the rule takes. The most telling matches come
 * first, since the kernel tries one rule after the other and each up to the first difference. */
static void kernel_drop_translate(struct matches *ms, const struct flow_rule *r, unsigned int version)
{
	ms->n = 0;
	MATCH(ms, NFT_BASE_TRANSPORT, 2, r, dst_port, 2);
	MATCH(ms, NFT_BASE_TRANSPORT, 0, r, src_port, 2);
	MATCH(ms, NFT_BASE_TRANSPORT, 12, r, tcp_flags, 2);
	if (version == 4)
		kernel_drop_match_ipv4(ms, r);
	else if (version == 6)
		kernel_drop_match_ipv6(ms, r);
	kernel_drop_match_link(ms, r);
}

/* A transport spec alone matches both IP versions. */
static unsigned int kernel_drop_versions_of(const struct flow_rule *r, unsigned int versions[KERNEL_DROP_MAX])
{
	versions[0] = r->mask.ip_version ? r->value.ip_version : r->mask.ip_proto ? 4 : 0;
	versions[1] = 6;
	return !r->mask.ip_version && r->mask.ip_proto ? 2 : 1;
}

static void kernel_drop_remove_all(struct kernel_drop *k, const struct kernel_dropped *d)
{
	for (unsigned int i = 0; k->nft && i < KERNEL_DROP_MAX; i++)
		if (d->handles[i])
			nft_remove(k->nft, d->handles[i]);
}

/* Without CAP_NET_ADMIN, auto is meant to give up silently. A user would not expect any other reason, so it is
 * printed once. */
static void kernel_drop_warn_once(struct kernel_drop *k, int r)
{
	if (k->mode != KERNEL_DROP_AUTO || r == -EPERM || k->warned)
		return;
	k->warned = true;
	complain("%s: frames that flows take reach the kernel's stack, too: nf_tables: %s; "
	         "set SOFTHCA_KERNEL_DROP=off to accept that",
	         k->netdev, strerror(-r));
}

int kernel_drop_add(struct kernel_drop *k, const struct flow_rule *rule, struct kernel_dropped *d)
{
	unsigned int versions[KERNEL_DROP_MAX], n = kernel_drop_versions_of(rule, versions);
	struct matches ms;
	int r = 0;

	memset(d, 0, sizeof(*d));
	if (k->mode == KERNEL_DROP_OFF || (!flow_traps(rule) && rule->action != FLOW_MISS))
		return 0;
	pthread_mutex_lock(&k->lock);
	if (!k->nft)
		r = nft_open(&k->nft, k->netdev);
	for (unsigned int i = 0; i < n && !r; i++) {
		kernel_drop_translate(&ms, rule, versions[i]);
		r = nft_add_rule(k->nft, ms.m, ms.n, rule->action != FLOW_MISS, &d->handles[i]);
	}
	if (r) {
		kernel_drop_remove_all(k, d);
		memset(d, 0, sizeof(*d));
		kernel_drop_warn_once(k, r);
	}
	pthread_mutex_unlock(&k->lock);
	return k->mode == KERNEL_DROP_REQUIRE ? r : 0;
}

void kernel_drop_remove(struct kernel_drop *k, const struct kernel_dropped *d)
{
	pthread_mutex_lock(&k->lock);
	kernel_drop_remove_all(k, d);
	pthread_mutex_unlock(&k->lock);
}
