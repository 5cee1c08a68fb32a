// SPDX-License-Identifier: Apache-2.0
/*
 * A stand-in for /dev/udmabuf, for machines whose kernel has none: makes "dma-bufs" that only softhca takes for such.
 * The descriptor is one more of the memfd. Therefore a buffer begins at the start of its memfd.
 */
#ifndef SOFTHCA_PRELOAD_UDMABUF_H
#define SOFTHCA_PRELOAD_UDMABUF_H

#include "root.h"

#define UDMABUF_PATH "/dev/udmabuf"

/* Is there no real one? */
bool udmabuf_is_missing(void);
/* ioctl() on the device: the new descriptor or negative errno. */
int udmabuf_ioctl(struct root *root, unsigned long request, const void *arg);
/* ioctl() on such a descriptor. */
int udmabuf_ioctl_buffer(unsigned long request, const void *arg);

#endif
