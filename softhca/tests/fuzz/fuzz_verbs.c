// SPDX-License-Identifier: Apache-2.0
/*
 * What a program may do to softhca: commands in any order with any arguments, raw bytes on the command
 * descriptor, and whatever it likes in the memory that libmlx5 owns (work queue entries, doorbell and
 * arm records), while frames come and go, and somebody asks about it. Input: operations, each a byte, a byte that
 * says how strange its arguments are (0: none is), and arguments. Afterwards nothing may be left.
 */
#include "fuzz_verbs.h"

#include "softhca/control/control.h"
#include "softhca/device/fault.h"
#include "softhca/uverbs/dmabuf.h"

#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_FD         4096
#define MAX_OPERATIONS 200
#define MAX_ATTRS      9
#define DMABUF_FD      100

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct run run;
static struct clock_pages always; /* keeps the clock's thread from one input to the next */
static uint64_t always_memory[1024];
static struct clock device_clock;
static struct trace trace;
static struct control control;
static int asking[2]; /* a client's end of the control socket, and ours */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct settings settings = fuzz_settings(&device_clock);

	(void)argc;
	(void)argv;
	settings.device.trace = &trace;
	settings.device.l2_filter = false;
	settings.device.kernel_drop = KERNEL_DROP_OFF;
	fdtab_init(&run.fdtab);
	fault_init(sigaction);
	clock_init(&device_clock, 1000);
	always = (struct clock_pages){.counter = always_memory, .info = always_memory + 512, .khz = 1000};
	must(!clock_add(&device_clock, &always));
	device_init(&run.device, &settings.device, 0, &uverbs_events);
	control_init(&control, &trace, &run.device, 1);
	trace_init(&trace);
	must(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, asking));
	run.arena = mmap(NULL, ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	must(run.arena != MAP_FAILED);
	return 0;
}

