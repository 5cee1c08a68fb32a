// SPDX-License-Identifier: Apache-2.0
/*
 * Shared by the files of the packet backend. It receives and sends with AF_PACKET sockets (packet(7)) without special
 * hardware: the kernel copies each matching frame to a ring that it shares with the daemon (TPACKET_V2), and the worker
 * copies it from there to the slot. Interfaces of tunnels have no Ethernet headers. Rows have one there that is made
 * up, so that all have the same layout. Declares af_packet_claims.c, af_packet_fanout.c, af_packet_filter.c,
 * af_packet_flow.c, af_packet_group.c, af_packet_queue.c, af_packet_receive.c, af_packet_ring.c,
 * af_packet_row.c, device_time.c.
 */
#ifndef DAEMON_BACKEND_PACKET_AF_PACKET_H
#define DAEMON_BACKEND_PACKET_AF_PACKET_H

#include "daemon/backend/backend.h"
#include "daemon/backend/bpf/flow_tags.h"
#include "daemon/backend/bpf/packet_program.h"
#include "daemon/backend/posted_rows.h"
#include "daemon/backend/socket/kernel_path.h"

#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <pthread.h>

extern const struct backend_ops af_packet_ops;

/*
 * The time at which an interface's card received a packet, from packet sockets, by the card's precision clock. Another
 * program may set that clock. The card is set up when the interface is opened, because a part of that takes
 * capabilities which the daemon drops.
 */
struct device_time {
	char interface[IFNAMSIZ];
	int clock_fd;                /* -1: packets have the kernel's time */
	char why[BACKEND_WHY_BYTES]; /* then: why */
	bool was_off;                /* at the last look, and the log has it: the card stamps fewer packets */
};

/** If the card stamps all packets (options->stamp_packets: it is made to), open its clock. The log says what failed. */
void device_time_open(struct device_time *time, const struct backend_open_options *options);
/** Any state after open. */
void device_time_close(struct device_time *time);

static inline bool device_time_is_open(const struct device_time *time)
{
	return time->clock_fd >= 0;
}

/** The backend's timestamps: of the card, or else the kernel's. */
void device_time_describe(const struct device_time *time, struct backend_capabilities *capabilities);
/** As read_clock of the backend. */
int device_time_read_clock(const struct device_time *time, struct backend_clock_reading *reading);
/** Log once that another program has made the card stamp fewer packets. The device's thread. */
void device_time_follow(struct device_time *time);

/* ---- af_packet_fanout.c -------------------------------------------------------------------------- */

#define AF_PACKET_FANOUT_MAX PACKET_PROGRAM_SOCKETS_MAX

struct af_packet_fanout_member {
	int fd;
	bool is_taken; /* by a queue */
};

/* Sockets that are one group, in the order in which they were made. */
struct af_packet_fanout {
	struct af_packet_fanout_member at[AF_PACKET_FANOUT_MAX];
	uint32_t n;       /* 0: there is no group */
	uint64_t n_turns; /* given to sockets, of all time */
	uint64_t turn;    /* the turn of the next socket; n_turns: there is none */
	pthread_cond_t turned;
};

struct af_packet {
	struct backend base;
	char interface[IFNAMSIZ];
	int index;
	uint8_t mac[6];
	bool has_ethernet;              /* else a packet begins with its IP header */
	struct packet_program *program; /* of the fanout group; NULL: a classic filter, new for each change of flows */
	bool drops;                     /* the program keeps the packets of flows from the kernel's stack */
	struct af_packet_fanout fanout;
	char how[BACKEND_HOW_BYTES]; /* text of the capabilities */
	struct device_time time;
	struct socket_discipline discipline;
	pthread_mutex_t changing;     /* flows, queues and fanout: a reload makes queues in a thread of its own */
	struct af_packet_flow *flows; /* the flows of all queues, newest first */
	struct af_packet_receive *queues;
};

struct af_packet_flow {
	struct backend_flow base;
	struct af_packet_flow *next;
	struct flow_rule rule;
	int reader;       /* -1: none */
	bool is_in_table; /* in the program's table */
};

/**
 * Make the group for the interface's program. 0 or -errno; -EINVAL: the interface is down, and the kernel older than
 * 6.13. The other calls are for a backend whose group is open, and with `changing`.
 */
int af_packet_fanout_open(struct af_packet *backend);
/** Any state. */
void af_packet_fanout_close(struct af_packet *backend);
/**
 * The index of a free member for a queue. Its socket has no ring yet, and takes no frame. 0: none is free; or -errno.
 */
int af_packet_fanout_take(struct af_packet *backend);
/** The queue has given that socket its ring, or failed to. Until then the caller keeps `changing`. */
void af_packet_fanout_finish(struct af_packet *backend, uint32_t index);
/** Is there room for one more member? */
bool af_packet_fanout_have_room(const struct af_packet *backend);
/** A socket for a new member, which takes no frame, and its turn. Or -errno and the failure. */
int af_packet_fanout_make_socket(struct af_packet *backend, uint64_t *turn, struct failure *failure);
/**
 * Wait for the turn, without `changing`; then the socket, which has its ring, joins the group. Returns its index, or
 * -errno. fd < 0: it got no ring, and does not join. Must be called for each turn: the next socket waits for it.
 */
