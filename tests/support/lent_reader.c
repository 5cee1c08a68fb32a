// SPDX-License-Identifier: Apache-2.0
/*
 * A consumer that lends the daemon memory for payload rows: lent_reader STREAM [OFFSET]. The memory is a dma-buf of
 * /dev/udmabuf, or where this user cannot open that, softhca's stand-in between processes. It prints a line for each
 * time that it lends, which says what, and for each packet: its length, the UDP destination port of its header row, and
 * its payload row, which it reads in its own mapping of the memory.
 */
#include <ibvcap/ibvcap.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/udmabuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define UDP_PORT_AT 36 /* of the destination, in a frame without a tag, by IPv4 */

struct lender {
	uint64_t offset;
	int fd;
};

static int make_dmabuf(uint64_t bytes)
{
	int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), fd;
	int memfd = memfd_create("softhca-dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct udmabuf_create create = {.memfd = (uint32_t)memfd, .flags = UDMABUF_FLAGS_CLOEXEC, .size = bytes};

	if (memfd < 0 || ftruncate(memfd, (off_t)bytes) < 0 || fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
		return -1;
	if (device < 0)
		return memfd;
	fd = ioctl(device, UDMABUF_CREATE, &create);
	close(device);
	close(memfd);
	return fd;
}

static int lend(void *context, uint64_t bytes, struct ibvcap_rx_lent *lent)
{
	struct lender *lender = context;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), all = (lender->offset + bytes + page - 1) / page * page;
	uint8_t *address;

	if (lender->fd >= 0)
		close(lender->fd);
	lender->fd = make_dmabuf(all);
	if (lender->fd < 0)
		return -errno;
	address = mmap(NULL, all, PROT_READ, MAP_SHARED, lender->fd, 0);
	if (address == MAP_FAILED)
		return -errno;
	lent->fd = lender->fd;
	lent->offset = lender->offset;
	lent->address = address + lender->offset;
	printf("lend %" PRIu64 " %s\n", bytes, access("/dev/udmabuf", R_OK | W_OK) == 0 ? "dma-buf" : "stand-in");
	return 0;
}

static void print_rows(const struct ibvcap_rx_batch *batch)
{
	for (uint32_t i = 0; i < batch->n; i++) {
		const uint8_t *headers = ibvcap_rx_headers(batch, i), *payload = ibvcap_rx_payload(batch, i);

		printf("row %u %u ", batch->meta[i].length, headers[UDP_PORT_AT] << 8 | headers[UDP_PORT_AT + 1]);
		for (uint32_t k = 0; k < batch->meta[i].length; k++)
			printf("%02x", payload[k]);
		printf(" %x\n", batch->meta[i].flags);
	}
}

int main(int argc, char **argv)
{
	struct lender lender = {.offset = argc > 2 ? strtoull(argv[2], NULL, 0) : 0, .fd = -1};
	struct ibvcap_rx_options options = IBVCAP_INIT(struct ibvcap_rx_options);
	struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);
	struct ibvcap_rx *rx;
	int r;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options.lend = lend;
	options.lend_context = &lender;
	options.start = IBVCAP_START_OLDEST;
	r = ibvcap_rx_open(NULL, argc > 1 ? argv[1] : "lidar", &options, &rx);
	if (r == 0)
		printf("open\n");
	while (r >= 0) {
		r = ibvcap_rx_acquire(rx, &batch, 64, 1, -1);
		if (r > 0) {
			print_rows(&batch);
			r = ibvcap_rx_release(rx, &batch);
		}
	}
	fprintf(stderr, "%s\n", ibvcap_error_text());
	return 1;
}
