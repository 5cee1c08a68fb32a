// SPDX-License-Identifier: Apache-2.0
/*
 * A channel: the area of frames, its fill ring, and the anchor socket that owns both. If a stream's socket owned them,
 * the kernel would not release it before all others are closed.
 */
#include "daemon/backend/xdp/xdp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MTU_SMALL         1500
#define FRAME_BYTES       4096
#define FRAME_BYTES_SMALL 2048 /* a longer packet than such a frame has room for takes several */
#define HEADROOM_BYTES    256  /* of each frame, which the kernel keeps free */
/* Frames beyond those of the receive rings: two turns of the driver (NAPI), of packets of several frames. */
#define RESERVE_FRAMES 1024
#define LINK_BYTES_MAX 22 /* an Ethernet header with two VLAN tags */
/*
 * Without XDP_USE_SG the kernel (before 6.6) redirects no packet that the driver has in pieces, and counts that
 * nowhere. Drivers have up to so many bytes in one piece: a page without HEADROOM_BYTES and struct skb_shared_info.
 */
#define PAGE_BYTES_MAX 3520
#define UNUSED_ENTRIES 64
#define BIND_TRIES     100
#define BIND_AGAIN_NS  10000000

static uint32_t power_of_two_from(uint32_t n)
{
	uint32_t power = 1;

	while (power < n)
		power *= 2;
	return power;
}

/* ---- sockets --------------------------------------------------------------------------------------- */

int xdp_open_socket(const struct xdp_backend *backend, struct failure *failure)
{
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		return fd;
	return failure_set(
		failure, errno == EPERM ? EX_NOPERM : EX_UNAVAILABLE, errno,
		"interface %s: cannot open an AF_XDP socket: %s%s", backend->interface.name, strerror(errno),
		errno == EPERM          ? ": CAP_NET_RAW is missing: AmbientCapabilities=CAP_NET_RAW in the unit"
		: errno == EAFNOSUPPORT ? ": this kernel has none (CONFIG_XDP_SOCKETS): use backend = \"packet\""
		: errno == EMFILE       ? ": too many open files: lower xdp_streams, or raise LimitNOFILE in the unit"
					: "");
}

int xdp_bind(int fd, const struct xdp_channel *channel, uint16_t flags, int shared_fd)
{
	const struct sockaddr_xdp address = {
		.sxdp_family = AF_XDP,
		.sxdp_flags = flags,
		.sxdp_ifindex = channel->backend->interface.index,
		.sxdp_queue_id = channel->number,
		.sxdp_shared_umem_fd = shared_fd < 0 ? 0 : (uint32_t)shared_fd,
	};
	const struct timespec nap = {.tv_nsec = BIND_AGAIN_NS};
	int error = 0;

	for (int i = 0; i < BIND_TRIES; i++) {
		if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
			return 0;
		error = errno;
		if (error != EBUSY)
			break;
		nanosleep(&nap, NULL);
	}
	return -error;
}

/* ---- frames ---------------------------------------------------------------------------------------- */

static int channel_map_frames(struct xdp_channel *channel)
{
	size_t bytes = (size_t)channel->n_frames * channel->frame_bytes;
	void *frames = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (frames == MAP_FAILED)
		return -ENOMEM;
	channel->frames = frames;
	madvise(frames, bytes, MADV_HUGEPAGE);
	return 0;
}

static int channel_register_frames(const struct xdp_channel *channel)
{
	const struct xdp_umem_reg area = {
		.addr = (uintptr_t)channel->frames,
		.len = (uint64_t)channel->n_frames * channel->frame_bytes,
		.chunk_size = channel->frame_bytes,
	};

	return setsockopt(channel->anchor_fd, SOL_XDP, XDP_UMEM_REG, &area, sizeof(area)) == 0 ? 0 : -errno;
}

/* Frames that a stream may keep from the others. */
static uint32_t channel_stream_frames(const struct xdp_channel *channel, uint32_t stream)
{
	return channel->backend->depths[stream] + XDP_RETURNED_MAX;
}

void xdp_channel_fill(struct xdp_channel *channel, const uint64_t *frames, uint32_t n)
{
	for (; __builtin_expect(channel->n_excess > 0, 0) && n > 0; n--, channel->n_excess--)
		channel->spare[channel->n_spare++] = *frames++;
	xdp_ring_add_frames(&channel->fill, frames, n);
}

