// SPDX-License-Identifier: Apache-2.0
/*
 * A table of the kernel's packet filter in front of one netdev's stack. The table belongs to the socket that made
 * it, and the kernel removes it when that closes, however the process ends. The messages are written straight to
 * netlink, because a preloaded library should not load other libraries.
 */
#ifndef SOFTHCA_DEVICE_NFT_H
#define SOFTHCA_DEVICE_NFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The start from which an offset counts. The kernel finds the headers. */
enum nft_base {
	NFT_BASE_LINK,      /* the destination MAC; a VLAN tag is in its place as on the wire */
	NFT_BASE_NETWORK,   /* the IP header, behind VLAN tags */
	NFT_BASE_TRANSPORT, /* behind IP options, also in later fragments */
	NFT_BASE_PROTOCOL,  /* not in the frame: its Ethertype, behind VLAN tags */
};

#define NFT_MATCH_BYTES 16

struct nft_match {
	enum nft_base base;
	uint8_t offset, bytes;
	bool differs; /* the frame must have another value */
	uint8_t mask[NFT_MATCH_BYTES], value[NFT_MATCH_BYTES];
};

struct nft;

/* 0 or negative errno: -EPERM without CAP_NET_ADMIN; -EOPNOTSUPP or a similar one if the kernel lacks a feature. */
int nft_open(struct nft **nft, const char *netdev);
void nft_close(struct nft *nft);

/* Drops frames for which all `matches` are true or, in front of all rules that drop, lets them pass. 0 and the rule's
 * handle, or negative errno. */
int nft_add_rule(struct nft *nft, const struct nft_match *matches, size_t n, bool drop, uint64_t *handle);
int nft_remove(struct nft *nft, uint64_t handle);

#endif
