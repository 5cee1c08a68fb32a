// SPDX-License-Identifier: Apache-2.0
/*
 * Identifiers of the connection manager (struct rdma_cm_id): addresses, the device that they lead to, a port number,
 * and events for the file that has them. Everything here needs the manager's lock, if nothing else is said. Declares
 * cm_event.c.
 */
#ifndef SOFTHCA_CM_CM_ID_H
#define SOFTHCA_CM_CM_ID_H

#include "cm.h"

#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/socket.h>

#define CM_AF_IB 27 /* AF_IB, which the C library does not name everywhere */

/* enum rdma_cm_event_type */
enum cm_event_type {
	CM_EVENT_ADDR_RESOLVED,
	CM_EVENT_ADDR_ERROR,
	CM_EVENT_ROUTE_RESOLVED,
	CM_EVENT_ROUTE_ERROR,
	CM_EVENT_CONNECT_REQUEST,
	CM_EVENT_CONNECT_RESPONSE,
	CM_EVENT_CONNECT_ERROR,
	CM_EVENT_UNREACHABLE,
	CM_EVENT_REJECTED,
	CM_EVENT_ESTABLISHED,
	CM_EVENT_DISCONNECTED,
	CM_EVENT_DEVICE_REMOVAL,
	CM_EVENT_MULTICAST_JOIN,
	CM_EVENT_MULTICAST_ERROR,
	CM_EVENT_ADDR_CHANGE,
	CM_EVENT_TIMEWAIT_EXIT,
};

/* struct sockaddr_ib */
struct cm_sockaddr_ib {
	uint16_t family;
	uint16_t pkey_be;
	uint32_t flowinfo_be;
	uint8_t gid[16];
	uint64_t sid_be, sid_mask_be, scope_id;
};

/* Any of the addresses that the interface has; as long as the largest. */
union cm_address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct cm_sockaddr_ib ib;
	struct __kernel_sockaddr_storage storage;
};

/* enum rdma_cm_state, of which an identifier here has these. */
enum cm_state {
	CM_IDLE,
	CM_ADDR_BOUND,
	CM_ADDR_QUERY,
	CM_ADDR_RESOLVED,
	CM_ROUTE_RESOLVED,
	CM_CONNECT,
	CM_DISCONNECT,
	CM_LISTEN,
};

/* States of the communication management (IBTA 12.9; enum ib_cm_state). */
enum cm_link_state {
	LINK_IDLE,
	LINK_REQ_SENT,
	LINK_REQ_RCVD,
	LINK_REP_SENT,
	LINK_REP_RCVD,
	LINK_ESTABLISHED,
	LINK_DREQ_SENT,
	LINK_DREQ_RCVD,
	LINK_TIMEWAIT,
	LINK_SIDR_SENT,
	LINK_SIDR_RCVD,
};

/* A connection, from the first message on. */
struct cm_link {
	enum cm_link_state state;
	uint32_t local_id, remote_id;
	uint64_t transaction;
	uint32_t remote_qpn, own_psn, peer_psn; /* own: with which the peer begins to send */
	uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count, path_mtu, ack_timeout;
	struct cm_message sent; /* that waits for its answer until the deadline, and is then sent again */
	uint64_t deadline_ns;   /* 0: nothing waits */
	uint32_t interval_ms;
	unsigned int n_left;
};

struct cm_event {
	STAILQ_ENTRY(cm_event) link;
	struct cm_id *id;       /* whose event it is, and that counts it when it is read */
	struct cm_group *group; /* that counts it, too; or NULL */
	struct rdma_ucm_event_resp resp;
};

struct cm_file {
	struct fd_object fd_object;
	struct cm *cm;
	STAILQ_HEAD(, cm_event) events;
	struct fd_object *late; /* a reference that the end of a command gives back, without the lock */
	int token_fd, peek_fd;  /* a byte lies in the program's socket while there are events */
};

struct cm_id {
	struct cm_file *file;
	uint32_t handle;
	uint64_t uid;
	enum rdma_ucm_port_space ps;
	uint8_t qp_type;
	enum cm_state state;
	union cm_address src, dst;
	struct device *device; /* or NULL */
	unsigned int sgid_index;
	struct roce_path path; /* from ADDR_RESOLVED on */
	struct cm_link link;
	unsigned int backlog;   /* connection requests that may wait to be read */
	struct cm_id *listener; /* whose event tells of this one, until the program has read it; else NULL */
	int port_fd;            /* the socket whose name claims the port; -1: none */
	uint32_t n_events_reported;
	LIST_HEAD(, cm_group) groups;
	uint8_t tos, ack_timeout;
	bool afonly;
};

/* A new identifier of the file, or NULL. */
struct cm_id *cm_id_new(struct cm_file *file, enum rdma_ucm_port_space ps, uint8_t qp_type);
/* Its events go, too. */
void cm_id_free(struct cm_id *id);
/* 0, -ENOENT, or -EINVAL if it is another file's (ucma_get_ctx). */
int cm_id_find(struct cm_file *file, uint32_t handle, struct cm_id **id);

/* The size of an address of a known family, else 0 (rdma_addr_size). */
size_t cm_address_bytes(const union cm_address *a);

/* rdma_bind_addr: takes the address' device, if it is not the unspecified address, and the port. 0; -EINVAL,
 * -EAFNOSUPPORT, -ENODEV, -EADDRINUSE, -EACCES. */
int cm_id_bind(struct cm_id *id, const union cm_address *a);
/* rdma_resolve_addr: finds the device that leads to `dst`. An event follows, or the state is ADDR_QUERY: then the
 * thread looks for the neighbour. */
int cm_id_resolve_address(struct cm_id *id, const union cm_address *src, const union cm_address *dst);
/* rdma_resolve_route. An event follows. */
int cm_id_resolve_route(struct cm_id *id);
/* rdma_listen */
int cm_id_listen(struct cm_id *id);

/* Tells the program. NULL if there is no memory. */
struct cm_event *cm_event_add(struct cm_id *id, enum cm_event_type event, int32_t status);
/* Takes the event out of the file's queue and frees it. */
void cm_event_remove(struct cm_file *file, struct cm_event *e);
/* Moves the identifier with its events to another file. */
void cm_id_move(struct cm_id *id, struct cm_file *to);

/* The service identifier of an address in the identifier's port space (rdma_get_service_id). */
uint64_t cm_id_service(const struct cm_id *id, const union cm_address *a);
/* Finds the device whose netdev has the address of the GID, and the index of the GID. 0 or -ENODEV. */
int cm_id_find_device(struct cm_id *id, const uint8_t gid[16]);
uint16_t cm_address_port(const union cm_address *a);
/* The IPv4 or IPv6 address behind a GID, with a port. */
void cm_address_from_gid(union cm_address *a, const uint8_t gid[16], uint16_t port);
/* The GID of an IP address (rdma_ip2gid). */
void cm_address_gid(const union cm_address *a, uint8_t gid[16]);

#endif
