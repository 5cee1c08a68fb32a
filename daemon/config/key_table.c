// SPDX-License-Identifier: Apache-2.0
/*
 * All keys of the configuration file. A new key is a row here, a field in config.h for its value, and the code that
 * uses the field; the shipped conf/ibvcapd.conf shows every key (a test compares it with these tables).
 */
#include "daemon/config/key.h"

#include "daemon/config/config_reader.h"
#include "daemon/config/config.h"

#include <ibvcap/ibvcap.h>
#include <netinet/in.h>
#include <syslog.h>

#define CONFIG_STREAMS_MAX      64
#define CONFIG_FLOWS_MAX        256
#define CONFIG_CHANNELS_MAX     64
#define CONFIG_DESTINATIONS_MAX 256

/* offset, bytes and count of a field */
#define FIELD(type, field, n_field) \
	offsetof(struct type, field), sizeof(((struct type *)NULL)->field), offsetof(struct type, n_field)

#define KEYS(rows) .keys = (rows), .n_keys = sizeof(rows) / sizeof((rows)[0])
#define ENTRY(type)                                                                                             \
	.bytes = sizeof(struct type), .text = offsetof(struct type, text), .file = offsetof(struct type, file), \
	.line = offsetof(struct type, line)

/* ---- values of choices --------------------------------------------------------------------------- */

static const struct key_choice backends[] = {
	{"auto", CONFIG_BACKEND_AUTO},
	{"verbs", CONFIG_BACKEND_VERBS},
	{"xdp", CONFIG_BACKEND_XDP},
	{"packet", CONFIG_BACKEND_PACKET},
	{NULL, 0},
};
#define BACKEND_HELP                                                                                       \
	"auto: what is fastest on the interface; verbs: a queue of an RDMA card; xdp: AF_XDP sockets, on " \
	"an interface whose driver has XDP; packet: packet sockets, on any interface"
static const struct key_choice timestamps[] = {
	{"auto", CONFIG_TIMESTAMPS_AUTO},
	{"hardware", CONFIG_TIMESTAMPS_HARDWARE},
	{"software", CONFIG_TIMESTAMPS_SOFTWARE},
	{0},
};

static const struct key_choice xdp_modes[] = {
	{"auto", CONFIG_XDP_MODE_AUTO},
	{"zero_copy", CONFIG_XDP_MODE_ZERO_COPY},
	{"copy", CONFIG_XDP_MODE_COPY},
	{NULL, 0},
};
static const struct key_choice page_sizes[] = {{"4K", 1u << 12}, {"2M", 1u << 21}, {"1G", 1u << 30}, {NULL, 0}};
static const struct key_choice layouts[] = {
	{"udp", CONFIG_LAYOUT_UDP},
	{"frame", CONFIG_LAYOUT_FRAME},
	{NULL, 0},
};
static const struct key_choice polls[] = {
	{"busy", CONFIG_POLL_BUSY},
	{"adaptive", CONFIG_POLL_ADAPTIVE},
	{"event", CONFIG_POLL_EVENT},
	{NULL, 0},
};
static const struct key_choice reassembles[] = {
	{"auto", CONFIG_REASSEMBLE_AUTO},
	{"on", CONFIG_REASSEMBLE_ON},
	{"off", CONFIG_REASSEMBLE_OFF},
	{NULL, 0},
};
static const struct key_choice fragments[] = {
	{"auto", CONFIG_FRAGMENT_AUTO},
	{"off", CONFIG_FRAGMENT_OFF},
	{NULL, 0},
};
static const struct key_choice hashes[] = {
	{"symmetric", CONFIG_HASH_SYMMETRIC},
	{"toeplitz", CONFIG_HASH_TOEPLITZ},
	{NULL, 0},
};
static const struct key_choice hash_fields[] = {
	{"ports", CONFIG_HASH_PORTS},
	{"addresses", CONFIG_HASH_ADDRESSES},
	{"source", CONFIG_HASH_SOURCE},
	{"destination", CONFIG_HASH_DESTINATION},
	{NULL, 0},
};
static const struct key_choice udp_checksums[] = {
	{"auto", CONFIG_UDP_CHECKSUM_AUTO},
	{"device", CONFIG_UDP_CHECKSUM_DEVICE},
	{"zero", CONFIG_UDP_CHECKSUM_ZERO},
	{"software", CONFIG_UDP_CHECKSUM_SOFTWARE},
	{NULL, 0},
};
static const struct key_choice log_levels[] = {
	{"error", LOG_ERR}, {"warning", LOG_WARNING}, {"info", LOG_INFO}, {"debug", LOG_DEBUG}, {NULL, 0},
};
static const struct key_choice endians[] = {{"big", false}, {"little", true}, {NULL, 0}};
static const struct key_choice sensor_formats[] = {
	{"count", SENSOR_TIME_COUNT},
	{"seconds+ns", SENSOR_TIME_SECONDS_NS},
	{"seconds+us", SENSOR_TIME_SECONDS_US},
	{"seconds+fraction", SENSOR_TIME_SECONDS_FRACTION},
	{NULL, 0},
};
static const struct key_choice sensor_epochs[] = {
	{"utc", SENSOR_TIME_UTC},
	{"tai", SENSOR_TIME_TAI},
	{"gps", SENSOR_TIME_GPS},
	{"ntp", SENSOR_TIME_NTP},
	{NULL, 0},
};
static const struct key_choice sources[] = {
	{"flow", IBVCAP_SOURCE_FLOW},
	{"port", IBVCAP_SOURCE_PORT},
	{"address", IBVCAP_SOURCE_ADDRESS},
	{"none", IBVCAP_SOURCE_NONE},
	{NULL, 0},
};
static const struct key_choice matches[] = {
	{"rule", CONFIG_MATCH_RULE},
	{"all", CONFIG_MATCH_ALL},
	{"default", CONFIG_MATCH_DEFAULT},
	{"multicast", CONFIG_MATCH_MULTICAST},
	{NULL, 0},
};
static const struct key_choice protocols[] = {
	{"udp", IPPROTO_UDP},
	{"tcp", IPPROTO_TCP},
	{"icmp", IPPROTO_ICMP},
	{"igmp", IPPROTO_IGMP},
	{"icmpv6", IPPROTO_ICMPV6},
	{"any", (uint32_t)CONFIG_ANY},
	{NULL, 0},
};
static const struct key_choice any_number[] = {{"any", (uint32_t)CONFIG_ANY}, {NULL, 0}};
static const struct key_choice vlans[] = {
	{"none", (uint32_t)CONFIG_VLAN_UNTAGGED}, {"any", CONFIG_VLAN_ANY}, {NULL, 0}};
