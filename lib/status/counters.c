// SPDX-License-Identifier: Apache-2.0
/* The counters of each part of a status, as ibvcap, its JSON and its manual page have them. */
#include "lib/status/counters.h"

#define TOTAL(name_, unit_, ...)                                                            \
	{                                                                                   \
		.name = (name_), .unit = (unit_), .kind = STATUS_TOTAL, .help = __VA_ARGS__ \
	}
#define LEVEL(name_, unit_, ...)                                                            \
	{                                                                                   \
		.name = (name_), .unit = (unit_), .kind = STATUS_LEVEL, .help = __VA_ARGS__ \
	}
#define MAXIMUM(name_, unit_, ...)                                                            \
	{                                                                                     \
		.name = (name_), .unit = (unit_), .kind = STATUS_MAXIMUM, .help = __VA_ARGS__ \
	}
#define STREAM(x)   [IBVCAP_RX_COUNTER_##x]
#define CHANNEL(x)  [IBVCAP_TX_COUNTER_##x]
#define CONSUMER(x) [CONSUMER_COUNTER_##x]
#define DROP(x)     [STREAM_COUNTER_DROPS + BACKEND_DROP_##x]

static_assert(IBVCAP_RX_COUNTER_N <= COUNTERS_ADDED, "each counter of a ring has a place");
static_assert(IBVCAP_TX_COUNTER_N <= COUNTERS_ADDED, "each counter of a channel has a place");

