// SPDX-License-Identifier: Apache-2.0
/* In place of the C library's ioctl(): the function answer_ioctl() of the one file that includes this. */
#ifndef TESTS_SUPPORT_OWN_IOCTL_H
#define TESTS_SUPPORT_OWN_IOCTL_H

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int answer_ioctl(int fd, unsigned long request, struct ifreq *argument);

int ioctl(int fd, unsigned long request, ...)
{
	struct ifreq *argument;
	va_list arguments;

	va_start(arguments, request);
	argument = va_arg(arguments, struct ifreq *);
	va_end(arguments);
	return answer_ioctl(fd, request, argument);
}

/* The kernel's ioctl(). */
static inline int real_ioctl(int fd, unsigned long request, const void *argument)
{
	return (int)syscall(SYS_ioctl, fd, request, argument);
}

/* NULL if the request is not for a card's time stamps. */
static inline struct ethtool_ts_info *asked_ts_info(unsigned long request, const struct ifreq *argument)
{
	struct ethtool_ts_info *info = request == SIOCETHTOOL ? (struct ethtool_ts_info *)argument->ifr_data : NULL;

	return info && info->cmd == ETHTOOL_GET_TS_INFO ? info : NULL;
}

#endif
