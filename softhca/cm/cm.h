// SPDX-License-Identifier: Apache-2.0
/*
 * The connection manager as programs see it: /dev/infiniband/rdma_cm (drivers/infiniband/core/ucma.c, cma.c). Declares
 * cm_command.c, cm_file.c.
 */
#ifndef SOFTHCA_CM_CM_H
#define SOFTHCA_CM_CM_H

#include "../roce/roce_packet.h"
#include "../uverbs/fdtab.h"
#include "cm_message.h"

#include <stddef.h>
#include <sys/types.h>

struct device;

#define CM_MAX_ARRIVED 64u

struct cm_datagram {
	struct device *device;
	struct cm_message message;
	struct roce_path answer; /* the way back */
};

/* One in a process. */
struct cm {
	pthread_mutex_t lock; /* of everything that the files and identifiers have */
	struct fdtab *fdtab;
	struct device *devices;
	unsigned int n_devices;
	struct cm_id **ids; /* by handle */
	uint32_t n_ids;
	uint32_t next_communication; /* identifier of a connection */
	uint32_t next_group;
	uint32_t open_devices; /* a bit for each device whose datagrams come here */
	/* The thread resolves addresses, takes datagrams and sends them again. */
	pthread_t thread;
	bool runs;
	int wake_fd; /* a byte wakes the thread */
	/* Datagrams from the devices to the thread. If there is no room, a datagram is lost. */
	pthread_mutex_t arrived_lock; /* taken after that of a device */
	struct cm_datagram arrived[CM_MAX_ARRIVED];
	unsigned int n_arrived, n_taken;
};

struct cm_file;

void cm_init(struct cm *cm, struct fdtab *fdtab, struct device *devices, unsigned int n_devices);
/* Ends all identifiers, so that peers learn it, when the process exits. */
void cm_leave(struct cm *cm);
/* Opens the device: a descriptor, which is in the table, or negative errno. */
int cm_open(struct cm *cm, int flags);
/* A command. The number of bytes, or negative errno. `fd` is the descriptor that the program used. */
ssize_t cm_write(struct cm_file *file, int fd, const void *buf, size_t bytes);

#endif