const struct status_field stream_counters[STREAM_COUNTER_N] = {
	STREAM(MATCHED) = TOTAL("matched", "packets",
                                "Packets that the card's flow rules selected for the stream, before any was dropped",
                                .is_shared = true),
	STREAM(PUBLISHED) = TOTAL("published", "packets", "Rows that the rx worker published with a packet in them",
                                  .cause = "put into the ring for consumers"),
	STREAM(NO_BUFFER) = TOTAL(
		"no_buffer", "packets",
		"Lost packets: they came and got no row, as a rule because none was free. With the backends packet and "
		"xdp it is the sum of its reasons, each a counter of its own",
		.is_shared = true),
	STREAM(ERRORED) = TOTAL("errored", "packets",
                                "Rows without a packet: the card reported an error. A packet that is longer than its "
                                "row is one if the device has no oversize sink, which the log says",
                                .cause = "these packets could not be used, most likely because they are longer than "
                                         "payload_size: their rows are marked as errors",
                                .remedy = "raise payload_size to the largest payload that is sent"),
	STREAM(PUBLISHED_BYTES) = TOTAL("published_bytes", "bytes", "Payload bytes of the published rows"),
	STREAM(TRUNCATED) =
		TOTAL("truncated", "packets",
                      "Published packets that were longer than their row: the row has their first bytes",
                      .cause = "of published: the payload was longer than its row, which has only its beginning",
                      .remedy = "raise payload_size to the largest payload that is sent"),
	STREAM(SHORT) = TOTAL("short", "packets", "Published packets that were shorter than their row"),
	STREAM(IRREGULAR) =
		TOTAL("irregular", "packets",
                      "Published packets with a VLAN tag, IP options or a fragment where the flow expects none, or "
                      "shorter than application_header_bytes",
                      .cause = "a VLAN tag, IP options or IPv6 extension headers where the flow expects none, or "
                               "shorter than application_header_bytes; the row has the bytes that could be found",
                      .remedy = "for a tag with an ID from 1 to 4094, set vlan = ID in the flow; a tag with ID 0, "
                                "which is a priority, and IP options need no change"),
	STREAM(BAD_CHECKSUM) = TOTAL(
		"bad_checksum", "packets",
		"Published packets with a wrong checksum, which the stream looks for if it has verify_checksums; else "
		"only in datagrams that it has joined from fragments",
		.cause = "of published: damaged between the sender's card and this one",
		.remedy = "check cables, transceivers and switches on the way; ip -s link shows errors on both ends"),
	STREAM(BATCHES) = TOTAL("batches", NULL, "How often the worker polled the card's queue and found packets"),
	STREAM(EMPTY_POLLS) = TOTAL("empty_polls", NULL, "How often the worker polled the card's queue and found none"),
	STREAM(SPARES_USED) = TOTAL("spares_used", NULL,
                                    "Blocks that the worker wanted to use again while a consumer had a lease on them; "
                                    "a spare block took their place"),
	STREAM(POSTED) = TOTAL("posted", NULL, "Rows that the worker gave to the card"),
	STREAM(QUEUE_RESETS) = TOTAL("queue_resets", NULL,
                                     "How often the card's queue was reset after an error. A queue that fails again "
                                     "within a second is reset after a pause, which grows from 1 ms to 1 s; packets "
                                     "that come meanwhile are no_buffer. The log has the card's error"),
	STREAM(WAKES) = TOTAL("wakes", NULL, "How often the worker told the notifier thread to wake consumers"),
	STREAM(FILL_MAX) = MAXIMUM("fill_max", "packets",
                                   "The largest number of rows that a consumer had not acquired yet; the worker looks "
                                   "once for each block"),
	STREAM(NO_BUFFER_LOSSLESS) = TOTAL("no_buffer_lossless", "packets",
                                           "Of no_buffer: a lossless consumer stopped the queue between the two "
                                           "readings of the card that show this loss",
                                           .is_shared = true),
	STREAM(FRAGMENTS) = TOTAL(
		"fragments", "packets",
		"Of irregular: IP fragments. Each is a part of a datagram, as a rule the first. The other fragments "
		"have no port, match no flow, and go to the kernel. With reassemble there is none"),
	STREAM(FRAGMENT_LOST_BYTES) =
		TOTAL("fragment_lost_bytes", "bytes", "Payload bytes of these datagrams that are not in the rows"),
	STREAM(JOINED) = TOTAL(
		"joined", "packets",
		"With reassembly: packets without a row of their own that are no loss: the fragments of a datagram but "
		"for one, which has its row or is lost, and what is for ports of no flow"),
	STREAM(REASSEMBLED) = TOTAL("reassembled", "packets", "Of published: datagrams that came in fragments"),
	STREAM(INCOMPLETE_DATAGRAMS) =
		TOTAL("incomplete_datagrams", "packets",
                      "Datagrams that were given up, because a fragment did not come in 200 ms. If the first one "
                      "came, the datagram is one packet of incomplete; else nobody knows its port, and its fragments "
                      "are in ambiguous"),
	STREAM(INCOMPLETE_BYTES) = TOTAL("incomplete_bytes", "bytes", "Bytes of their UDP datagrams that had come"),
	STREAM(AMBIGUOUS) =
		TOTAL("ambiguous", "packets",
                      "With reassembly: IP fragments without a row, of which it cannot be told whether a datagram is "
                      "lost: the first fragment with the port did not come, they are equal to earlier ones, have the "
                      "identification of a datagram to a port of no flow, or make a datagram with a wrong checksum",
                      .cause = "IP fragments whose first one, which has the port, did not come, or that are equal to "
                               "earlier ones of their identification, have that of a datagram to a port of no flow, "
                               "or make a datagram with a wrong checksum: the network lost, repeated or damaged "
                               "fragments, of this stream or of another port, or the sender used the identification "
                               "again",
                      .remedy = "find out whether packets come by two ways (a mirror port, a bond, a ring of "
                                "switches), and whether the sender gives all datagrams one IP identification; the "
                                "packets' own numbers (sequence) show what is lost"),
	STREAM(MALFORMED) = TOTAL(
		"malformed", "packets",
		"Published packets whose headers have lengths that contradict each other, or are longer than the "
		"frame: a UDP length above what the IP length leaves, or below 8, an IP length above that of the "
		"frame. A socket gets nothing of such a packet",
		.cause = "of published: the lengths of IP and UDP in their headers contradict each other, or are "
			 "longer than the frame; a socket gets nothing of them, and their rows have no payload",
		.remedy = "look at them (ibvcap record, Wireshark): either their sender makes them, or a device on the "
			  "way cuts packets"),
	STREAM(NO_BUFFER_STANDSTILL) = TOTAL("no_buffer_standstill", "packets",
                                             "Of no_buffer: the daemon did not read the card's counters for a second "
                                             "or more, between the two readings that show this loss: it was stopped, "
                                             "had no CPU time, or waited for the card",
                                             .is_shared = true),
	[STREAM_COUNTER_IN_FLIGHT] =
		LEVEL("in_flight", "packets",
                      "Packets that the card has counted and that are not yet counted as published, no_buffer, "
                      "errored, joined or ambiguous; 0 when nothing comes",
                      .cause = "matched but not published when the daemon answered: they are on their way, or will be "
                               "counted as no_buffer",
                      .remedy = "ask again when the sender pauses: it is 0 then", .is_shared = true),
	[STREAM_COUNTER_HEAD] = TOTAL("head", "packets", "Rows so far, published and errored"),
	DROP(NO_FRAME) =
		TOTAL("no_frame", "packets",
                      "Backend xdp: the rings of the interface's streams held all buffers of its receive queue",
                      .cause = "of no_buffer: no buffer of the interface's receive queue was free, because the rings "
                               "of this and other streams of the interface held all of them",
                      .remedy = "set xdp_queues to the number of queues of the interface's streams and restart the "
                                "daemon; then help the streams of the interface whose ring_full grows"),
	DROP(RING_FULL) = TOTAL("ring_full", "packets",
                                "The kernel's ring of this stream was full: its worker was slow, or had no free row"),
	DROP(NO_SOCKET) = TOTAL(
		"no_socket", "packets",
		"Backend xdp: they came through a receive queue of the interface that the stream has no socket on",
		.cause = "of no_buffer: they came through a receive queue of the interface that the stream has no "
			 "socket on: the interface got more queues (ethtool -L)",
		.remedy = "if it grows on, restart the daemon (systemctl restart ibvcapd)"),
	DROP(UNBOUND) =
		TOTAL("unbound", "packets",
                      "Backend xdp: the kernel took the interface from the stream's sockets; it was deleted or moved",
                      .cause = "of no_buffer: the kernel took the interface from the stream's sockets: it was deleted, "
                               "or moved to another network namespace",
                      .remedy = "bring it back under its name; the daemon then starts anew with it"),
	DROP(INCOMPLETE) =
		TOTAL("incomplete", "packets",
                      "Datagrams whose first fragment came, and that were given up, because another fragment did not "
                      "come in 200 ms",
                      .cause = "of no_buffer: datagrams of which an IP fragment did not come in 200 ms after the "
                               "others, so that the datagrams have no row",
                      .remedy = "look for what drops packets on the way, or sends one datagram by two ways: the "
                                "counters of switches and of the card (ethtool -S)"),
	DROP(REFUSED) =
		TOTAL("refused", "packets", "Datagrams whose IP fragments overlap, and IP fragments with wrong lengths",
                      .cause = "of no_buffer: datagrams whose IP fragments overlap each other, or IP fragments whose "
                               "lengths contradict each other: they are refused",
                      .remedy = "find their sender: no sender makes such fragments by itself, but two that use "
                                "one address do, and an attacker does"),
	DROP(MERGED) =
		TOTAL("merged", "packets",
                      "Backend packet: the kernel had merged them to longer packets (GRO, GSO) that cannot be taken "
                      "apart, because their headers are not found",
                      .cause = "of no_buffer: the kernel had merged them to longer packets (GRO of the interface, or "
                               "GSO of a sender on this machine), whose headers are not found, so that they cannot be "
                               "taken apart",
                      .remedy = "switch that off: ethtool -K INTERFACE gro off rx-gro-list off; if the sender is on "
                                "this machine, on its interface: ethtool -K INTERFACE gso off tso off"),
};

