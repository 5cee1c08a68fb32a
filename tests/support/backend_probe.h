// SPDX-License-Identifier: Apache-2.0
/* Private to backend_probe: one queue, its memory, and the commands of either direction. */
#ifndef TESTS_SUPPORT_BACKEND_PROBE_H
#define TESTS_SUPPORT_BACKEND_PROBE_H

#include "daemon/backend/backend.h"
#include "daemon/net/net.h"
#include "daemon/packet/packet_template.h"

#define FLOWS_MAX     64
#define HEADER_STRIDE 128

struct probe {
	const struct backend_ops *ops;
	struct backend *backend;
	struct backend_memory *payload_memory;
	struct backend_memory *headers_memory;
	struct backend_queue *queue;
	struct backend_flow *flows[FLOWS_MAX];
	struct membership *membership;
	struct backend_queue_options options;
	struct backend_send_options send_options; /* slots 0: it receives */
	bool by_library;                          /* verbs: not the direct path */
	struct packet_template template;
	uint16_t n_built;
	struct net_interface interface;
	struct failure failure;
	uint8_t *payload;
	uint8_t *headers;
	size_t payload_bytes;
	size_t headers_bytes;
	uint32_t n_rows; /* twice the queue: rows that were received stay for a while */
	uint32_t next_row;
};

struct probe_command {
	const char *name; /* NULL: the last one */
	void (*run)(struct probe *probe, char *arguments);
};
extern const struct probe_command probe_receive_commands[];
extern const struct probe_command probe_send_commands[];

uint64_t now_ns(clockid_t clock);
void answer(int error);
void answer_fault(const struct probe *probe, int error);
bool parse_address(const char *text, struct config_address *address);

#endif
