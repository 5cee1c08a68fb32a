// SPDX-License-Identifier: Apache-2.0
/*
 * Makes a classic BPF filter from conditions on the headers of a frame. A field for which all accepting conditions want
 * the same value is compared when it is read. Other fields go to the scratch words first: the kernel turns a load from
 * the frame into some ten instructions, and a load from a scratch word into one. The old and the new filter count
 * against net.core.optmem_max together while they are exchanged.
 */
#include "daemon/backend/packet/af_packet_filter.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>

#define UNRESOLVED 0xff

static const struct filter_offsets {
	uint8_t at; /* in struct flow_headers */
	uint8_t bytes;
} filter_offsets[N_FIELDS] = {
	[FIELD_MAC] = {offsetof(struct flow_headers, key.destination_mac), 4},
	[FIELD_MAC_TAIL] = {offsetof(struct flow_headers, key.destination_mac) + 4, 2},
	[FIELD_SOURCE_MAC] = {offsetof(struct flow_headers, source_mac), 4},
	[FIELD_SOURCE_MAC_TAIL] = {offsetof(struct flow_headers, source_mac) + 4, 2},
	[FIELD_ETHER_TYPE] = {offsetof(struct flow_headers, ether_type_be), 2},
	[FIELD_VLAN] = {offsetof(struct flow_headers, key.vlan_be), 2},
	[FIELD_VERSION] = {offsetof(struct flow_headers, key.ip_version), 1},
	[FIELD_PROTOCOL] = {offsetof(struct flow_headers, key.protocol), 1},
	[FIELD_FRAGMENT] = {offsetof(struct flow_headers, key.fields), 1},
	[FIELD_TRAFFIC_CLASS] = {offsetof(struct flow_headers, key.traffic_class), 1},
	[FIELD_TARGET] = {offsetof(struct flow_headers, key.destination), 4},
	[FIELD_TARGET + 1] = {offsetof(struct flow_headers, key.destination) + 4, 4},
	[FIELD_TARGET + 2] = {offsetof(struct flow_headers, key.destination) + 8, 4},
	[FIELD_TARGET + 3] = {offsetof(struct flow_headers, key.destination) + 12, 4},
	[FIELD_SOURCE] = {offsetof(struct flow_headers, key.source), 4},
	[FIELD_SOURCE + 1] = {offsetof(struct flow_headers, key.source) + 4, 4},
	[FIELD_SOURCE + 2] = {offsetof(struct flow_headers, key.source) + 8, 4},
	[FIELD_SOURCE + 3] = {offsetof(struct flow_headers, key.source) + 12, 4},
	[FIELD_SOURCE_PORT] = {offsetof(struct flow_headers, key.source_port_be), 2},
	[FIELD_TARGET_PORT] = {offsetof(struct flow_headers, key.destination_port_be), 2},
};

/* ---- fields -------------------------------------------------------------------------------------- */

static uint32_t filter_read_field(const struct flow_headers *headers, enum filter_field field)
{
	const uint8_t *bytes = (const uint8_t *)headers + filter_offsets[field].at;
	uint32_t value = 0;

	for (uint32_t i = 0; i < filter_offsets[field].bytes; i++)
		value = value << 8 | bytes[i];
	return value;
}

static uint32_t filter_whole(enum filter_field field)
{
	return filter_offsets[field].bytes == 4 ? UINT32_MAX : (UINT32_C(1) << 8 * filter_offsets[field].bytes) - 1;
}

static bool filter_admits_version(const struct flow_condition *condition, uint8_t version)
{
	return ((condition->value.key.ip_version ^ version) & condition->mask.key.ip_version) == 0;
}

/* -E2BIG: the rules ask for more different fields than there are words. */
static int filter_plan(struct filter_writer *writer, const struct af_packet_claim *claims, uint32_t n)
{
	uint32_t n_words = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct flow_condition *condition = &claims[i].condition;

		writer->takes_version[0] |= claims[i].takes && filter_admits_version(condition, 4);
		writer->takes_version[1] |= claims[i].takes && filter_admits_version(condition, 6);
		writer->takes_others |= claims[i].takes && filter_admits_version(condition, 0);
	}
	for (uint32_t field = 0; field < N_FIELDS; field++) {
		bool is_asked = false, is_common = true, has_first = false;

		/* A refusing condition may lack a common field, but must not want another value of it. */
		for (uint32_t i = 0; i < n; i++) {
			uint32_t its_mask = filter_read_field(&claims[i].condition.mask, field);
			uint32_t its_value = filter_read_field(&claims[i].condition.value, field);

			is_asked |= its_mask != 0;
			if (!claims[i].takes && its_mask == 0)
				continue;
			if (!has_first) {
				writer->mask[field] = its_mask;
				writer->value[field] = its_value;
			}
			has_first = true;
			is_common &=
				its_mask != 0 && its_mask == writer->mask[field] && its_value == writer->value[field];
		}
		writer->use[field] = !is_asked ? USE_NONE : is_common ? USE_COMMON : USE_WORD;
		writer->is_whole[field] = writer->mask[field] == filter_whole(field);
		if (writer->use[field] == USE_WORD)
			writer->word[field] = (uint8_t)n_words++;
	}
	if (writer->takes_version[1])
		writer->next_word = (uint8_t)n_words++;
	return n_words <= BPF_MEMWORDS ? 0 : -E2BIG;
}

/* ---- rules --------------------------------------------------------------------------------------- */

static void filter_put_claim(struct filter_writer *writer, const struct af_packet_claim *claim)
{
	for (uint32_t field = N_FIELDS; field-- > 0;) { /* ports and addresses differ most often */
		uint32_t mask = filter_read_field(&claim->condition.mask, field);

		if (writer->use[field] != USE_WORD || mask == 0)
			continue;
		filter_put(writer, BPF_LD | BPF_W | BPF_MEM, 0, 0, writer->word[field]);
		if (mask != filter_whole(field))
			filter_put(writer, BPF_ALU | BPF_AND | BPF_K, 0, 0, mask);
		filter_put(writer, BPF_JMP | BPF_JEQ | BPF_K, 0, UNRESOLVED,
		           filter_read_field(&claim->condition.value, field));
	}
	filter_put(writer, BPF_RET | BPF_K, 0, 0, claim->takes);
	/* All jumps to UNRESOLVED since rule_at lead to the next instruction. */
	for (uint32_t i = writer->rule_at; i < writer->n; i++) {
		struct sock_filter *one = &writer->code[i];
		uint8_t distance = (uint8_t)(writer->n - i - 1);

		if (one->code == (BPF_JMP | BPF_JEQ | BPF_K) && one->jf == UNRESOLVED)
			one->jf = distance;
	}
	writer->rule_at = writer->n;
}

int af_packet_filter_build(const struct af_packet_claim *claims, uint32_t n, bool has_ethernet, uint32_t data_at,
                           struct sock_filter code[AF_PACKET_FILTER_MAX])
{
	struct filter_writer writer = {.code = code, .has_ethernet = has_ethernet, .data_at = data_at};
	int r = filter_plan(&writer, claims, n);

	if (r < 0)
		return r;
	if (n > 0)
		filter_read_frame(&writer);
	writer.rule_at = writer.n;
	for (uint32_t i = 0; i < n; i++)
		filter_put_claim(&writer, &claims[i]);
	filter_refuse(&writer);
	return writer.too_long ? -E2BIG : (int)writer.n;
}

int af_packet_refuse_all(int fd)
{
	struct sock_filter nothing = {BPF_RET | BPF_K, 0, 0, 0};
	const struct sock_fprog program = {1, &nothing};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0 ? 0 : -errno;
}
