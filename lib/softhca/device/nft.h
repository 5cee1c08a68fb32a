// SPDX-License-Identifier: Apache-2.0
/*
 * A table of the kernel's packet filter, in front of one netdev's stack. It belongs to the socket
 * that made it and is gone when that closes, however the process ends. Written straight to
 * netlink: a preloaded library should not bring libraries of its own.
 */
#ifndef SOFTHCA_DEVICE_NFT_H
#define SOFTHCA_DEVICE_NFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From where in the frame a match counts; the kernel finds the headers. */
enum nft_base {
	NFT_BASE_LINK,      /* the destination MAC; a VLAN tag is there as on the wire */
	NFT_BASE_NETWORK,   /* the IP header, behind VLAN tags */
	NFT_BASE_TRANSPORT, /* behind IP options, also in later fragments */
	NFT_BASE_PROTOCOL,  /* not in the frame: its Ethertype, behind VLAN tags */
};

#define NFT_MATCH_BYTES 16

struct nft_match {
	enum nft_base base;
	uint8_t offset, bytes;
	uint8_t mask[NFT_MATCH_BYTES], value[NFT_MATCH_BYTES];
};

struct nft;

/* 0 or negative errno: -EPERM without CAP_NET_ADMIN, -EOPNOTSUPP and the like from a kernel that
 * cannot do it. */
int nft_open(struct nft **nft, const char *netdev);
void nft_close(struct nft *nft);

/* Drop frames of which all of `matches` are true. 0 and the rule's handle, or negative errno. */
int nft_add_drop(struct nft *nft, const struct nft_match *matches, size_t n, uint64_t *handle);
int nft_remove(struct nft *nft, uint64_t handle);

#endif
