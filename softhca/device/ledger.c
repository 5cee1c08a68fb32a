// SPDX-License-Identifier: Apache-2.0
/* Keeps a netdev's counters in files that all processes share. */
#include "ledger.h"

#include "../wire/own_fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

#define FILE_BYTES 4096
#define KEPT_S     600 /* a ledger that no process has used for so long is removed when another device is opened */
#define MAX_SWEPT  256 /* entries of the directory that are looked at; everybody may make some */

#define COUNTER(name)                                         \
	{                                                     \
#name, offsetof(struct device_counters, name) \
	}
const struct hw_counter hw_counters[N_HW_COUNTERS] = {
	COUNTER(out_of_buffer),     COUNTER(rx_icrc_encapsulated),  COUNTER(out_of_sequence),
	COUNTER(duplicate_request), COUNTER(packet_seq_err),        COUNTER(implied_nak_seq_err),
	COUNTER(rnr_nak_retry_err), COUNTER(local_ack_timeout_err), COUNTER(rx_write_requests),
	COUNTER(rx_read_requests),  COUNTER(rx_atomic_requests),
};

uint32_t hw_counter_value(const struct device_counters *c, unsigned int i)
{
	return (uint32_t)(&c->rx_packets)[hw_counters[i].offset / sizeof(c->rx_packets)];
}

/* A number for the network namespace: the cookie, which is never used twice, or before Linux 5.14 the inode. */
static uint64_t ledger_namespace(void)
{
	int fd = (int)syscall(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);
	struct statx stx;
	bool known = fd >= 0 && !getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len);

	own_fd_close(fd);
	if (known)
		return cookie;
	return syscall(SYS_statx, AT_FDCWD, "/proc/self/ns/net", 0, STATX_INO, &stx) ? 0 : stx.stx_ino;
}

static bool ledger_path(char *path, size_t size, const char *directory, const char *netdev)
{
	unsigned int index = if_nametoindex(netdev);

	return index && snprintf(path, size, "%s/softhca-%lx-%u", directory, ledger_namespace(), index) < (int)size;
}

/* Everybody may write to the directory, so a file that is there already may be a trap. */
static int ledger_open_file(int dir, const char *name, int flags)
{
	struct stat st;
	int fd = (int)syscall(SYS_openat, dir, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0644);

	if (fd < 0)
		return -errno;
	if (syscall(SYS_fstat, fd, &st) || !S_ISREG(st.st_mode) || st.st_nlink > 1 ||
	    st.st_uid != strtoul(name, NULL, 10)) {
		syscall(SYS_close, fd);
		return -EPERM;
	}
	return fd;
}

static int ledger_open_directory(const char *path)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int ledger_open_own_file(const struct ledger *l)
{
	char name[16];
	int dir, fd;

	if (!mkdir(l->path, 0755) && chmod(l->path, 01777))
		return -errno;
	dir = ledger_open_directory(l->path);
	if (dir < 0)
		return dir;
	snprintf(name, sizeof(name), "%u", geteuid());
	fd = ledger_open_file(dir, name, O_RDWR | O_CREAT);
	syscall(SYS_close, dir);
	if (fd >= 0 && (syscall(SYS_fchmod, fd, 0644) || syscall(SYS_ftruncate, fd, FILE_BYTES))) {
		syscall(SYS_close, fd);
		return -EPERM;
	}
	return fd;
}

/* The kernel gives the lock back when the process ends, however it ends. */
static bool ledger_lock(int fd)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return !syscall(SYS_fcntl, fd, F_OFD_SETLK, &whole);
}

/* Is it the file of processes that have ended, and was it used long ago? */
static bool ledger_is_dead(int fd)
{
	uint64_t page[LEDGER_N_WORDS] = {0};

	return ledger_lock(fd) && syscall(SYS_pread64, fd, page, sizeof(page), 0) >= 0 &&
	       page[LEDGER_USED_S] + KEPT_S < (uint64_t)time(NULL);
}

/* Removes the dead files of one netdev, and its directory if none is left. Only what belongs to this user goes; for
 * root that is everything. */
