// SPDX-License-Identifier: Apache-2.0
/* Reads the attributes of requests, and builds the messages of answers. */
#include "nldev_message.h"

#include "../device/device.h"

#include <errno.h>
#include <string.h>

int nldev_request_parse(struct nldev_request *r, const uint8_t *attrs, size_t bytes)
{
	memset(r->attrs, 0, sizeof(r->attrs));
	while (bytes >= sizeof(struct nlattr)) {
		const struct nlattr *a = (const struct nlattr *)attrs;
		unsigned int type = a->nla_type & NLA_TYPE_MASK;
		size_t step = NLA_ALIGN((size_t)a->nla_len);

		if (a->nla_len < sizeof(*a) || a->nla_len > bytes)
			return -EINVAL;
		if (type < RDMA_NLDEV_ATTR_MAX)
			r->attrs[type] = a;
		attrs += step;
		bytes -= step < bytes ? step : bytes;
	}
	return bytes ? -EINVAL : 0;
}

bool nldev_request_u32(const struct nldev_request *r, int type, uint32_t *value)
{
	const struct nlattr *a = r->attrs[type];

	if (!a || a->nla_len < NLA_HDRLEN + sizeof(*value))
		return false;
	memcpy(value, a + 1, sizeof(*value));
	return true;
}

bool nldev_request_is_text(const struct nldev_request *r, int type, const char *text)
{
	const struct nlattr *a = r->attrs[type];
	size_t n = a ? strnlen((const char *)(a + 1), a->nla_len - NLA_HDRLEN) : 0;

	return a && n == strlen(text) && !memcmp(a + 1, text, n);
}

struct device *nldev_request_device(const struct nldev_request *r)
{
	uint32_t i;

	return nldev_request_u32(r, RDMA_NLDEV_ATTR_DEV_INDEX, &i) && i < r->nldev->n_devices ? &r->nldev->devices[i]
	                                                                                      : NULL;
}

int nldev_request_port(const struct nldev_request *r, struct device **device, uint32_t *port)
{
	*device = nldev_request_device(r);
	return *device && nldev_request_u32(r, RDMA_NLDEV_ATTR_PORT_INDEX, port) && *port &&
	                       *port <= device_port(*device)
	               ? 0
	               : -EINVAL;
}

void nldev_begin(struct nldev_message *m, const struct nldev_request *r, uint16_t flags)
{
	struct nlmsghdr head = {
		.nlmsg_type = r->head.nlmsg_type,
		.nlmsg_flags = flags,
		.nlmsg_seq = r->head.nlmsg_seq,
		.nlmsg_pid = r->nldev->port_id,
	};

	m->request = r;
	m->used = sizeof(head);
	memcpy(m->bytes, &head, sizeof(head));
}

void nldev_put(struct nldev_message *m, int type, const void *value, size_t bytes)
{
	struct nlattr a = {.nla_len = (uint16_t)(NLA_HDRLEN + bytes), .nla_type = (uint16_t)type};
	size_t step = NLA_ALIGN(NLA_HDRLEN + bytes);

	if (step > sizeof(m->bytes) - m->used)
		return;
	memset(m->bytes + m->used, 0, step);
	memcpy(m->bytes + m->used, &a, sizeof(a));
	if (bytes)
		memcpy(m->bytes + m->used + NLA_HDRLEN, value, bytes);
	m->used += step;
}

void nldev_put_u8(struct nldev_message *m, int type, uint8_t value)
{
	nldev_put(m, type, &value, sizeof(value));
}

void nldev_put_u32(struct nldev_message *m, int type, uint32_t value)
{
	nldev_put(m, type, &value, sizeof(value));
}

void nldev_put_u64(struct nldev_message *m, int type, uint64_t value)
{
	nldev_put(m, type, &value, sizeof(value));
}

void nldev_put_text(struct nldev_message *m, int type, const char *text)
{
	nldev_put(m, type, text, strlen(text) + 1);
}

size_t nldev_nest(struct nldev_message *m, int type)
{
	size_t nest = m->used;

	nldev_put(m, type | NLA_F_NESTED, NULL, 0);
	return nest;
}

void nldev_end(struct nldev_message *m, size_t nest)
{
	uint16_t bytes = (uint16_t)(m->used - nest);

	if (bytes)
		memcpy(m->bytes + nest + offsetof(struct nlattr, nla_len), &bytes, sizeof(bytes));
}

void nldev_put_handle(struct nldev_message *m, const struct device *d)
{
	nldev_put_u32(m, RDMA_NLDEV_ATTR_DEV_INDEX, d->index);
	nldev_put_text(m, RDMA_NLDEV_ATTR_DEV_NAME, d->name);
}

void nldev_send(struct nldev_message *m)
{
	uint32_t bytes = (uint32_t)m->used;

	memcpy(m->bytes + offsetof(struct nlmsghdr, nlmsg_len), &bytes, sizeof(bytes));
	m->request->nldev->emit(m->request->nldev->arg, m->bytes, m->used);
}

void nldev_send_status(const struct nldev_request *r, uint16_t type, int error)
{
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
	} message = {
		.head = {.nlmsg_len = type == NLMSG_DONE ? NLMSG_LENGTH(sizeof(error)) : sizeof(message),
	                 .nlmsg_type = type,
	                 .nlmsg_flags = type == NLMSG_DONE ? NLM_F_MULTI : NLM_F_CAPPED,
	                 .nlmsg_seq = r->head.nlmsg_seq,
	                 .nlmsg_pid = r->nldev->port_id},
		.error = {.error = error, .msg = r->head},
	};

	r->nldev->emit(r->nldev->arg, &message, message.head.nlmsg_len);
}
