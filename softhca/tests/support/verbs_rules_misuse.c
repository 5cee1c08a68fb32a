// SPDX-License-Identifier: Apache-2.0
/* Misuse by a program: it gets an error, and neither crashes nor stops the device. */
#include "verbs_rules.h"

#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PORT         4150
#define BUFFER_BYTES 65536u

/*
 * Memory at an address where the kernel places nothing by itself. Elsewhere the next mapping, of AddressSanitizer's
 * allocator for example, may take the place of memory that was unmapped, and the device would write into that.
 */
static uint8_t *map_apart(void)
{
	return mmap((void *)UINT64_C(0x200000000000), BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	            -1, 0);
}

/* A device would go on in the pages it has pinned; nobody could see what it writes there. */
static const char *unmapped_memory(void)
{
	static const struct queue_config config = {.depth = 8, .n_sge = 1, .payload_bytes = 2048};
	uint8_t *memory = map_apart();
	int status = IBV_WC_SUCCESS;
	struct queue q;

	queue_open(&q, &config);
	struct ibv_mr *mr = ibv_reg_mr(q.pd, memory, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = 2048, .lkey = mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	for (int i = 0; i < 4; i++)
		EXPECT_RETURNS(0, ibv_post_recv(q.qp, &wr, &bad));
	EXPECT_RETURNS(0, queue_add_udp_flow(&q, NULL, PORT, true));
	EXPECT_RETURNS(0, munmap(memory, BUFFER_BYTES));
	/* The first to find out is lost; the next ones may be in the same burst. */
	for (int i = 0; i < 20 && status <= IBV_WC_SUCCESS; i++) { /* -1: the frame was lost */
		ask_for_frames(PORT, 1, 500);
		status = next_status(&q, 200, NULL);
	}
	EXPECT(status == IBV_WC_LOC_PROT_ERR, "no LOC_PROT_ERR");
	EXPECT_RETURNS(0, ibv_dereg_mr(mr));
	queue_close(&q);
	return NULL;
}

/* The same of a send: the headers are there, the payload is not. What went before it is sent. */
static const char *unmapped_send(void)
{
	static const struct queue_config config = {.depth = 8, .n_sge = 2, .payload_bytes = 2048, .send_depth = 8};
	uint8_t *memory = map_apart();
	struct queue q;

	queue_open(&q, &config);
	struct ibv_mr *mr = ibv_reg_mr(q.pd, memory, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge[2] = {{.addr = (uintptr_t)q.payloads, .length = 64, .lkey = q.payload_mr->lkey},
	                         {.addr = (uintptr_t)memory, .length = 100, .lkey = mr->lkey}};
	struct ibv_send_wr bad_one = {
		.sg_list = sge, .num_sge = 2, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr good_one = bad_one, *bad;

	good_one.num_sge = 1;
	good_one.next = &bad_one;
	memset(q.payloads, 0xff, 64);
	memcpy(q.payloads + 12, (uint8_t[2]){0x88, 0xb5}, 2);
	EXPECT_RETURNS(0, munmap(memory, BUFFER_BYTES));
	EXPECT_RETURNS(0, ibv_post_send(q.qp, &good_one, &bad));
	EXPECT(next_status(&q, LONG_MS, NULL) == IBV_WC_SUCCESS, "what lies before it is not sent");
	EXPECT(next_status(&q, LONG_MS, NULL) == IBV_WC_LOC_PROT_ERR, "no LOC_PROT_ERR");
	EXPECT_RETURNS(0, ibv_dereg_mr(mr));
	queue_close(&q);
	return NULL;
}

static sigjmp_buf back;
static volatile int handled;

static void on_fault(int number)
{
	handled = number;
	siglongjmp(back, 1);
}

static bool own_fault_is_handled(void)
{
	uint8_t *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	handled = 0;
	if (!sigsetjmp(back, 1))
		*(volatile uint8_t *)nowhere = 1;
	munmap(nowhere, 4096);
	return handled == SIGSEGV;
}

/* sigaction(2), signal(2): as if the device were not there. */
static const char *own_handlers(void)
{
	struct sigaction ours = {.sa_handler = on_fault}, before, after;
	struct queue *q = shared_queue();

	EXPECT(q->qp, "no queue");
	EXPECT_RETURNS(0, sigaction(SIGSEGV, &ours, &before));
	EXPECT(before.sa_handler != on_fault, "somebody else's handler is ours");
	EXPECT(own_fault_is_handled(), "a handler by sigaction() did not run");
	EXPECT_RETURNS(0, sigaction(SIGSEGV, NULL, &after));
	EXPECT(after.sa_handler == on_fault, "sigaction() does not say what was installed");
	EXPECT(signal(SIGSEGV, SIG_DFL) == on_fault, "signal() does not say what was installed");
	EXPECT(signal(SIGSEGV, on_fault) == SIG_DFL, "signal() does not say what was the default");
	EXPECT(own_fault_is_handled(), "a handler by signal() did not run");
	return NULL;
}

static volatile int n_replaced;

static void replaces_itself(int number)
{
	struct sigaction old;

	n_replaced++;
	if (sigaction(number, &(struct sigaction){.sa_handler = SIG_IGN}, &old) || old.sa_handler != replaces_itself)
		n_replaced = -100;
}

/* signal(7): SIG_IGN is for what is sent. signal-safety(7): a handler may call sigaction(). */
static const char *sent_faults(void)
{
	EXPECT(shared_queue()->qp, "no queue");
	EXPECT(signal(SIGSEGV, SIG_IGN) != SIG_ERR, "cannot be ignored");
	EXPECT_RETURNS(0, kill(getpid(), SIGSEGV));
	EXPECT_RETURNS(0, raise(SIGSEGV));
	EXPECT(signal(SIGBUS, replaces_itself) != SIG_ERR, "cannot be handled");
	EXPECT_RETURNS(0, raise(SIGBUS));
	EXPECT_RETURNS(0, raise(SIGBUS));
	EXPECT(n_replaced == 1, "a handler that replaces itself ran not once");
	return NULL;
}

/* copy_from_user, copy_to_user: ib_uverbs_write, ib_uverbs_ioctl. */
static const char *bad_pointers(void)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_query_device body;
	} query = {.hdr = {.command = IB_USER_VERBS_CMD_QUERY_DEVICE,
	                   .in_words = sizeof(query) / 4,
	                   .out_words = sizeof(struct ib_uverbs_query_device_resp) / 4}};
	void *volatile nowhere = (void *)8;
	int fd = shared_queue()->ctx->cmd_fd;

	EXPECT(write(fd, nowhere, 24) < 0 && errno == EFAULT, "a request from nowhere");
	EXPECT(write(fd, &query, sizeof(query)) < 0 && errno == EFAULT, "a response to nowhere");
	EXPECT(ioctl(fd, RDMA_VERBS_IOCTL, nowhere) < 0 && errno == EFAULT, "an ioctl from nowhere");
	EXPECT(ioctl(fd, RDMA_VERBS_IOCTL + 1, &query) < 0 && errno == ENOTTY, "another ioctl");
	return NULL;
}

/* dev_ethtool: copy_from_user, copy_to_user. */
static const char *bad_ethtool_pointers(void)
{
	static const uint32_t commands[] = {ETHTOOL_GDRVINFO, ETHTOOL_GSSET_INFO, ETHTOOL_GSTRINGS, ETHTOOL_GSTATS};
	uint32_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	void *volatile nowhere = (void *)8;
	struct ifreq ifr = {};

	EXPECT(shared_queue()->qp, "no queue");
	strncpy(ifr.ifr_name, getenv("SOFTHCA_INTERFACES"), IFNAMSIZ - 1);
	EXPECT(ioctl(fd, SIOCETHTOOL, nowhere) < 0 && errno == EFAULT, "no request");
	ifr.ifr_data = nowhere;
	EXPECT(ioctl(fd, SIOCETHTOOL, &ifr) < 0 && errno == EFAULT, "no command");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		page[0] = commands[i];
		page[1] = ETH_SS_STATS;      /* struct ethtool_gstrings */
		page[2] = 1 << ETH_SS_STATS; /* struct ethtool_sset_info */
		ifr.ifr_data = (void *)page;
		mprotect(page, 4096, PROT_READ);
		EXPECT(ioctl(fd, SIOCETHTOOL, &ifr) < 0 && errno == EFAULT,
		       "an answer to where nothing can be written");
		mprotect(page, 4096, PROT_READ | PROT_WRITE);
		EXPECT_RETURNS(0, ioctl(fd, SIOCETHTOOL, &ifr));
	}
	munmap(page, 4096);
	close(fd);
	return NULL;
}

