// SPDX-License-Identifier: Apache-2.0
/* Brings packets to the wire or, if they are for this device, back to it. */
#include "roce.h"

#include "../device/mcast.h"

#include <linux/if_ether.h>
#include <string.h>

void roce_flush(struct roce *r)
{
	struct wire *wire = r->device->wire;
	struct iovec iov[WIRE_SEND_MAX];
	const struct iovec *iovs[WIRE_SEND_MAX];
	int counts[WIRE_SEND_MAX], sent;

	if (!r->n_frames)
		return;
	for (unsigned int i = 0; i < r->n_frames; i++) {
		iov[i] = (struct iovec){.iov_base = r->frames[i].data, .iov_len = r->frames[i].bytes};
		iovs[i] = &iov[i];
		counts[i] = 1;
	}
	sent = wire->ops->send(wire, iovs, counts, (int)r->n_frames);
	r->n_frames -= (unsigned int)sent;
	memmove(r->frames, r->frames + sent, r->n_frames * sizeof(r->frames[0]));
}

uint8_t *roce_begin(struct roce *r, const struct roce_packet *p, const struct roce_path *path)
{
	if (r->n_frames == WIRE_SEND_MAX)
		roce_flush(r);
	if (r->n_frames == WIRE_SEND_MAX)
		return NULL;
	r->path = path;
	r->packet = p;
	return roce_packet_begin(r->frames[r->n_frames].data, p, path, mcast_own_mac(r->device->mcast));
}

/* A packet to the device's own address does not reach the wire, unless it is for another process on this netdev. */
void roce_end(struct roce *r)
{
	struct roce_frame *f = &r->frames[r->n_frames];
	bool own = !memcmp(f->data, mcast_own_mac(r->device->mcast), ETH_ALEN), group = f->data[0] & 1;

	f->bytes = roce_packet_end(f->data, r->packet, r->path);
	r->device->counters.tx_packets++;
	r->device->counters.tx_bytes += f->bytes;
	if (!own || r->packet->dest_qpn >> ROCE_BLOCK_BITS != r->block)
		r->n_frames++;
	if (own || group)
		r->loop_back(r, f->data, f->bytes);
}

bool roce_set_source(const struct roce *r, struct roce_path *path, unsigned int index)
{
	if (index >= r->n_gids)
		return false;
	memcpy(path->sgid, r->gids[index].raw, sizeof(path->sgid));
	path->version = (enum roce_version)r->gids[index].type;
	return true;
}
