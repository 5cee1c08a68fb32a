// SPDX-License-Identifier: Apache-2.0
/*
 * A wire in place of the one in wire.c: wire_open() gives it to the device, and the program defines what it brings and
 * takes. It counts nothing.
 */
#ifndef TESTS_FAKE_WIRE_H
#define TESTS_FAKE_WIRE_H

#include "softhca/wire/wire.h"

/* As the members of struct wire_ops. */
int fake_wire_receive(struct wire *wire, struct wire_frame *frames, int max);
void fake_wire_release(struct wire *wire);
int fake_wire_send(struct wire *wire, const struct iovec *const *iov, const int *iovcnt, int n);
void fake_wire_wait(struct wire *wire, unsigned int timeout_us);

#endif