const struct status_field channel_counters[CHANNEL_COUNTER_N] = {
	CHANNEL(SUBMITTED) = TOTAL("submitted", "packets", "Packets that senders submitted"),
	CHANNEL(COMPLETED) = TOTAL("completed", "packets", "Packets that the card reported as sent"),
	CHANNEL(ERRORED) = TOTAL("errored", "packets", "Packets that were not sent; the packet's status says why"),
	CHANNEL(FLUSHED) = TOTAL("flushed", "packets",
                                 "Packets that were not sent, or perhaps not: the sender or the channel ended, or the "
                                 "card's queue was reset"),
	CHANNEL(LATE_DROPPED) =
		TOTAL("late_dropped", "packets",
                      "Packets that were dropped because they were too late, as their sender had asked, or by etf"),
	CHANNEL(COMPLETED_BYTES) = TOTAL("completed_bytes", "bytes", "Payload bytes of the completed packets"),
	CHANNEL(WIRE_BYTES) =
		TOTAL("wire_bytes", "bytes", "Bytes of the Ethernet frames of the completed packets, with FCS"),
	CHANNEL(LATE) = TOTAL(
		"late", "packets",
		"Packets that left, or were dropped, later than the channel's late_after_us after their send time"),
	CHANNEL(TIMED) =
		TOTAL("timed", "packets", "Packets that had a send time not more than 1000 seconds in the past"),
	CHANNEL(TIMED_LATENESS_NS) = TOTAL("timed_lateness_ns", "ns", "The sum of the delays of timed packets"),
	CHANNEL(TIMED_LATENESS_MAX_NS) = MAXIMUM("timed_lateness_max_ns", "ns", "The largest delay of a timed packet"),
	CHANNEL(PACED) = TOTAL("paced", "packets", "Packets that waited for the channel's rate"),
	CHANNEL(PACED_LATENESS_NS) =
		TOTAL("paced_lateness_ns", "ns", "The sum of the delays of paced packets after the rate allowed them"),
	CHANNEL(PACED_LATENESS_MAX_NS) = MAXIMUM("paced_lateness_max_ns", "ns", "The largest delay of a paced packet"),
	CHANNEL(IDLE_KICKS) =
		TOTAL("idle_kicks", NULL,
                      "How often a sender woke the daemon without having submitted anything new. A few happen by "
                      "chance; a sender that wakes the daemon more often than it submits packets is disconnected"),
	CHANNEL(BATCHES) = TOTAL("batches", NULL, "Chains of packets that the worker gave to the card"),
	CHANNEL(QUEUE_RESETS) = TOTAL("queue_resets", NULL, "How often the card's queue was reset after an error"),
	CHANNEL(WAKES) = TOTAL("wakes", NULL, "How often the worker told the notifier thread to wake senders"),
	CHANNEL(BAD_SENDERS) =
		TOTAL("bad_senders", NULL,
                      "Senders that the daemon disconnected because their shared memory had invalid contents, or "
                      "because they woke the daemon more often than they submitted packets"),
	CHANNEL(FRAGMENTED) = TOTAL("fragmented", "packets",
                                    "Completed packets that were longer than the MTU and left as IP fragments"),
	CHANNEL(FRAGMENTS) =
		TOTAL("fragments", NULL,
                      "Frames that the fragmented packets were cut into. The frames of all completed packets are "
                      "completed - fragmented + fragments"),
	[CHANNEL_COUNTER_PENDING] = LEVEL("pending", "packets",
                                          "Packets that were submitted and have no result yet; 0 when nothing is sent"),
	[CHANNEL_COUNTER_SENDERS] =
		LEVEL("senders", NULL, "Senders that have the channel open now, those that are being closed included"),
};

