// SPDX-License-Identifier: Apache-2.0
/*
 * bench_afxdp INTERFACE BYTES: what a bare program receives with one AF_XDP socket (native, copy mode, queue 0) when it
 * copies each UDP payload to a ring of hugepages that another process could map. When it finds no packet it naps.
 */
#include "tests/bench/capture_peer.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

/* Newer than Debian 12's headers. */
#ifndef XDP_USE_SG
#define XDP_USE_SG    (1 << 4)
#define XDP_PKT_CONTD (1 << 0)
#endif
#define FRAME_BYTES  4096u
#define N_FRAMES     4096u
#define RING         2048u
#define BATCH        64u
#define HEADER_BYTES 42u /* Ethernet, IPv4, UDP */

struct afxdp_ring {
	uint32_t *producer;
	uint32_t *consumer;
	void *descriptors;
};

struct afxdp_peer {
	int fd;
	uint8_t *umem;
	struct afxdp_ring fill;
	struct afxdp_ring receive;
	struct peer_rows rows;
	uint32_t payload_bytes;
	uint8_t *row; /* of the packet that is being put together */
	uint32_t at;  /* bytes of that packet so far, headers included */
	uint64_t n_packets;
	uint64_t n_bytes;
};

static void set_option(int fd, int option, const void *value, socklen_t bytes, const char *what)
{
	if (setsockopt(fd, SOL_XDP, option, value, bytes) < 0)
		peer_die(what);
}

static void map_ring(struct afxdp_ring *ring, int fd, const struct xdp_ring_offset *offset, size_t bytes, off_t which)
{
	uint8_t *at = mmap(NULL, offset->desc + bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, which);

	if (at == MAP_FAILED)
		peer_die("mmap of a ring");
	*ring = (struct afxdp_ring){
		.producer = (uint32_t *)(at + offset->producer),
		.consumer = (uint32_t *)(at + offset->consumer),
		.descriptors = at + offset->desc,
	};
}

static void give_frame(struct afxdp_peer *peer, uint32_t at, uint64_t address)
{
	((uint64_t *)peer->fill.descriptors)[at & (N_FRAMES - 1)] = address & ~(uint64_t)(FRAME_BYTES - 1);
}

static void open_rings(struct afxdp_peer *peer)
{
	struct xdp_mmap_offsets offsets;
	socklen_t bytes = sizeof(offsets);
	uint32_t n = RING, n_frames = N_FRAMES;
	struct xdp_umem_reg memory = {.len = (uint64_t)N_FRAMES * FRAME_BYTES, .chunk_size = FRAME_BYTES};

	peer->umem = mmap(NULL, memory.len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (peer->umem == MAP_FAILED)
		peer_die("hugepages of the UMEM");
	memory.addr = (uintptr_t)peer->umem;
	set_option(peer->fd, XDP_UMEM_REG, &memory, sizeof(memory), "UMEM");
	set_option(peer->fd, XDP_UMEM_FILL_RING, &n_frames, sizeof(n_frames), "fill ring");
	set_option(peer->fd, XDP_UMEM_COMPLETION_RING, &n, sizeof(n), "completion ring");
	set_option(peer->fd, XDP_RX_RING, &n, sizeof(n), "receive ring");
	if (getsockopt(peer->fd, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &bytes) < 0)
		peer_die("offsets");
	map_ring(&peer->fill, peer->fd, &offsets.fr, N_FRAMES * sizeof(uint64_t), (off_t)XDP_UMEM_PGOFF_FILL_RING);
	map_ring(&peer->receive, peer->fd, &offsets.rx, RING * sizeof(struct xdp_desc), XDP_PGOFF_RX_RING);
	for (uint32_t i = 0; i < N_FRAMES; i++)
		give_frame(peer, i, (uint64_t)i * FRAME_BYTES);
	__atomic_store_n(peer->fill.producer, N_FRAMES, __ATOMIC_RELEASE);
}

/* The queue may still be bound to the program that ran before. */
static void bind_queue(const struct afxdp_peer *peer, uint32_t interface)
{
	const struct sockaddr_xdp at = {
		.sxdp_family = AF_XDP, .sxdp_flags = XDP_COPY | XDP_USE_SG, .sxdp_ifindex = interface};
	int tries = 40;

	while (bind(peer->fd, (const struct sockaddr *)&at, sizeof(at)) < 0) {
		if (errno != EBUSY || --tries == 0)
			peer_die("bind of the AF_XDP socket");
		usleep(25000);
	}
}

/* return bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS); */
static int load_program(int sockets)
{
	const struct bpf_insn code[] = {
		{.code = BPF_LDX | BPF_MEM | BPF_W,
	         .dst_reg = BPF_REG_2,
	         .src_reg = BPF_REG_1,
	         .off = offsetof(struct xdp_md, rx_queue_index)},
		{.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = BPF_REG_1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = sockets},
		{0},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3, .imm = XDP_PASS},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_XDP,
		.expected_attach_type = BPF_XDP,
		.prog_flags = BPF_F_XDP_HAS_FRAGS,
		.insns = (uintptr_t)code,
		.insn_cnt = sizeof(code) / sizeof(code[0]),
	};

	return peer_load_program(&attr);
}

