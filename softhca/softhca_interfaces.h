// SPDX-License-Identifier: Apache-2.0
/* The network devices that a user named, by the names under which the kernel lists them. */
#ifndef SOFTHCA_SOFTHCA_INTERFACES_H
#define SOFTHCA_SOFTHCA_INTERFACES_H

/* The list with each name replaced: a network device has up to 127 characters of other names (altname in ip-link(8)).
 * To be freed. NULL after a line for the user: one of them is not there, or the list is empty. */
char *softhca_resolve_interfaces(const char *list);

#endif