/* ib_uverbs_ioctl, ib_uverbs_cmd_verbs, uverbs_set_attr. */
static const char *malformed_ioctls(void)
{
	uint64_t space[64] = {};
	struct ib_uverbs_ioctl_hdr *call = (void *)space;
	int fd = shared_queue()->ctx->cmd_fd;

	*call = (struct ib_uverbs_ioctl_hdr){.object_id = UVERBS_OBJECT_COUNTERS,
	                                     .method_id = UVERBS_METHOD_COUNTERS_CREATE,
	                                     .driver_id = RDMA_DRIVER_MLX5,
	                                     .length = sizeof(*call)};
	EXPECT(ioctl(fd, RDMA_VERBS_IOCTL, call) < 0 && errno == EINVAL, "a mandatory attribute is missing");
	call->num_attrs = 2;
	call->length = sizeof(*call) + 2 * sizeof(call->attrs[0]);
	EXPECT(ioctl(fd, RDMA_VERBS_IOCTL, call) < 0 && errno == EINVAL, "an attribute twice");
	call->attrs[1].attr_id = 0x77;
	call->attrs[1].flags = UVERBS_ATTR_F_MANDATORY;
	EXPECT(ioctl(fd, RDMA_VERBS_IOCTL, call) < 0 && errno == EPROTONOSUPPORT,
	       "an unknown attribute that is a must");
	call->driver_id = RDMA_DRIVER_MLX4;
	EXPECT(ioctl(fd, RDMA_VERBS_IOCTL, call) < 0 && errno == EINVAL, "another driver's call");
	call->num_attrs = 256;
	call->length = (uint16_t)(sizeof(*call) + 256 * sizeof(call->attrs[0]));
	EXPECT(ioctl(fd, RDMA_VERBS_IOCTL, call) < 0 && errno == EINVAL, "more than a page");
	return NULL;
}