static const struct key_choice send_times[] = {{"auto", CONFIG_SEND_TIME_AUTO},
                                               {"worker", CONFIG_SEND_TIME_WORKER},
                                               {"qdisc", CONFIG_SEND_TIME_QDISC},
                                               {NULL, 0}};
static const struct key_choice payload_memories[] = {{"daemon", false}, {"consumer", true}, {NULL, 0}};
static const struct key_choice pacings[] = {{"software", false}, {"device", true}, {NULL, 0}};

/* ---- control ----------------------------------------------------------------------------------- */

#define CONTROL(field)      FIELD(config, field, text)
#define CONTROL_LIST(field) FIELD(config, field, n_##field)

static const struct key control[] = {
	{"socket", KEY_PATH, CONTROL(socket_path), .string = IBVCAP_CONTROL_SOCKET,
         .help = "path of the control socket"},
	{"mode", KEY_MODE, CONTROL(socket_mode), .string = "0660",
         .help = "its permissions: a user who may write to it may connect"},
	{"group", KEY_GID, CONTROL(socket_group), .string = "",
         .help = "its group, by name or number; empty: the daemon's"},
	{"max_clients", KEY_INTEGER, CONTROL(max_clients), .live = true, .number = 64, .min = 1, .max = 4096,
         .help = "connections at once; root and the daemon's user have 8 more"},
	{"max_clients_per_user", KEY_INTEGER, CONTROL(max_clients_per_user), .live = true, .number = 32, .min = 1,
         .max = 4096, .help = "connections of one user at once; root has no limit"},
	{"max_messages_per_s", KEY_INTEGER, CONTROL(max_messages_per_s), .live = true, .number = 100, .min = 1,
         .max = 100000, .help = "requests of one client"},
	{"max_messages_per_s_per_user", KEY_INTEGER, CONTROL(max_messages_per_s_per_user), .live = true, .number = 400,
         .min = 1, .max = 100000, .help = "connections and requests of one user; root has no limit"},
	{"idle_timeout_s", KEY_INTEGER, CONTROL(idle_timeout_s), .live = true, .number = 60, .min = 1, .max = 86400,
         .help = "seconds after which a client that neither attaches nor asks is disconnected"},
	{"restart_wait_s", KEY_INTEGER, CONTROL(restart_wait_s), .live = true, .number = 10, .min = 0, .max = 3600,
         .help = "seconds a restarted daemon waits for hugepages that readers of its last run still hold"},
	{"observer_groups", KEY_GIDS, CONTROL_LIST(observer_groups), .live = true,
         .help = "groups whose members see all streams, channels and clients; others see those that they may use"},
	{"observers_receive", KEY_BOOLEAN, CONTROL(observers_receive), .live = true, .number = false,
         .help = "true: members of observer_groups receive streams without users and groups, as others do"},
};