/* Every slot ends before a page that is not there: a step beyond it shows. */
static void restore_arena(void)
{
	for (unsigned int i = 0; i < N_SLOTS; i++)
		if (run.slot_used[i]) {
			must(mmap(slot(&run, i), SLOT_BYTES, PROT_READ | PROT_WRITE,
			          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
			run.slot_used[i] = false;
		}
}

static void open_device(void)
{
	const struct uverbs_env env = {.fdtab = &run.fdtab, .memlock = &run.memlock, .clock = &device_clock};

	if (run.file)
		return;
	run.fd = uverbs_open(&run.device, &env, O_CLOEXEC);
	must(run.fd >= 0);
	run.file = (struct uverbs_file *)fdtab_find(&run.fdtab, run.fd, FD_UVERBS);
	must(run.file);
	fd_object_put(&run.file->fd_object);
}

/* A dma-buf of the program, with a number that a byte of input can be. */
static void open_dmabuf(void)
{
	int low = memfd_create("dmabuf", MFD_CLOEXEC), fd = fcntl(low, F_DUPFD_CLOEXEC, DMABUF_FD);
	struct dmabuf *b = calloc(1, sizeof(*b));

	close(low);
	must(fd >= 0 && b && !ftruncate(fd, SLOT_BYTES));
	*b = (struct dmabuf){
		.fd_object = {.kind = FD_DMABUF, .refs = 1, .release = (void (*)(struct fd_object *))free},
		.bytes = SLOT_BYTES,
	};
	must(!fdtab_set(&run.fdtab, fd, &b->fd_object));
}

/* As close() does it (preload/hook_fd.c). */
static void close_fd(int fd)
{
	struct fd_object *o = fdtab_take(&run.fdtab, fd);

	if (!o)
		return;
	if (o == (struct fd_object *)run.file)
		run.file = NULL;
	close(fd);
	fd_object_put(o);
}

static void close_everything(void)
{
	close_fd(run.fd);
	for (int fd = 0; fd < MAX_FD; fd++)
		close_fd(fd);
}

static int first_free_fd(void)
{
	int fd = dup(STDERR_FILENO);

	close(fd);
	return fd;
}

/* Nothing of the program is left in the device, and no memory and no descriptor. */
static void check_nothing_left(int fd_before)
{
	must(LIST_EMPTY(&run.device.files));
	must(TAILQ_EMPTY(&run.device.qps));
	must(TAILQ_EMPTY(&run.device.armed_later));
	must(!run.device.steering.occupied);
	must(!run.device.wire && !run.device.n_wire_users);
	must(!run.memlock.pages);
	must(first_free_fd() == fd_before);
}

static void raw_write(struct input *in)
{
	uint8_t bytes[512];
	size_t n = input_bytes(in, bytes, input_u16(in) % sizeof(bytes));

	uverbs_write(run.file, bytes, n);
}

/* The kernel's structures, with all sorts of attributes. */
static void raw_ioctl(struct input *in, bool strange)
{
	static const uint64_t known[][2] = {
		{UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_CREATE},
		{UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_READ},
		{UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_DESTROY},
		{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE},
		{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY},
		{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE},
		{MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC},
		{MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY},
		{UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR},
		{MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_CREATE},
		{MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_DESTROY},
		{UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_CREATE_FLOW},
		{UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_DESTROY_FLOW},
		{UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC},
		{UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR},
		{UVERBS_OBJECT_PD, MLX5_IB_METHOD_PD_QUERY},
	};
	const unsigned int n_known = sizeof(known) / sizeof(known[0]);
	uint8_t call[sizeof(struct ib_uverbs_ioctl_hdr) + MAX_ATTRS * sizeof(struct ib_uverbs_attr)]
		__attribute__((aligned(8))) = {};
	struct ib_uverbs_ioctl_hdr *hdr = (void *)call;
	unsigned int which = input_u8(in), n = input_u8(in) % (MAX_ATTRS + 1);

	hdr->object_id = (uint16_t)known[which % n_known][0];
	hdr->method_id = (uint16_t)known[which % n_known][1];
	hdr->driver_id = RDMA_DRIVER_MLX5;
	hdr->num_attrs = (uint16_t)n;
	hdr->length = (uint16_t)(sizeof(*hdr) + n * sizeof(hdr->attrs[0]));
	for (unsigned int i = 0; i < n; i++) {
		struct ib_uverbs_attr *a = &hdr->attrs[i];
		uint8_t how = input_u8(in);

		a->attr_id = (uint16_t)(how % 8 == 7 ? input_u16(in) : i + (how & 8 ? 0x1000 : 0));
		a->flags = how & 16 ? 1 : 0;
		a->len = (uint16_t)(how & 32 ? input_u8(in) : how & 64 ? input_u16(in) : 0);
		a->data = how & 128 ? (uintptr_t)slot(&run, how % N_SLOTS) : input_u8(in);
	}
	if (strange)
		input_bytes(in, hdr, sizeof(*hdr));
	uverbs_ioctl(run.file, call);
}

static void read_events(void)
{
	for (int fd = 0; fd < MAX_FD; fd++) {
		struct fd_object *o = fdtab_find(&run.fdtab, fd, FD_CHANNEL);
		uint64_t record[8];

		if (o && recv(fd, record, sizeof(record), MSG_DONTWAIT) > 0)
			event_channel_flush((struct event_channel *)o);
		fd_object_put(o);
	}
}

static void map_bar(struct input *in)
{
	void *page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, run.fd, (off_t)(input_u16(in) % 0x2000) * 4096);

	if (page == MAP_FAILED)
		return;
	*(volatile uint64_t *)page = input_u64(in);
	munmap(page, 4096);
}

/* Memory that goes away while it is registered. */
static void unmap_slot(struct input *in)
{
	unsigned int i = input_u8(in) % N_SLOTS;

	must(mmap(slot(&run, i), SLOT_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
	run.slot_used[i] = true;
}

static void ask(struct input *in, bool strange)
{
	static const char *const requests[] = {"objects",
	                                       "objects json",
	                                       "trace",
	                                       "trace json frames",
	                                       "mark x",
	                                       "warnings json",
	                                       "inject lose=2 delay=1 receive-error=REM_OP_ERR/3 poison shuffle",
	                                       "inject reuse send-error=2 duplicate=3 reorder corrupt bandwidth=9"};
	static char answer[CONTROL_MAX_PACKET + 1];
	bool stays;
	char bytes[2 * CONTROL_MAX_REQUEST];
	const char *known = requests[input_u8(in) % (sizeof(requests) / sizeof(requests[0]))];
	size_t n = strange ? input_bytes(in, bytes, input_u16(in) % sizeof(bytes)) : 0;

	stays = strange ? control_request(&control, asking[1], bytes, n)
	                : control_request(&control, asking[1], known, strlen(known));
	if (stays) /* the device tells what its next turns do, and later ones, until the next request */
		return;
	if (control.listening >= 0)
		control_stop_trace(&control);
	while (recv(asking[0], answer, sizeof(answer), 0) > 0)
		must(answer[0] == TRACE_TEXT || answer[0] == TRACE_FRAMES || answer[0] == CONTROL_ERROR);
}

static void operate(struct input *in, uint8_t operation, bool strange)
{
	switch (operation) {
	case OP_RAW_WRITE:
		raw_write(in);
		break;
	case OP_RAW_IOCTL:
		raw_ioctl(in, strange);
		break;
	case OP_READ_EVENTS:
		read_events();
		break;
	case OP_MAP_BAR:
		map_bar(in);
		break;
	case OP_UNMAP:
		unmap_slot(in);
		break;
	case OP_REOPEN:
		close_fd(run.fd);
		open_device();
		break;
	case OP_CLOSE_SOME:
		close_fd(strange ? input_u8(in) : run.fd + 2);
		open_device();
		break;
	case OP_POST_RECV:
	case OP_POST_SEND:
	case OP_CONSUME:
	case OP_POKE:
		operate_memory(&run, in, operation, strange);
		break;
	case OP_FRAMES:
		operate_frames(&run, in, strange);
		break;
	case OP_ASK:
		ask(in, strange);
		break;
	default:
		operate_command(&run, in, operation - OP_FIRST_COMMAND, strange);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	int fd_before = first_free_fd();

	run.next_slot = 0;
	memset(run.slot_used, true, sizeof(run.slot_used));
	restore_arena();
	open_device();
	open_dmabuf();
	for (int i = 0; i < MAX_OPERATIONS && in.left >= 2; i++) {
		uint8_t operation = input_u8(&in), strange = input_u8(&in);

		operate(&in, operation % N_OPERATIONS, strange);
	}
	operate_frames(&run, &in, false); /* a last round of the device's */
	if (control.listening >= 0)
		control_stop_trace(&control);
	memset(run.device.faults_told, 0, sizeof(run.device.faults_told));
	run.device.next_look_ns = 0;
	close_everything();
	check_nothing_left(fd_before);
	return 0;
}
