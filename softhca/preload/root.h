// SPDX-License-Identifier: Apache-2.0
/* Interposed calls carry no context, so the preloaded library has one global object by which they find everything. */
#ifndef SOFTHCA_PRELOAD_ROOT_H
#define SOFTHCA_PRELOAD_ROOT_H

#include "../control/control.h"
#include "../cm/cm.h"
#include "../device/fault.h"
#include "../settings.h"
#include "../uverbs/uverbs.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>

struct root {
	struct fdtab fdtab;
	struct memlock memlock;
	struct clock clock;
	struct cm cm;
	struct device devices[SETTINGS_MAX_NETDEVS];
	unsigned int n_devices;
	struct trace trace;
	struct control control;
	_Atomic pid_t owner; /* the process to which the threads and devices belong */
	/* The emulated directory that chdir() went to; else empty. It ends at exec(), where the kernel's takes over. */
	char working_directory[256];
};

/* The root, set up from the environment at the first call. Its n_devices is 0 if nothing is emulated. */
struct root *root_get(void);
/* The root as it is, for calls that only ask about descriptors. */
struct root *root_peek(void);

/* The number of RDMA devices, which are the first of all devices: a bond has one (mlx5_core: mlx5_lag). */
static inline unsigned int root_n_rdma(const struct root *r)
{
	return r->n_devices && *r->devices[0].config.bond ? 1 : r->n_devices;
}

/* Tells the user, once, which netdevs are not there. For calls of programs that look for devices: other programs, like
 * a shell that changes the network namespace first, need none. */
void root_check_netdevs(void);

/* Do the devices belong to this process? After fork() the child has its own. A child after vfork() has none: it shares
 * our memory, so its close() must not tear anything down. */
bool root_is_owner(void);

/* Marks an interposed function, which the program must see. */
#define HOOK __attribute__((visibility("default")))

/* The C library's function that ours stands in front of. Threads that look it up at the same time find the same one. */
#define REAL(name)                                                                                  \
	({                                                                                          \
		static _Atomic(__typeof__(&(name))) real_##name;                                    \
		__typeof__(&(name)) fn_ = atomic_load_explicit(&real_##name, memory_order_relaxed); \
		if (!fn_) {                                                                         \
			fn_ = (__typeof__(&(name)))dlsym(RTLD_NEXT, #name);                         \
			atomic_store_explicit(&real_##name, fn_, memory_order_relaxed);             \
		}                                                                                   \
		fn_;                                                                                \
	})

/* Turns a negative errno into the C library's convention: -1 and errno. */
#define ERRNO_RETURN(value)                     \
	({                                      \
		__typeof__(value) v_ = (value); \
		if (v_ < 0) {                   \
			errno = (int)-v_;       \
			v_ = -1;                \
		}                               \
		v_;                             \
	})

#endif
