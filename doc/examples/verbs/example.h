// SPDX-License-Identifier: Apache-2.0
/*
 * What the examples in this directory share: they end at the first call that fails, and open a device by its name. If
 * the name or the command line is wrong, they say which devices there are.
 */
#include <infiniband/verbs.h>

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void check(int ok, const char *call)
{
	if (!ok)
		err(1, "%s", call);
}

static inline void list_devices(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	if (!devices || !devices[0])
		fputs("There is no RDMA device. One in software: softhca -i NETDEV -- COMMAND", stderr);
	for (int i = 0; devices && devices[i]; i++)
		fprintf(stderr, "%s%s", i == 0 ? "Devices: " : ", ", ibv_get_device_name(devices[i]));
	fputc('\n', stderr);
	if (devices)
		ibv_free_device_list(devices);
}

static inline void end_with_usage(const char *usage)
{
	fprintf(stderr, "usage: %s\n", usage);
	list_devices();
	exit(64);
}

static inline struct ibv_context *open_device(const char *name)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	for (int i = 0; devices && devices[i] && !context; i++)
		if (!strcmp(ibv_get_device_name(devices[i]), name))
			context = ibv_open_device(devices[i]);
	if (!context) {
		warnx("there is no RDMA device '%s', or it cannot be opened", name);
		list_devices();
		exit(1);
	}
	ibv_free_device_list(devices);
	return context;
}
