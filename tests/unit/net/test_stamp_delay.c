// SPDX-License-Identifier: Apache-2.0
/* How late the settings of an interface let the kernel's timestamps be, with a driver and a sysfs of its own. */
#include "daemon/net/net.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <net/if.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

static struct ethtool_coalesce coalesce;
static uint64_t flush_ns, n_deferred;
static int error;
static bool is_in_sysfs = true;

bool __wrap_net_is_in_sysfs(const char *interface);
bool __wrap_net_is_in_sysfs(const char *interface)
{
	cr_expect_str_eq(interface, "eth0");
	return is_in_sysfs;
}

int __wrap_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int, unsigned long request, ...)
{
	struct ifreq *of;
	va_list arguments;

	va_start(arguments, request);
	of = va_arg(arguments, struct ifreq *);
	va_end(arguments);
	errno = error;
	cr_assert_str_eq(of->ifr_name, "eth0");
	cr_assert(eq(u32, ((struct ethtool_coalesce *)of->ifr_data)->cmd, ETHTOOL_GCOALESCE));
	memcpy(of->ifr_data, &coalesce, sizeof(coalesce));
	return error ? -1 : 0;
}

uint64_t __wrap_files_read_limit(const char *directory, const char *name);
uint64_t __wrap_files_read_limit(const char *directory, const char *name)
{
	cr_expect_str_eq(directory, "/sys/class/net/eth0");
	return strcmp(name, "gro_flush_timeout") == 0 ? flush_ns : n_deferred;
}

static uint64_t delay_ns(uint32_t rx_usecs, bool adapts, uint64_t gro_flush_ns, uint64_t deferred)
{
	coalesce = (struct ethtool_coalesce){.rx_coalesce_usecs = rx_usecs, .use_adaptive_rx_coalesce = adapts};
	flush_ns = gro_flush_ns;
	n_deferred = deferred;
	return net_stamp_delay_ns("eth0");
}

Test(stamp_delay, is_the_moderation_of_interrupts_and_the_time_that_gro_holds_a_packet)
{
	cr_expect(eq(u64, delay_ns(0, false, 0, 0), 0));
	cr_expect(eq(u64, delay_ns(50, false, 0, 0), 50000));
	cr_expect(eq(u64, delay_ns(50, false, 20000, 0), 70000));
	cr_expect(eq(u64, delay_ns(0, false, 20000, 2), 40000), "the kernel also looks for packets only so often");
	cr_expect(eq(u64, delay_ns(0, false, 0, 2), 0));
}

Test(stamp_delay, a_driver_has_rx_usecs_if_it_reports_a_number)
{
	cr_expect_not(net_has_rx_usecs("eth0"));
	coalesce.rx_coalesce_usecs = 3;
	cr_expect(net_has_rx_usecs("eth0"));
	error = EOPNOTSUPP;
	cr_expect_not(net_has_rx_usecs("eth0"), "veth and lo have none");
}

Test(stamp_delay, is_not_known_if_the_driver_adapts_it)
{
	cr_expect(eq(u64, delay_ns(50, true, 0, 0), UINT64_MAX));
	cr_expect(eq(u64, delay_ns(3, false, 0, 0), UINT64_MAX), "a mode of Intel's drivers");
	cr_expect(eq(u64, delay_ns(5, false, 0, 0), 5000));
}

Test(stamp_delay, is_not_known_if_driver_or_kernel_do_not_say)
{
	cr_expect(eq(u64, delay_ns(50, false, UINT64_MAX, 0), UINT64_MAX));
	cr_expect(eq(u64, delay_ns(50, false, 0, UINT64_MAX), UINT64_MAX));
	is_in_sysfs = false;
	cr_expect(eq(u64, delay_ns(50, false, 0, 0), UINT64_MAX), "/sys shows another interface of that name");
	is_in_sysfs = true;
	error = EOPNOTSUPP;
	cr_expect(eq(u64, delay_ns(50, false, 0, 0), UINT64_MAX));
}
