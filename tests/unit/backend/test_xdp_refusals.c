// SPDX-License-Identifier: Apache-2.0
/* What the xdp backend refuses, and what it says then. */
#include "tests/unit/backend/xdp_queues.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

TestSuite(xdp_refusals, .init = set_up_xdp, .fini = tear_down_xdp);

static void expect_says(const char *text)
{
	cr_expect(strstr(failure.text, text) != NULL, "no '%s' in: %s", text, failure.text);
}

Test(xdp_refusals, more_streams_than_planned_are_refused_with_the_key_to_change)
{
	struct stream streams[N_QUEUES], one_more;

	open_backend("1500", "1");
	for (int i = 0; i < N_QUEUES; i++)
		stream_open(&streams[i], (uint16_t)(PORT + i), 60);
	cr_expect(eq(int, stream_create(&one_more, 60), -ENOSPC));
	expect_says("set xdp_queues");
	free(one_more.payload);
	free(one_more.headers);
	stream_close(&streams[1]);
	stream_open(&streams[1], PORT + 1, 60);
	for (int i = 0; i < N_QUEUES; i++)
		stream_close(&streams[i]);
}

static void expect_refused(int error, int exit_code)
{
	struct backend *mine = NULL;

	cr_expect(eq(int, open_with(BACKEND_XDP_AUTO, &mine), error), "%s", failure.text);
	cr_expect(eq(int, failure.exit_code, exit_code));
}

Test(xdp_refusals, the_limit_of_locked_memory_is_named_with_its_cures)
{
	const struct rlimit limit = {1 << 20, 1 << 20};
	cap_t set = cap_get_proc();
	const cap_value_t lock = CAP_IPC_LOCK;

	open_backend("1500", "1");
	cr_assert(eq(int, setrlimit(RLIMIT_MEMLOCK, &limit), 0));
	cr_assert(set != NULL && cap_set_flag(set, CAP_EFFECTIVE, 1, &lock, CAP_CLEAR) == 0 && cap_set_proc(set) == 0);
	cap_free(set);
	expect_refused(-ENOBUFS, EX_NOPERM);
	expect_says("LimitMEMLOCK=infinity");
	expect_says("lower xdp_queues");
}

Test(xdp_refusals, a_queue_that_another_program_has_is_named)
{
	open_backend("1500", "1");
	expect_refused(-EBUSY, EX_TEMPFAIL);
	expect_says("receive queue 0");
	expect_says("another program has AF_XDP sockets on it");
}

Test(xdp_refusals, zero_copy_that_the_driver_has_not_is_refused_with_the_key_to_change)
{
	struct backend *mine = NULL;

	make_veth("1500", "1");
	cr_expect(eq(int, open_with(BACKEND_XDP_ZERO_COPY, &mine), -EOPNOTSUPP), "%s", failure.text);
	expect_says("set xdp_mode");
}

/* ---- a kernel before 6.6 --------------------------------------------------------------------------- */

static bool kernel_is_old;

/* In place of the C library's: such a kernel does not know XDP_USE_SG. */
int bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
	const struct sockaddr_xdp *xdp = (const struct sockaddr_xdp *)address;

	if (kernel_is_old && address->sa_family == AF_XDP && xdp->sxdp_flags & XDP_USE_SG) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_bind, fd, address, bytes);
}

Test(xdp_refusals, without_packets_of_several_frames_an_mtu_that_grows_is_noticed)
{
	struct backend_port_statistics port;

	kernel_is_old = true;
	open_backend("1500", "1");
	cr_expect(eq(u32, xdp_backend(backend)->mtu_max, 1770));
	cr_assert(eq(int, xdp_backend_ops.read_port(backend, &port), 0));
	cr_expect(not(xdp_backend(backend)->told_mtu));
	cr_assert(system("ip link set test0 mtu 2000") == 0);
	cr_assert(eq(int, xdp_backend_ops.read_port(backend, &port), 0));
	cr_expect(xdp_backend(backend)->told_mtu);
	cr_assert(system("ip link set test0 mtu 1500") == 0);
	cr_assert(eq(int, xdp_backend_ops.read_port(backend, &port), 0));
	cr_expect(not(xdp_backend(backend)->told_mtu));
}

Test(xdp_refusals, such_a_kernel_has_no_room_for_a_large_mtu)
{
	kernel_is_old = true;
	make_veth("9000", "1");
	cr_expect(lt(int, open_with(BACKEND_XDP_AUTO, &backend), 0));
	expect_says("need Linux 6.6");
}
