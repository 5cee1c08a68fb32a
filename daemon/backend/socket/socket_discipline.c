// SPDX-License-Identifier: Apache-2.0
/*
 * What the queueing discipline of an interface does with packets: whether it takes merged ones whole, and whether it
 * sends each at its time (tc-etf(8)).
 */
#include "daemon/backend/socket/kernel_path.h"

#include <stdatomic.h>
#include <string.h>

static void discipline_read_etf(struct socket_discipline *discipline, const char *kind, int index)
{
	struct net_etf etf[NET_PRIORITIES] = {0};

	if (strcmp(kind, "etf") == 0 || strcmp(kind, "mqprio") == 0)
		net_etf_read((unsigned)index, etf);
	for (uint32_t i = 0; i < NET_PRIORITIES; i++)
		atomic_store_explicit(&discipline->etf[i], (uint64_t)etf[i].flags << 32 | etf[i].delta_ns,
		                      memory_order_relaxed);
}

struct net_etf socket_discipline_etf(const struct socket_discipline *discipline, uint32_t priority)
{
	uint64_t etf = atomic_load_explicit(&discipline->etf[priority % NET_PRIORITIES], memory_order_relaxed);

	return (struct net_etf){.delta_ns = (uint32_t)etf, .flags = (uint32_t)(etf >> 32)};
}

/*
 * Other disciplines (tbf, cake) cut a message themselves and drop the excess. Without a discipline (noqueue: lo, veth,
 * VLANs, bridges) a device gets a message whole if it cuts UDP itself. Else it gets the packets one by one, and the
 * kernel reports the fate of the last one only.
 */
void socket_discipline_follow(struct socket_discipline *discipline, const char *interface, int index)
{
	static const char *const kinds[] = {"mq", "pfifo_fast", "fq_codel", "fq", "pfifo", "bfifo"};
	char kind[NET_QUEUEING_BYTES] = "";
	bool is_whole = false;

	if (!discipline->is_asked)
		return;
	if (net_queueing_discipline((unsigned)index, kind) == 0 && strcmp(kind, "noqueue") == 0)
		is_whole = net_has_feature(interface, "tx-udp-segmentation");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		is_whole |= strcmp(kind, kinds[i]) == 0;
	discipline->is_whole = is_whole;
	discipline_read_etf(discipline, kind, index);
}
