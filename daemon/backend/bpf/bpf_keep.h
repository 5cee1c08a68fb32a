// SPDX-License-Identifier: Apache-2.0
/*
 * Loaded programs of interfaces that the daemon does not have at present: the card was unplugged, or the interface was
 * deleted. A process that has given up the right to load programs can still attach these when the interface is back.
 * Each was loaded while the process had the right, so there are never more than then. Control thread.
 */
#ifndef DAEMON_BACKEND_BPF_BPF_KEEP_H
#define DAEMON_BACKEND_BPF_BPF_KEEP_H

#include <stdbool.h>

struct bpf_code;

/**
 * Keep a program, which has no flows and is not attached, for the next bpf_keep_take(). False: it is not kept, because
 * this process may load another one, or has no memory.
 */
bool bpf_keep_put(const struct bpf_code *code, const char *interface, void *program);

/** The program that was kept for the interface; it is the caller's now. NULL: none was. */
void *bpf_keep_take(const struct bpf_code *code, const char *interface);

/** Is one kept for the interface? */
bool bpf_keep_has(const struct bpf_code *code, const char *interface);

#endif
