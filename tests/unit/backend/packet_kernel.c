// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/backend/packet_kernel.h"

#include "daemon/base/log.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

struct kernel kernel;
static int countdown, is_packet[1024];
static bool fired;

void set_up_kernel(void)
{
	memset(&kernel, 0, sizeof(kernel));
	kernel.release = "6.12.0";
	kernel.fanout_id = 4711;
	kernel.hardware_type = 1;
	kernel.setsockopt_error = ENOMEM;
	kernel_fail_after(-1);
}

void kernel_fail_after(int n)
{
	countdown = n;
	fired = false;
}

bool kernel_has_failed(void)
{
	return fired;
}

static bool fails(int error)
{
	if (countdown < 0 || countdown-- > 0)
		return false;
	fired = true;
	errno = error;
	return true;
}

static struct kernel_call *note(int fd, int level, int name)
{
	struct kernel_call *call = &kernel.calls[kernel.n_calls++];

	cr_assert(kernel.n_calls < KERNEL_CALLS_MAX);
	*call = (struct kernel_call){.fd = fd, .level = level, .name = name};
	return call;
}

const struct kernel_call *kernel_find(int fd, int name, int k)
{
	for (int i = 0; i < kernel.n_calls; i++)
		if ((fd < 0 || kernel.calls[i].fd == fd) && kernel.calls[i].name == name && k-- == 0)
			return &kernel.calls[i];
	return NULL;
}

int kernel_count(int fd, int name)
{
	int n = 0;

	while (kernel_find(fd, name, n))
		n++;
	return n;
}

void kernel_forget_calls(void)
{
	kernel.n_calls = 0;
}

/* ---- what the backend calls --------------------------------------------------------------------------- */

int __wrap_socket(int family, int type, int protocol);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes);
int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes);
int __wrap_ioctl(int fd, unsigned long request, void *argument);
int __wrap_uname(struct utsname *system);
void *__real_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags);
int __real_epoll_ctl(int fd, int what, int other, struct epoll_event *event);
int __wrap_epoll_ctl(int fd, int what, int other, struct epoll_event *event);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);

int __wrap_socket(int family, int type, int protocol)
{
	int pair[2];

	(void)protocol;
	if (fails(EMFILE))
		return -1;
	cr_assert_eq(socketpair(AF_UNIX, (type & ~SOCK_RAW) | SOCK_DGRAM, 0, pair), 0);
	close(pair[1]);
	is_packet[pair[0]] = family == AF_PACKET;
	return pair[0];
}

static void note_option(int fd, int level, int name, const void *value, socklen_t bytes)
{
	struct kernel_call *call = note(fd, level, name);

	if (level == SOL_PACKET && name == PACKET_RX_RING) {
		memcpy(&call->ring, value, sizeof(call->ring));
	} else if (level == SOL_SOCKET && name == SO_ATTACH_FILTER) {
		const struct sock_fprog *program = value;

		cr_assert_leq(program->len, BPF_MAXINSNS, "the kernel takes no longer ones");
		call->filter_n = program->len;
		memcpy(call->filter_begin, program->filter,
		       sizeof(struct sock_filter) * (program->len < 4 ? program->len : 4));
	} else if (level == SOL_SOCKET && name == SO_BINDTODEVICE) {
		memcpy(call->text, value, bytes < 15 ? bytes : 15);
	} else if (bytes == sizeof(int)) {
		memcpy(&call->value, value, sizeof(int));
	}
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
	if (fails(ENOMEM))
		return -1;
	if (kernel.fail_setsockopt_of && name == kernel.fail_setsockopt_of && kernel.fail_setsockopt_after-- <= 0) {
		errno = kernel.setsockopt_error;
		return -1;
	}
	note_option(fd, level, name, value, bytes);
	return 0;
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
	if (level != SOL_PACKET)
		return __real_getsockopt(fd, level, name, value, bytes);
	if (name == PACKET_FANOUT) {
		if (fails(ENOMEM))
			return -1;
		cr_assert_eq(*bytes, sizeof(int));
		memcpy(value, &kernel.fanout_id, sizeof(int));
		return 0;
	}
	cr_assert_eq(name, PACKET_STATISTICS);
	if (kernel.statistics_error) {
		errno = kernel.statistics_error;
		return -1;
	}
	cr_assert_geq(*bytes, sizeof(struct tpacket_stats));
	cr_assert_eq(kernel.n_in_statistics++, 0, "two threads read at once");
	for (int i = 0; i < kernel.statistics_slow; i++)
		sched_yield();
	kernel.n_in_statistics--;
	*(struct tpacket_stats *)value = (struct tpacket_stats){kernel.tp_packets, kernel.tp_drops};
	kernel.tp_packets = kernel.tp_drops = 0;
	return 0;
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
	if (fails(ENODEV))
		return -1;
	if (!is_packet[fd] && kernel.bind_error) {
		errno = kernel.bind_error;
		return -1;
	}
	memcpy(&note(fd, 0, KERNEL_BIND)->address, address, bytes);
	return 0;
}