const struct key_group control_keys = {.what = "control", KEYS(control), .text = offsetof(struct config, control_text)};

/* ---- flows ------------------------------------------------------------------------------------- */

#define FLOW(field) FIELD(config_flow, field, text)

static const struct key flow[] = {
	{"match", KEY_CHOICE, FLOW(match), .string = "rule", .choices = matches,
         .help = "rule: packets that the other keys name; all: every packet of the interface; multicast: "
                 "those to groups and broadcasts; default: what no flow and no program takes"},
	{"destination", KEY_PREFIX, FIELD(config_flow, destination, destination_bits), .string = "",
         .help = "IPv4 or IPv6 address: the interface's own, a multicast group's, a broadcast address; or a prefix; "
                 "empty: any"},
	{"port", KEY_INTEGER, FLOW(destination_port), .number = 0, .min = 0, .max = 65535,
         .help = "UDP or TCP destination port, which such a flow has to name; 0: any"},
	{"source", KEY_PREFIX, FIELD(config_flow, source, source_bits), .string = "",
         .help = "the sender's address, or a prefix; empty: any. An address with a group: a source-specific join"},
	{"source_port", KEY_INTEGER, FLOW(source_port), .number = 0, .min = 0, .max = 65535,
         .help = "the sender's port; 0: any"},
	{"protocol", KEY_NUMBER, FLOW(protocol), .string = "udp", .choices = protocols, .min = 0, .max = 255,
         .help = "protocol in the IP header"},
	{"dscp", KEY_NUMBER, FLOW(dscp), .string = "any", .choices = any_number, .min = 0, .max = 63,
         .help = "differentiated services code point"},
	{"vlan", KEY_NUMBER, FLOW(vlan), .string = "none", .choices = vlans, .min = 1, .max = 4094,
         .help = "VLAN id; none: untagged packets, and a tagged one is an irregular row; any: both"},
	{"destination_mac", KEY_MAC, FIELD(config_flow, destination_mac, has_destination_mac), .string = "",
         .help = "Ethernet address; empty: the interface's, or the group's, or any, as the destination says"},
	{"source_mac", KEY_MAC, FIELD(config_flow, source_mac, has_source_mac), .string = "",
         .help = "the sender's Ethernet address; empty: any"},
	{"ether_type", KEY_NUMBER, FLOW(ether_type), .string = "any", .choices = any_number, .min = 0x600,
         .max = 0xffff, .help = "EtherType, as \"0x88f7\"; any: what the other keys say"},
	{"priority", KEY_INTEGER, FLOW(priority), .number = 0, .min = 0, .max = 3,
         .help = "of two flows that match a packet, the one with the higher priority gets it"},
	{"copy", KEY_BOOLEAN, FLOW(copy), .number = false,
         .help = "the kernel, and flows of lower priority, get the packets as well"},
	{"queue", KEY_INTEGER, FLOW(queue), .number = -1, .min = -1, .max = CONFIG_QUEUES_MAX - 1,
         .help = "the queue of the stream that gets all packets of this flow; -1: the hash shares them out"},
};

const struct key_group flow_keys = {
	.what = "a flow",
	KEYS(flow),
	.n_max = CONFIG_FLOWS_MAX,
	ENTRY(config_flow),
	.check = config_check_flow,
};

/* ---- the packets' own number -------------------------------------------------------------------- */

#define SEQUENCE(field) FIELD(config_stream, sequence.field, text)