const struct status_field consumer_counters[CONSUMER_COUNTER_N] = {
	CONSUMER(PUBLISHED) = TOTAL("published", "packets", "Rows that were published since it attached"),
	CONSUMER(DELIVERED) = TOTAL("delivered", "packets", "Rows that it acquired"),
	CONSUMER(SKIPPED) =
		TOTAL("skipped", "packets", "Rows that the worker used again before this consumer acquired them"),
	CONSUMER(LAG) = LEVEL("lag", "packets", "Rows that it has not acquired yet"),
	CONSUMER(LEASED_BLOCKS) = LEVEL("leased_blocks", NULL, "Blocks that it has a lease on"),
	CONSUMER(GONE) = LEVEL("gone", "packets",
                               "Of lag: rows that the worker has used again. They are lost for this consumer, and "
                               "become skipped when it goes on"),
	CONSUMER(SOURCES) = LEVEL("sources", NULL, "Sources that number their packets"),
	CONSUMER(ARRIVED) = TOTAL("arrived", NULL, "All numbers that came: arrived = once + repeated"),
	CONSUMER(ONCE) = TOTAL("once", NULL, "Numbers that came at least once"),
	CONSUMER(REPEATED) = TOTAL("repeated", NULL, "Numbers that came again"),
	CONSUMER(SENT) = TOTAL("sent", NULL, "Numbers from the first to the highest: sent = once + lost"),
	/*
	 * No totals: a number that comes late is lost no more, and a restart makes a packet that was late or stray the
	 * first of a run.
	 */
	CONSUMER(LOST) = LEVEL("lost", NULL,
                               "Numbers that did not come so far. A number is lost as soon as a higher one comes, and "
                               "no longer when it comes after all"),
	CONSUMER(LOST_BEFORE_CARD) = LEVEL("lost_before_card", NULL,
                                           "Of lost: before the flow rules, in the sender, the network or the card. A "
                                           "number that was sent twice and lost once can make this too small"),
	CONSUMER(LOST_IN_CARD) =
		LEVEL("lost_in_card", NULL, "Of lost: they came and got no row (no_buffer of the stream)"),
	CONSUMER(LOST_AFTER_CARD) = LEVEL("lost_after_card", NULL, "Of lost: skipped by this consumer"),
	CONSUMER(LOST_UNREAD) = LEVEL("lost_unread", NULL, "Of lost: in rows from which no number could be read"),
	CONSUMER(REORDERED) = TOTAL("reordered", NULL, "Of once: came after a higher number"),
	CONSUMER(LATE) = LEVEL("late", NULL,
                               "Came so far behind the highest number (window) that it is not known whether they had "
                               "come; not in arrived"),
	CONSUMER(STRAY) = LEVEL("stray", NULL, "Came alone and far ahead (jump); not in arrived"),
	CONSUMER(RESTARTED) = TOTAL("restarted", NULL, "Times that a source began its numbers anew"),
	CONSUMER(UNREAD) = TOTAL("unread", "packets", "Packets without a number that can be read"),
	CONSUMER(UNTRACKED) = TOTAL("untracked", "packets", "Packets of sources for which the tracker had no room"),
	CONSUMER(LOST_IN_ABSENCE) = LEVEL("lost_in_absence", NULL,
                                          "Of lost: around a restart of the daemon, an outage of the interface or the "
                                          "end of a group's member: then, or in the sender or the network"),
};

