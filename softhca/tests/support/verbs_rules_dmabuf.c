// SPDX-License-Identifier: Apache-2.0
/* Rules of dma-bufs as memory regions, and of /dev/udmabuf, which makes them of a memfd. */
#include "verbs_rules.h"

#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/magic.h>
#include <linux/udmabuf.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

#define PAGE    4096u
#define PORT    4100
#define PATTERN 0xee

static const struct queue_config both = {.depth = 8, .n_sge = 1, .payload_bytes = 2048, .send_depth = 8};

/* A memfd, a dma-buf on all of its pages, and the program's own view of them. */
struct buffer {
	int memfd, fd;
	size_t bytes;
	uint8_t *view;
};

static int memfd_of(size_t bytes, int seals)
{
	int fd = memfd_create("dmabuf", MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) || fcntl(fd, F_ADD_SEALS, seals))
		die("memfd");
	return fd;
}

static int udmabuf(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = open("/dev/udmabuf", O_RDWR);
	if (fd < 0)
		die("/dev/udmabuf");
	return fd;
}

static void buffer_open(struct buffer *b, unsigned int n_pages)
{
	struct udmabuf_create create = {.size = n_pages * PAGE};

	b->bytes = n_pages * PAGE;
	b->memfd = memfd_of(b->bytes, F_SEAL_SHRINK);
	create.memfd = (uint32_t)b->memfd;
	b->fd = ioctl(udmabuf(), UDMABUF_CREATE, &create);
	if (b->fd < 0)
		die("UDMABUF_CREATE");
	b->view = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
	if (b->view == MAP_FAILED)
		die("mmap of a dma-buf");
	memset(b->view, PATTERN, b->bytes);
}

static void buffer_close(struct buffer *b)
{
	munmap(b->view, b->bytes);
	close(b->fd);
	close(b->memfd);
}

static bool untouched(const uint8_t *p, size_t n)
{
	while (n--)
		if (*p++ != PATTERN)
			return false;
	return true;
}

static const char *frames_land_in_it(struct queue *q)
{
	const uint64_t offset = PAGE + 16, iova = 0x7000010;
	const uint8_t port[] = {PORT >> 8, PORT & 0xff};
	struct ibv_sge sge = {iova, 542, 0};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct buffer b;
	struct ibv_mr *mr;

	buffer_open(&b, 3);
	mr = ibv_reg_dmabuf_mr(q->pd, offset, PAGE, iova, b.fd, IBV_ACCESS_LOCAL_WRITE);
	EXPECT(mr, "not registered");
	sge.lkey = mr->lkey;
	EXPECT_RETURNS(0, ibv_post_recv(q->qp, &wr, &bad));
	EXPECT_RETURNS(0, queue_add_udp_flow(q, NULL, PORT, false));
	ask_for_frames(PORT, 1, 500);
	EXPECT(next_status(q, LONG_MS, NULL) == IBV_WC_SUCCESS, "not received");
	EXPECT(!memcmp(b.view + offset + 36, port, sizeof(port)), "the frame is not at the offset");
	EXPECT(untouched(b.view, offset) && untouched(b.view + offset + 542, b.bytes - offset - 542),
	       "something was written beside the frame");
	EXPECT(send_from(q, iova + PAGE - 100, mr->lkey) == IBV_WC_SUCCESS, "its last byte is not there");
	EXPECT(send_from(q, iova + PAGE - 99, mr->lkey) == IBV_WC_LOC_PROT_ERR, "it is longer");
	EXPECT(send_from(q, iova - 1, mr->lkey) == IBV_WC_LOC_PROT_ERR, "below it is something");
	EXPECT_RETURNS(0, ibv_dereg_mr(mr));
	buffer_close(&b);
	return NULL;
}

static const char *descriptor_is_a_dmabuf(void)
{
	struct ibv_pd *pd = shared_queue()->pd;
	int memfd = memfd_of(PAGE, F_SEAL_SHRINK);

	EXPECT_ERRNO(EBADF, ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, 9999, IBV_ACCESS_LOCAL_WRITE));
	EXPECT_ERRNO(EBADF, ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, -1, IBV_ACCESS_LOCAL_WRITE));
	EXPECT_ERRNO(EINVAL, ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, memfd, IBV_ACCESS_LOCAL_WRITE));
	EXPECT_ERRNO(EINVAL, ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, udmabuf(), IBV_ACCESS_LOCAL_WRITE));
	close(memfd);
	return NULL;
}

