// SPDX-License-Identifier: Apache-2.0
/*
 * Shared by the files of the xdp backend. It receives with AF_XDP sockets on an interface whose driver has XDP: a BPF
 * program (daemon/backend/bpf) gives the packets of the flows to the sockets, past the kernel's network stack, and the
 * worker copies each one once, from the frame to its slot.
 *
 * A *card queue* is a receive queue of the interface (ethtool -l). A *queue* is one of a stream, as in backend.h: it
 * has a number, and one socket on each card queue. A card queue has an area of frames (UMEM). The area belongs to an
 * anchor socket, which receives nothing and lives as long as the card queue. All sockets of the card queue share it.
 * A frame is in the fill ring (free), in the receive ring of a socket, or in the hands of a worker. A queue that nobody
 * polls keeps as many frames as its receive ring has descriptors, so the area has these for all queues, and a reserve.
 * The frames of queue numbers that are free are in no ring: the fewer frames are in use, the more of them are in the
 * CPU's cache.
 *
 * All sockets are made when the interface is opened, because that takes a capability which the daemon drops, and those
 * that register and bind the frames disturb the interface. A new queue takes the sockets of a free number, and leaves
 * them empty and bound when it goes: to release a bound socket takes the kernel some 10 ms. Declares xdp_card_queue.c,
 * xdp_flow.c, xdp_follow.c, xdp_interface.c, xdp_queue.c, xdp_receive.c, xdp_socket.c, xdp_statistics.c.
 */
#ifndef DAEMON_BACKEND_XDP_XDP_H
#define DAEMON_BACKEND_XDP_XDP_H

#include "daemon/backend/backend.h"
#include "daemon/backend/bpf/flow_tags.h"
#include "daemon/backend/bpf/xdp_program.h"
#include "daemon/backend/posted_rows.h"
#include "daemon/backend/socket/kernel_path.h"
#include "daemon/backend/xdp/xdp_ring.h"

#include <net/if.h>
#include <pthread.h>
#include <stdatomic.h>

extern const struct backend_ops xdp_backend_ops;

/* ---- the interface: xdp_interface.c ---------------------------------------------------------------- */

struct xdp_interface {
	char name[IFNAMSIZ];
	unsigned index;
	uint32_t mtu;
	uint32_t n_card_queues;   /* receive queues in use */
	uint32_t max_card_queues; /* that the driver can have */
	uint32_t ring_slots;      /* slots of the card's own receive ring; 0: none, or unknown */
	bool has_device;          /* a card, or one that a hypervisor emulates */
};

int xdp_interface_read(struct xdp_interface *interface, const char *name, struct failure *failure);
/** Its MTU, now. 0: it is not there. */
uint32_t xdp_interface_mtu(const struct xdp_interface *interface);
/** The receive queues in use, now. 0: the driver does not say. */
uint32_t xdp_interface_count_queues(const struct xdp_interface *interface);

/* ---- card queues: xdp_card_queue.c ----------------------------------------------------------------- */

struct xdp_backend;

struct xdp_card_queue {
	struct xdp_backend *backend;
	uint32_t number; /* the receive queue's number */
	int anchor_fd;
	uint8_t *frames;
	uint32_t n_frames;
	uint32_t frame_bytes;
	struct xdp_ring fill;
	struct xdp_ring completion;
	struct xdp_ring unused; /* bind() wants a receive or send ring on every socket */
	pthread_mutex_t fill_lock;
	/* Under the lock: frames of free queue numbers, and how many frames to take out of use as they come back. */
	uint64_t *spare;
	uint32_t n_spare;
	uint32_t n_excess;
};

/** It has no sockets of queues yet. */
int xdp_card_queue_init(struct xdp_card_queue *card_queue, struct xdp_backend *backend, uint32_t number,
                        struct failure *failure);
/** Any state. After all sockets of the card queue. */
void xdp_card_queue_deinit(struct xdp_card_queue *card_queue);

/** A queue begins to receive: its frames come into use. */
void xdp_card_queue_admit(struct xdp_card_queue *card_queue, uint32_t queue);
/** The queue has ended. */
void xdp_card_queue_dismiss(struct xdp_card_queue *card_queue, uint32_t queue);
/** Put frames into the fill ring again, unless they go out of use. The caller has the lock. */
void xdp_card_queue_fill(struct xdp_card_queue *card_queue, const uint64_t *frames, uint32_t n);

