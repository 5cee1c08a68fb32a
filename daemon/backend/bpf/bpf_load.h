// SPDX-License-Identifier: Apache-2.0
/* The compiled BPF programs, which are part of the daemon's file, and how they get into the kernel. */
#ifndef DAEMON_BACKEND_BPF_BPF_LOAD_H
#define DAEMON_BACKEND_BPF_BPF_LOAD_H

#include "lib/base/failure.h"

#include <bpf/libbpf.h>
#include <stdint.h>

/* An ELF object that clang made. */
struct bpf_code {
	const char *name;
	const uint8_t *begin;
	const uint8_t *end;
};

extern const struct bpf_code bpf_code_xdp;
extern const struct bpf_code bpf_code_packet;

/** Open it, so that the sizes of its maps can be set. Close it with bpf_object__close(). */
int bpf_code_open(const struct bpf_code *code, struct bpf_object **object, struct failure *failure);

/** Give a map of an opened object its size. 0 or -errno. */
int bpf_code_size_map(const struct bpf_object *object, const char *map, uint32_t n_entries);

/** Load it, for this interface. The failure says what right or part of the kernel is missing. */
int bpf_code_load(struct bpf_object *object, const char *interface, struct failure *failure);

#endif