/* As mlx5dv_devx_alloc_uar() and mlx5dv_devx_free_uar() ask for it. 0 or errno. */
static int uar(int fd, bool alloc, uint32_t *handle)
{
	uint64_t space[64] = {}, offset;
	struct ib_uverbs_ioctl_hdr *call = (void *)space;
	uint32_t length, page;
	const struct ib_uverbs_attr of_alloc[] = {
		{.attr_id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, .flags = UVERBS_ATTR_F_MANDATORY},
		{.attr_id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE,
	         .len = 8,
	         .flags = UVERBS_ATTR_F_MANDATORY,
	         .data = MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC},
		{.attr_id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, .len = 8, .data = (uintptr_t)&offset},
		{.attr_id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, .len = 4, .data = (uintptr_t)&length},
		{.attr_id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, .len = 4, .data = (uintptr_t)&page},
	};
	const struct ib_uverbs_attr of_free = {
		.attr_id = MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, .flags = UVERBS_ATTR_F_MANDATORY, .data = *handle};

	call->object_id = MLX5_IB_OBJECT_UAR;
	call->method_id = alloc ? MLX5_IB_METHOD_UAR_OBJ_ALLOC : MLX5_IB_METHOD_UAR_OBJ_DESTROY;
	call->driver_id = RDMA_DRIVER_MLX5;
	call->num_attrs = alloc ? 5 : 1;
	call->length = (uint16_t)(sizeof(*call) + call->num_attrs * sizeof(call->attrs[0]));
	memcpy(call->attrs, alloc ? of_alloc : &of_free, call->num_attrs * sizeof(call->attrs[0]));
	if (ioctl(fd, RDMA_VERBS_IOCTL, call))
		return errno;
	if (alloc)
		*handle = (uint32_t)call->attrs[0].data;
	return 0;
}

