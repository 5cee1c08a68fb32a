// SPDX-License-Identifier: Apache-2.0
/* A request of RDMA netlink with its attributes, and the messages of the answer. */
#ifndef SOFTHCA_NLDEV_NLDEV_MESSAGE_H
#define SOFTHCA_NLDEV_NLDEV_MESSAGE_H

#include "nldev.h"

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdbool.h>

struct nldev_request {
	const struct nldev *nldev;
	struct nlmsghdr head;
	const struct nlattr *attrs[RDMA_NLDEV_ATTR_MAX]; /* by type; of a type that comes twice the last */
};

/* Finds the attributes in the bytes behind the header. 0 or -EINVAL. Attributes of later kernels are ignored. */
int nldev_request_parse(struct nldev_request *r, const uint8_t *attrs, size_t bytes);
/* The value of an attribute of type u32. False if it is missing or too short. */
bool nldev_request_u32(const struct nldev_request *r, int type, uint32_t *value);
/* Is the attribute a text (with or without its NUL) that equals `text`? */
bool nldev_request_is_text(const struct nldev_request *r, int type, const char *text);
/* The device that the request names, or NULL. */
struct device *nldev_request_device(const struct nldev_request *r);
/* The device and the port that the request names. 0 or -EINVAL. */
int nldev_request_port(const struct nldev_request *r, struct device **device, uint32_t *port);

/* A program that reads with a buffer of a page must get whole messages (NLMSG_GOODSIZE; libmnl). */
#define NLDEV_MESSAGE_BYTES 3800

/* A put that finds no room has no effect; the callers' messages are short, and they ask for the room of a table. */
struct nldev_message {
	const struct nldev_request *request;
	size_t used;
	_Alignas(8) uint8_t bytes[NLDEV_MESSAGE_BYTES];
};

void nldev_begin(struct nldev_message *m, const struct nldev_request *r, uint16_t flags);
void nldev_put(struct nldev_message *m, int type, const void *value, size_t bytes);
void nldev_put_u8(struct nldev_message *m, int type, uint8_t value);
void nldev_put_u32(struct nldev_message *m, int type, uint32_t value);
void nldev_put_u64(struct nldev_message *m, int type, uint64_t value);
void nldev_put_text(struct nldev_message *m, int type, const char *text);
/* Begins a nested attribute; nldev_end() takes the returned place. */
size_t nldev_nest(struct nldev_message *m, int type);
void nldev_end(struct nldev_message *m, size_t nest);
/* Index and name of a device (fill_nldev_handle). */
void nldev_put_handle(struct nldev_message *m, const struct device *d);
void nldev_send(struct nldev_message *m);
/* NLMSG_ERROR, which acknowledges the request if `error` is 0, or NLMSG_DONE. */
void nldev_send_status(const struct nldev_request *r, uint16_t type, int error);

/* Handlers of requests: 0 or negative errno. */
typedef int nldev_handler(const struct nldev_request *r);
nldev_handler nldev_resource_summary, nldev_resource_get, nldev_resource_dump;

#endif
