// SPDX-License-Identifier: Apache-2.0
/* Which MTU backend xdp takes without packets of several frames, which need Linux 6.6. The doctor asks, too. */
#ifndef DAEMON_BACKEND_XDP_XDP_MTU_H
#define DAEMON_BACKEND_XDP_XDP_MTU_H

#include <stdint.h>

#define XDP_FRAME_BYTES    4096
#define XDP_HEADROOM_BYTES 256 /* of each frame, which the kernel keeps free */
#define XDP_LINK_BYTES_MAX 22  /* an Ethernet header with two VLAN tags */
/*
 * Without XDP_USE_SG the kernel (before 6.6) redirects no packet that the driver has in pieces, and counts that
 * nowhere. Drivers have up to so many bytes in one piece: a page without the headroom and struct skb_shared_info.
 */
#define XDP_PIECE_BYTES_MAX 3520

/** Up to this MTU, every packet comes from the driver in one piece, and fits one frame. Pure. */
static inline uint32_t xdp_whole_mtu(uint32_t frame_bytes)
{
	uint32_t bytes = frame_bytes - XDP_HEADROOM_BYTES;

	return (bytes < XDP_PIECE_BYTES_MAX ? bytes : XDP_PIECE_BYTES_MAX) - XDP_LINK_BYTES_MAX;
}

#endif
