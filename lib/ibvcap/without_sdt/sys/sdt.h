// SPDX-License-Identifier: Apache-2.0
/* In the place of systemtap's <sys/sdt.h> on a machine that does not have it: no probe is compiled in. */
#ifndef IBVCAP_WITHOUT_SDT_H
#define IBVCAP_WITHOUT_SDT_H

#define DTRACE_PROBE2(provider, name, a, b)    ((void)(a), (void)(b))
#define DTRACE_PROBE3(provider, name, a, b, c) ((void)(a), (void)(b), (void)(c))

#endif