static const struct key sequence[] = {
	{"offset", KEY_INTEGER, SEQUENCE(offset), .number = 0, .min = 0, .max = 65507,
         .help = "where the field with the number is: bytes from the start of the UDP payload"},
	{"bytes", KEY_INTEGER, SEQUENCE(bytes), .number = 0, .min = 0, .max = 8,
         .help = "bytes of that field; 0: the packets have no number"},
	{"endian", KEY_CHOICE, SEQUENCE(little_endian), .string = "big", .choices = endians,
         .help = "order of the bytes of all fields"},
	{"shift", KEY_INTEGER, SEQUENCE(shift), .number = 0, .min = 0, .max = 63,
         .help = "bits of the field below the number"},
	{"bits", KEY_INTEGER, SEQUENCE(bits), .number = 0, .min = 0, .max = 64,
         .help = "bits of the number; 0: all above shift"},
	{"step", KEY_INTEGER, SEQUENCE(step), .number = 1, .min = 1, .max = UINT32_MAX,
         .help = "by how much the number grows from packet to packet; a number between two steps counts as the next "
                 "step"},
	{"modulus", KEY_INTEGER, SEQUENCE(modulus), .number = 0, .min = 0, .max = INT64_MAX,
         .help = "after modulus - 1 the number is 0 again; 0: after its bits are all 1"},
	{"upper_offset", KEY_INTEGER, SEQUENCE(upper_offset), .number = 0, .min = 0, .max = 65507,
         .help = "where the field is that counts how often the number began again"},
	{"upper_bytes", KEY_INTEGER, SEQUENCE(upper_bytes), .number = 0, .min = 0, .max = 8,
         .help = "bytes of that field; 0: there is none"},
	{"upper_bits", KEY_INTEGER, SEQUENCE(upper_bits), .number = 0, .min = 0, .max = 64,
         .help = "bits of it, the low ones; 0: all"},
	{"upper_step", KEY_INTEGER, SEQUENCE(upper_step), .number = 1, .min = 1, .max = INT64_MAX,
         .help = "by how much it grows when the number begins again"},
	{"count_offset", KEY_INTEGER, SEQUENCE(count_offset), .number = 0, .min = 0, .max = 65507,
         .help = "where the field is that says how many numbers the packet takes, if not one"},
	{"count_bytes", KEY_INTEGER, SEQUENCE(count_bytes), .number = 0, .min = 0, .max = 2,
         .help = "bytes of that field; 0: there is none. With all bits 1, the packet takes no number"},
	{"source", KEY_CHOICE, SEQUENCE(source), .string = "flow", .choices = sources,
         .help = "what tells sources apart, each of which numbers its packets: flow: addresses and ports of sender and "
                 "destination; port: address and port of the sender; address: its address; none: nothing of these"},
	{"source_offset", KEY_INTEGER, SEQUENCE(source_offset), .number = 0, .min = 0, .max = 65507,
         .help = "where the field is that tells sources apart, too"},
	{"source_bytes", KEY_INTEGER, SEQUENCE(source_bytes), .number = 0, .min = 0, .max = IBVCAP_SOURCE_BYTES_MAX,
         .help = "bytes of that field; 0: there is none"},
	{"source_mask", KEY_BYTES, SEQUENCE(source_mask), .string = "",
         .help = "bits of that field that count, its first byte first; empty: all"},
	{"frame_offset", KEY_INTEGER, SEQUENCE(frame_offset), .number = 0, .min = 0, .max = 65507,
         .help = "where the field is that changes when a frame begins"},
	{"frame_bytes", KEY_INTEGER, SEQUENCE(frame_bytes), .number = 0, .min = 0, .max = 8,
         .help = "bytes of that field; 0: there is none. Consumers that place packets begin an array with each frame"},
	{"frame_bits", KEY_INTEGER, SEQUENCE(frame_bits), .number = 0, .min = 0, .max = 64,
         .help = "bits of it, the low ones; 0: all"},
	{"window", KEY_INTEGER, SEQUENCE(window), .number = 4096, .min = 64, .max = 65536, .power_of_two = true,
         .help = "numbers behind the highest that are remembered, so that a packet is known as reordered or repeated"},
	{"jump", KEY_INTEGER, SEQUENCE(jump), .number = 1 << 20, .min = 1, .max = 1 << 30,
         .help = "missing numbers in a row that are a loss; more of them: the source was restarted"},
};

const struct key_group sequence_keys = {
	.what = "sequence",
	KEYS(sequence),
	.text = offsetof(struct config_stream, sequence_text),
	.check = config_check_sequence,
};

/* ---- the sensor's time -------------------------------------------------------------------------- */

#define SENSOR(field) FIELD(config_stream, sensor_time.field, text)

static const struct key sensor_time[] = {
	{"offset", KEY_INTEGER, SENSOR(offset), .live = true, .number = 0, .min = 0, .max = 65507,
         .help = "where the field with the time is: bytes from the start of the UDP payload; with layout = frame, of "
                 "the "
                 "frame"},
	{"bytes", KEY_INTEGER, SENSOR(bytes), .live = true, .number = 0, .min = 0, .max = SENSOR_TIME_BYTES_MAX,
         .help = "bytes of that field; 0: the packets have no time"},
	{"endian", KEY_CHOICE, SENSOR(little_endian), .live = true, .string = "big", .choices = endians,
         .help = "order of the bytes of a count, of seconds and of their parts"},
	{"format", KEY_CHOICE, SENSOR(format), .live = true, .string = "count", .choices = sensor_formats,
         .help = "count: a number of 1/hz of a second; the others: seconds, then 4 bytes of nanoseconds, of "
                 "microseconds or of 2^-32 seconds"},
	{"hz", KEY_INTEGER, SENSOR(hz), .live = true, .number = 1000000000, .min = 1, .max = INT32_MAX,
         .help = "by how much a count grows in a second: 1000000000: it has nanoseconds"},
	{"period_s", KEY_INTEGER, SENSOR(period_s), .live = true, .number = 0, .min = 0, .max = INT32_MAX,
         .help = "seconds after which a count begins again at 0; 0: after its bits are all 1"},
	{"epoch", KEY_CHOICE, SENSOR(epoch), .live = true, .string = "utc", .choices = sensor_epochs,
         .help = "what the time counts from: utc: 1970, without leap seconds; tai: 1970, with leap seconds, as PTP; "
                 "gps: 1980-01-06, with leap seconds; ntp: 1900, without"},
};

