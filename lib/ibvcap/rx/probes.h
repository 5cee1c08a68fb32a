// SPDX-License-Identifier: Apache-2.0
/* The library's USDT probes (ibvcapd-probes(7)). A probe is a nop until a tracer attaches to it. */
#ifndef IBVCAP_PROBES_H
#define IBVCAP_PROBES_H

#include <sys/sdt.h>

/** The consumer skips packets whose block was recycled before it acquired them. */
#define PROBE_SKIP(stream, sequence, n_packets) \
	DTRACE_PROBE3(libibvcap, skip, (const char *)(stream), (uint64_t)(sequence), (uint64_t)(n_packets))

#endif
