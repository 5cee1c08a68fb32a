// SPDX-License-Identifier: Apache-2.0
/*
 * A card queue: its area of frames, its fill ring, and the anchor socket that owns both. If the socket of a queue owned
 * them, the kernel would keep that socket until all others are closed.
 */
#include "daemon/backend/xdp/xdp.h"

#include "lib/base/size.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MTU_SMALL      1500
#define FRAME_BYTES    4096
#define HEADROOM_BYTES 256 /* of each frame, which the kernel keeps free */
#define LINK_BYTES_MAX 22  /* an Ethernet header with two VLAN tags */
/*
 * Without XDP_USE_SG the kernel (before 6.6) redirects no packet that the driver has in pieces, and counts that
 * nowhere. Drivers have up to PIECE_BYTES_MAX in one piece: a page without the headroom and struct skb_shared_info.
 */
#define PIECE_BYTES_MAX   3520
#define FRAME_BYTES_SMALL 2048 /* a packet that does not fit takes several frames */
/* Frames beyond those of the receive rings: two turns of the driver (NAPI), of packets of several frames. */
#define RESERVE_FRAMES 1024
#define UNUSED_ENTRIES 64
#define BIND_TRIES     100
#define BIND_AGAIN_NS  10000000

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
		: errno == EMFILE       ? ": too many open files: lower xdp_queues, or raise LimitNOFILE in the unit"
					: "");
}