const struct key_group sensor_time_keys = {
	.what = "sensor_time",
	KEYS(sensor_time),
	.text = offsetof(struct config_stream, sensor_time_text),
};

/* ---- streams ----------------------------------------------------------------------------------- */

#define STREAM(field)      FIELD(config_stream, field, text)
#define STREAM_LIST(field) FIELD(config_stream, field, n_##field)

static const struct key stream[] = {
	{"name", KEY_NAME, STREAM(name), .required = true, .live = true, .help = "the name that consumers attach by"},
	{"interface", KEY_INTERFACE, FIELD(config_stream, interface, interface_alias), .required = true,
         .help = "network interface the packets come from, by any of its names (altname in ip-link(8))"},
	{"backend", KEY_CHOICE, STREAM(backend), .string = "auto", .choices = backends, .help = BACKEND_HELP},
	{"flows", KEY_LIST, STREAM_LIST(flows), .required = true, .live = true, .group = &flow_keys,
         .help = "the packets to capture"},
	{"queues", KEY_INTEGER, STREAM(queues), .number = 1, .min = 1, .max = CONFIG_QUEUES_MAX,
         .help = "queues that the packets are spread over, each with a ring and a worker of its own"},
	{"hash", KEY_CHOICE, STREAM(hash), .string = "symmetric", .choices = hashes,
         .help = "how packets of flows without a queue are shared out; symmetric: both directions of a conversation "
                 "come to one queue; toeplitz: as other programs compute it"},
	{"hash_fields", KEY_CHOICE, STREAM(hash_fields), .string = "ports", .choices = hash_fields,
         .help = "fields of the hash; ports: addresses and ports, of fragments the addresses; addresses; source; "
                 "destination"},
	{"cpus", KEY_NUMBERS, STREAM_LIST(cpus), .min = 0, .max = 1023,
         .help = "the CPU of each queue's worker, in place of cpu; empty: see cpu"},
	{"layout", KEY_CHOICE, STREAM(layout), .string = "udp", .choices = layouts,
         .help = "what rows hold: udp: the UDP payload; frame: the frame from its Ethernet header on"},
	{"payload_size", KEY_INTEGER, STREAM(payload_size), .required = true, .min = 1, .max = 65507,
         .help = "bytes of the largest UDP payload expected, or of the largest frame; a row holds as much"},
	{"application_header_bytes", KEY_INTEGER, STREAM(application_header_bytes), .number = 0, .min = 0, .max = 65506,
         .help = "so many of the first bytes of payload_size go to the header row, behind the network's headers"},
	{"row_stride", KEY_INTEGER, STREAM(row_stride), .number = 0, .min = 0, .max = 1 << 17,
         .help = "bytes from one row to the next, such as a power of two; 0: rows follow one another without a gap"},
	{"zero_rest", KEY_BOOLEAN, STREAM(zero_rest), .number = false,
         .help = "the worker zeroes what a packet has not filled of its row; else older bytes are there"},
	{"payload_memory", KEY_CHOICE, STREAM(payload_is_lent), .string = "daemon", .choices = payload_memories,
         .help = "whose memory the payload rows are in; consumer: memory of a device, which the stream's only consumer "
                 "lends; the stream captures while it has that consumer. Backend verbs only"},
	{"flow_numbers", KEY_BOOLEAN, STREAM(flow_numbers), .number = false,
         .help = "each row says which of flows its packet matched, by its number in the list, from 0"},
	{"slots_per_block", KEY_INTEGER, STREAM(slots_per_block), .number = 256, .min = 64, .max = 1 << 20,
         .multiple_of = 64, .help = "rows of a block, which is the unit of leasing and recycling"},
	{"history_blocks", KEY_INTEGER, STREAM(history_blocks), .number = 64, .min = 1, .max = 1 << 24,
         .help = "complete blocks that are kept for late readers"},
	{"receive_queue_slots", KEY_INTEGER, STREAM(receive_queue_slots), .number = 4096, .min = 64, .max = 32768,
         .multiple_of = 64, .help = "depth of the device's receive queue"},
	{"page_size", KEY_CHOICE, STREAM(page_bytes), .string = "2M", .choices = page_sizes,
         .help = "pages of payload and headers; 4K is slow and meant for trying out"},
	{"poll", KEY_CHOICE, STREAM(poll), .string = "adaptive", .choices = polls,
         .help = "when the worker sleeps: busy: never; adaptive: after spin_us without a packet; event: at once"},
	{"spin_us", KEY_INTEGER, STREAM(spin_us), .number = 50, .min = 0, .max = 1000000,
         .help = "microseconds that an adaptive worker polls without a packet before it sleeps"},
	{"cpu", KEY_INTEGER, STREAM(cpu), .number = -1, .min = -1, .max = 1023,
         .help = "the worker's CPU, which the daemon's other threads do not use; -1: any CPU that no worker has"},
	{"max_consumers", KEY_INTEGER, STREAM(max_consumers), .number = 8, .min = 1, .max = 1024,
         .help = "consumers attached at once"},
	{"lease_blocks", KEY_INTEGER, STREAM(lease_blocks), .number = 4, .min = 1, .max = IBVCAP_LEASE_SLOTS_MAX,
         .help = "blocks one consumer may hold; the ring has as many spare blocks for each consumer"},
	{"extra_lease_blocks", KEY_INTEGER, STREAM(extra_lease_blocks), .number = 0, .min = 0,
         .max = 1024 * IBVCAP_LEASE_SLOTS_MAX,
         .help = "blocks that consumers may hold together above lease_blocks each, if they ask for more when they "
                 "attach; "
                 "the ring has as many more spare blocks"},
	{"max_consumers_per_user", KEY_INTEGER, STREAM(max_consumers_per_user), .live = true, .number = 4, .min = 1,
         .max = 1024, .help = "consumers of one user attached at once; root has no limit"},
	{"max_lease_blocks_per_user", KEY_INTEGER, STREAM(max_lease_blocks_per_user), .live = true, .number = 16,
         .min = 1, .max = 1024 * IBVCAP_LEASE_SLOTS_MAX,
         .help = "blocks one user's consumers may hold together; root has no limit"},
	{"reassemble", KEY_CHOICE, STREAM(reassemble), .string = "auto", .choices = reassembles,
         .help = "join IP fragments, so that a row has a whole datagram; auto: if payload_size is above what the MTU "
                 "leaves for it; on: for any payload_size. All packets of the stream are copied once more"},
	{"timestamps", KEY_CHOICE, STREAM(timestamps), .string = "auto", .choices = timestamps,
         .help = "auto: the device's, if it stamps all packets, else the kernel's or the worker's; hardware: the "
                 "device's, and it is made to stamp all packets; software: the worker's"},
	{"verify_checksums", KEY_BOOLEAN, STREAM(verify_checksums), .number = false,
         .help = "mark and count packets whose IPv4 header or UDP checksum is wrong, which sockets would not get: by "
                 "the card, and by the worker where the card does not say that both are right; else only those of "
                 "datagrams that were joined from fragments"},
	{"moderation_us", KEY_INTEGER, STREAM(moderation_us), .number = 0, .min = 0, .max = 65535,
         .help = "backend verbs: microseconds that a sleeping worker's event waits for more packets, unless a quarter "
                 "of receive_queue_slots came; fewer wake-ups, later rows; 0: the first packet wakes it. Not with "
                 "poll = busy"},
	{"delay_drop", KEY_BOOLEAN, STREAM(delay_drop), .number = false,
         .help = "backend verbs: while the receive queue has no free row, the card holds packets for up to 100 ms "
                 "before it drops them, and all other queues of the port wait; needs CAP_SYS_RAWIO at the start"},
	{"join", KEY_BOOLEAN, STREAM(join), .number = true,
         .help = "join the flows' multicast groups; for flows with a VLAN, on the interface of the VLAN"},
	{"users", KEY_UIDS, STREAM_LIST(users), .live = true, .help = "users that may receive, by name or number"},
	{"groups", KEY_GIDS, STREAM_LIST(groups), .live = true,
         .help = "groups whose members may receive; if both are empty, everyone who can connect"},
	{"lossless_deadline_ms", KEY_INTEGER, STREAM(lossless_deadline_ms), .live = true, .number = 0, .min = 0,
         .max = 3600000,
         .help = "stall budget in ms per user; refills at 1 ms per 10 ms without a stall; 0 disables lossless"},
	{"lossless_users", KEY_UIDS, STREAM_LIST(lossless_users), .live = true,
         .help = "users that may be lossless, among those that may receive"},
	{"lossless_groups", KEY_GIDS, STREAM_LIST(lossless_groups), .live = true,
         .help = "groups whose members may be lossless; if both are empty, everyone who may receive"},
	{"sequence", KEY_GROUP, STREAM(sequence), .group = &sequence_keys,
         .help = "where the packets have a number of their own, so that losses before the card are counted, too"},
	{"sensor_time", KEY_GROUP, STREAM(sensor_time), .live = true, .group = &sensor_time_keys,
         .help = "where the packets have the sensor's time, whose offset to their timestamps the status shows"},
};

