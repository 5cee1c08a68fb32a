// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/backend/packet_kernel.h"

#include "daemon/backend/bpf/flow_table.h"
#include "daemon/base/log.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
	} else if ((level == SOL_SOCKET && name == SO_ATTACH_FILTER) ||
	           (level == SOL_PACKET && name == PACKET_FANOUT_DATA && bytes == sizeof(struct sock_fprog))) {
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
	if (level != SOL_PACKET) {
		note(fd, level, name);
		return __real_getsockopt(fd, level, name, value, bytes);
	}
	if (name == PACKET_FANOUT) {
		if (fails(ENOMEM))
			return -1;
		cr_assert_eq(*bytes, sizeof(int));
		memcpy(value, &kernel.fanout_id, sizeof(int));
		return 0;
	}
	cr_assert_eq(name, PACKET_STATISTICS);
	kernel.statistics_read_of = fd;
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

void *__wrap_calloc(size_t n, size_t bytes)
{
	return fails(ENOMEM) ? NULL : __real_calloc(n, bytes);
}

void *__wrap_malloc(size_t bytes)
{
	return fails(ENOMEM) ? NULL : __real_malloc(bytes);
}

/* ---- the programs --------------------------------------------------------------------------------------- */

int __wrap_packet_program_load(const char *interface, bool has_ethernet, struct packet_program **program,
                               struct failure *failure);
void __wrap_packet_program_free(struct packet_program *program);
int __wrap_packet_program_attach_drop(struct packet_program *program, unsigned int ifindex, struct failure *failure);
int __wrap_flow_table_set_group(const struct flow_table *table, const uint32_t *indexes, uint32_t n, bool ports);
int __wrap_flow_table_add(struct flow_table *table, const struct flow_rule *rule, const struct flow_target *target,
                          struct failure *failure);
int __wrap_flow_table_replace(struct flow_table *table, const struct flow_rule *rule, const struct flow_target *target);
void __wrap_flow_table_remove(struct flow_table *table, const struct flow_rule *rule);

static struct packet_program the_program;

static void expect_program(const struct packet_program *program)
{
	cr_assert_eq((const void *)program, (const void *)&the_program);
	cr_assert_gt(kernel.n_loaded, 0);
}

static void expect_table(const struct flow_table *table)
{
	cr_assert_eq((const void *)table, (const void *)&the_program.table);
	cr_assert_gt(kernel.n_loaded, 0);
}

int __wrap_packet_program_load(const char *interface, bool has_ethernet, struct packet_program **program,
                               struct failure *failure)
{
	*program = NULL;
	cr_assert_eq(has_ethernet, kernel.hardware_type == 1 || kernel.hardware_type == 772);
	if (kernel.program_load_result < 0)
		return failure_set(failure, 1, -kernel.program_load_result, "interface %s: no program today",
		                   interface);
	*program = &the_program;
	the_program.steer_fd = KERNEL_PROGRAM_FD;
	for (int i = 0; i < PACKET_PROGRAM_SOCKETS_MAX; i++)
		the_program.filter_fds[i] = KERNEL_FILTER_FD + i;
	kernel.n_loaded++;
	return 0;
}

void __wrap_packet_program_free(struct packet_program *program)
{
	if (program)
		expect_program(program);
	kernel.n_loaded -= program != NULL;
}

int __wrap_packet_program_attach_drop(struct packet_program *program, unsigned int ifindex, struct failure *failure)
{
	expect_program(program);
	cr_assert_eq(ifindex, 77);
	return kernel.program_drop_result < 0 ? failure_set(failure, 1, -kernel.program_drop_result, "no tcx today")
	                                      : 0;
}

int __wrap_flow_table_set_group(const struct flow_table *table, const uint32_t *indexes, uint32_t n, bool ports)
{
	expect_table(table);
	if (kernel.program_group_result < 0)
		return kernel.program_group_result;
	memcpy(kernel.group_indexes, indexes, n * sizeof(*indexes));
	kernel.n_group_indexes = n;
	kernel.group_has_ports = ports;
	return 0;
}

/* As the table compares rules. */
static struct kernel_flow *find_flow(const struct flow_rule *rule)
{
	const struct flow_condition wanted = flow_table_condition(rule, true);

	for (int i = 0; i < kernel.n_flows; i++) {
		const struct flow_condition is = flow_table_condition(&kernel.flows[i].rule, true);

		if (flow_table_rank(&kernel.flows[i].rule) == flow_table_rank(rule) &&
		    memcmp(&is, &wanted, sizeof(is)) == 0)
			return &kernel.flows[i];
	}
	return NULL;
}

const struct kernel_flow *kernel_find_flow(const struct flow_rule *rule)
{
	return find_flow(rule);
}

int __wrap_flow_table_add(struct flow_table *table, const struct flow_rule *rule, const struct flow_target *target,
                          struct failure *failure)
{
	int error = find_flow(rule) ? EEXIST : -kernel.program_add_result;

	expect_table(table);
	cr_assert_lt(kernel.n_flows, KERNEL_FLOWS_MAX);
	if (error)
		return failure_set(failure, 1, error, "no room in the table");
	kernel.flows[kernel.n_flows++] = (struct kernel_flow){.rule = *rule, .target = *target};
	return 0;
}

int __wrap_flow_table_replace(struct flow_table *table, const struct flow_rule *rule, const struct flow_target *target)
{
	struct kernel_flow *flow = find_flow(rule);

	expect_table(table);
	cr_assert_not_null(flow);
	flow->target = *target;
	flow->n_moves++;
	return 0;
}

void __wrap_flow_table_remove(struct flow_table *table, const struct flow_rule *rule)
{
	struct kernel_flow *flow = find_flow(rule);

	expect_table(table);
	cr_assert_not_null(flow);
	*flow = kernel.flows[--kernel.n_flows];
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
	                              .time.clock_fd = -1,
	                              .changing = PTHREAD_MUTEX_INITIALIZER};
}

void open_packet_fanout(struct af_packet *backend)
{
	cr_assert_eq(__wrap_packet_program_load("test0", backend->has_ethernet, &backend->program, NULL), 0);
	cr_assert_eq(af_packet_fanout_open(backend), 0);
	backend->drops = true;
}

void close_packet_fanout(struct af_packet *backend)
{
	af_packet_fanout_close(backend);
	__wrap_packet_program_free(backend->program);
	backend->program = NULL;
}

void end_test_of(struct af_packet *backend)
{
	kernel_fail_after(-1);
	kernel.fail_setsockopt_of = 0;
	backend->changing = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

void clear_packet_backend(struct af_packet *backend)
{
	end_test_of(backend);
	while (backend->flows)
		af_packet_remove_flow(&backend->flows->base);
	while (backend->queues)
		af_packet_receive_free(&backend->queues->queue.base);
}

void make_packet_queues(struct af_packet *backend, const struct backend_queue_options *options,
                        struct backend_queue **queues, int n)
{
	struct failure failure = {0};

	for (int i = 0; i < n; i++)
		cr_assert(eq(int, af_packet_create_queue(&backend->base, options, &queues[i], &failure), 0), "%s",
		          failure.text);
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