/* The link goes with the process. */
static void attach(const struct afxdp_peer *peer, uint32_t interface)
{
	union bpf_attr map = {.map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4, .max_entries = 1};
	long sockets = peer_bpf(BPF_MAP_CREATE, &map);
	uint32_t queue = 0, socket = (uint32_t)peer->fd;
	union bpf_attr element = {.map_fd = (uint32_t)sockets, .key = (uintptr_t)&queue, .value = (uintptr_t)&socket};
	union bpf_attr link = {
		.link_create = {.target_ifindex = interface, .attach_type = BPF_XDP, .flags = XDP_FLAGS_DRV_MODE}};

	if (sockets < 0 || peer_bpf(BPF_MAP_UPDATE_ELEM, &element) < 0)
		peer_die("XSKMAP");
	link.link_create.prog_fd = (uint32_t)load_program((int)sockets);
	if (peer_bpf(BPF_LINK_CREATE, &link) < 0)
		peer_die("link of the BPF program");
}

static void take_descriptor(struct afxdp_peer *peer, const struct xdp_desc *part)
{
	const uint8_t *bytes = peer->umem + part->addr;
	uint32_t n = part->len, skip = peer->at < HEADER_BYTES ? HEADER_BYTES - peer->at : 0;

	if (peer->at == 0)
		peer->row = peer_rows_take(&peer->rows);
	if (n > skip && peer->at + n <= HEADER_BYTES + peer->payload_bytes)
		memcpy(peer->row + peer->at + skip - HEADER_BYTES, bytes + skip, n - skip);
	peer->at += n;
	if (part->options & XDP_PKT_CONTD)
		return;
	if (peer->at == HEADER_BYTES + peer->payload_bytes) { /* not another packet of this wire */
		peer->n_packets++;
		peer->n_bytes += peer->payload_bytes;
	}
	peer->at = 0;
}

/* How many descriptors were taken. */
static uint32_t take_batch(struct afxdp_peer *peer)
{
	uint32_t at = *peer->receive.consumer, fill_at = *peer->fill.producer;
	uint32_t n = __atomic_load_n(peer->receive.producer, __ATOMIC_ACQUIRE) - at;

	if (n > BATCH)
		n = BATCH;
	for (uint32_t i = 0; i < n; i++) {
		const struct xdp_desc *part =
			&((const struct xdp_desc *)peer->receive.descriptors)[(at + i) & (RING - 1)];

		take_descriptor(peer, part);
		give_frame(peer, fill_at + i, part->addr);
	}
	__atomic_store_n(peer->receive.consumer, at + n, __ATOMIC_RELEASE);
	__atomic_store_n(peer->fill.producer, fill_at + n, __ATOMIC_RELEASE);
	return n;
}

static void report_drops(const struct afxdp_peer *peer)
{
	struct xdp_statistics statistics;
	socklen_t bytes = sizeof(statistics);

	if (getsockopt(peer->fd, SOL_XDP, XDP_STATISTICS, &statistics, &bytes))
		peer_die("XDP_STATISTICS");
	printf("{\"no_frame\": %" PRIu64 ", \"ring_full\": %" PRIu64 "}\n", (uint64_t)statistics.rx_dropped,
	       (uint64_t)statistics.rx_ring_full);
}

int main(int argc, char **argv)
{
	struct afxdp_peer peer = {.fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0)};
	uint32_t interface;

	if (argc != 3) {
		fputs("usage: bench_afxdp INTERFACE BYTES\n", stderr);
		return EX_USAGE;
	}
	interface = if_nametoindex(argv[1]);
	if (peer.fd < 0 || !interface)
		peer_die(argv[1]);
	peer.payload_bytes = (uint32_t)peer_number(argv[2], 1, UINT16_MAX);
	peer_rows_init(&peer.rows, peer.payload_bytes, 1);
	open_rings(&peer);
	bind_queue(&peer, interface);
	attach(&peer, interface);
	peer_ready();
	for (;;) {
		if (take_batch(&peer) > 0)
			continue;
		if (peer_stopped())
			break;
		peer_nap();
	}
	report_drops(&peer);
	peer_report(peer.n_packets, peer.n_bytes);
	return 0;
}
