// SPDX-License-Identifier: Apache-2.0
/* Loads and attaches the XDP program, and changes its maps. */
#include "daemon/backend/bpf/xdp_program.h"

#include "daemon/backend/bpf/bpf_keep.h"
#include "daemon/backend/bpf/bpf_load.h"
#include "daemon/base/log.h"
#include "daemon/net/ethtool.h"
#include "lib/base/fd.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <stdlib.h>
#include <string.h>

static int xdp_program_size_maps(const struct xdp_program *program, uint32_t n_queues, uint32_t max_card_queues)
{
	int r = flow_table_size(program->object, n_queues);

	if (r == 0)
		r = bpf_code_size_map(program->object, "counts", n_queues);
	return r < 0 ? r : bpf_code_size_map(program->object, "sockets", n_queues * max_card_queues);
}

static void xdp_program_destroy(struct xdp_program *program)
{
	bpf_object__close(program->object);
	free(program);
}

/* One that was loaded for the interface before, and has the room. NULL: there is none. */
static struct xdp_program *xdp_program_take(const char *interface, uint32_t n_queues, uint32_t max_card_queues)
{
	struct xdp_program *program = bpf_keep_take(&bpf_code_xdp, interface);

	if (!program)
		return NULL;
	program->table.settings.n_card_queues = 0;
	if (n_queues <= program->n_queues && max_card_queues <= program->table.settings.max_card_queues &&
	    flow_table_apply(&program->table) == 0)
		return program;
	xdp_program_free(program);
	return NULL;
}

static uint32_t program_id(int fd)
{
	struct bpf_prog_info info = {0};
	uint32_t bytes = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &bytes) == 0 ? info.id : 0;
}

int xdp_program_load(const char *interface, uint32_t n_queues, uint32_t max_card_queues, struct xdp_program **out,
                     struct failure *failure)
{
	const struct flow_settings settings = {.max_card_queues = max_card_queues};
	struct xdp_program *program = xdp_program_take(interface, n_queues, max_card_queues);
	int r;

	*out = program;
	if (program)
		return 0;
	program = calloc(1, sizeof(*program));
	if (!program)
		return failure_no_memory(failure);
	program->link_fd = -1;
	program->n_queues = n_queues;
	strncpy(program->interface, interface, sizeof(program->interface) - 1);
	program->n_cpus = libbpf_num_possible_cpus();
	r = program->n_cpus < 0
	            ? failure_set(failure, EX_OSERR, -program->n_cpus,
	                          "cannot read /sys/devices/system/cpu/possible: %s", strerror(-program->n_cpus))
	            : bpf_code_open(&bpf_code_xdp, &program->object, failure);
	if (r == 0)
		r = xdp_program_size_maps(program, n_queues, max_card_queues);
	if (r == 0)
		r = bpf_code_load(program->object, interface, failure);
	if (r == 0)
		r = flow_table_init(&program->table, program->object, program->interface, &settings);
	if (r < 0) {
		xdp_program_destroy(program);
		return r;
	}
	program->twin_fds[0] = bpf_program__fd(bpf_object__find_program_by_name(program->object, "xdp_steer_a"));
	program->twin_fds[1] = bpf_program__fd(bpf_object__find_program_by_name(program->object, "xdp_steer_b"));
	for (unsigned i = 0; i < 2; i++)
		program->twin_ids[i] = program_id(program->twin_fds[i]);
	program->sockets_fd = bpf_object__find_map_fd_by_name(program->object, "sockets");
	program->counts_fd = bpf_object__find_map_fd_by_name(program->object, "counts");
	*out = program;
	return 0;
}

void xdp_program_free(struct xdp_program *program)
{
	if (!program)
		return;
	xdp_program_detach(program);
	if (!bpf_keep_put(&bpf_code_xdp, program->interface, program))
		xdp_program_destroy(program);
}

bool xdp_program_is_kept(const char *interface)
{
	return bpf_keep_has(&bpf_code_xdp, interface);
}

/* ---- rx-vlan-offload ------------------------------------------------------------------------------- */

/*
 * A driver with rx-vlan-offload (igb, vmxnet3, …) takes the VLAN tag out of a frame before an XDP program sees it: no
 * flow with a VLAN would match. So it is off while the program is attached. Needs CAP_NET_ADMIN.
 */

/* 1: changed; 0: it was so, or the driver has no such setting; or -errno. */
static int vlan_strip_set(const char *interface, bool on)
{
	struct ethtool_value flags = {.cmd = ETHTOOL_GFLAGS};
	int r = ethtool_ask(interface, &flags);

	if (r < 0 || !(flags.data & ETH_FLAG_RXVLAN) == !on)
		return r == -EOPNOTSUPP ? 0 : r;
	flags.cmd = ETHTOOL_SFLAGS;
	flags.data ^= ETH_FLAG_RXVLAN;
	r = ethtool_ask(interface, &flags);
	return r < 0 ? r : 1;
}

/* Leave the tags in the frames; true: this changed the interface. The log says so, or why it cannot be done. */
static bool vlan_strip_stop(unsigned int ifindex)
{
	char name[IF_NAMESIZE];
	const struct log_about about = {.interface = name};
	int r = if_indextoname(ifindex, name) ? vlan_strip_set(name, false) : 0;

	if (r > 0)
		log_message(
			LOG_INFO, &about,
			"interface %s: the daemon has switched rx-vlan-offload off, because XDP does not see the VLAN "
			"tags that it takes out of the frames",
			name);
	else if (r < 0)
		log_message(
			LOG_WARNING, &about,
			"interface %s: cannot switch rx-vlan-offload off: %s: flows with a VLAN match no packet there: "
			"try 'ethtool -K %s rxvlan off', or use backend = \"packet\"",
			name, strerror(-r), name);
	return r > 0;
}

