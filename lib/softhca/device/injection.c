// SPDX-License-Identifier: Apache-2.0
/* Faults of the device that files in a directory switch on and off. */
#include "injection.h"

#include "clock.h"
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define COMMAND_TIMEOUT_S 60 /* mlx5_core: MLX5_CMD_TIMEOUT_MSEC */
#define HANG_POLL_NS      10000000
#define NS_PER_MS         1000000ull
#define NS_PER_S          1000000000ull

/* System calls, since the C library's functions are the interposed ones. A descriptor, or -1. */
static long injection_open(const char *path)
{
	return syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

/* A file in the directory is for all devices, one in its directory NETDEV for the device of that interface. */
bool injection_is_on(const struct device *d, const char *fault, unsigned int fallback, unsigned int *value)
{
	char path[PATH_MAX], text[16] = "", *end;
	unsigned long number;
	long fd, n;

	if (!d->config.faults || !*d->config.faults)
		return false;
	snprintf(path, sizeof(path), "%s/%s", d->config.faults, fault);
	fd = injection_open(path);
	if (fd < 0) {
		snprintf(path, sizeof(path), "%s/%s/%s", d->config.faults, d->config.netdev, fault);
		fd = injection_open(path);
	}
	if (fd < 0)
		return false;
	n = syscall(SYS_read, fd, text, sizeof(text) - 1);
	syscall(SYS_close, fd);
	number = n > 0 ? strtoul(text, &end, 10) : 0;
	if (value)
		*value = n > 0 && end != text ? (unsigned int)number : fallback;
	return true;
}

static void injection_sleep_ns(uint64_t ns)
{
	struct timespec left = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};

	/* The driver waits without being interruptible. */
	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

int injection_command(const struct device *d)
{
	int saved = errno;
	unsigned int ms = 0, seconds = 0;
	uint64_t start_ns;

	if (!d->config.faults || !*d->config.faults)
		return 0;
	start_ns = clock_raw_ns();
	if (injection_is_on(d, "slow", 0, &ms))
		injection_sleep_ns(ms * NS_PER_MS);
	while (injection_is_on(d, "hang", COMMAND_TIMEOUT_S, &seconds)) {
		if (clock_raw_ns() - start_ns >= seconds * NS_PER_S)
			return -ETIMEDOUT;
		injection_sleep_ns(HANG_POLL_NS);
	}
	errno = saved;
	return injection_is_on(d, "fatal", 0, NULL) ? -EIO : 0;
}