static void channel_use_frames(struct xdp_channel *channel, uint32_t n)
{
	channel->n_spare -= n;
	xdp_ring_add_frames(&channel->fill, &channel->spare[channel->n_spare], n);
}

void xdp_channel_admit_stream(struct xdp_channel *channel, uint32_t stream)
{
	uint32_t n = channel_stream_frames(channel, stream), n_still_used;

	pthread_mutex_lock(&channel->fill_lock);
	n_still_used = n < channel->n_excess ? n : channel->n_excess;
	channel->n_excess -= n_still_used;
	channel_use_frames(channel, n - n_still_used);
	pthread_mutex_unlock(&channel->fill_lock);
}

void xdp_channel_dismiss_stream(struct xdp_channel *channel, uint32_t stream)
{
	pthread_mutex_lock(&channel->fill_lock);
	channel->n_excess += channel_stream_frames(channel, stream);
	pthread_mutex_unlock(&channel->fill_lock);
}

/* The frames of no stream are in use from the start: a card that receives at once needs some. */
static int channel_make_spare(struct xdp_channel *channel, uint32_t n_in_use)
{
	channel->spare = calloc(channel->n_frames, sizeof(*channel->spare));
	if (!channel->spare)
		return -ENOMEM;
	for (uint32_t i = 0; i < channel->n_frames; i++)
		channel->spare[channel->n_spare++] = (uint64_t)(channel->n_frames - 1 - i) * channel->frame_bytes;
	channel_use_frames(channel, n_in_use);
	return 0;
}

static int channel_make_frames(struct xdp_channel *channel, struct failure *failure)
{
	const char *name = channel->backend->interface.name;
	unsigned mebibytes = (unsigned)(((uint64_t)channel->n_frames * channel->frame_bytes + (1 << 20) - 1) >> 20);
	int r = channel_map_frames(channel);

	if (r == 0)
		r = channel_register_frames(channel);
	if (r == -ENOBUFS) /* of io_account_mem */
		return failure_set(failure, EX_NOPERM, ENOBUFS,
		                   "interface %s: the limit of locked memory does not admit %u MiB for receive queue "
		                   "%u: grant CAP_IPC_LOCK, or raise the limit (systemd: LimitMEMLOCK=infinity; "
		                   "shell: ulimit -l unlimited), or lower xdp_streams",
		                   name, mebibytes, channel->number);
	if (r < 0)
		return failure_set(failure, EX_OSERR, -r,
		                   "interface %s: cannot make an area of %u MiB for receive queue %u: %s%s", name,
		                   mebibytes, channel->number, strerror(-r),
		                   r == -ENOMEM ? ": lower xdp_streams, or the number of queues: ethtool -L" : "");
	return 0;
}

/* ---- the anchor ------------------------------------------------------------------------------------ */

/* Every packet that the MTU admits fits one frame. */
static bool channel_frames_are_large(const struct xdp_channel *channel)
{
	return channel->backend->interface.mtu + LINK_BYTES_MAX <= channel->frame_bytes - HEADROOM_BYTES;
}

/* Up to this MTU, every packet comes from the driver in one piece, and fits one frame. */
static uint32_t channel_whole_mtu(const struct xdp_channel *channel)
{
	uint32_t frame_bytes = channel->frame_bytes - HEADROOM_BYTES;

	return (frame_bytes < PAGE_BYTES_MAX ? frame_bytes : PAGE_BYTES_MAX) - LINK_BYTES_MAX;
}

static bool channel_packets_are_whole(const struct xdp_channel *channel)
{
	return channel->backend->interface.mtu <= channel_whole_mtu(channel);
}

static int channel_explain_bind(const struct xdp_channel *channel, int error, struct failure *failure)
{
	const char *cure = "";

	if (error == EBUSY)
		cure = ": another program has AF_XDP sockets on it: 'ss --xdp --processes' shows it";
	else if (error == EOPNOTSUPP && channel->backend->mode == BACKEND_XDP_ZERO_COPY)
		cure = ": the driver has no zero-copy, or not with packets of several frames: set xdp_mode = \"auto\" "
		       "or \"copy\"";
	else if (error == EINVAL && !channel_packets_are_whole(channel))
		cure = ": packets as long as its MTU admits need Linux 6.6: use backend = \"packet\", or lower the MTU";
	return failure_set(failure, error == EBUSY ? EX_TEMPFAIL : EX_UNAVAILABLE, error,
	                   "interface %s: cannot bind an AF_XDP socket to receive queue %u: %s%s",
	                   channel->backend->interface.name, channel->number, strerror(error), cure);
}