const struct key_group stream_keys = {
	.what = "a stream",
	KEYS(stream),
	.n_max = CONFIG_STREAMS_MAX,
	ENTRY(config_stream),
	.check = config_check_stream,
	.check_among = config_check_stream_among,
};

/* ---- destinations ------------------------------------------------------------------------------ */

#define DESTINATION(field) FIELD(config_destination, field, text)

static const struct key destination[] = {
	{"address", KEY_ADDRESS, DESTINATION(address), .required = true,
         .help = "IPv4 or IPv6 address, a host's or a multicast group's"},
	{"port", KEY_INTEGER, DESTINATION(port), .required = true, .min = 1, .max = 65535,
         .help = "UDP destination port"},
	{"next_hop_mac", KEY_STATION, FIELD(config_destination, next_hop_mac, has_next_hop_mac), .string = "",
         .help = "Ethernet address of the next hop; empty: found by the kernel's routes and neighbour table"},
};

const struct key_group destination_keys = {
	.what = "a destination",
	KEYS(destination),
	.n_max = CONFIG_DESTINATIONS_MAX,
	ENTRY(config_destination),
	.check = config_check_destination,
};

/* ---- channels ---------------------------------------------------------------------------------- */

#define CHANNEL(field)      FIELD(config_channel, field, text)
#define CHANNEL_LIST(field) FIELD(config_channel, field, n_##field)

