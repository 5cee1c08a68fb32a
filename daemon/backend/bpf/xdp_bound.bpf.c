/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The XDP program that is bound to one interface: it can ask the driver for the card's time of a frame. */
#define XDP_IS_BOUND
#include "xdp.bpf.c"
