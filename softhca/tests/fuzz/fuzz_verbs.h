// SPDX-License-Identifier: Apache-2.0
/* What the parts of fuzz_verbs share. */
#ifndef TESTS_FUZZ_VERBS_H
#define TESTS_FUZZ_VERBS_H

#include "softhca/tests/fuzz/fuzz_input.h"
#include "softhca/uverbs/uverbs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define N_SLOTS     16u
#define SLOT_BYTES  8192u
#define SLOT_STRIDE (SLOT_BYTES + 4096u)
#define ARENA_BYTES (N_SLOTS * SLOT_STRIDE)

enum operation {
	OP_RAW_WRITE,
	OP_RAW_IOCTL,
	OP_READ_EVENTS,
	OP_MAP_BAR,
	OP_UNMAP,
	OP_REOPEN,
	OP_CLOSE_SOME,
	OP_POST_RECV,
	OP_POST_SEND,
	OP_CONSUME,
	OP_POKE,
	OP_FRAMES,
	OP_FIRST_COMMAND, /* the commands of fuzz_verbs_commands.c, in their order */
	OP_ASK = OP_FIRST_COMMAND + 32,
	N_OPERATIONS,
};

/* One device, one program that uses it. */
struct run {
	struct fdtab fdtab;
	struct memlock memlock;
	struct device device;
	struct uverbs_file *file;
	int fd;
	uint8_t *arena; /* the program's memory */
	bool slot_used[N_SLOTS];
	unsigned int next_slot;
};

static inline uint8_t *slot(const struct run *run, unsigned int i)
{
	return run->arena + (size_t)(i % N_SLOTS) * SLOT_STRIDE;
}

/* The next of the input; zeros when it is used up. */
uint8_t input_u8(struct input *in);
uint16_t input_u16(struct input *in);
uint64_t input_u64(struct input *in);

/* Write as a program may: whatever is there, and nothing where nothing is. */
void poke(uint64_t to, const void *from, size_t bytes);

/* The n-th (in a circle) object of a type, or NULL. */
void *some_object(struct run *run, enum object_type type, unsigned int n);

void operate_command(struct run *run, struct input *in, unsigned int command, bool strange);
void operate_memory(struct run *run, struct input *in, enum operation operation, bool strange);
void operate_frames(struct run *run, struct input *in, bool strange);

#endif
