// SPDX-License-Identifier: Apache-2.0
/*
 * NETLINK_RDMA as the kernel answers it (drivers/infiniband/core/nldev.c): devices, ports, statistics, resources and
 * character devices of the emulated devices. Programs ask here first: libibverbs, librdmacm, rdma(8).
 */
#ifndef SOFTHCA_NLDEV_NLDEV_H
#define SOFTHCA_NLDEV_NLDEV_H

#include <stddef.h>
#include <stdint.h>

struct device;

struct nldev {
	struct device *devices;
	unsigned int n_devices;
	uint32_t port_id; /* of the socket that asks */
	/* Takes each message of the answer. */
	void (*emit)(void *arg, const void *message, size_t bytes);
	void *arg;
};

/* The numbers of the character devices, as GET_CHARDEV and the emulated files say them. */
#define UVERBS_MAJOR       231 /* IB_UVERBS_MAJOR, minors from 192 */
#define UVERBS_FIRST_MINOR 192
#define CM_MAJOR           10 /* MISC_MAJOR */
#define CM_MINOR           58 /* a minor number as the kernel gives it to a misc device without a fixed one */

/* Answers one datagram of a program, which may hold several requests. Any bytes are allowed; they lie on a boundary of
 * 4 bytes. */
void nldev_answer(const struct nldev *n, const void *datagram, size_t bytes);

#endif