/* If that cannot be done any more, the log says which command does it. */
static void vlan_strip_resume(unsigned int ifindex)
{
	char name[IF_NAMESIZE];
	int r = if_indextoname(ifindex, name) ? vlan_strip_set(name, true) : 0;

	if (r < 0)
		log_message(
			LOG_NOTICE, &(struct log_about){.interface = name},
			"interface %s: rx-vlan-offload stays off: %s: 'ethtool -K %s rxvlan on' switches it on, which "
			"saves the kernel some work for frames with a VLAN",
			name, strerror(-r), name);
}

/* ---- the link -------------------------------------------------------------------------------------- */

/* Why the kernel or the driver refuses it on this interface, and the cure. */
static int xdp_program_refused(const char *interface, unsigned int ifindex, int error, struct failure *failure)
{
	char name[IF_NAMESIZE];
	uint32_t other = 0;

	if (!if_indextoname(ifindex, name))
		return failure_set(failure, EX_UNAVAILABLE, ENODEV, "interface %s: it has gone", interface);
	switch (error) {
	case EBUSY:
	case EEXIST:
		bpf_xdp_query_id((int)ifindex, 0, &other);
		return failure_set(failure, EX_UNAVAILABLE, error,
		                   "interface %s: it has an XDP program already (ID %u%s): end the process that "
		                   "attached it, or run 'ip link set dev %s %s off'",
		                   interface, other, error == EEXIST ? ", generic" : "", interface,
		                   error == EEXIST ? "xdpgeneric" : "xdp");
	case ENOSPC:
		return failure_set(failure, EX_UNAVAILABLE, error,
		                   "interface %s: it has fewer receive queues than the other end of the veth pair has "
		                   "transmit queues: run 'ethtool -L %s rx N' with N as 'ethtool -l' of the other end "
		                   "shows for TX, or make the pair with 'ip link add %s numrxqueues N type veth'",
		                   interface, interface, interface);
	case ERANGE:
	case EINVAL:
		return failure_set(failure, EX_UNAVAILABLE, error,
		                   "interface %s: its driver takes no XDP program with its present settings, of which "
		                   "'dmesg' may name one: run 'ip link set dev %s mtu 1500', 'ethtool -K %s lro off', "
		                   "or use backend = \"packet\"",
		                   interface, interface, interface);
	case EOPNOTSUPP:
		return failure_set(failure, EX_UNAVAILABLE, error,
		                   "interface %s: its driver has no native XDP, or none with its present settings, of "
		                   "which 'dmesg' may name one: use backend = \"packet\"",
		                   interface);
	default:
		return failure_set(failure, EX_UNAVAILABLE, error,
		                   "interface %s: cannot attach the XDP program: %s: use backend = \"packet\"",
		                   interface, strerror(error));
	}
}

int xdp_program_attach(struct xdp_program *program, unsigned int ifindex, struct failure *failure)
{
	LIBBPF_OPTS(bpf_link_create_opts, options, .flags = XDP_FLAGS_DRV_MODE);
	int fd;

	xdp_program_detach(program);
	fd = bpf_link_create(program->twin_fds[program->twin], (int)ifindex, BPF_XDP, &options);
	if (fd >= 0) {
		program->link_fd = fd;
		program->ifindex = ifindex;
		program->stopped_vlan_strip = vlan_strip_stop(ifindex);
		return 0;
	}
	return xdp_program_refused(program->interface, ifindex, -fd, failure);
}

/* A process that inherited the descriptor would keep the link. */
void xdp_program_detach(struct xdp_program *program)
{
	if (program->link_fd >= 0)
		bpf_link_detach(program->link_fd);
	fd_close(&program->link_fd);
	if (program->stopped_vlan_strip)
		vlan_strip_resume(program->ifindex);
	program->stopped_vlan_strip = false;
}

bool xdp_program_is_there(const struct xdp_program *program)
{
	struct bpf_link_info info = {0};
	uint32_t bytes = sizeof(info);

	if (program->link_fd < 0 || bpf_obj_get_info_by_fd(program->link_fd, &info, &bytes) != 0)
		return true; /* the backend knows, or the kernel does not say */
	return info.xdp.ifindex && info.prog_id == program->twin_ids[program->twin];
}

int xdp_program_set_card_queues(struct xdp_program *program, uint32_t n)
{
	int r;

	if (n > program->table.settings.max_card_queues)
		return -EINVAL;
	program->table.settings.n_card_queues = n;
	r = flow_table_apply(&program->table);
	if (r < 0 || program->link_fd < 0)
		return r;
	r = bpf_link_update(program->link_fd, program->twin_fds[!program->twin], NULL);
	if (r == 0)
		program->twin = !program->twin;
	return r;
}

int xdp_program_set_socket(struct xdp_program *program, uint32_t queue, uint32_t card_queue, int fd)
{
	uint32_t slot = queue * program->table.settings.max_card_queues + card_queue;

	return bpf_map_update_elem(program->sockets_fd, &slot, &fd, BPF_ANY);
}

int xdp_program_read_counts(const struct xdp_program *program, uint32_t queue, struct flow_counts *counts)
{
	struct flow_counts *of_cpus = calloc((size_t)program->n_cpus, sizeof(*of_cpus));
	int r = of_cpus ? bpf_map_lookup_elem(program->counts_fd, &queue, of_cpus) : -ENOMEM;

	*counts = (struct flow_counts){0};
	for (int i = 0; r == 0 && i < program->n_cpus; i++) {
		counts->matched += of_cpus[i].matched;
		counts->no_socket += of_cpus[i].no_socket;
	}
	free(of_cpus);
	return r;
}
