// SPDX-License-Identifier: Apache-2.0
/* The connection manager as programs see it: /dev/infiniband/rdma_cm (drivers/infiniband/core/ucma.c, cma.c). */
#ifndef SOFTHCA_CM_CM_H
#define SOFTHCA_CM_CM_H

#include "../uverbs/fdtab.h"

#include <stddef.h>
#include <sys/types.h>

struct device;

/* One in a process; zeroed at first. */
struct cm {
	pthread_mutex_t lock; /* of everything that the files and identifiers have */
	struct fdtab *fdtab;
	struct device *devices;
	unsigned int n_devices;
	struct cm_id **ids; /* by handle */
	uint32_t n_ids;
};

struct cm_file;

void cm_init(struct cm *cm, struct fdtab *fdtab, struct device *devices, unsigned int n_devices);
/* Opens the device: a descriptor, which is in the table, or negative errno. */
int cm_open(struct cm *cm, int flags);
/* A command. The number of bytes, or negative errno. `fd` is the descriptor that the program used. */
ssize_t cm_write(struct cm_file *file, int fd, const void *buf, size_t bytes);

#endif