static const char *uars_come_back(void)
{
	int fd = shared_queue()->ctx->cmd_fd;
	uint32_t handle = 0;

	for (int i = 0; i < 5000; i++) {
		EXPECT_RETURNS(0, uar(fd, true, &handle));
		EXPECT_RETURNS(0, uar(fd, false, &handle));
	}
	return NULL;
}

/* rdma_core: lookup_get_fd_uobject. */
static const char *wrong_channel(void)
{
	struct queue *q = shared_queue();
	struct ibv_comp_channel wrong = {.context = q->ctx, .fd = q->ctx->async_fd}, *others;
	struct ibv_context *other = ibv_open_device(q->ctx->device);

	EXPECT_ERRNO(EBADF, ibv_create_cq(q->ctx, 8, NULL, &wrong, 0));
	wrong.fd = 0;
	EXPECT_ERRNO(EBADF, ibv_create_cq(q->ctx, 8, NULL, &wrong, 0));
	EXPECT(other, "no second context");
	others = ibv_create_comp_channel(other);
	EXPECT(others, "no channel");
	wrong.fd = others->fd;
	EXPECT_ERRNO(EBADF, ibv_create_cq(q->ctx, 8, NULL, &wrong, 0));
	EXPECT_RETURNS(0, ibv_destroy_comp_channel(others));
	EXPECT_RETURNS(0, ibv_close_device(other));
	return NULL;
}

/* ftruncate(2): EINVAL where it is no regular file; what counts is that nothing happens. */
static const char *cut_off_device(void)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	struct queue *q = shared_queue();

	EXPECT(ftruncate(q->ctx->cmd_fd, 0) < 0, "the device can be cut off");
	EXPECT_RETURNS(0, ibv_query_rt_values_ex(q->ctx, &values));
	return NULL;
}

static const char *no_group_of_its_own(void)
{
	union ibv_gid gid = {.raw = {0xff, 0x02}};

	EXPECT_RETURNS(EINVAL, ibv_attach_mcast(shared_queue()->qp, &gid, 0));
	EXPECT_RETURNS(EINVAL, ibv_detach_mcast(shared_queue()->qp, &gid, 0));
	return NULL;
}

const struct rule misuse_rules[] = {
	{"misuse-cut-off-device", "ftruncate(2)", .check = cut_off_device},
	{"qp-joins-no-group", "ib_core: ib_attach_mcast", .check = no_group_of_its_own},
	{"misuse-unmapped-memory", "softhca: README, Good to know", .check = unmapped_memory},
	{"misuse-unmapped-send", "softhca: README, Good to know", .check = unmapped_send},
	{"misuse-own-fault-handlers", "sigaction(2), signal(2)", .check = own_handlers},
	{"misuse-sent-faults", "signal(7), signal-safety(7)", .check = sent_faults},
	{"misuse-bad-pointers", "ib_uverbs: ib_uverbs_write, ib_uverbs_ioctl", .check = bad_pointers},
	{"misuse-bad-ethtool-pointers", "net/ethtool: dev_ethtool", .check = bad_ethtool_pointers},
	{"misuse-malformed-ioctls", "ib_uverbs: ib_uverbs_ioctl, uverbs_set_attr", .check = malformed_ioctls},
	{"uars-come-back", "mlx5_ib: mmap_obj_cleanup", .check = uars_come_back},
	{"misuse-wrong-channel", "ib_uverbs: lookup_get_fd_uobject", .check = wrong_channel},
	{},
};
