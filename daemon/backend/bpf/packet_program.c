// SPDX-License-Identifier: Apache-2.0
/* Loads and attaches the programs of the packet backend, and changes their map of flows. */
#include "daemon/backend/bpf/packet_program.h"

#include "daemon/backend/bpf/bpf_keep.h"
#include "daemon/backend/bpf/bpf_load.h"
#include "lib/base/fd.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ATTACH_TCX_INGRESS ((enum bpf_attach_type)46) /* BPF_TCX_INGRESS, which headers before Linux 6.6 lack */

#define WHOLE_FRAME 0x40000

/*
 * A filter has its fanout index in its code. All are loaded at once, because the daemon has the right to do so at its
 * start only.
 */
static int packet_program_load_filter(struct packet_program *program, int works_fd)
{
	const struct bpf_insn code[] = {
		{.code = BPF_ST | BPF_MEM | BPF_W, .dst_reg = BPF_REG_10, .off = -4}, /* key 0 */
		{.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_2, .src_reg = BPF_REG_10},
		{.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_2, .imm = -4},
		{.code = BPF_LD | BPF_DW | BPF_IMM,
	         .dst_reg = BPF_REG_1,
	         .src_reg = BPF_PSEUDO_MAP_FD,
	         .imm = works_fd},
		{.code = 0},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_map_lookup_elem},
		{.code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = BPF_REG_0, .off = 4},
		{.code = BPF_LDX | BPF_MEM | BPF_W,
	         .dst_reg = BPF_REG_1,
	         .src_reg = BPF_REG_0,
	         .off = offsetof(struct packet_verdict, fanout_index)},
		{.code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = BPF_REG_1, .off = 2, .imm = (int)program->n_filters},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = WHOLE_FRAME},
		{.code = BPF_JMP | BPF_EXIT},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, "ibvcap_place", "Dual BSD/GPL", code,
	                       sizeof(code) / sizeof(code[0]), NULL);

	if (fd < 0)
		return fd;
	program->filter_fds[program->n_filters++] = fd;
	return 0;
}

static int packet_program_load_filters(struct packet_program *program, struct failure *failure)
{
	int works_fd = bpf_object__find_map_fd_by_name(program->object, "works"), r = 0;

	while (r == 0 && program->n_filters < PACKET_PROGRAM_SOCKETS_MAX)
		r = packet_program_load_filter(program, works_fd);
	return r == 0 ? 0
	              : failure_set(failure, EX_OSERR, -r, "interface %s: cannot load a filter: %s", program->interface,
	                            strerror(-r));
}

static void packet_program_destroy(struct packet_program *program)
{
	while (program->n_filters > 0)
		fd_close(&program->filter_fds[--program->n_filters]);
	bpf_object__close(program->object);
	free(program);
}

/* One that was loaded for the interface before, and has frames of the same kind. NULL: there is none. */
static struct packet_program *packet_program_take(const char *interface, bool has_ethernet)
{
	struct packet_program *program = bpf_keep_take(&bpf_code_packet, interface);

	if (!program || program->table.settings.no_ethernet == !has_ethernet)
		return program;
	packet_program_free(program);
	return NULL;
}

int packet_program_load(const char *interface, bool has_ethernet, struct packet_program **out, struct failure *failure)
{
	const struct flow_settings settings = {.no_ethernet = !has_ethernet};
	struct packet_program *program = packet_program_take(interface, has_ethernet);
	int r;

	*out = program;
	if (program)
		return 0;
	program = calloc(1, sizeof(*program));
	if (!program)
		return failure_no_memory(failure);
	program->link_fd = -1;
	strncpy(program->interface, interface, sizeof(program->interface) - 1);
	r = bpf_code_open(&bpf_code_packet, &program->object, failure);
	if (r == 0)
		r = flow_table_size(program->object, PACKET_PROGRAM_SOCKETS_MAX);
	if (r == 0)
		r = bpf_code_load(program->object, program->interface, failure);
	if (r == 0)
		r = flow_table_init(&program->table, program->object, program->interface, &settings);
	if (r == 0)
		r = packet_program_load_filters(program, failure);
	if (r < 0) {
		packet_program_destroy(program);
		return r;
	}
	program->steer_fd = bpf_program__fd(bpf_object__find_program_by_name(program->object, "packet_steer"));
	*out = program;
	return 0;
}

/* A kernel without tcx does not know the type of attachment. */
int packet_program_attach_drop(struct packet_program *program, unsigned int ifindex, struct failure *failure)
{
	int drop_fd = bpf_program__fd(bpf_object__find_program_by_name(program->object, "packet_drop"));
	int fd = bpf_link_create(drop_fd, (int)ifindex, ATTACH_TCX_INGRESS, NULL);

	if (fd >= 0) {
		program->link_fd = fd;
		return 0;
	}
	if (fd == -EINVAL || fd == -EOPNOTSUPP)
		return failure_set(
			failure, EX_OSERR, EOPNOTSUPP,
			"interface %s: this kernel has no tcx: Linux 6.6 or later is needed (uname -r shows the "
			"version)",
			program->interface);
	return failure_set(failure, EX_OSERR, -fd, "interface %s: cannot attach the tcx program: %s",
	                   program->interface, strerror(-fd));
}

void packet_program_free(struct packet_program *program)
{
	if (!program)
		return;
	if (program->link_fd >= 0)
		bpf_link_detach(program->link_fd); /* a process that inherited the descriptor would keep the link */
	fd_close(&program->link_fd);
	if (!bpf_keep_put(&bpf_code_packet, program->interface, program))
		packet_program_destroy(program);
}

bool packet_program_is_kept(const char *interface)
{
	return bpf_keep_has(&bpf_code_packet, interface);
}
