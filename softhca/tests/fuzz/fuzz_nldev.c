// SPDX-License-Identifier: Apache-2.0
/*
 * What a program may send to RDMA netlink: the input is one datagram. Every answer has to be a message whose lengths
 * and attributes add up.
 */
#include "softhca/device/device.h"
#include "softhca/nldev/nldev.h"
#include "softhca/uverbs/uverbs.h"
#include "softhca/tests/fuzz/fuzz_input.h"

#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_DEVICES   2
#define MAX_MESSAGE 4096

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct device devices[N_DEVICES];
static struct clock device_clock;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct settings settings = fuzz_settings(&device_clock);

	(void)argc;
	(void)argv;
	for (unsigned int i = 0; i < N_DEVICES; i++) {
		settings.device.eswitch = i ? ESWITCH_SWITCHDEV_VPORT : ESWITCH_LEGACY;
		device_init(&devices[i], &settings.device, i, &uverbs_events);
	}
	return 0;
}

static void check_attributes(const uint8_t *at, size_t bytes)
{
	while (bytes) {
		struct nlattr a;

		must(bytes >= sizeof(a));
		memcpy(&a, at, sizeof(a));
		must(a.nla_len >= sizeof(a) && NLA_ALIGN(a.nla_len) <= bytes);
		if (a.nla_type & NLA_F_NESTED)
			check_attributes(at + sizeof(a), a.nla_len - sizeof(a));
		at += NLA_ALIGN(a.nla_len);
		bytes -= NLA_ALIGN(a.nla_len);
	}
}

static void check_message(void *arg, const void *message, size_t bytes)
{
	struct nlmsghdr head;

	(void)arg;
	must(bytes >= sizeof(head) && bytes <= MAX_MESSAGE);
	memcpy(&head, message, sizeof(head));
	must(head.nlmsg_len == bytes && head.nlmsg_pid == 77);
	if (head.nlmsg_type >= NLMSG_MIN_TYPE)
		check_attributes((const uint8_t *)message + sizeof(head), bytes - sizeof(head));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct nldev n = {
		.devices = devices,
		.n_devices = N_DEVICES,
		.port_id = 77,
		.emit = check_message,
	};
	uint8_t *datagram = malloc(size ? size : 1);

	must(datagram);
	memcpy(datagram, data, size);
	nldev_answer(&n, datagram, size);
	free(datagram);
	return 0;
}
