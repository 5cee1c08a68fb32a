// SPDX-License-Identifier: Apache-2.0
/*
 * The uverbs character device, as the preload library calls it. Errors are negative errno. Declares cmd_device.c,
 * ioctl_methods.c, uverbs_file.c, write_commands.c.
 */
#ifndef SOFTHCA_UVERBS_UVERBS_H
#define SOFTHCA_UVERBS_UVERBS_H

#include "objects.h"

#include <sys/types.h>

struct uverbs_env {
	struct fdtab *fdtab;
	struct memlock *memlock;
	struct clock *clock;
};

/* Opens the device: returns a descriptor, which is in the table. */
int uverbs_open(struct device *device, const struct uverbs_env *env, int flags);
ssize_t uverbs_write(struct uverbs_file *file, const void *buf, size_t bytes);
int uverbs_ioctl(struct uverbs_file *file, void *arg);

/* enum ib_port_state, enum ib_port_phys_state */
enum { PORT_STATE_DOWN = 1, PORT_STATE_ACTIVE = 4 };
enum { PORT_PHYS_DISABLED = 3, PORT_PHYS_LINK_UP = 5 };

struct ib_uverbs_query_device_resp;
/* The attributes of the device (QUERY_DEVICE). */
void uverbs_fill_device(const struct device *d, struct ib_uverbs_query_device_resp *r);

#endif
