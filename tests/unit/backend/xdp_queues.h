// SPDX-License-Identifier: Apache-2.0
/* Streams of the xdp backend on a veth interface in a namespace of the test's own, and a sender of frames. */
#ifndef TESTS_UNIT_BACKEND_XDP_QUEUES_H
#define TESTS_UNIT_BACKEND_XDP_QUEUES_H

#include "daemon/backend/xdp/xdp.h"

#define SLOTS         256
#define HEADER_BYTES  42
#define HEADER_STRIDE 64
#define PORT          7502
#define N_QUEUES      4

struct stream {
	struct backend_queue *queue;
	struct backend_flow *flow;
	uint8_t *payload;
	uint8_t *headers;
	uint32_t slot_bytes;
	uint32_t payload_bytes; /* that it expects */
	uint64_t n_received;
	uint64_t n_wrong; /* of them, not of the length or the bytes that were sent */
};

extern struct backend *backend;
extern struct failure failure;
extern uint32_t queue_slots;  /* of the next stream; SLOTS of them are posted */
extern bool queue_timestamps; /* likewise */

/* For a test suite: a namespace; closes the backend. */
void set_up_xdp(void);
void tear_down_xdp(void);

/* Make the interface again, with this MTU and so many queues. */
void make_veth(const char *mtu, const char *queues);
int open_with(enum backend_xdp_mode mode, struct backend **out);
/* For send_frames(), at the other end of the interface. */
void open_sender(void);
/* All three; a machine without XDP skips the test. */
void open_backend(const char *mtu, const char *queues);
void send_frames(uint16_t port, uint32_t n, uint32_t payload_bytes);

/* UDP to a port of the interface's address. */
struct flow_rule stream_rule(uint16_t port);

int stream_create(struct stream *stream, uint32_t slot_bytes);
void stream_post(struct stream *stream, uint32_t slot, uint32_t n);
/* Create it, post all slots and add a flow to the port. */
void stream_open(struct stream *stream, uint16_t port, uint32_t slot_bytes);
void stream_close(struct stream *stream);
/* Take what is there. Returns how many packets. */
int stream_poll(struct stream *stream);
/* Until nothing has come for a while. */
void stream_take_all(struct stream *stream);

uint64_t stream_drops(const struct stream *stream, enum backend_drop reason);
uint64_t stream_all_drops(const struct stream *stream);
/* With nothing in flight. Returns what was matched. */
uint64_t expect_sum(const struct stream *stream);
/* Frames that are neither in a fill ring nor, a few for packets that found a ring full, in the kernel's hands. */
uint32_t n_frames_lost(void);

#endif
