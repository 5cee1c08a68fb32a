// SPDX-License-Identifier: Apache-2.0
/* The names of a network interface: the one that the kernel lists it under, and up to 127 characters of others. */
#ifndef LIB_BASE_INTERFACE_NAME_H
#define LIB_BASE_INTERFACE_NAME_H

#include <net/if.h>

#define INTERFACE_NAME_BYTES 128 /* ALTIFNAMSIZ of the kernel: any name, with its NUL */

/**
 * Ask the kernel for the name of the interface that has this name, or this other name (altname in ip-link(8)). 0;
 * -ENODEV: this network namespace has none; -errno.
 */
int interface_name_find(const char *given, char name[IFNAMSIZ]);

#endif