static const struct key channel[] = {
	{"name", KEY_NAME, CHANNEL(name), .required = true, .help = "the name that senders open it by"},
	{"interface", KEY_INTERFACE, FIELD(config_channel, interface, interface_alias), .required = true,
         .help = "network interface the packets leave by, by any of its names (altname in ip-link(8))"},
	{"backend", KEY_CHOICE, CHANNEL(backend), .string = "auto", .choices = backends, .help = BACKEND_HELP},
	{"destinations", KEY_LIST, CHANNEL_LIST(destinations), .required = true, .group = &destination_keys,
         .help = "addresses it may send to; a sender picks one by its number, from 0"},
	{"source", KEY_UNICAST, CHANNEL(source), .string = "",
         .help = "address the packets come from; empty: the interface's"},
	{"source_port", KEY_INTEGER, CHANNEL(source_port), .required = true, .min = 1, .max = 65535,
         .help = "UDP port the packets come from"},
	{"vlan", KEY_INTEGER, CHANNEL(vlan), .number = -1, .min = -1, .max = 4094, .help = "VLAN id; -1: no tag"},
	{"dscp", KEY_INTEGER, CHANNEL(dscp), .number = 0, .min = 0, .max = 63,
         .help = "differentiated services code point"},
	{"ttl", KEY_INTEGER, CHANNEL(ttl), .number = 0, .min = 0, .max = 255,
         .help = "time to live, or hop limit; 0: 1 for groups, 64 for hosts"},
	{"payload_size", KEY_INTEGER, CHANNEL(payload_size), .required = true, .min = 1, .max = CONFIG_PAYLOAD_IPV6_MAX,
         .help = "bytes of a slot: the largest UDP payload; with an IPv4 destination at most 65507"},
	{"fragment", KEY_CHOICE, CHANNEL(fragment), .string = "auto", .choices = fragments,
         .help = "auto: if payload_size is above what the MTU leaves for it, payloads that are longer than that leave "
                 "as "
                 "IP fragments; off: such a payload_size is refused"},
	{"send_queue_slots", KEY_INTEGER, CHANNEL(send_queue_slots), .number = 1024, .min = 64, .max = 32768,
         .help = "depth of the device's send queue"},
	{"arena_slots", KEY_INTEGER, CHANNEL(arena_slots), .number = 4096, .min = IBVCAP_TX_SLOTS_MIN,
         .max = IBVCAP_TX_SLOTS_MAX, .power_of_two = true, .help = "payload slots of each sender"},
	{"page_size", KEY_CHOICE, CHANNEL(page_bytes), .string = "2M", .choices = page_sizes,
         .help = "pages of the senders' payloads; 4K is slow and meant for trying out"},
	{"rate_limit_mbps", KEY_INTEGER, CHANNEL(rate_limit_bps), .number = 0, .min = 0, .max = 1000000,
         .unit = 1000000, .help = "megabits a second of frames, FCS included; 0: no limit"},
	{"burst_bytes", KEY_INTEGER, CHANNEL(burst_bytes), .number = 0, .min = 0, .max = 1 << 24,
         .help = "bytes that may leave at once under a limit; 0: what a late worker needs to catch up"},
	{"pacing", KEY_CHOICE, CHANNEL(device_pacing), .string = "software", .choices = pacings,
         .help = "what enforces the limit: software: the worker; device: the device, if it can"},
	{"send_time", KEY_CHOICE, CHANNEL(send_time), .string = "auto", .choices = send_times,
         .help = "what keeps the send times of packets: worker: the worker; qdisc: the queueing discipline etf, with "
                 "or without the card's help; auto: qdisc where etf is on the way of the channel's packets"},
	{"priority", KEY_INTEGER, CHANNEL(priority), .number = 0, .min = 0, .max = 15,
         .help = "the kernel's priority of the packets (SO_PRIORITY), by which queueing disciplines class them; not "
                 "with verbs"},
	{"late_after_us", KEY_INTEGER, CHANNEL(late_after_us), .number = 100, .min = 0, .max = 60000000,
         .help = "microseconds after its send time from which a packet is late"},
	{"udp_checksum", KEY_CHOICE, CHANNEL(udp_checksum), .string = "auto", .choices = udp_checksums,
         .help = "device: by the device; software: by the worker, over a copy of the payload; zero: none, IPv4 only; "
                 "auto: device if it can, else zero, or software with IPv6 or fragments"},
	{"max_senders", KEY_INTEGER, CHANNEL(max_senders), .live = true, .number = 8, .min = 1, .max = 64,
         .help = "senders that have the channel open at once"},
	{"max_senders_per_user", KEY_INTEGER, CHANNEL(max_senders_per_user), .live = true, .number = 4, .min = 1,
         .max = 64, .help = "senders of one user at once; root has no limit"},
	{"users", KEY_UIDS, CHANNEL_LIST(users), .live = true, .help = "users that may send, by name or number"},
	{"groups", KEY_GIDS, CHANNEL_LIST(groups), .live = true,
         .help = "groups whose members may send; if both are empty, root only"},
	{"poll", KEY_CHOICE, CHANNEL(poll), .string = "adaptive", .choices = polls,
         .help = "when the worker sleeps: busy: never; adaptive: after spin_us without a packet; event: at once"},
	{"spin_us", KEY_INTEGER, CHANNEL(spin_us), .number = 50, .min = 0, .max = 1000000,
         .help = "microseconds that an adaptive worker polls without a packet before it sleeps"},
	{"cpu", KEY_INTEGER, CHANNEL(cpu), .number = -1, .min = -1, .max = 1023,
         .help = "the worker's CPU; -1: any CPU that no worker has"},
};