/*
 * Packets of several frames (XDP_USE_SG) need Linux 6.6, and some drivers have zero-copy for packets of one frame only.
 * In copy mode they are admitted wherever the kernel can, because the MTU may grow.
 */
static int channel_bind_anchor(struct xdp_channel *channel)
{
	bool one_frame = channel_frames_are_large(channel);
	enum backend_xdp_mode mode = channel->backend->mode;
	int r = -EOPNOTSUPP;

	if (mode != BACKEND_XDP_COPY)
		r = xdp_bind(channel->anchor_fd, channel,
		             XDP_ZEROCOPY | XDP_USE_NEED_WAKEUP | (one_frame ? 0 : XDP_USE_SG), -1);
	channel->backend->zero_copy = r == 0;
	if (mode == BACKEND_XDP_ZERO_COPY || r == 0 || r == -EBUSY)
		return r;
	r = xdp_bind(channel->anchor_fd, channel, XDP_COPY | XDP_USE_NEED_WAKEUP | XDP_USE_SG, -1);
	if (r != -EINVAL || !channel_packets_are_whole(channel))
		return r;
	r = xdp_bind(channel->anchor_fd, channel, XDP_COPY | XDP_USE_NEED_WAKEUP, -1);
	channel->backend->mtu_max = r == 0 ? channel_whole_mtu(channel) : 0;
	return r;
}

static int channel_init_rings(struct xdp_channel *channel)
{
	int r = xdp_ring_init(&channel->fill, channel->anchor_fd, XDP_RING_FILL, power_of_two_from(channel->n_frames));

	if (r == 0)
		r = xdp_ring_init(&channel->completion, channel->anchor_fd, XDP_RING_COMPLETION, UNUSED_ENTRIES);
	if (r == 0)
		r = xdp_ring_init(&channel->unused, channel->anchor_fd, XDP_RING_TX, UNUSED_ENTRIES);
	return r;
}

int xdp_channel_init(struct xdp_channel *channel, struct xdp_backend *backend, uint32_t number, struct failure *failure)
{
	const struct xdp_interface *interface = &backend->interface;
	uint32_t n_always = RESERVE_FRAMES + (backend->mode == BACKEND_XDP_COPY ? 0 : interface->ring_slots);
	int r;

	*channel = (struct xdp_channel){
		.backend = backend,
		.number = number,
		.n_frames = n_always,
		.frame_bytes = interface->mtu <= MTU_SMALL ? FRAME_BYTES_SMALL : FRAME_BYTES,
	};
	for (uint32_t stream = 0; stream < backend->n_streams; stream++)
		channel->n_frames += channel_stream_frames(channel, stream);
	pthread_mutex_init(&channel->fill_lock, NULL);
	channel->anchor_fd = xdp_open_socket(backend, failure);
	if (channel->anchor_fd < 0)
		return channel->anchor_fd;
	r = channel_make_frames(channel, failure);
	if (r < 0)
		return r;
	r = channel_init_rings(channel);
	if (r < 0)
		return failure_set(failure, EX_OSERR, -r, "interface %s: cannot make the rings of queue %u: %s",
		                   interface->name, number, strerror(-r));
	r = channel_make_spare(channel, n_always);
	if (r < 0)
		return failure_no_memory(failure);
	r = channel_bind_anchor(channel);
	return r < 0 ? channel_explain_bind(channel, -r, failure) : 0;
}

void xdp_channel_deinit(struct xdp_channel *channel)
{
	if (!channel->backend)
		return;
	xdp_ring_deinit(&channel->fill);
	xdp_ring_deinit(&channel->completion);
	xdp_ring_deinit(&channel->unused);
	if (channel->anchor_fd >= 0)
		close(channel->anchor_fd);
	if (channel->frames)
		munmap(channel->frames, (size_t)channel->n_frames * channel->frame_bytes);
	free(channel->spare);
	pthread_mutex_destroy(&channel->fill_lock);
	channel->backend = NULL;
}
