// SPDX-License-Identifier: Apache-2.0
/*
 * Identifiers of the connection manager (struct rdma_cm_id): addresses, the device that they lead to, a port number,
 * and events for the file that has them. Everything here needs the manager's lock, if nothing else is said.
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

#define CM_QPS_ERR 6u /* IB_QPS_ERR, the last state of a queue pair */

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
	CM_ADDR_RESOLVED,
	CM_ROUTE_RESOLVED,
	CM_LISTEN,
};

struct cm_event {
	STAILQ_ENTRY(cm_event) link;
	struct cm_id *id; /* whose event it is, and that counts it when it is read */
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
	uint8_t sgid[16];
	unsigned int sgid_index;
	int port_fd; /* the socket whose name claims the port; -1: none */
	uint32_t n_events_reported;
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
/* rdma_resolve_addr: finds the device that leads to `dst`. An event follows. */
int cm_id_resolve_address(struct cm_id *id, const union cm_address *src, const union cm_address *dst);
/* rdma_resolve_route. An event follows. */
int cm_id_resolve_route(struct cm_id *id);
/* rdma_listen */
int cm_id_listen(struct cm_id *id);

/* Tells the program. No effect if there is no memory. */
void cm_event_add(struct cm_id *id, enum cm_event_type event, int32_t status);
/* Takes the event out of the file's queue and frees it. */
void cm_event_remove(struct cm_file *file, struct cm_event *e);
/* Moves the identifier with its events to another file. */
void cm_id_move(struct cm_id *id, struct cm_file *to);

/* What the queue pair needs to go to the state (rdma_init_qp_attr). The identifier has a device. */
struct ib_uverbs_qp_attr;
void cm_id_qp_attributes(const struct cm_id *id, uint32_t qp_state, struct ib_uverbs_qp_attr *attr);

/* The service identifier of an address in the identifier's port space (rdma_get_service_id). */
uint64_t cm_id_service(const struct cm_id *id, const union cm_address *a);
/* The GID of an IP address (rdma_ip2gid). */
void cm_address_gid(const union cm_address *a, uint8_t gid[16]);

#endif