const struct status_field interface_counters[INTERFACE_COUNTER_N] = {
	[INTERFACE_COUNTER_OUT_OF_BUFFER] = TOTAL("out_of_buffer", "packets",
                                                  "Packets that found no free row, as the card counts them over all "
                                                  "its queues. Cards in switchdev mode do not show it on some kernels"),
	[INTERFACE_COUNTER_PORT_DISCARDS] =
		TOTAL("port_discards", "packets",
                      "Packets that the port dropped before the flow rules saw them. Virtual functions do not show it",
                      .cause = "the card could not write packets to memory as fast as they came",
                      .remedy = "check for a slow PCIe link (lspci -vv: LnkSta), memory on another NUMA node, rings in "
                                "pages of 4 KiB (page_size), and other traffic on the port; ethtool -S INTERFACE shows "
                                "the driver's own counters"),
	[INTERFACE_COUNTER_CARD_DROPPED] = TOTAL(
		"card_dropped", "packets",
		"Packets that the card dropped before the kernel got them, because the driver's receive ring was "
		"full",
		.cause = "the CPU that takes packets from the card was too slow, or its ring is too short",
		.remedy = "a longer ring: ethtool -G INTERFACE rx N; more queues and their interrupts on more CPUs: "
			  "ibvcap-tuning(7)"),
	[INTERFACE_COUNTER_DAMAGED] =
		TOTAL("damaged", "packets",
                      "Frames that the card dropped because of a bad checksum, or a length that it does not take",
                      .cause = "a bad cable or transceiver, or frames that are longer than the interface's MTU",
                      .remedy = "look at 'ip -s -s link show INTERFACE'; a larger MTU: ip link set INTERFACE mtu N"),
	[INTERFACE_COUNTER_BACKLOG_DROPPED] = TOTAL(
		"backlog_dropped", "packets", "Packets that the kernel dropped because the backlog of a CPU was full",
		.cause = "the kernel's network code had too little CPU time, or the backlog is too short",
		.remedy = "sysctl net.core.netdev_max_backlog=N; let RPS use more CPUs: ibvcap-tuning(7)"),
	[INTERFACE_COUNTER_KERNEL_DROPPED] = TOTAL(
		"kernel_dropped", "packets",
		"Packets that the driver or the kernel dropped for other reasons (rx_dropped): above the MTU, no "
		"memory, or of an EtherType or a VLAN that no program takes",
		.cause = "the frames are longer than the interface's MTU, no program takes their EtherType or "
			 "VLAN, or the kernel had no memory for them; which, it does not tell",
		.remedy = "compare the MTUs of both ends: ip link show INTERFACE; look for frames that no program "
			  "takes: tcpdump -e -n -i INTERFACE not ip and not ip6 and not arp; memory: "
			  "ibvcap-tuning(7)"),
	[INTERFACE_COUNTER_PEER_DROPPED] =
		TOTAL("peer_dropped", "packets",
                      "Packets that the other end of a veth could not deliver to this one, while this one was up",
                      .cause = "the kernel's network code had too little CPU time for this interface",
                      .remedy = "fewer programs on these CPUs; ibvcap-tuning(7)"),
	[INTERFACE_COUNTER_DOWN_DROPPED] = TOTAL(
		"down_dropped", "packets",
		"Packets that the kernel or the other end of a veth dropped between two readings, some 0.1 s apart, of "
		"which one found the interface down, or between which it went down or came up",
		.cause = "the interface was down (no link); of those that came up to 0.1 s before or after, the cause "
			 "may be another one: the MTU, or too little CPU time for the kernel's network code",
		.remedy = "find out what took it down: ip link show INTERFACE; journalctl -k; the other end of a veth, "
			  "the cable"),
};