static void ledger_sweep_netdev(int parent, const char *name)
{
	int dir = (int)syscall(SYS_openat, parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), fd;
	DIR *d = dir < 0 ? NULL : fdopendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		fd = e->d_name[0] == '.' ? -1 : ledger_open_file(dir, e->d_name, O_RDWR);
		if (fd < 0)
			continue;
		if (ledger_is_dead(fd))
			unlinkat(dir, e->d_name, 0);
		syscall(SYS_close, fd);
	}
	if (d)
		closedir(d);
	unlinkat(parent, name, AT_REMOVEDIR);
}

/* Nobody is there to remove the ledgers of a network namespace that ended or of a process that was killed, so the next
 * process that opens a device does. */
static void ledger_sweep(const struct ledger *l, const char *directory)
{
	const char *own = strrchr(l->path, '/') + 1;
	int fd = ledger_open_directory(directory);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	for (int i = 0; dir && i < MAX_SWEPT && (e = readdir(dir)); i++)
		if (!strncmp(e->d_name, "softhca-", 8) && strcmp(e->d_name, own))
			ledger_sweep_netdev(dirfd(dir), e->d_name);
	if (dir)
		closedir(dir);
}

void ledger_open(struct ledger *l, const char *directory, const char *netdev)
{
	int saved = errno, fd;

	if (!l->n_values)
		l->n_values = LEDGER_N_RAW;
	if (!directory || l->shared || !ledger_path(l->path, sizeof(l->path), directory, netdev))
		return;
	ledger_sweep(l, directory);
	fd = ledger_open_own_file(l);
	if (fd >= 0) {
		void *page = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (page != MAP_FAILED) {
			l->shared = page;
			l->fd = fd;
			l->counts_received = false;
			ledger_use(l);
		} else {
			syscall(SYS_close, fd);
		}
	}
	errno = saved;
}

void ledger_use(struct ledger *l)
{
	if (!l->shared)
		return;
	__atomic_store_n((uint64_t *)&l->shared[LEDGER_USED_S], (uint64_t)time(NULL), __ATOMIC_RELAXED);
	if (!l->counts_received)
		l->counts_received = ledger_lock(l->fd);
}

void ledger_publish(struct ledger *l, const struct device_counters *counted)
{
	const uint64_t *now = &counted->rx_packets;

	if (!l->shared)
		return;
	for (size_t i = 0; i < l->n_values; i++) {
		if (now[i] != l->published[i])
			__atomic_fetch_add((uint64_t *)&l->shared[i], now[i] - l->published[i], __ATOMIC_RELAXED);
		l->published[i] = now[i];
	}
}

void ledger_forked(struct ledger *l)
{
	if (!l->shared)
		return;
	munmap((void *)l->shared, FILE_BYTES);
	syscall(SYS_close, l->fd);
	l->shared = NULL;
}

/* If several users use the device at a time, each user's file has all frames that the port received: the largest
 * count is the port's. */
void ledger_add(struct device_counters *sum, const struct device_counters *c)
{
	if (c->rx_packets > sum->rx_packets) {
		sum->rx_packets = c->rx_packets;
		sum->rx_bytes = c->rx_bytes;
	}
	for (size_t i = offsetof(struct device_counters, tx_packets) / sizeof(uint64_t); i < LEDGER_N_VALUES; i++)
		(&sum->rx_packets)[i] += (&c->rx_packets)[i];
}

void ledger_read(const struct ledger *l, const char *directory, const char *netdev, struct device_counters *sum)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *dir;
	int fd;

	memset(sum, 0, sizeof(*sum));
	if (!directory || (!l->shared && !ledger_path(path, sizeof(path), directory, netdev)))
		return;
	fd = ledger_open_directory(l->shared ? l->path : path);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return;
	while ((e = readdir(dir))) {
		struct device_counters c;

		fd = e->d_name[0] == '.' ? -1 : ledger_open_file(dirfd(dir), e->d_name, O_RDONLY);
		if (fd < 0)
			continue;
		if (syscall(SYS_pread64, fd, &c, sizeof(c), 0) == sizeof(c))
			ledger_add(sum, &c);
		syscall(SYS_close, fd);
	}
	closedir(dir);
}
