// SPDX-License-Identifier: Apache-2.0
/*
 * Builds and sends messages of nf_tables by netlink. The kernel's include/uapi/linux/netfilter/nf_tables.h describes
 * them.
 */
#include "nft.h"

#include "../wire/own_fd.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHAIN        "matched"
#define PRIORITY     (-500) /* in front of every other table */
#define BUFFER_BYTES 8192
#define REPLY_BYTES  16384

struct nft {
	int fd;
	uint32_t seq;
	char table[32];
};

/* One transaction: the kernel does all of it or nothing. */
struct batch {
	struct nft *nft;
	uint8_t *end;
	struct nlmsghdr *message; /* the last message, still open */
	uint8_t bytes[BUFFER_BYTES] __attribute__((aligned(8)));
};

static void nft_open_message(struct batch *b, uint16_t type, uint16_t flags, uint8_t family, uint16_t resource)
{
	struct nlmsghdr *h = (void *)b->end;
	struct nfgenmsg *g = (void *)(b->end + NLMSG_HDRLEN);

	memset(h, 0, NLMSG_HDRLEN + sizeof(*g));
	h->nlmsg_type = type;
	h->nlmsg_flags = NLM_F_REQUEST | flags;
	h->nlmsg_seq = ++b->nft->seq;
	h->nlmsg_len = NLMSG_HDRLEN + sizeof(*g);
	g->nfgen_family = family;
	g->version = NFNETLINK_V0;
	g->res_id = htons(resource);
	b->message = h;
	b->end += h->nlmsg_len;
}

static void nft_command(struct batch *b, uint16_t type, uint16_t flags)
{
	nft_open_message(b, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags | NLM_F_ACK, NFPROTO_NETDEV, 0);
}

static void *nft_put(struct batch *b, uint16_t type, const void *data, size_t bytes)
{
	struct nlattr *a = (void *)b->end;
	size_t room = NLA_ALIGN(sizeof(*a) + bytes);

	memset(a, 0, room);
	a->nla_type = type;
	a->nla_len = (uint16_t)(sizeof(*a) + bytes);
	if (bytes)
		memcpy(a + 1, data, bytes);
	b->end += room;
	b->message->nlmsg_len += (uint32_t)room;
	return a;
}

static void nft_put_string(struct batch *b, uint16_t type, const char *s)
{
	nft_put(b, type, s, strlen(s) + 1);
}

static void nft_put_u32(struct batch *b, uint16_t type, uint32_t v)
{
	v = htonl(v);
	nft_put(b, type, &v, sizeof(v));
}

static struct nlattr *nft_nest(struct batch *b, uint16_t type)
{
	return nft_put(b, type | NLA_F_NESTED, NULL, 0);
}

static void nft_end_nest(const struct batch *b, struct nlattr *a)
{
	a->nla_len = (uint16_t)(b->end - (uint8_t *)a);
}

static void nft_put_value(struct batch *b, uint16_t type, const void *data, size_t bytes)
{
	struct nlattr *a = nft_nest(b, type);

	nft_put(b, NFTA_DATA_VALUE, data, bytes);
	nft_end_nest(b, a);
}

