// SPDX-License-Identifier: Apache-2.0
/*
 * The daemon's USDT probes, at rare events only; ibvcapd-probes(7) describes them and their arguments. A probe is a nop
 * and a note in the program file until a tracer attaches to it.
 */
#ifndef DAEMON_BASE_PROBES_H
#define DAEMON_BASE_PROBES_H

#include <stdint.h>
#include <sys/sdt.h>

/** A consumer of a stream, or a sender of a channel, is served from now on. */
#define PROBE_ATTACH(name, pid, uid) DTRACE_PROBE3(ibvcapd, attach, (const char *)(name), (int)(pid), (uint32_t)(uid))

/** A consumer or a sender that was served is not any more. */
#define PROBE_DETACH(name, pid, uid) DTRACE_PROBE3(ibvcapd, detach, (const char *)(name), (int)(pid), (uint32_t)(uid))

/** A block was due for reuse, but a consumer has a lease on it: it is set aside, and a spare takes its place. */
#define PROBE_LEASE_ASIDE(stream, block, n_aside) \
	DTRACE_PROBE3(ibvcapd, lease_aside, (const char *)(stream), (uint64_t)(block), (uint32_t)(n_aside))

/** The worker found that the device has dropped packets of a stream for want of a slot. */
#define PROBE_LOSS(stream, n_packets, n_total) \
	DTRACE_PROBE3(ibvcapd, loss, (const char *)(stream), (uint64_t)(n_packets), (uint64_t)(n_total))

/** A device queue of a stream or channel failed, and its worker has reset it. */
#define PROBE_QUEUE_RESET(name, n_resets) \
	DTRACE_PROBE2(ibvcapd, queue_reset, (const char *)(name), (uint64_t)(n_resets))

/** A packet with a time left, or was dropped, later than the channel's late_after_us allows. */
#define PROBE_LATE_SEND(channel, late_ns) \
	DTRACE_PROBE2(ibvcapd, late_send, (const char *)(channel), (uint64_t)(late_ns))

/** A reconfiguration has ended: 0, or a negative errno and nothing was changed. */
#define PROBE_RELOAD(error, text) DTRACE_PROBE2(ibvcapd, reload, (int)(error), (const char *)(text))

#endif