/** bind() with patience: the kernel needs some 25 ms to release the sockets of another process. 0 or -errno. */
int xdp_bind(int fd, const struct xdp_card_queue *card_queue, uint16_t flags, int shared_fd);
/** A socket that is not bound yet. -errno and the failure. */
int xdp_open_socket(const struct xdp_backend *backend, struct failure *failure);

/* ---- sockets of a queue: xdp_socket.c -------------------------------------------------------------- */

#define XDP_RETURNED_MAX 128 /* frames that a socket has in hand */

struct xdp_socket {
	struct xdp_card_queue *card_queue; /* NULL: the socket is not open */
	int fd;
	bool is_bound;
	bool is_watched; /* by the queue's epoll */
	struct xdp_ring receive;
	uint64_t returned[XDP_RETURNED_MAX]; /* frames to be put into the fill ring again */
	uint32_t n_returned;
};

/* Packets lost, as the kernel counts them. */
struct xdp_socket_drops {
	uint64_t no_frame;
	uint64_t ring_full;
};

int xdp_socket_init(struct xdp_socket *socket, struct xdp_card_queue *card_queue, struct failure *failure);
/** Let it receive the queue's packets of its card queue, unless it does already. */
int xdp_socket_bind(struct xdp_socket *socket, uint32_t queue, struct failure *failure);
/** Any state. */
void xdp_socket_deinit(struct xdp_socket *socket);

/** Put the frames in hand into the fill ring. wait: even if another worker is about it at present. */
void xdp_socket_give_back(struct xdp_socket *socket, bool wait);
/**
 * Any thread: wake the driver if it has asked for that. The driver asks when it finds the fill ring empty, which may be
 * just after frames were given back; with no frames in hand, no worker would give any back afterwards.
 */
void xdp_socket_answer_driver(const struct xdp_socket *socket);
/* The packet is copied. */
static inline void xdp_socket_return_frame(struct xdp_socket *socket, const struct xdp_desc *descriptor)
{
	socket->returned[socket->n_returned++] = descriptor->addr & ~(uint64_t)(socket->card_queue->frame_bytes - 1);
	if (socket->n_returned == XDP_RETURNED_MAX)
		xdp_socket_give_back(socket, true);
}

/** Give back the frames of all packets that are in the receive ring. */
void xdp_socket_drain(struct xdp_socket *socket);
/** 0 or -errno. */
int xdp_socket_read_drops(const struct xdp_socket *socket, struct xdp_socket_drops *drops);
/** The kernel has taken the interface from the socket for ever: it was deleted, or is in another namespace now. */
bool xdp_socket_is_unbound(const struct xdp_socket *socket);

/* ---- the backend: xdp.c ---------------------------------------------------------------------------- */

struct xdp_receive;

struct xdp_backend {
	struct backend base;
	struct xdp_interface interface;
	enum backend_xdp_mode mode;
	bool zero_copy; /* the kernel's choice */
	uint32_t n_queues;
	uint32_t *depths; /* descriptors of the receive ring of a queue number */
	struct xdp_program *program;
	struct xdp_card_queue
		*card_queues;        /* room for max_card_queues of the interface, of which n_card_queues are in use */
	struct xdp_socket *sockets;  /* of queue q on card queue c: q * max_card_queues + c */
	struct xdp_receive **queues; /* of each number; NULL: the number is free */
	uint32_t n_card_queues_seen; /* card queues at the last xdp_follow_card_queues() */
	bool was_behind;             /* since xdp_may_lose_uncounted() some did not run the program */
	bool is_behind;              /* some do not run the program, and the kernel refuses to change that */
	bool told_program;           /* the log says that another process has taken the program away */
	/* On a kernel without packets of several frames: longer packets are lost without a count. 0: no limit. */
	uint32_t mtu_max;
	bool told_mtu; /* that the interface's is larger now */
	struct socket_discipline discipline;
	pthread_mutex_t
		changing; /* held while the control thread or the device's thread changes data that the other uses */
};

static inline struct xdp_backend *xdp_backend(const struct backend *base)
{
	return (struct xdp_backend *)base;
}

/* ---- a queue: xdp_receive.c, xdp_queue.c ----------------------------------------------------------- */