/* It may come from another process, which need not run under softhca. */
static const char *named_memfd_is_a_dmabuf(void)
{
	struct ibv_pd *pd = shared_queue()->pd;
	int fd = memfd_create("softhca-dmabuf", 0), other = memfd_create("softhca-dmabuf2", 0);
	struct statfs fs;
	struct ibv_mr *mr;

	EXPECT(fd >= 0 && other >= 0 && !ftruncate(fd, PAGE) && !ftruncate(other, PAGE), "no memfd");
	EXPECT(!fstatfs(fd, &fs) && fs.f_type == DMA_BUF_MAGIC, "fstatfs() shows a memfd");
	EXPECT(!fstatfs(other, &fs) && fs.f_type != DMA_BUF_MAGIC, "fstatfs() shows any memfd as a dma-buf");
	EXPECT_ERRNO(EINVAL, ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, other, IBV_ACCESS_LOCAL_WRITE));
	EXPECT_ERRNO(EINVAL, ibv_reg_dmabuf_mr(pd, 0, PAGE + 1, 0, fd, IBV_ACCESS_LOCAL_WRITE));
	mr = ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, fd, IBV_ACCESS_LOCAL_WRITE);
	EXPECT(mr, "not registered");
	EXPECT_RETURNS(0, ibv_dereg_mr(mr));
	close(fd);
	close(other);
	return NULL;
}

static const char *offset_agrees_with_iova(void)
{
	struct ibv_pd *pd = shared_queue()->pd;
	struct ibv_mr *mr;
	struct buffer b;

	buffer_open(&b, 2);
	EXPECT_ERRNO(EINVAL, ibv_reg_dmabuf_mr(pd, 16, 64, 32, b.fd, IBV_ACCESS_LOCAL_WRITE));
	EXPECT_ERRNO(EINVAL, ibv_reg_dmabuf_mr(pd, 0, 64, 1, b.fd, IBV_ACCESS_LOCAL_WRITE));
	mr = ibv_reg_dmabuf_mr(pd, PAGE + 16, 64, 16, b.fd, IBV_ACCESS_LOCAL_WRITE);
	EXPECT(mr, "the same place in another page was refused");
	EXPECT_RETURNS(0, ibv_dereg_mr(mr));
	buffer_close(&b);
	return NULL;
}

static const char *length_stays_inside(void)
{
	struct ibv_pd *pd = shared_queue()->pd;
	struct ibv_mr *mr;
	struct buffer b;

	buffer_open(&b, 2);
	EXPECT_ERRNO(EINVAL, ibv_reg_dmabuf_mr(pd, 0, 2 * PAGE + 1, 0, b.fd, IBV_ACCESS_LOCAL_WRITE));
	EXPECT_ERRNO(EINVAL, ibv_reg_dmabuf_mr(pd, 2 * PAGE, 1, 0, b.fd, IBV_ACCESS_LOCAL_WRITE));
	EXPECT_ERRNO(EINVAL, ibv_reg_dmabuf_mr(pd, 0, 0, 0, b.fd, IBV_ACCESS_LOCAL_WRITE));
	EXPECT_ERRNO(EINVAL, ibv_reg_dmabuf_mr(pd, PAGE, SIZE_MAX - 1, 0, b.fd, IBV_ACCESS_LOCAL_WRITE));
	mr = ibv_reg_dmabuf_mr(pd, 1, 2 * PAGE - 1, 1, b.fd, IBV_ACCESS_LOCAL_WRITE);
	EXPECT(mr, "all but the first byte was refused");
	EXPECT_RETURNS(0, ibv_dereg_mr(mr));
	buffer_close(&b);
	return NULL;
}

static const char *access_flags_of_dmabuf(void)
{
	static const int refused[] = {IBV_ACCESS_ON_DEMAND, IBV_ACCESS_HUGETLB, IBV_ACCESS_ZERO_BASED,
	                              IBV_ACCESS_MW_BIND, IBV_ACCESS_REMOTE_WRITE};
	struct ibv_pd *pd = shared_queue()->pd;
	struct ibv_mr *mr;
	struct buffer b;

	buffer_open(&b, 1);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		EXPECT_ERRNO(EINVAL, ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, b.fd, refused[i]));
	mr = ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, b.fd,
	                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	                               IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING);
	EXPECT(mr, "all of its flags were refused");
	EXPECT_RETURNS(0, ibv_dereg_mr(mr));
	buffer_close(&b);
	return NULL;
}

static const char *region_keeps_the_memory(struct queue *q)
{
	struct buffer b;
	struct ibv_mr *mr;

	buffer_open(&b, 1);
	mr = ibv_reg_dmabuf_mr(q->pd, 0, PAGE, 0, b.fd, 0);
	EXPECT(mr, "not registered for reading");
	buffer_close(&b);
	EXPECT(send_from(q, 0, mr->lkey) == IBV_WC_SUCCESS, "the memory went with its descriptors");
	EXPECT_RETURNS(EBUSY, ibv_dealloc_pd(q->pd));
	EXPECT_RETURNS(0, ibv_dereg_mr(mr));
	EXPECT(send_from(q, 0, mr->lkey) == IBV_WC_LOC_PROT_ERR, "the key outlives its region");
	return NULL;
}