int xdp_bind(int fd, const struct xdp_card_queue *card_queue, uint16_t flags, int shared_fd)
{
	const struct sockaddr_xdp address = {
		.sxdp_family = AF_XDP,
		.sxdp_flags = flags,
		.sxdp_ifindex = card_queue->backend->interface.index,
		.sxdp_queue_id = card_queue->number,
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

static int card_queue_map_frames(struct xdp_card_queue *card_queue)
{
	size_t bytes = (size_t)card_queue->n_frames * card_queue->frame_bytes;
	void *frames = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (frames == MAP_FAILED)
		return -ENOMEM;
	card_queue->frames = frames;
	madvise(frames, bytes, MADV_HUGEPAGE);
	return 0;
}

static int card_queue_register_frames(const struct xdp_card_queue *card_queue)
{
	const struct xdp_umem_reg area = {
		.addr = (uintptr_t)card_queue->frames,
		.len = (uint64_t)card_queue->n_frames * card_queue->frame_bytes,
		.chunk_size = card_queue->frame_bytes,
	};

	return setsockopt(card_queue->anchor_fd, SOL_XDP, XDP_UMEM_REG, &area, sizeof(area)) == 0 ? 0 : -errno;
}

/* Frames that a queue may keep from the others. */
static uint32_t card_queue_frames_of(const struct xdp_card_queue *card_queue, uint32_t queue)
{
	return card_queue->backend->depths[queue] + XDP_RETURNED_MAX;
}

void xdp_card_queue_fill(struct xdp_card_queue *card_queue, const uint64_t *frames, uint32_t n)
{
	for (; __builtin_expect(card_queue->n_excess > 0, 0) && n > 0; n--, card_queue->n_excess--)
		card_queue->spare[card_queue->n_spare++] = *frames++;
	xdp_ring_add_frames(&card_queue->fill, frames, n);
}

static void card_queue_use_frames(struct xdp_card_queue *card_queue, uint32_t n)
{
	card_queue->n_spare -= n;
	xdp_ring_add_frames(&card_queue->fill, &card_queue->spare[card_queue->n_spare], n);
}

void xdp_card_queue_admit(struct xdp_card_queue *card_queue, uint32_t queue)
{
	uint32_t n = card_queue_frames_of(card_queue, queue), n_still_used;

	pthread_mutex_lock(&card_queue->fill_lock);
	n_still_used = n < card_queue->n_excess ? n : card_queue->n_excess;
	card_queue->n_excess -= n_still_used;
	card_queue_use_frames(card_queue, n - n_still_used);
	pthread_mutex_unlock(&card_queue->fill_lock);
}

void xdp_card_queue_dismiss(struct xdp_card_queue *card_queue, uint32_t queue)
{
	pthread_mutex_lock(&card_queue->fill_lock);
	card_queue->n_excess += card_queue_frames_of(card_queue, queue);
	pthread_mutex_unlock(&card_queue->fill_lock);
}

/* The reserve is in use from the start: a card that receives at once needs frames. */
static int card_queue_make_spare(struct xdp_card_queue *card_queue, uint32_t n_in_use)
{
	card_queue->spare = calloc(card_queue->n_frames, sizeof(*card_queue->spare));
	if (!card_queue->spare)
		return -ENOMEM;
	for (uint32_t i = 0; i < card_queue->n_frames; i++)
		card_queue->spare[card_queue->n_spare++] =
			(uint64_t)(card_queue->n_frames - 1 - i) * card_queue->frame_bytes;
	card_queue_use_frames(card_queue, n_in_use);
	return 0;
}

static int card_queue_make_frames(struct xdp_card_queue *card_queue, struct failure *failure)
{
	const char *name = card_queue->backend->interface.name;
	unsigned mebibytes =
		(unsigned)(((uint64_t)card_queue->n_frames * card_queue->frame_bytes + (1 << 20) - 1) >> 20);
	int r = card_queue_map_frames(card_queue);

	if (r == 0)
		r = card_queue_register_frames(card_queue);
	if (r == -ENOBUFS) /* of io_account_mem */
		return failure_set(failure, EX_NOPERM, ENOBUFS,
		                   "interface %s: the limit of locked memory does not admit %u MiB for receive queue "
		                   "%u: grant CAP_IPC_LOCK, or raise the limit (systemd: LimitMEMLOCK=infinity; "
		                   "shell: ulimit -l unlimited), or lower xdp_queues",
		                   name, mebibytes, card_queue->number);
	if (r < 0)
		return failure_set(failure, EX_OSERR, -r,
		                   "interface %s: cannot make an area of %u MiB for receive queue %u: %s%s", name,
		                   mebibytes, card_queue->number, strerror(-r),
		                   r == -ENOMEM ? ": lower xdp_queues, or the number of queues: ethtool -L" : "");
	return 0;
}

/* ---- the anchor ------------------------------------------------------------------------------------ */

/* Up to this MTU, every packet comes from the driver in one piece, and fits one frame. */
static uint32_t whole_mtu(uint32_t frame_bytes)
{
	uint32_t bytes = frame_bytes - HEADROOM_BYTES;

	return (bytes < PIECE_BYTES_MAX ? bytes : PIECE_BYTES_MAX) - LINK_BYTES_MAX;
}

static bool card_queue_packets_are_whole(const struct xdp_card_queue *card_queue)
{
	return card_queue->backend->interface.mtu <= whole_mtu(card_queue->frame_bytes);
}

static int card_queue_explain_bind(const struct xdp_card_queue *card_queue, int error, struct failure *failure)
{
	const char *cure = "";

	if (error == EBUSY)
		cure = ": another program has AF_XDP sockets on it: 'ss --xdp --processes' shows it";
	else if (error == EOPNOTSUPP && card_queue->backend->mode == BACKEND_XDP_ZERO_COPY)
		cure = ": the driver has no zero-copy, or not with packets of several frames: set xdp_mode = \"auto\" "
		       "or \"copy\"";
	else if (error == EINVAL && !card_queue_packets_are_whole(card_queue))
		cure = ": packets as long as its MTU admits need Linux 6.6: use backend = \"packet\", or lower the MTU";
	return failure_set(failure, error == EBUSY ? EX_TEMPFAIL : EX_UNAVAILABLE, error,
	                   "interface %s: cannot bind an AF_XDP socket to receive queue %u: %s%s",
	                   card_queue->backend->interface.name, card_queue->number, strerror(error), cure);
}

/*
 * Packets of several frames (XDP_USE_SG) need Linux 6.6, and some drivers have zero-copy for packets of one frame only.
 * In copy mode they are admitted wherever the kernel can, because the MTU may grow.
 */
static int card_queue_bind_anchor(struct xdp_card_queue *card_queue)
{
	/* Every packet that the MTU admits fits one frame. */
	bool one_frame =
		card_queue->backend->interface.mtu + LINK_BYTES_MAX <= card_queue->frame_bytes - HEADROOM_BYTES;
	enum backend_xdp_mode mode = card_queue->backend->mode;
	int r = -EOPNOTSUPP;

	if (mode != BACKEND_XDP_COPY)
		r = xdp_bind(card_queue->anchor_fd, card_queue,
		             XDP_ZEROCOPY | XDP_USE_NEED_WAKEUP | (one_frame ? 0 : XDP_USE_SG), -1);
	card_queue->backend->zero_copy = r == 0;
	if (mode == BACKEND_XDP_ZERO_COPY || r == 0 || r == -EBUSY)
		return r;
	r = xdp_bind(card_queue->anchor_fd, card_queue, XDP_COPY | XDP_USE_NEED_WAKEUP | XDP_USE_SG, -1);
	if (r != -EINVAL || !card_queue_packets_are_whole(card_queue))
		return r;
	r = xdp_bind(card_queue->anchor_fd, card_queue, XDP_COPY | XDP_USE_NEED_WAKEUP, -1);
	card_queue->backend->mtu_max = r == 0 ? whole_mtu(card_queue->frame_bytes) : 0;
	return r;
}

static int card_queue_init_rings(struct xdp_card_queue *card_queue)
{
	int r = xdp_ring_init(&card_queue->fill, card_queue->anchor_fd, XDP_RING_FILL,
	                      round_up_to_power_of_two(card_queue->n_frames));

	if (r == 0)
		r = xdp_ring_init(&card_queue->completion, card_queue->anchor_fd, XDP_RING_COMPLETION, UNUSED_ENTRIES);
	if (r == 0)
		r = xdp_ring_init(&card_queue->unused, card_queue->anchor_fd, XDP_RING_TX, UNUSED_ENTRIES);
	return r;
}

int xdp_card_queue_init(struct xdp_card_queue *card_queue, struct xdp_backend *backend, uint32_t number,
                        struct failure *failure)
{
	const struct xdp_interface *interface = &backend->interface;
	uint32_t n_always = RESERVE_FRAMES + (backend->mode == BACKEND_XDP_COPY ? 0 : interface->ring_slots);
	int r;

	*card_queue = (struct xdp_card_queue){
		.backend = backend,
		.number = number,
		.n_frames = n_always,
		.frame_bytes = interface->mtu <= MTU_SMALL ? FRAME_BYTES_SMALL : FRAME_BYTES,
	};
	for (uint32_t queue = 0; queue < backend->n_queues; queue++)
		card_queue->n_frames += card_queue_frames_of(card_queue, queue);
	pthread_mutex_init(&card_queue->fill_lock, NULL);
	card_queue->anchor_fd = xdp_open_socket(backend, failure);
	if (card_queue->anchor_fd < 0)
		return card_queue->anchor_fd;
	r = card_queue_make_frames(card_queue, failure);
	if (r < 0)
		return r;
	r = card_queue_init_rings(card_queue);
	if (r < 0)
		return failure_set(failure, EX_OSERR, -r, "interface %s: cannot make the rings of queue %u: %s",
		                   interface->name, number, strerror(-r));
	r = card_queue_make_spare(card_queue, n_always);
	if (r < 0)
		return failure_no_memory(failure);
	r = card_queue_bind_anchor(card_queue);
	return r < 0 ? card_queue_explain_bind(card_queue, -r, failure) : 0;
}

void xdp_card_queue_deinit(struct xdp_card_queue *card_queue)
{
	if (!card_queue->backend)
		return;
	xdp_ring_deinit(&card_queue->fill);
	xdp_ring_deinit(&card_queue->completion);
	xdp_ring_deinit(&card_queue->unused);
	if (card_queue->anchor_fd >= 0)
		close(card_queue->anchor_fd);
	if (card_queue->frames)
		munmap(card_queue->frames, (size_t)card_queue->n_frames * card_queue->frame_bytes);
	free(card_queue->spare);
	pthread_mutex_destroy(&card_queue->fill_lock);
	card_queue->backend = NULL;
}
