// SPDX-License-Identifier: Apache-2.0
/*
 * Which backend `backend = "auto"` takes for an interface, and why. The daemon and `ibvcap doctor` ask the same
 * function. verbs where an RDMA device is behind the interface: nothing else is as fast. Else xdp on a network card
 * whose driver has native XDP, unless a stream needs what only packet has. Else packet: on veth, a socket's packet
 * becomes an XDP frame only after the driver has copied it, so that packet sockets with a drop program cost 0 to 25 %
 * less than native XDP there; and generic XDP, which is all that other interfaces have, is no faster than packet
 * sockets on any.
 */
#ifndef DAEMON_BACKEND_CHOICE_CHOICE_H
#define DAEMON_BACKEND_CHOICE_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#define BACKEND_CHOICE_TEXT_BYTES 256

struct backend_choice_facts {
	bool has_rdma_device; /* behind the interface, and this process can use it */
	char driver[32];      /* the interface's driver; "": it has none, or its name is unknown */
	bool leaves_packets;  /* flows leave packets to the kernel, which xdp cannot */
	bool wants_card_time; /* streams have timestamps = "hardware", which xdp cannot */
	bool is_card;         /* a network card, or one that a hypervisor emulates; not veth, lo, a tunnel */
	enum {
		BACKEND_CHOICE_XDP_NONE,
		BACKEND_CHOICE_XDP_NATIVE,
		BACKEND_CHOICE_XDP_LIKELY, /* the kernel does not say, but many versions of this driver have it */
	} native_xdp;
	uint32_t xdp_program; /* ID of the one that another process has attached; 0: none */
	bool builds_xdp;      /* this build has the backend */
	bool has_af_xdp;      /* the kernel has such sockets */
	bool has_bpf;         /* CAP_BPF; or an XDP program is kept for the interface; so is the next */
	bool has_net_admin;   /* CAP_NET_ADMIN */
	bool gave_up_rights;  /* the daemon had the missing rights when it started */
	bool keeps_drop;      /* a program that does so is kept for the interface, and needs no right any more */
	bool has_tcx;         /* the kernel can drop what packet sockets took, before its stack handles it */
};

struct backend_choice {
	const char *backend; /* its name */
	char why[BACKEND_CHOICE_TEXT_BYTES];
	char better[BACKEND_CHOICE_TEXT_BYTES];  /* a faster backend, and what it needs; "": there is none */
	char command[BACKEND_CHOICE_TEXT_BYTES]; /* for the shell, that brings it; "": there is no such command */
	bool is_second_best;                     /* that is another backend */
};

/**
 * True: xdp is not possible on the interface. choice->why says why; better and command say what would make it possible.
 * Pure.
 */
bool backend_choice_lacks_xdp(const struct backend_choice_facts *facts, struct backend_choice *choice);

/** Pure. */
void backend_choice_make(const struct backend_choice_facts *facts, struct backend_choice *choice);

/** Reads facts of an interface, and of this process and kernel. Opens no device; asks the kernel, which may wait. */
void backend_choice_read(const char *interface, struct backend_choice_facts *facts);

#endif