static int create_of(int memfd, uint64_t offset, uint64_t size)
{
	struct udmabuf_create create = {.memfd = (uint32_t)memfd, .offset = offset, .size = size};
	int fd = ioctl(udmabuf(), UDMABUF_CREATE, &create);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

/* By default; the stand-in has the limit of Linux 6.12, and 7.3 has none. */
static bool udmabuf_is_limited(void)
{
	FILE *parameter = fopen("/sys/module/udmabuf/parameters/size_limit_mb", "r");
	int mebibytes = 64;

	if (parameter) {
		if (fscanf(parameter, "%d", &mebibytes) != 1)
			die("size_limit_mb of udmabuf");
		fclose(parameter);
	}
	return mebibytes <= 64;
}

static const char *udmabuf_wants_sealed_pages(void)
{
	int memfd = memfd_of(2 * PAGE, F_SEAL_SHRINK), file = open("/proc/self/exe", O_RDONLY);

	EXPECT_RETURNS(0, create_of(memfd, 0, PAGE));
	EXPECT_RETURNS(EINVAL, create_of(memfd, 0, 0));
	EXPECT_RETURNS(EINVAL, create_of(memfd, 0, PAGE / 2));
	EXPECT_RETURNS(EINVAL, create_of(memfd, PAGE / 2, PAGE));
	EXPECT_RETURNS(EINVAL, create_of(memfd, 0, 3 * PAGE));
	EXPECT_RETURNS(EINVAL, create_of(memfd, PAGE, 2 * PAGE));
	EXPECT_RETURNS(udmabuf_is_limited() ? EINVAL : 0, create_of(memfd_of(65 << 20, F_SEAL_SHRINK), 0, 65 << 20));
	EXPECT_RETURNS(EINVAL, create_of(memfd_of(PAGE, F_SEAL_GROW), 0, PAGE));
	EXPECT_RETURNS(EINVAL, create_of(memfd_of(PAGE, F_SEAL_SHRINK | F_SEAL_WRITE), 0, PAGE));
	EXPECT_RETURNS(EBADFD, create_of(9999, 0, PAGE));
	EXPECT_RETURNS(EBADFD, create_of(file, 0, PAGE));
	EXPECT(ioctl(udmabuf(), FIONREAD, NULL) && errno == ENOTTY, "it answers any ioctl");
	return NULL;
}

static const char *udmabuf_takes_a_list(void)
{
	uint8_t room[sizeof(struct udmabuf_create_list) + sizeof(struct udmabuf_create_item)]
		__attribute__((aligned(8))) = {};
	struct udmabuf_create_list *list = (void *)room;
	struct dma_buf_sync sync = {DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW}, odd = {1 << 7};
	int fd;

	list->count = 1;
	list->flags = UDMABUF_FLAGS_CLOEXEC;
	list->list[0] = (struct udmabuf_create_item){.memfd = (uint32_t)memfd_of(PAGE, F_SEAL_SHRINK), .size = PAGE};
	fd = ioctl(udmabuf(), UDMABUF_CREATE_LIST, list);
	EXPECT(fd >= 0, "no buffer");
	EXPECT(fcntl(fd, F_GETFD) == FD_CLOEXEC, "it is not closed at exec()");
	EXPECT_RETURNS(0, ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync));
	EXPECT(ioctl(fd, DMA_BUF_IOCTL_SYNC, &odd) && errno == EINVAL, "an unknown flag was taken");
	list->count = 0;
	EXPECT(ioctl(udmabuf(), UDMABUF_CREATE_LIST, list) && errno == EINVAL, "an empty list was taken");
	list->count = 1025;
	EXPECT(ioctl(udmabuf(), UDMABUF_CREATE_LIST, list) && errno == EINVAL, "a list over the limit was taken");
	return NULL;
}

const struct rule dmabuf_rules[] = {
	{"dmabuf-descriptor", "dma_buf: dma_buf_get", .check = descriptor_is_a_dmabuf},
	{"named-memfd-is-dma-buf", "softhca: dmabuf_is_named_memfd", .check = named_memfd_is_a_dmabuf},
	{"dmabuf-iova-agrees-in-page", "ib_uverbs: UVERBS_METHOD_REG_DMABUF_MR", .check = offset_agrees_with_iova},
	{"dmabuf-length", "ib_core: ib_umem_dmabuf_get", .check = length_stays_inside},
	{"dmabuf-access-flags", "ib_uverbs: UVERBS_METHOD_REG_DMABUF_MR", .check = access_flags_of_dmabuf},
	{"udmabuf-seals-and-pages", "udmabuf: udmabuf_create", .check = udmabuf_wants_sealed_pages},
	{"udmabuf-list", "udmabuf: udmabuf_ioctl_create_list", .check = udmabuf_takes_a_list},
	{"dmabuf-receives", "ib_core: ib_umem_dmabuf_get", .check_queue = frames_land_in_it, .config = &both},
	{"dmabuf-outlives-its-descriptor", "dma_buf: dma_buf_get", .check_queue = region_keeps_the_memory,
         .config = &both},
	{},
};
