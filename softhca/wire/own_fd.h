// SPDX-License-Identifier: Apache-2.0
/* Descriptors of softhca itself have high numbers, so that the low ones stay free for the program. */
#ifndef SOFTHCA_WIRE_OWN_FD_H
#define SOFTHCA_WIRE_OWN_FD_H

/* A duplicate with such a number, or negative errno. */
int own_fd_copy(int fd);
/* Moves `fd`, or passes on the errno of the call that has returned -1. */
int own_fd(int fd);
/* Not close(), which is the interposed one. No effect for a negative number. */
void own_fd_close(int fd);

#endif