int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
	struct ifreq *interface = argument;

	(void)fd;
	if (request == kernel.fail_ioctl) {
		errno = kernel.ioctl_error;
		return -1;
	}
	if (request == SIOCGIFHWADDR) {
		interface->ifr_hwaddr.sa_family = (sa_family_t)kernel.hardware_type;
		memcpy(interface->ifr_hwaddr.sa_data, (const uint8_t[]){2, 4, 6, 8, 10, 12}, 6);
		return 0;
	}
	if (request == SIOCGIFINDEX) {
		interface->ifr_ifindex = 77;
		return 0;
	}
	errno = EOPNOTSUPP;
	return -1;
}

int __wrap_uname(struct utsname *system)
{
	if (fails(EFAULT))
		return -1;
	*system = (struct utsname){0};
	snprintf(system->release, sizeof(system->release), "%s", kernel.release);
	return 0;
}

void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	if (fd < 0 || !is_packet[fd])
		return __real_mmap(address, bytes, protection, flags, fd, offset);
	cr_assert_eq(flags, MAP_SHARED);
	cr_assert_eq(offset, 0);
	if (fails(ENOMEM))
		return MAP_FAILED;
	return __real_mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int __wrap_epoll_create1(int flags)
{
	return fails(EMFILE) ? -1 : __real_epoll_create1(flags);
}

int __wrap_epoll_ctl(int fd, int what, int other, struct epoll_event *event)
{
	return fails(ENOMEM) ? -1 : __real_epoll_ctl(fd, what, other, event);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	return fails(ENOMEM) ? NULL : __real_calloc(n, bytes);
}

void *__wrap_malloc(size_t bytes)
{
	return fails(ENOMEM) ? NULL : __real_malloc(bytes);
}

/* ---- the program at the tcx ingress --------------------------------------------------------------------- */

int __wrap_tcx_drop_open(const char *interface, unsigned int ifindex, bool has_ethernet, struct tcx_drop **drop,
                         struct failure *failure);
int __wrap_tcx_drop_add(struct tcx_drop *drop, const struct flow_rule *rule, struct failure *failure);
void __wrap_tcx_drop_remove(struct tcx_drop *drop, const struct flow_rule *rule);
void __wrap_tcx_drop_close(struct tcx_drop *drop);

int __wrap_tcx_drop_open(const char *interface, unsigned int ifindex, bool has_ethernet, struct tcx_drop **drop,
                         struct failure *failure)
{
	(void)has_ethernet;
	cr_assert_eq(ifindex, 77);
	if (kernel.tcx_open_result < 0)
		return failure_set(failure, 1, -kernel.tcx_open_result, "interface %s: no tcx today", interface);
	*drop = (struct tcx_drop *)&kernel;
	return 0;
}

int __wrap_tcx_drop_add(struct tcx_drop *drop, const struct flow_rule *rule, struct failure *failure)
{
	(void)rule;
	cr_assert_eq((void *)drop, (void *)&kernel);
	if (kernel.tcx_add_result < 0)
		return failure_set(failure, 1, -kernel.tcx_add_result, "no place in tcx");
	kernel.n_tcx_added++;
	return 0;
}

void __wrap_tcx_drop_remove(struct tcx_drop *drop, const struct flow_rule *rule)
{
	cr_assert_eq((void *)drop, (void *)&kernel);
	kernel.n_tcx_removed++;
	kernel.last_removed = rule;
}

void __wrap_tcx_drop_close(struct tcx_drop *drop)
{
	kernel.n_tcx_closed += drop != NULL;
}

__attribute__((format(printf, 3, 4))) void __wrap_log_message(int priority, const struct log_about *about,
                                                              const char *format, ...);

void __wrap_log_message(int priority, const struct log_about *about, const char *format, ...)
{
	size_t n = strlen(kernel.log);
	va_list arguments;

	(void)about;
	if (priority > LOG_WARNING)
		return;
	va_start(arguments, format);
	vsnprintf(kernel.log + n, sizeof(kernel.log) - n, format, arguments);
	va_end(arguments);
}

/* ---- for tests ---------------------------------------------------------------------------------------- */

void make_packet_backend(struct af_packet *backend)
{
	*backend = (struct af_packet){.base.ops = &af_packet_ops,
	                              .interface = "test0",
	                              .index = 77,
	                              .mac = {2, 0, 0, 0, 0, 1},
	                              .has_ethernet = true,
	                              .time.clock_fd = -1};
}

struct backend_queue_options packet_queue_options(void)
{
	return (struct backend_queue_options){.slots = 64,
	                                      .header_bytes = 42,
	                                      .header_stride = 64,
	                                      .slot_bytes = 1000,
	                                      .row_stride = 1024,
	                                      .completion_events = true};
}

struct flow_rule packet_rule(uint8_t x, uint16_t port)
{
	return (struct flow_rule){
		.family = AF_INET,
		.value = {.destination_mac = {2, 0, 0, 0, 0, 1},
	                  .destination = {10, 0, 0, x},
	                  .protocol = IPPROTO_UDP,
	                  .destination_port_be = htons(port)},
		.mask = FLOW_MASK_UDP_IPV4,
	};
}

unsigned count_open_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}