int af_packet_fanout_enter(struct af_packet *backend, uint64_t turn, int fd);
/** From now on the member's socket takes the frames that the program has for its index. 0 or -errno. */
int af_packet_fanout_accept(struct af_packet *backend, uint32_t index);
/** No flow leads to the member any more, and its ring is not mapped. */
void af_packet_fanout_give_back(struct af_packet *backend, uint32_t index);

/* ---- af_packet_claims.c -------------------------------------------------------------------------- */

struct af_packet_receive;

#define AF_PACKET_WHOLE_FRAME 0x40000

/* Packets that a queue takes, or leaves to another one. The first claim that a packet fulfils counts. */
struct af_packet_claim {
	struct flow_condition condition;
	uint32_t takes; /* the filter's result: AF_PACKET_WHOLE_FRAME, or a fanout index; 0: no frame */
};

/** The claims for the queue's filter, to be freed. Returns how many there are, or -ENOMEM. */
int af_packet_claims_new(const struct af_packet_receive *receive, struct af_packet_claim **claims);
/** Likewise, for the filter that says which member of the fanout group takes a packet. */
int af_packet_claims_of_group(const struct af_packet *backend, struct af_packet_claim **claims);
/** Do the claims of this queue change when a flow of another one comes or goes? */
bool af_packet_claims_change_by(const struct af_packet_receive *receive, const struct flow_rule *rule);

/* ---- af_packet_filter.c -------------------------------------------------------------------------- */

#define AF_PACKET_FILTER_MAX 4096 /* instructions: BPF_MAXINSNS */

/**
 * A classic filter that returns `takes` of the first claim that a packet fulfils, or 0. data_at: bytes of the frame
 * before the packet's data: none for the filter of a socket, the Ethernet header for that of a group. Returns the
 * number of instructions, or -E2BIG.
 */
int af_packet_filter_build(const struct af_packet_claim *claims, uint32_t n, bool has_ethernet, uint32_t data_at,
                           struct sock_filter code[AF_PACKET_FILTER_MAX]);
/** The socket takes no packet from now on. 0 or -errno. */
int af_packet_refuse_all(int fd);

/* ---- af_packet_ring.c ---------------------------------------------------------------------------- */

/* The ring of slots that the kernel fills, a frame each. */
struct af_packet_ring {
	uint8_t *blocks;
	uint32_t block_bytes;
	uint32_t n_blocks;
	uint32_t slot_bytes;
	uint32_t block_slots; /* in a block */
	uint32_t block;       /* block of the next slot to read; slot: its number in the block */
	uint32_t slot;
	uint8_t *next;
};

/** Bytes of a ring for n_frames of frame_bytes each. */
uint64_t af_packet_ring_bytes(uint32_t n_frames, uint32_t frame_bytes);
/** Give the socket a ring for n_frames of frame_bytes each, and map it. 0 or -errno. */
int af_packet_ring_init(struct af_packet_ring *ring, int fd, uint32_t n_frames, uint32_t frame_bytes);
/** Any state. */
void af_packet_ring_deinit(struct af_packet_ring *ring);

/** The next frame, which stays until af_packet_ring_release(). NULL: there is none. */
const struct tpacket2_hdr *af_packet_ring_next(const struct af_packet_ring *ring);
/** The frame is read: its slot goes back to the kernel. */
void af_packet_ring_release(struct af_packet_ring *ring);

/* ---- af_packet_row.c ----------------------------------------------------------------------------- */

#define AF_PACKET_HEADERS_MAX 256 /* Ethernet, VLAN tags, IP and UDP; in a tunnel, all of them twice */

struct af_packet_part {
	const uint8_t *bytes;
	uint32_t n;
};

/* A packet as it was on the wire, in the parts that go into a row one after another. */
struct af_packet_row {
	struct af_packet_part parts[3];
	uint32_t n_parts;
	uint32_t bytes; /* length of all parts, and of the bytes that the kernel has cut off behind them */
	uint8_t made[AF_PACKET_HEADERS_MAX]; /* a part that is not in the kernel's ring */
};

/* What the kernel says of a packet in which it has merged several. */
struct af_packet_merge {
	uint32_t payload_bytes; /* of each, but for the last one, which may be shorter; not 0 */
	uint32_t transport_at;  /* where the UDP or TCP header is that they had in common; 0: not known */
	uint8_t protocol;       /* of that header */
};

/**
 * Cut packet i out of one in which the kernel has merged several. Returns how many there are; 0: their headers are not
 * found, and the row stays as it is.
 */
