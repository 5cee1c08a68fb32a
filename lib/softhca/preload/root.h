// SPDX-License-Identifier: Apache-2.0
/*
 * What a preloaded library cannot do without: the one object that the interposed calls, which
 * carry no context, find everything by.
 */
#ifndef SOFTHCA_PRELOAD_ROOT_H
#define SOFTHCA_PRELOAD_ROOT_H

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
	struct device devices[SETTINGS_MAX_NETDEVS];
	unsigned int n_devices;
	_Atomic pid_t owner; /* the process whose threads and devices these are */
};

/* The root, set up from the environment; its n_devices is 0 where nothing is emulated. */
struct root *root_get(void);
/* The root as it is: for calls that only ask about descriptors. */
struct root *root_peek(void);

/*
 * Is this the process that opened the devices? Not so in a child that was forked meanwhile (our
 * threads are not there, locks may be held) or vforked (it shares our memory, and must not tear
 * down what it closes).
 */
bool root_is_owner(void);

/* An interposed function, visible to the program. */
#define HOOK __attribute__((visibility("default")))

/* The function that ours stands before. Threads may race to look it up: they find the same. */
#define REAL(name)                                                                                \
	({                                                                                        \
		static _Atomic(__typeof__(&name)) real_##name;                                    \
		__typeof__(&name) fn_ = atomic_load_explicit(&real_##name, memory_order_relaxed); \
		if (!fn_) {                                                                       \
			fn_ = (__typeof__(&name))dlsym(RTLD_NEXT, #name);                         \
			atomic_store_explicit(&real_##name, fn_, memory_order_relaxed);           \
		}                                                                                 \
		fn_;                                                                              \
	})

/* For the C library's convention: -1 and errno for a negative errno, else the value. */
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