static void nft_begin(struct batch *b, struct nft *nft)
{
	b->nft = nft;
	b->end = b->bytes;
	nft_open_message(b, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
}

/* When send() returns, the replies are there. Reads the first error, and the handle of a rule that the kernel
 * echoes. */
static int nft_read_replies(const struct nft *nft, uint64_t *handle)
{
	uint8_t reply[REPLY_BYTES] __attribute__((aligned(8)));
	int r = 0;
	ssize_t n;

	while ((n = recv(nft->fd, reply, sizeof(reply), MSG_DONTWAIT)) > 0) {
		struct nlmsghdr *h = (void *)reply;

		for (uint32_t left = (uint32_t)n; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
			if (h->nlmsg_type == NLMSG_ERROR) {
				const struct nlmsgerr *e = NLMSG_DATA(h);

				r = r ? r : e->error;
			} else if (handle && (h->nlmsg_type & 0xff) == NFT_MSG_NEWRULE) {
				uint8_t *p = (uint8_t *)h + NLMSG_SPACE(sizeof(struct nfgenmsg));

				while (p + NLA_HDRLEN <= (uint8_t *)h + h->nlmsg_len) {
					const struct nlattr *a = (void *)p;

					if (a->nla_type == NFTA_RULE_HANDLE)
						memcpy(handle, a + 1, sizeof(*handle));
					p += NLA_ALIGN(a->nla_len);
				}
			}
		}
	}
	if (handle)
		*handle = be64toh(*handle);
	return r;
}

static int nft_commit(struct batch *b, uint64_t *handle)
{
	ssize_t n;

	nft_open_message(b, NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
	n = send(b->nft->fd, b->bytes, (size_t)(b->end - b->bytes), 0);
	return n < 0 ? -errno : nft_read_replies(b->nft, handle);
}

static int nft_add_table(struct nft *nft, const char *netdev)
{
	struct batch b;
	struct nlattr *hook;

	nft_begin(&b, nft);
	nft_command(&b, NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL);
	nft_put_string(&b, NFTA_TABLE_NAME, nft->table);
	nft_put_u32(&b, NFTA_TABLE_FLAGS, NFT_TABLE_F_OWNER);
	nft_command(&b, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL);
	nft_put_string(&b, NFTA_CHAIN_TABLE, nft->table);
	nft_put_string(&b, NFTA_CHAIN_NAME, CHAIN);
	nft_put_string(&b, NFTA_CHAIN_TYPE, "filter");
	hook = nft_nest(&b, NFTA_CHAIN_HOOK);
	nft_put_u32(&b, NFTA_HOOK_HOOKNUM, NF_NETDEV_INGRESS);
	nft_put_u32(&b, NFTA_HOOK_PRIORITY, (uint32_t)PRIORITY);
	nft_put_string(&b, NFTA_HOOK_DEV, netdev);
	nft_end_nest(&b, hook);
	return nft_commit(&b, NULL);
}

int nft_open(struct nft **out, const char *netdev)
{
	struct sockaddr_nl addr = {.nl_family = AF_NETLINK};
	socklen_t len = sizeof(addr);
	struct nft *nft = calloc(1, sizeof(*nft));
	int r;

	if (!nft)
		return -ENOMEM;
	nft->fd = (int)syscall(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	/* The kernel gives the socket a number that is unique in the namespace. */
	if (nft->fd < 0 || bind(nft->fd, (struct sockaddr *)&addr, sizeof(addr)) ||
	    getsockname(nft->fd, (struct sockaddr *)&addr, &len)) {
		r = -errno;
		goto fail;
	}
	snprintf(nft->table, sizeof(nft->table), "softhca-%u", addr.nl_pid);
	r = nft_add_table(nft, netdev);
	if (r)
		goto fail;
	*out = nft;
	return 0;
fail:
	nft_close(nft);
	return r;
}

void nft_close(struct nft *nft)
{
	if (!nft)
		return;
	own_fd_close(nft->fd);
	free(nft);
}

static struct nlattr *nft_open_expression(struct batch *b, const char *name, struct nlattr **element)
{
	*element = nft_nest(b, NFTA_LIST_ELEM);
	nft_put_string(b, NFTA_EXPR_NAME, name);
	return nft_nest(b, NFTA_EXPR_DATA);
}

static void nft_end_expression(const struct batch *b, struct nlattr *data, struct nlattr *element)
{
	nft_end_nest(b, data);
	nft_end_nest(b, element);
}

static void nft_put_load(struct batch *b, const struct nft_match *m)
{
	static const enum nft_payload_bases bases[] = {
		[NFT_BASE_LINK] = NFT_PAYLOAD_LL_HEADER,
		[NFT_BASE_NETWORK] = NFT_PAYLOAD_NETWORK_HEADER,
		[NFT_BASE_TRANSPORT] = NFT_PAYLOAD_TRANSPORT_HEADER,
	};
	struct nlattr *e, *d;

	if (m->base == NFT_BASE_PROTOCOL) {
		d = nft_open_expression(b, "meta", &e);
		nft_put_u32(b, NFTA_META_KEY, NFT_META_PROTOCOL);
		nft_put_u32(b, NFTA_META_DREG, NFT_REG_1);
	} else {
		d = nft_open_expression(b, "payload", &e);
		nft_put_u32(b, NFTA_PAYLOAD_DREG, NFT_REG_1);
		nft_put_u32(b, NFTA_PAYLOAD_BASE, bases[m->base]);
		nft_put_u32(b, NFTA_PAYLOAD_OFFSET, m->offset);
		nft_put_u32(b, NFTA_PAYLOAD_LEN, m->bytes);
	}
	nft_end_expression(b, d, e);
}

static void nft_put_mask(struct batch *b, const struct nft_match *m)
{
	static const uint8_t zeros[NFT_MATCH_BYTES];
	struct nlattr *e, *d = nft_open_expression(b, "bitwise", &e);

	nft_put_u32(b, NFTA_BITWISE_SREG, NFT_REG_1);
	nft_put_u32(b, NFTA_BITWISE_DREG, NFT_REG_1);
	nft_put_u32(b, NFTA_BITWISE_LEN, m->bytes);
	nft_put_value(b, NFTA_BITWISE_MASK, m->mask, m->bytes);
	nft_put_value(b, NFTA_BITWISE_XOR, zeros, m->bytes);
	nft_end_expression(b, d, e);
}

static void nft_put_match(struct batch *b, const struct nft_match *m)
{
	uint8_t value[NFT_MATCH_BYTES];
	bool masked = false;
	struct nlattr *e, *d;

	for (size_t i = 0; i < m->bytes; i++) {
		value[i] = m->value[i] & m->mask[i];
		masked |= m->mask[i] != 0xff;
	}
	nft_put_load(b, m);
	if (masked)
		nft_put_mask(b, m);
	d = nft_open_expression(b, "cmp", &e);
	nft_put_u32(b, NFTA_CMP_SREG, NFT_REG_1);
	nft_put_u32(b, NFTA_CMP_OP, m->differs ? NFT_CMP_NEQ : NFT_CMP_EQ);
	nft_put_value(b, NFTA_CMP_DATA, value, m->bytes);
	nft_end_expression(b, d, e);
}

static void nft_put_verdict(struct batch *b, uint32_t verdict_code)
{
	struct nlattr *e, *d = nft_open_expression(b, "immediate", &e), *data, *verdict;

	nft_put_u32(b, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	data = nft_nest(b, NFTA_IMMEDIATE_DATA);
	verdict = nft_nest(b, NFTA_DATA_VERDICT);
	nft_put_u32(b, NFTA_VERDICT_CODE, verdict_code);
	nft_end_nest(b, verdict);
	nft_end_nest(b, data);
	nft_end_expression(b, d, e);
}

int nft_add_rule(struct nft *nft, const struct nft_match *matches, size_t n, bool drop, uint64_t *handle)
{
	struct batch b;
	struct nlattr *list;
	int r;

	nft_begin(&b, nft);
	nft_command(&b, NFT_MSG_NEWRULE, NLM_F_CREATE | (drop ? NLM_F_APPEND : 0) | NLM_F_ECHO);
	nft_put_string(&b, NFTA_RULE_TABLE, nft->table);
	nft_put_string(&b, NFTA_RULE_CHAIN, CHAIN);
	list = nft_nest(&b, NFTA_RULE_EXPRESSIONS);
	for (size_t i = 0; i < n; i++)
		nft_put_match(&b, &matches[i]);
	nft_put_verdict(&b, drop ? NF_DROP : NF_ACCEPT);
	nft_end_nest(&b, list);
	*handle = 0;
	r = nft_commit(&b, handle);
	/* A rule without a handle could not be removed before the socket closes. */
	return r || *handle ? r : -EIO;
}

int nft_remove(struct nft *nft, uint64_t handle)
{
	struct batch b;

	handle = htobe64(handle);
	nft_begin(&b, nft);
	nft_command(&b, NFT_MSG_DELRULE, 0);
	nft_put_string(&b, NFTA_RULE_TABLE, nft->table);
	nft_put_string(&b, NFTA_RULE_CHAIN, CHAIN);
	nft_put(&b, NFTA_RULE_HANDLE, &handle, sizeof(handle));
	return nft_commit(&b, NULL);
}