const struct key_group channel_keys = {
	.what = "a channel",
	KEYS(channel),
	.n_max = CONFIG_CHANNELS_MAX,
	ENTRY(config_channel),
	.check = config_check_channel,
	.check_among = config_check_channel_among,
};

/* ---- the file ---------------------------------------------------------------------------------- */

#define TOP(field)      FIELD(config, field, text)
#define TOP_LIST(field) FIELD(config, field, n_##field)

static const struct key top[] = {
	{"log_level", KEY_CHOICE, TOP(log_level), .live = true, .string = "info", .choices = log_levels,
         .help = "the least important messages that are logged; debug helps to trace a problem"},
	{"direct", KEY_BOOLEAN, TOP(direct), .number = true,
         .help = "backend verbs: the workers read completions and fill receive queues themselves, if the device is an "
                 "mlx5 one and shows how; false: libibverbs does it, which takes longer"},
	{"relaxed_ordering", KEY_BOOLEAN, TOP(relaxed_ordering), .number = true,
         .help = "backend verbs: PCIe may reorder what the card writes of packets, which is faster on some machines; a "
                 "packet is complete before its completion in any case; false: in order, to find out whether it "
                 "matters"},
	{"xdp_mode", KEY_CHOICE, TOP(xdp_mode), .string = "auto", .choices = xdp_modes,
         .help = "backend xdp: zero_copy: the card writes to the daemon's memory; copy: the kernel copies; auto: "
                 "zero_copy if the driver has it"},
	{"xdp_queues", KEY_INTEGER, TOP(xdp_queues), .number = 8, .min = 1, .max = 64,
         .help = "backend xdp: receive queues of streams that each interface has room for, besides the second and "
                 "later ones of streams at start; memory is taken for all of them at start"},
	{"control", KEY_GROUP, 0, 0, 0, .live = true, .group = &control_keys,
         .help = "the socket that clients connect to"},
	{"streams", KEY_LIST, TOP_LIST(streams), .live = true, .group = &stream_keys,
         .help = "streams of packets to capture"},
	{"channels", KEY_LIST, TOP_LIST(channels), .live = true, .group = &channel_keys,
         .help = "channels that programs may send packets through"},
};

const struct key_group top_keys = {.what = "the file", KEYS(top), .text = offsetof(struct config, text)};

const char *config_backend_name(enum config_backend backend)
{
	const struct key_choice *choice = backends;

	while (choice->name && choice->value != backend)
		choice++;
	return choice->name;
}