const struct status_field recording_causes[RECORDING_CAUSE_N] = {
	[RECORDING_CAUSE_SKIPPED] =
		TOTAL("skipped", "packets", "The ring used their rows again before they were read",
                      .cause = "the recorder was too slow, and the ring was full; the disk was ready"),
	[RECORDING_CAUSE_DISK_WAIT] = TOTAL("disk_wait", "packets", "The same, while the recorder waited for the disk",
                                            .cause = "the disk did not take the data, and the ring was full"),
	[RECORDING_CAUSE_ERRORED] =
		TOTAL("errored", "packets", "Rows that the device marked as failed",
                      .cause = "their rows are in error: the device could not write them, or they are longer "
                               "than payload_size"),
	[RECORDING_CAUSE_NO_BUFFER] = TOTAL("no_buffer", "packets", "Never published: they came and got no row",
                                            .cause = "they came to the stream and got no row"),
	[RECORDING_CAUSE_RESTARTS] = TOTAL("restarts", NULL, "Restarts of the daemon: packets lost uncounted",
                                           .cause = "ibvcapd was restarted"),
	[RECORDING_CAUSE_UNJOINED] =
		TOTAL("unjoined", "packets",
                      "Of no_buffer: datagrams of which an IP fragment did not come, or does not fit to the others",
                      .cause = "datagrams of which an IP fragment did not come, or does not fit to the others"),
};