uint32_t af_packet_row_cut(struct af_packet_row *row, const struct af_packet_merge *merge, uint32_t i);
/** How many there are in a row that cannot be cut, as far as is known. */
uint32_t af_packet_row_count(const struct af_packet_row *row, const struct af_packet_merge *merge);

/* ---- af_packet_queue.c, af_packet_receive.c, af_packet_flow.c --------------------------------------- */

struct af_packet_queue {
	struct backend_queue base;
	struct af_packet *backend;
	int fd;
};

struct af_packet_receive {
	struct af_packet_queue queue;
	uint32_t fanout_index; /* 0: outside the fanout group, so the socket's filter gets every packet */
	bool has_turn;         /* waits to become a member of the fanout group */
	uint64_t turn;
	struct af_packet_ring ring;

	struct posted_rows rows;
	bool timestamps;
	uint8_t flag_of_kernel_time; /* of events without the card's time; 0: none has it */
	struct flow_tags *tags;      /* NULL: events have no tags */

	bool wakes;       /* the worker sleeps on the socket */
	bool has_lengths; /* a frame has a struct virtio_net_hdr before it */
	uint32_t n_cut;   /* datagrams taken of the frame that is read */
	uint8_t *whole;   /* of AF_PACKET_WHOLE_BYTES: a frame that is longer than its slot, as the socket had it */
	uint32_t whole_bytes;

	struct af_packet_receive *next; /* in the list of the backend's queues */
	struct af_packet_group *group;  /* NULL: none */

	/* Each reading of the kernel's counts takes them away: one thread at a time reads and adds. */
	pthread_mutex_t reading;
	uint64_t n_matched;
};

static inline struct af_packet_receive *af_packet_receive(const struct backend_queue *base)
{
	return (struct af_packet_receive *)base;
}

#define AF_PACKET_GROUP_MAX CONFIG_QUEUES_MAX

/* Queues to which the kernel shares the packets of flows out. */
struct af_packet_group {
	struct af_packet_queue queue; /* the target of these flows, without descriptors */
	struct af_packet_receive *members[AF_PACKET_GROUP_MAX];
	uint32_t n_members;
	uint32_t n_joined; /* outside the fanout group: members that the kernel hashes to, from the first on */
};

/** Do packets of the flow come to this queue? */
static inline bool af_packet_is_flow_of(const struct af_packet_receive *receive, const struct af_packet_flow *flow)
{
	return flow->base.queue == &receive->queue.base ||
	       (receive->group && flow->base.queue == &receive->group->queue.base);
}

/* The longest packet: 64 KiB, several datagrams that the kernel has merged; and a struct virtio_net_hdr. */
#define AF_PACKET_WHOLE_BYTES (128u << 10)

int af_packet_create_queue(struct backend *backend, const struct backend_queue_options *options,
                           struct backend_queue **queue, struct failure *failure);
/** Any state. */
void af_packet_receive_free(struct backend_queue *base);
int af_packet_receive_fd(const struct backend_queue *base);
int af_packet_receive_arm(struct backend_queue *base);
void af_packet_receive_clear(struct backend_queue *base);
int af_packet_receive_reset(struct backend_queue *base);
int af_packet_post(struct backend_queue *base, const struct backend_run *run);
int af_packet_poll(struct backend_queue *base, struct backend_event *events, uint32_t max);
int af_packet_add_flow(struct backend_queue *base, const struct flow_rule *rule, struct backend_flow **flow,
                       struct failure *failure);
void af_packet_remove_flow(struct backend_flow *flow);
int af_packet_read_matched(struct backend_queue *base, uint64_t *packets);
/** Has the queue's socket a filter of its flows? A member of a fanout group with a program needs none. */
static inline bool af_packet_has_filter(const struct af_packet_receive *receive)
{
	return !receive->fanout_index || !receive->queue.backend->program;
}

/** Let the socket take the packets of the queue's flows. 0 or -errno; -E2BIG: they do not fit one filter. */
int af_packet_apply_flows(const struct af_packet_receive *receive);
/** Let the fanout group without a program give the packets of all flows to their members. Likewise. */
int af_packet_apply_group(const struct af_packet *backend);

/* ---- af_packet_group.c --------------------------------------------------------------------------- */

int af_packet_create_group(struct backend *backend, const struct backend_group_options *options,
                           struct backend_queue **group, struct failure *failure);
/** The queue that is a flow's target, or the first of the group that is. */
struct af_packet_receive *af_packet_first(struct backend_queue *target);
/** A queue outside the fanout group takes the packets of flows with copy; the kernel and other queues get them, too. */
static inline bool af_packet_is_beside(const struct af_packet_flow *flow)
{
	return !af_packet_first(flow->base.queue)->fanout_index &&
	       (flow->rule.copy || flow->rule.match == CONFIG_MATCH_DEFAULT);
}

/** May a flow come to this target? The first flow of a group outside the fanout group makes the kernel hash. */
int af_packet_group_admit(struct backend_queue *target, const struct flow_rule *rule, struct failure *failure);

#endif