struct xdp_receive {
	struct backend_queue base;
	struct xdp_backend *backend;
	uint32_t number;
	struct xdp_socket *sockets; /* one for each card queue */
	_Atomic uint32_t n_sockets;
	uint32_t turn; /* the socket that poll() begins with */
	bool timestamps;
	struct flow_tags *tags;         /* NULL: events have no tags */
	_Atomic uint64_t tai_offset_ns; /* CLOCK_TAI - CLOCK_REALTIME */
	struct posted_rows rows;
	_Atomic uint64_t n_taken; /* packets taken out of the receive rings */

	int wake_fd;  /* epoll on the sockets without a packet since arm(); -1: no completion events */
	bool arm_due; /* arm() was called while no slot was posted */

	/* The counts of the queue's number when the queue was made. */
	struct flow_counts counts_before;
	struct xdp_socket_drops drops_before;
	_Atomic bool flows_removed; /* since the last reading: packets may still be on their way */
};

static inline struct xdp_receive *xdp_receive(const struct backend_queue *base)
{
	return (struct xdp_receive *)base;
}

int xdp_create_queue(struct backend *backend, const struct backend_queue_options *options, struct backend_queue **queue,
                     struct failure *failure);
void xdp_destroy_queue(struct backend_queue *base);

int xdp_post(struct backend_queue *base, const struct backend_run *run);
int xdp_poll(struct backend_queue *base, struct backend_event *events, uint32_t max);
int xdp_arm(struct backend_queue *base);
/** Let the queue's epoll report the socket. Not while its worker may poll the socket. 0 or -errno. */
int xdp_watch_socket(const struct xdp_receive *receive, struct xdp_socket *socket);
void xdp_clear(struct backend_queue *base);

/** A card queue was added: receive from it, too. 0 or -errno and the failure. */
int xdp_queue_add_socket(struct xdp_receive *receive, struct failure *failure);

/* ---- card queues that come later: xdp_follow.c ----------------------------------------------------- */

/** Open a card queue and the sockets of all queues on it. Failed: it is closed again. */
int xdp_open_card_queue(struct xdp_backend *backend, uint32_t number, struct failure *failure);
/** Any state. */
void xdp_close_card_queue(struct xdp_backend *backend, uint32_t number);
/** Log once that the MTU has become larger than the backend can receive. The device's thread. */
void xdp_follow_mtu(struct xdp_backend *backend);
/** If the interface has more card queues than before (ethtool -L), receive from them. The device's thread. */
void xdp_follow_card_queues(struct xdp_backend *backend);

/* ---- a group of queues: xdp_queue.c ---------------------------------------------------------------- */

#define XDP_GROUP_MAX 16 /* members; the program has room for no more */
/* Queue numbers of an interface, because the program keeps those of members in bytes. */
#define XDP_QUEUES_MAX 256

/* The queues that the packets of a flow may come to. */
struct xdp_members {
	struct xdp_receive *at[XDP_GROUP_MAX];
	uint32_t n;
};

struct xdp_group {
	struct backend_queue base;
	struct xdp_members members;
};

int xdp_create_group(struct backend *base, const struct backend_group_options *options, struct backend_queue **group,
                     struct failure *failure);
/* The operations of a group; xdp_add_flow() takes a group, too. */
extern const struct backend_ops xdp_group_ops;

/** Or NULL: it is a queue. */
static inline const struct xdp_group *xdp_group(const struct backend_queue *base)
{
	return base->ops == &xdp_group_ops ? (const struct xdp_group *)base : NULL;
}

/* ---- flows and counts: xdp_flow.c, xdp_statistics.c ------------------------------------------------ */

int xdp_add_flow(struct backend_queue *base, const struct flow_rule *rule, struct backend_flow **flow,
                 struct failure *failure);
void xdp_remove_flow(struct backend_flow *flow);

/** Read again how far CLOCK_TAI is from UTC: a time daemon may set it, and there are leap seconds. */
void xdp_read_tai_offset(struct xdp_receive *receive);
/** The counts of a new queue begin now. 0 or -errno. */
int xdp_statistics_begin(struct xdp_receive *receive);
int xdp_read_matched(struct backend_queue *base, uint64_t *packets);
uint64_t xdp_read_refused(struct backend *base, bool wait);
bool xdp_may_lose_uncounted(struct backend *base); /* xdp_follow.c */

#endif
