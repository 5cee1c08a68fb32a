// SPDX-License-Identifier: Apache-2.0
/* The fields of each part of a status, in the order of the JSON. */
#include "lib/status/counters.h"
#include "lib/status/status.h"

#include <ibvcap/ibvcap.h>

/* The row of a member of struct PART: its type, its kind, and then unit and help. */
#define NAMED(name_, member, type_, kind_, unit_, help_, ...)                                                        \
	{                                                                                                            \
		.name = (name_), .type = STATUS_##type_, .kind = STATUS_##kind_, .unit = (unit_), .help = (help_),   \
		.offset = offsetof(struct PART, member), .bytes = sizeof(((struct PART *)NULL)->member), __VA_ARGS__ \
	}
#define FIELD(member, ...) NAMED(#member, member, __VA_ARGS__)
#define HIDDEN(member)     NAMED(#member, member, U32, LABEL, NULL, "", .is_hidden = true)

/* The members of a struct status_part. */
#define ROWS_OF(part, key)                                                      \
	.name = "ibvcap_status_" #part, .list = (key), .fields = part##_fields, \
	.bytes = sizeof(struct ibvcap_status_##part)
#define COUNTERS_OF(part, rows)                                             \
	.counters = (rows), .n_counters = sizeof(rows) / sizeof((rows)[0]), \
	.counters_at = offsetof(struct ibvcap_status_##part, counters)

#define PART ibvcap_status_daemon
static const struct status_field daemon_fields[] = {
	FIELD(version, TEXT, LABEL, NULL, "The daemon's version"),
	FIELD(pid, I32, LABEL, NULL, "The daemon's process, as the daemon's PID namespace numbers it"),
	FIELD(config_written_ns, U64, TIME, "ns",
              "When the configuration that the daemon runs with was written: the last of its files"),
	HIDDEN(n_streams),
	HIDDEN(n_consumers),
	HIDDEN(n_channels),
	HIDDEN(n_senders),
	HIDDEN(n_interfaces),
	HIDDEN(n_flows),
	HIDDEN(reserved),
	{0},
};
#undef PART

#define PART ibvcap_status_stream
const char *const status_clock_words[] = {
	[IBVCAP_CLOCK_SOURCE_NONE] = "none",
	[IBVCAP_CLOCK_SOURCE_SOFTWARE] = "software",
	[IBVCAP_CLOCK_SOURCE_DEVICE] = "device",
	[IBVCAP_CLOCK_SOURCE_KERNEL] = "kernel",
	NULL,
};
const char *const status_system_clock_words[] = {
	[IBVCAP_SYSTEM_CLOCK_UNKNOWN] = "unknown",
	[IBVCAP_SYSTEM_CLOCK_SYNCHRONISED] = "synchronised",
	[IBVCAP_SYSTEM_CLOCK_UNSYNCHRONISED] = "unsynchronised",
	NULL,
};
static const struct status_field stream_fields[] = {
	FIELD(name, TEXT, LABEL, NULL, "The stream's name; a stream with several queues has an entry for each"),
	FIELD(interface, TEXT, LABEL, NULL, "The kernel's name of the interface"),
	FIELD(device, TEXT, LABEL, NULL, "The backend's name of the device: the RDMA device, or empty"),
	FIELD(backend, TEXT, LABEL, NULL, "The backend: verbs, xdp or packet"),
	FIELD(state, TEXT, LABEL, NULL, "capturing, link_down, interface_gone, awaits_memory, failed or ending"),
	FIELD(epoch, HEX, LABEL, NULL, "The run of the daemon that made the ring: a random number"),
	FIELD(queue, U32, LABEL, NULL, "The queue of this entry, from 0"),
	FIELD(n_queues, U32, LEVEL, NULL, "Queues of the stream"),
	FIELD(slot_bytes, U32, LEVEL, "bytes", "The most bytes of a packet in its payload row"),
	FIELD(slots_per_block, U32, LEVEL, NULL, "Rows of a block"),
	FIELD(n_blocks, U32, LEVEL, NULL, "Blocks of the ring, with the spare ones"),
	FIELD(history_blocks, U32, LEVEL, NULL,
              "Blocks that are kept for late readers: a lossy consumer that is so many blocks behind begins to skip"),
	FIELD(receive_queue_slots, U32, LEVEL, NULL, "Rows of the card's receive queue"),
	FIELD(page_bytes, U32, LEVEL, "bytes", "The size of the pages of the ring"),
	FIELD(clock_source, WORD, LABEL, NULL,
              "What stamps the packets: device: the card, when it receives one; kernel: the kernel, when it takes one "
              "from the driver; software: the worker, when it polls one; none",
              .words = status_clock_words),
	FIELD(clock_error_ns, U64, LEVEL, "ns",
              "The bound of the error of the packets' times against the clock of this machine; not known of the "
              "kernel's and the worker's stamps, which are later than the packets",
              .may_lack = true),
	FIELD(clock_delay_ns, U64, LEVEL, "ns",
              "How late the settings of the interface let the kernel's stamps be: rx-usecs of ethtool -c, and "
              "gro_flush_timeout, twice with napi_defer_hard_irqs; a hint, since nothing bounds it; not known of the "
              "other stamps, and if the driver adapts rx-usecs or does not say it",
              .may_lack = true),
	FIELD(system_clock, WORD, LABEL, NULL,
              "Whether a program keeps the clock of this machine right, as adjtimex(2) has it: synchronised, "
              "unsynchronised, or unknown, since the daemon may not ask; 'ibvcap doctor' names the program, its "
              "reference, and the offset of the clock from that reference",
              .words = status_system_clock_words),
	FIELD(system_clock_error_ns, U64, LEVEL, "ns",
              "The maximum error of that clock, as that program estimates it; not known without such a program",
              .may_lack = true),
	FIELD(tai_offset_s, I32, LEVEL, "s", "TAI - UTC, as the kernel has it; not known if no program told it",
              .may_lack = true),
	FIELD(clock_drift_ppb, I32, LEVEL, NULL,
              "By how many parts in 10^9 the card's clock is faster than the clock of this machine, by the last 30 to "
              "60 s; negative: it is slower; not known of other stamps",
              .may_lack = true),
	FIELD(sensor_offset_min_ns, I64, LEVEL, "ns",
              "The least of the offsets of which sensor_offset_ns is the median: the packets that waited least",
              .may_lack = true),
	FIELD(sensor_offset_ns, I64, LEVEL, "ns",
              "Timestamp minus the sensor's own time (sensor_time), the median of up to 63 packets of the newest "
              "second that had such packets; not known of other streams, and if TAI is not known that the time needs",
              .may_lack = true),
	FIELD(sensor_offset_max_ns, I64, LEVEL, "ns", "The greatest of these offsets", .may_lack = true),
	FIELD(closed_why, TEXT, LABEL, NULL,
              "Why the stream is not open: its interface is not there, is down, or cannot be opened; empty: it is "
              "open"),
	FIELD(loss_packets, U64, LEVEL, "packets",
              "The packets of the last loss for want of a free row that the ring still records; 0: it records none"),
	FIELD(loss_from_ns, U64, TIME, "ns", "That loss happened after this time; 0: before the first reading"),
	FIELD(loss_to_ns, U64, TIME, "ns", "That loss happened before this time"),
	FIELD(reading_age_ms, U32, LEVEL, "ms",
              "The age of matched and no_buffer: the time since the request that the card, or the kernel, last "
              "answered"),
	FIELD(stall_pid, I32, LABEL, NULL,
              "The process of the last consumer that stopped the queue and was then demoted, or left; 0: none"),
	FIELD(stall_uid, U32, LABEL, NULL, "The user of that consumer"),
	FIELD(stall_until_ns, U64, TIME, "ns", "When that consumer was demoted, or left"),
	FIELD(offloads, TEXT, LABEL, NULL,
              "What the stream asked of its card and got, beyond plain receiving; empty: it asked for nothing"),
	{0},
};
#undef PART

#define PART ibvcap_status_flow
static const struct status_field flow_fields[] = {
	FIELD(stream, TEXT, LABEL, NULL, "The stream of the flow", .is_hidden = true),
	HIDDEN(queue),
	FIELD(destination, TEXT, LABEL, NULL, "The destination, an address or a prefix; empty: any"),
	NAMED("port", destination_port, U16, LABEL, NULL, "The destination port; 0: any"),
	FIELD(text, TEXT, LABEL, NULL, "All that the flow compares, and how it takes its packets"),
	FIELD(source, TEXT, LABEL, NULL, "The source, an address or a prefix; absent: any", .is_optional = true),
	FIELD(source_port, U16, LABEL, NULL, "The source port; absent: any", .is_optional = true),
	FIELD(vlan, I32, LABEL, NULL, "The VLAN; absent: untagged, or any", .is_optional = true),
	HIDDEN(reserved),
	{0},
};
#undef PART

#define PART ibvcap_status_consumer
const char *const status_policy_words[] = {
	[IBVCAP_POLICY_LOSSY] = "lossy",
	[IBVCAP_POLICY_LOSSLESS] = "lossless",
	[IBVCAP_POLICY_TAP] = "tap",
	NULL,
};
static const struct status_field consumer_fields[] = {
	FIELD(stream, TEXT, LABEL, NULL, "The stream that the consumer reads"),
	FIELD(queue, U32, LABEL, NULL, "The queue that the consumer reads, from 0"),
	FIELD(policy, WORD, LABEL, NULL, "lossy, lossless or tap; a tap counts for itself and has no counters here",
              .words = status_policy_words),
	FIELD(pid, I32, LABEL, NULL, "The consumer's process"),
	FIELD(uid, U32, LABEL, NULL, "The consumer's user"),
	FIELD(group, TEXT, LABEL, NULL, "The group that the consumer is a member of; empty: none"),
	FIELD(lease_blocks, U32, LEVEL, NULL, "Blocks that it may have a lease on at once; 0: a tap has none"),
	{0},
};
#undef PART

#define PART ibvcap_status_channel
static const struct status_field channel_fields[] = {
	FIELD(name, TEXT, LABEL, NULL, "The channel's name"),
	FIELD(interface, TEXT, LABEL, NULL, "The kernel's name of the interface"),
	FIELD(device, TEXT, LABEL, NULL, "The backend's name of the device: the RDMA device, or empty"),
	FIELD(backend, TEXT, LABEL, NULL, "The backend: verbs, xdp or packet"),
	FIELD(state, TEXT, LABEL, NULL, "sending, link_down, unresolved, failed or ending"),
	FIELD(epoch, HEX, LABEL, NULL, "The run of the daemon that made the channel: a random number"),
	FIELD(rate_bps, U64, LEVEL, "bps", "The rate limit, of Ethernet frames with FCS; 0: no limit"),
	FIELD(burst_bytes, U32, LEVEL, "bytes", "The most that leaves at once under the rate limit"),
	FIELD(slot_bytes, U32, LEVEL, "bytes", "The longest payload"),
	FIELD(arena_slots, U32, LEVEL, NULL, "Rows of the arena of each sender"),
	FIELD(page_bytes, U32, LEVEL, "bytes", "The size of the pages of the arenas"),
	FIELD(send_queue_slots, U32, LEVEL, NULL, "Packets that the card's send queue holds"),
	FIELD(n_destinations, U32, LEVEL, NULL, "Destinations of the channel"),
	FIELD(n_unresolved, U32, LEVEL, NULL, "Destinations without a known next hop: packets to them end as errored"),
	FIELD(max_senders, U32, LEVEL, NULL, "Senders that may have the channel open"),
	HIDDEN(reserved),
	FIELD(send_time, TEXT, LABEL, NULL, "What keeps the packets' send times: worker, qdisc (etf) or card"),
	FIELD(send_time_why, TEXT, LABEL, NULL, "Why; empty: no queueing discipline there keeps times"),
	FIELD(closed_why, TEXT, LABEL, NULL, "Why the channel is not open, as of a stream; empty: it is open"),
	{0},
};
#undef PART

#define PART ibvcap_status_sender
static const struct status_field sender_fields[] = {
	FIELD(channel, TEXT, LABEL, NULL, "The channel that the sender sends on"),
	FIELD(pid, I32, LABEL, NULL, "The sender's process"),
	FIELD(uid, U32, LABEL, NULL, "The sender's user"),
	HIDDEN(reserved),
	{0},
};
#undef PART

#define PART ibvcap_status_interface
static const struct status_field interface_fields[] = {
	FIELD(interface, TEXT, LABEL, NULL,
              "The kernel's name; an interface with several backends has an entry for each"),
	FIELD(device, TEXT, LABEL, NULL, "The backend's name of the device"),
	FIELD(reading_age_ms, U32, LEVEL, "ms",
              "The age of the counters: the time since the request that the card, or the kernel, last answered"),
	FIELD(backend, TEXT, LABEL, NULL, "The backend: verbs, xdp or packet"),
	FIELD(backend_why, TEXT, LABEL, NULL, "Why it is this backend"),
	FIELD(backend_how, TEXT, LABEL, NULL, "What the backend does here that it does not do everywhere"),
	FIELD(backend_better, TEXT, LABEL, NULL, "What would be faster, and what it takes; empty: nothing"),
	FIELD(backend_command, TEXT, LABEL, NULL, "The shell's command that brings what is faster; empty: none"),
	FIELD(is_second_best, BOOL, LABEL, NULL, "Whether another backend would be faster"),
	FIELD(is_auto, BOOL, LABEL, NULL, "Whether streams and channels with backend = \"auto\" get this backend"),
	FIELD(counts_all_losses, BOOL, LABEL, NULL,
              "Whether the interface counts all packets that it, its card or the kernel drops before the flow rules"),
	FIELD(uncounted, TEXT, LABEL, NULL,
              "What may lose packets before the flow rules that nobody counts: nothing; driver: it, its card, the "
              "host of a virtual machine, or an interface below; other_end: the other end of a veth, which is in "
              "another network namespace; backend: receive queues or an MTU that the backend does not serve; "
              "program: an XDP program that another process has attached"),
	FIELD(loss_packets, U64, LEVEL, "packets",
              "The packets that were last counted as lost before the flow rules; 0: none were"),
	FIELD(loss_from_ns, U64, TIME, "ns", "They were counted after this time; 0: before the first reading"),
	FIELD(loss_to_ns, U64, TIME, "ns", "They were counted before this time"),
	HIDDEN(reserved),
	{0},
};
#undef PART

const struct status_part status_parts[STATUS_N_PARTS] = {
	[STATUS_DAEMON] = {ROWS_OF(daemon, "daemon")},
	[STATUS_STREAM] = {ROWS_OF(stream, "streams"), COUNTERS_OF(stream, stream_counters)},
	[STATUS_FLOW] = {ROWS_OF(flow, "flows")},
	[STATUS_CONSUMER] = {ROWS_OF(consumer, "consumers"), COUNTERS_OF(consumer, consumer_counters)},
	[STATUS_CHANNEL] = {ROWS_OF(channel, "channels"), COUNTERS_OF(channel, channel_counters)},
	[STATUS_SENDER] = {ROWS_OF(sender, "senders"), COUNTERS_OF(sender, channel_counters)},
	[STATUS_INTERFACE] = {ROWS_OF(interface, "interfaces"), COUNTERS_OF(interface, interface_counters)},
};
