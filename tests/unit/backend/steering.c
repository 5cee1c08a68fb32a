// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/backend/steering.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/socket.h>

#define FANOUT_OF_TYPE(type) ((int)((unsigned)(type) << 16))

static struct failure failure;

int steering_open_socket(const char *interface, uint16_t type)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(type),
		.sll_ifindex = (int)if_nametoindex(interface),
	};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), one = 1;

	cr_assert(fd >= 0);
	cr_assert(eq(int, setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)), 0));
	cr_assert(eq(int, bind(fd, (struct sockaddr *)&address, sizeof(address)), 0));
	return fd;
}

/* CAP_SYS_ADMIN stands for CAP_BPF and CAP_PERFMON. */
void use_capabilities_of_daemon(bool with_perfmon)
{
	static const cap_value_t kept[] = {CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON};
	cap_t set = cap_get_proc();

	cr_assert(set != NULL && cap_clear_flag(set, CAP_EFFECTIVE) == 0 &&
	          cap_set_flag(set, CAP_EFFECTIVE, with_perfmon ? 4 : 3, kept, CAP_SET) == 0 && cap_set_proc(set) == 0);
	cap_free(set);
}

void use_all_capabilities(void)
{
	cap_t set = cap_get_proc();

	cr_assert(set != NULL);
	for (cap_value_t value = 0; value <= CAP_LAST_CAP; value++) {
		cap_flag_value_t permitted = CAP_CLEAR;

		if (cap_get_flag(set, value, CAP_PERMITTED, &permitted) == 0 && permitted == CAP_SET)
			cap_set_flag(set, CAP_EFFECTIVE, 1, &value, CAP_SET);
	}
	cr_assert(cap_set_proc(set) == 0);
	cap_free(set);
}

void steering_join(const int fds[2], int type)
{
	int fanout = FANOUT_OF_TYPE(type | PACKET_FANOUT_FLAG_UNIQUEID);
	socklen_t bytes = sizeof(fanout);

	cr_assert(eq(int, setsockopt(fds[0], SOL_PACKET, PACKET_FANOUT, &fanout, sizeof(fanout)), 0));
	cr_assert(eq(int, getsockopt(fds[0], SOL_PACKET, PACKET_FANOUT, &fanout, &bytes), 0));
	cr_assert(eq(int, setsockopt(fds[1], SOL_PACKET, PACKET_FANOUT, &fanout, sizeof(fanout)), 0));
}

static void steering_set_programs(const struct steering *steering)
{
	int steer = steering->program->steer_fd, filter = steering->program->filter_fds[1];

	cr_assert(eq(int, setsockopt(steering->fds[0], SOL_PACKET, PACKET_FANOUT_DATA, &steer, sizeof(steer)), 0), "%s",
	          strerror(errno));
	cr_assert(eq(int, setsockopt(steering->fds[1], SOL_SOCKET, SO_ATTACH_BPF, &filter, sizeof(filter)), 0));
}

void steering_open(struct steering *steering, const char *interface, bool with_perfmon)
{
	int r;

	use_capabilities_of_daemon(with_perfmon);
	r = packet_program_load(interface, true, &steering->program, &failure);
	use_all_capabilities();
	if (r == -EPERM || r == -ENOSYS)
		cr_skip_test("this machine lets us load no BPF program");
	cr_assert(eq(int, r, 0), "%s", failure.text);
	for (int i = 0; i < 2; i++)
		steering->fds[i] = steering_open_socket(interface, ETH_P_ALL);
	steering_join(steering->fds, PACKET_FANOUT_EBPF);
	steering_set_programs(steering);
}

void steering_add(const struct steering *steering, const struct flow_rule *rule)
{
	const struct flow_target target = {.queue = 1, .drops = true};

	cr_assert(eq(int, flow_table_add(&steering->program->table, rule, &target, &failure), 0), "%s", failure.text);
}
