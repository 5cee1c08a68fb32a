// SPDX-License-Identifier: Apache-2.0
/*
 * The calls that the packet backend makes of the kernel, in place of the kernel's (the linker's --wrap): a test says
 * what they answer and which one fails, and looks at what was asked. Sockets are ends of socket pairs.
 */
#ifndef TESTS_UNIT_BACKEND_PACKET_KERNEL_H
#define TESTS_UNIT_BACKEND_PACKET_KERNEL_H

#include "daemon/backend/packet/af_packet.h"

#include <linux/filter.h>
#include <netinet/in.h>

#define KERNEL_CALLS_MAX 256

/* A setsockopt() that succeeded, a getsockopt() that is not SOL_PACKET, or a bind(). */
struct kernel_call {
	int fd;
	int level;
	int name; /* KERNEL_BIND: a bind() */
	int value;
	struct sockaddr_storage address; /* of a bind() */
	struct tpacket_req ring;         /* of PACKET_RX_RING */
	char text[16];                   /* of SO_BINDTODEVICE */
	int filter_n;                    /* of SO_ATTACH_FILTER and, without a program, PACKET_FANOUT_DATA */
	struct sock_filter filter_begin[4];
};
#define KERNEL_BIND (-1)

/* A flow in the table of the program. */
struct kernel_flow {
	struct flow_rule rule;
	struct flow_target target;
	int n_moves;
};
#define KERNEL_FLOWS_MAX 64

/* Descriptors of the program, and of the filter for index 0. */
#define KERNEL_PROGRAM_FD 5000
#define KERNEL_FILTER_FD  6000

extern struct kernel {
	struct kernel_call calls[KERNEL_CALLS_MAX];
	int n_calls;

	int fail_setsockopt_of; /* option name that fails; 0: none */
	int fail_setsockopt_after;
	int setsockopt_error;
	int bind_error;         /* of sockets that are no packet sockets; 0: none */
	int fanout_id;          /* that PACKET_FANOUT has after the first socket joined */
	int statistics_error;   /* of PACKET_STATISTICS */
	int statistics_read_of; /* the last socket */
	int statistics_slow;    /* so often the thread that reads lets others run */
	atomic_int n_in_statistics;
	uint32_t tp_packets;    /* the next reading, which takes them away */
	uint32_t tp_drops;      /* likewise */
	const char *release;    /* of uname() */
	unsigned hardware_type; /* of SIOCGIFHWADDR */
	int ioctl_error;        /* of the request that fails */
	unsigned long fail_ioctl;

	int program_load_result;
	int program_drop_result;
	int program_add_result;
	int program_group_result;
	int n_loaded; /* programs that are not freed */
	struct kernel_flow flows[KERNEL_FLOWS_MAX];
	int n_flows;                                 /* that the program has now */
	uint32_t group_indexes[AF_PACKET_GROUP_MAX]; /* of the last one */
	uint32_t n_group_indexes;
	bool group_has_ports;

	char log[4096]; /* warnings, one a line */
} kernel;

/** For a test suite. */
void set_up_kernel(void);

/** n of the calls that can fail are let through, then one fails; below 0: none does. */
void kernel_fail_after(int n);
bool kernel_has_failed(void);

/** The calls of this name on a socket (-1: any), from the first that is left in `kernel` on; NULL: there is no k-th. */
const struct kernel_call *kernel_find(int fd, int name, int k);
int kernel_count(int fd, int name);
void kernel_forget_calls(void);

/** In the program's table, which knows nothing of tag and copy, and replaces joins; NULL: none. */
const struct kernel_flow *kernel_find_flow(const struct flow_rule *rule);

/** An opened backend on an interface with Ethernet, without a program and without a card's time. */
void make_packet_backend(struct af_packet *backend);
/** Give it a program that drops, and a fanout group for its queues; close_packet_fanout() ends that. */
void open_packet_fanout(struct af_packet *backend);
void close_packet_fanout(struct af_packet *backend);
/** No call fails any more, and a test that failed in one does not hold the backend's mutex. */
void end_test_of(struct af_packet *backend);
/** The same, and the flows and queues that the test left go. */
void clear_packet_backend(struct af_packet *backend);
/** Make n queues with these options. */
void make_packet_queues(struct af_packet *backend, const struct backend_queue_options *options,
                        struct backend_queue **queues, int n);
struct backend_queue_options packet_queue_options(void);
/** UDP to 10.0.0.x and a port, of priority 0: an exact rule. */
struct flow_rule packet_rule(uint8_t x, uint16_t port);

unsigned count_open_fds(void);

#endif
