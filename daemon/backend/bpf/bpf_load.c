// SPDX-License-Identifier: Apache-2.0
/* Loads the BPF programs that are embedded in the daemon, and explains why the kernel refuses one. */
#include "daemon/backend/bpf/bpf_load.h"

#include <errno.h>
#include <string.h>

/* IBVCAP_BPF_DIRECTORY is where the build puts the objects. */
#define BPF_CODE_EMBED(name, file)                                \
	__asm__(".pushsection .rodata\n"                          \
	        ".balign 8\n"                                     \
	        "bpf_code_" name "_begin:\n"                      \
	        ".incbin \"" IBVCAP_BPF_DIRECTORY "/" file "\"\n" \
	        "bpf_code_" name "_end:\n"                        \
	        ".popsection\n");

BPF_CODE_EMBED("xdp", "xdp.bpf.o")
BPF_CODE_EMBED("packet", "packet.bpf.o")

extern const uint8_t bpf_code_xdp_begin[], bpf_code_xdp_end[];
extern const uint8_t bpf_code_packet_begin[], bpf_code_packet_end[];

const struct bpf_code bpf_code_xdp = {"ibvcap_xdp", bpf_code_xdp_begin, bpf_code_xdp_end};
const struct bpf_code bpf_code_packet = {"ibvcap_packet", bpf_code_packet_begin, bpf_code_packet_end};

int bpf_code_open(const struct bpf_code *code, struct bpf_object **object, struct failure *failure)
{
	LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = code->name);

	libbpf_set_print(NULL); /* the failures have the same texts */
	*object = bpf_object__open_mem(code->begin, (size_t)(code->end - code->begin), &options);
	if (*object)
		return 0;
	return failure_set(failure, EX_SOFTWARE, errno, "libbpf cannot read the BPF program %s of this daemon: %s",
	                   code->name, strerror(errno));
}

int bpf_code_size_map(const struct bpf_object *object, const char *map, uint32_t n_entries)
{
	struct bpf_map *found = bpf_object__find_map_by_name(object, map);

	return found ? bpf_map__set_max_entries(found, n_entries) : -ENOENT;
}

static const char *bpf_code_cure(int error)
{
	switch (error) {
	case EPERM:
	case EACCES:
		return ": CAP_BPF and CAP_NET_ADMIN are needed: AmbientCapabilities=CAP_NET_RAW CAP_NET_ADMIN CAP_BPF "
		       "in the unit, or backend = \"packet\", which works without";
	case ENOSYS:
		return ": this kernel is built without CONFIG_BPF_SYSCALL: backend = \"packet\" works without";
	case EINVAL:
	case EOPNOTSUPP:
		return ": Linux 6.1 or later with CONFIG_XDP_SOCKETS is needed (uname -r shows the version): "
		       "backend = \"packet\" works without";
	case ENOMEM:
		return ": the kernel has no memory for its maps";
	default:
		return "";
	}
}

int bpf_code_load(struct bpf_object *object, const char *interface, struct failure *failure)
{
	int r = bpf_object__load(object);

	if (r == 0)
		return 0;
	return failure_set(failure, r == -EPERM ? EX_NOPERM : EX_OSERR, -r,
	                   "interface %s: cannot load the BPF program %s: %s%s", interface, bpf_object__name(object),
	                   strerror(-r), bpf_code_cure(-r));
}
