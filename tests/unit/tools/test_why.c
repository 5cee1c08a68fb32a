// SPDX-License-Identifier: Apache-2.0
/* Each loss has a line with its cause and a remedy. Without loss no line has a remedy. */
#include "tools/status/why.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

static struct ibvcap_counter stream_counts[] = {
	{"matched", 100},           {"published", 100},
	{"no_buffer", 0},           {"errored", 0},
	{"in_flight", 0},           {"truncated", 0},
	{"irregular", 0},           {"bad_checksum", 0},
	{"queue_resets", 0},        {"fragments", 0},
	{"fragment_lost_bytes", 0}, {"no_buffer_lossless", 0},
	{"ring_full", 0},           {"no_frame", 0},
	{"no_socket", 0},           {"unbound", 0},
	{"malformed", 0},           {"no_buffer_standstill", 0},
};
#define N_STREAM 18
static struct ibvcap_counter port_counters[] = {{"out_of_buffer", 0}, {"port_discards", 0}};
static struct ibvcap_counter consumer_counts[] = {{"published", 100}, {"delivered", 100}, {"skipped", 0},
                                                  {"lag", 0},         {"gone", 0},        {"leased_blocks", 0}};
#define N_CONSUMER 6
static struct ibvcap_status_stream stream = {.name = "s",
                                             .interface = "eth0",
                                             .state = "capturing",
                                             .n_blocks = 10,
                                             .slots_per_block = 64,
                                             .page_bytes = 2 << 20,
                                             .counters = stream_counts,
                                             .n_counters = N_STREAM};
static struct ibvcap_status_interface port = {
	.interface = "eth0", .counters = port_counters, .n_counters = 2, .uncounted = "nothing"};
static struct ibvcap_status_consumer consumers[] = {
	{.stream = "other", .pid = 1, .counters = consumer_counts, .n_counters = N_CONSUMER},
	{.stream = "s", .pid = 2, .counters = consumer_counts, .n_counters = N_CONSUMER},
};
static struct why_report report;

static void set(struct ibvcap_counter *counters, unsigned n, const char *label, uint64_t value)
{
	for (unsigned i = 0; i < n; i++)
		if (strcmp(counters[i].label, label) == 0)
			counters[i].value = value;
}

/* The line of that term; NULL if there is none. */
static const struct why_line *judge(const char *term)
{
	const struct why_facts facts = {
		.stream = &stream, .interface = &port, .consumers = consumers, .n_consumers = 2};

	why_explain(&facts, &report);
	for (uint32_t i = 0; i < report.n_lines; i++)
		if (strcmp(report.lines[i].term, term) == 0)
			return &report.lines[i];
	return NULL;
}

Test(why, packets_that_the_device_could_not_write_are_not_told_as_too_long_alone)
{
	set(stream_counts, N_STREAM, "errored", 5);
	cr_expect(eq(ptr, (void *)strstr(judge("errored")->remedy, "log"), NULL));
	set(stream_counts, N_STREAM, "queue_resets", 5);
	cr_expect(ne(ptr, (void *)strstr(judge("errored")->remedy, "log"), NULL));
}

Test(why, counters_that_the_device_does_not_have_are_notes)
{
	port.n_counters = 0;
	cr_expect(eq(int, (int)judge("port_discards")->level, WHY_NOTE));
	cr_expect(ne(ptr, (void *)strstr(judge("port_discards")->remedy, "rx_discards_phy"), NULL));
	cr_expect(eq(int, (int)judge("out_of_buffer")->level, WHY_NOTE));
	port.n_counters = 2;
	cr_expect(eq(ptr, (void *)judge("out_of_buffer"), NULL));
}

Test(why, what_a_socket_never_got_is_told_by_its_place)
{
	static struct ibvcap_counter counters[] = {{"card_dropped", 0}, {"backlog_dropped", 0}, {"kernel_dropped", 0}};

	port.counters = counters;
	port.n_counters = 3;
	strcpy(stream.backend, "packet");
	cr_expect(eq(int, (int)judge("interface_lost")->level, WHY_OK));
	counters[1].value = 3;
	cr_expect(eq(int, (int)judge("backlog_dropped")->level, WHY_LOSS));
	cr_expect(ne(ptr, (void *)strstr(judge("backlog_dropped")->remedy, "netdev_max_backlog"), NULL));
	cr_expect(eq(ptr, (void *)judge("kernel_dropped"), NULL));
	cr_expect(eq(ptr, (void *)judge("out_of_buffer"), NULL));
	counters[2].value = 4;
	cr_expect(ne(ptr, (void *)strstr(judge("kernel_dropped")->cause, "EtherType"), NULL));
	cr_expect(ne(ptr, (void *)strstr(judge("kernel_dropped")->remedy, "tcpdump -e -n -i eth0 "), NULL));
	cr_expect(eq(u64, judge("interface_lost")->value, 7));
}

Test(why, what_the_interface_lost_last_has_its_time)
{
	set(port_counters, 2, "port_discards", 9);
	port.loss_packets = 4;
	port.loss_from_ns = 70;
	port.loss_to_ns = 80;
	cr_expect(eq(int, (int)judge("interface_lost")->level, WHY_LOSS));
	cr_expect(eq(u64, judge("interface_lost")->last, 4));
	cr_expect(eq(u64, judge("interface_lost")->from_ns, 70));
	cr_expect(eq(u64, judge("interface_lost")->to_ns, 80));
}

Test(why, what_nobody_counts_is_a_note_without_a_number)
{
	strcpy(stream.backend, "packet");
	strcpy(port.uncounted, "driver");
	cr_expect(eq(int, (int)judge("not counted")->level, WHY_NOTE));
	cr_expect(judge("not counted")->is_unknown);
	cr_expect(ne(ptr, (void *)strstr(judge("not counted")->remedy, "ethtool -S"), NULL));
	strcpy(port.uncounted, "other_end");
	cr_expect(ne(ptr, (void *)strstr(judge("not counted")->cause, "another network namespace"), NULL));
	strcpy(port.uncounted, "program");
	cr_expect(ne(ptr, (void *)strstr(judge("not counted")->remedy, "bpftool net"), NULL));
	strcpy(port.uncounted, "nothing");
	cr_expect(eq(ptr, (void *)judge("not counted"), NULL));
}

Test(why, a_group_that_is_not_joined_is_a_cause_of_no_packets)
{
	struct ibvcap_counter none = {.label = "matched"};
	const struct ibvcap_status_stream silent = {
		.name = "lidar", .state = "capturing", .counters = &none, .n_counters = 1};
	const struct why_facts facts = {.stream = &silent, .lacks_group = true};

	why_explain(&facts, &report);
	for (uint32_t i = 0; i < report.n_lines; i++)
		if (strcmp(report.lines[i].term, "matched") == 0)
			cr_expect(ne(ptr, (void *)strstr(report.lines[i].cause, "not joined"), NULL));
}

Test(why, readings_that_are_old_are_a_note)
{
	cr_expect(eq(ptr, (void *)judge("reading_age_ms"), NULL));
	stream.reading_age_ms = 4000;
	cr_expect(eq(int, (int)judge("reading_age_ms")->level, WHY_NOTE));
	stream.reading_age_ms = 0;
}

Test(why, without_loss_every_term_is_there_and_none_needs_a_remedy)
{
	static const char *const terms[] = {"interface_lost", "matched",   "no_buffer", "errored", "in_flight",
	                                    "published",      "delivered", "skipped",   "lag"};

	for (unsigned i = 0; i < sizeof(terms) / sizeof(terms[0]); i++)
		cr_expect(ne(ptr, (void *)judge(terms[i]), NULL), "%s", terms[i]);
	for (uint32_t i = 0; i < report.n_lines; i++) {
		cr_expect(eq(int, (int)report.lines[i].level, WHY_OK), "%s", report.lines[i].term);
		cr_expect(eq(ptr, (void *)report.lines[i].remedy, NULL), "%s", report.lines[i].term);
		cr_expect(ne(ptr, (void *)report.lines[i].consumer, (void *)&consumers[0]),
		          "a consumer of another stream");
	}
}

Test(why, lost_numbers_have_a_line_for_each_place)
{
	static struct ibvcap_counter counters[] = {
		{"delivered", 90},       {"lost", 60},       {"lost_before_card", 30}, {"lost_in_card", 20},
		{"lost_after_card", 10}, {"lost_unread", 0}, {"repeated", 4}};
	const struct ibvcap_status_consumer before = consumers[1];

	consumers[1].counters = counters;
	consumers[1].n_counters = 7;
	cr_expect(eq(int, (int)judge("lost")->level, WHY_LOSS));
	cr_expect(ne(ptr, (void *)strstr(judge("lost_before_card")->cause, "network"), NULL));
	cr_expect(ne(ptr, (void *)strstr(judge("lost_in_card")->cause, "no_buffer"), NULL));
	cr_expect(ne(ptr, (void *)strstr(judge("lost_after_card")->cause, "skipped"), NULL));
	cr_expect(eq(ptr, (void *)judge("lost_unread"), NULL));
	cr_expect(eq(int, (int)judge("repeated")->level, WHY_NOTE));
	consumers[1] = before;
	cr_expect(eq(ptr, (void *)judge("lost"), NULL));
}

static void expect_loss(const char *term, const char *cause, const char *remedy)
{
	const struct why_line *line = judge(term);

	cr_assert(ne(ptr, (void *)line, NULL), "%s", term);
	cr_expect(eq(int, (int)line->level, WHY_LOSS), "%s", term);
	cr_expect(strstr(line->cause, cause) != NULL, "%s", line->cause);
	cr_expect(line->remedy && strstr(line->remedy, remedy) != NULL, "%s", line->remedy);
}

Test(why, each_loss_is_told_with_cause_and_remedy)
{
	set(port_counters, 2, "port_discards", 3);
	expect_loss("port_discards", "could not write packets to memory", "PCIe");
	set(stream_counts, N_STREAM, "errored", 3);
	expect_loss("errored", "longer than payload_size", "payload_size");
	set(stream_counts, N_STREAM, "truncated", 3);
	expect_loss("truncated", "longer than its row", "payload_size");
	set(stream_counts, N_STREAM, "bad_checksum", 3);
	expect_loss("bad_checksum", "damaged", "cables");
	set(consumer_counts, N_CONSUMER, "skipped", 3);
	expect_loss("skipped", "slower than the packets come", "history_blocks");
	strcpy(stream.state, "link_down");
	strcpy(stream.interface, "ens1f0");
	expect_loss("link_down", "no link", "ip link set dev ens1f0 up");
	strcpy(stream.state, "interface_gone");
	expect_loss("interface_gone", "not there any more", "under its name");
	strcpy(stream.closed_why, "interface eht0: did you mean 'eth0'?");
	expect_loss("interface_gone", "did you mean 'eth0'?", "systemctl reload ibvcapd");
	strcpy(stream.state, "awaits_memory");
	cr_expect(eq(int, (int)judge("awaits_memory")->level, WHY_NOTE));
}

Test(why, what_had_no_slot_has_the_cause_that_fits)
{
	set(stream_counts, N_STREAM, "no_buffer", 7);
	expect_loss("no_buffer", "the worker was too slow", "receive_queue_slots");
	expect_loss("no_buffer", "or did not run for longer than its queue lasts", "cpu");
	stream.page_bytes = 4096;
	cr_expect(eq(ptr, (void *)strstr(judge("no_buffer")->remedy, "page_size"), NULL),
	          "the worker does not translate");
	set(stream_counts, N_STREAM, "queue_resets", 1);
	expect_loss("no_buffer", "or while the queue was reset", "journalctl");
}

Test(why, what_sockets_dropped_is_told_by_its_causes)
{
	strcpy(stream.backend, "xdp");
	set(stream_counts, N_STREAM, "no_buffer", 7);
	set(stream_counts, N_STREAM, "ring_full", 7);
	expect_loss("no_buffer", "these packets came while no row was free: the worker was too slow", "cpu");
	cr_expect(eq(ptr, (void *)judge("ring_full"), NULL), "it is the whole of no_buffer");
	set(stream_counts, N_STREAM, "no_buffer", 12);
	set(stream_counts, N_STREAM, "no_frame", 2);
	set(stream_counts, N_STREAM, "no_socket", 2);
	set(stream_counts, N_STREAM, "unbound", 1);
	expect_loss("no_buffer", "ring_full 7: these packets came while no row was free", "cpu");
	expect_loss("no_frame", "held all of them", "xdp_queues");
	expect_loss("no_socket", "ethtool -L", "restart the daemon");
	expect_loss("unbound", "another network namespace", "under its name");
	set(stream_counts, N_STREAM, "ring_full", 0);
	cr_expect(strstr(judge("no_buffer")->cause, "the next lines have the causes") != NULL);
	cr_expect(eq(ptr, (void *)judge("no_buffer")->remedy, NULL));
}

Test(why, what_was_lost_while_the_daemon_stood_still_is_not_told_as_the_workers)
{
	set(stream_counts, N_STREAM, "no_buffer", 7);
	set(stream_counts, N_STREAM, "no_buffer_standstill", 7);
	expect_loss("no_buffer", "7 of these packets came in a second or more in which ibvcapd", "kill -STOP");
	cr_expect(eq(ptr, (void *)strstr(judge("no_buffer")->cause, "too slow"), NULL));
	set(stream_counts, N_STREAM, "no_buffer", 9);
	expect_loss("no_buffer", "; the others came while no row was free", "; against the others, give the worker");
}

/* The worker's counter decides. The present policies of the consumers do not matter. */
Test(why, what_a_lossless_consumer_cost_is_told_as_its_and_not_as_the_workers)
{
	set(stream_counts, N_STREAM, "no_buffer", 7);
	consumers[1].policy = IBVCAP_POLICY_LOSSLESS;
	expect_loss("no_buffer", "these packets came while no row was free: the worker was too slow", "cpu");
	set(stream_counts, N_STREAM, "no_buffer_lossless", 7);
	expect_loss("no_buffer", "7 of these packets came while a lossless consumer stopped the queue",
	            "lossless_deadline_ms");
	expect_loss("no_buffer", "lossless now: process 2 of user", "history_blocks");
	cr_expect(eq(ptr, (void *)strstr(judge("no_buffer")->cause, "worker"), NULL));
	cr_expect(eq(ptr, (void *)strstr(judge("no_buffer")->remedy, "cpu"), NULL));
	consumers[1].policy = IBVCAP_POLICY_LOSSY;
	stream.stall_pid = 2380;
	stream.stall_uid = 4000000002; /* no name */
	stream.stall_until_ns = UINT64_C(1790000000123000000);
	expect_loss("no_buffer", "lossless until 2026-09-21T14:13:20.123Z: process 2380 of user 4000000002",
	            "lossless_deadline_ms");
	set(stream_counts, N_STREAM, "no_buffer_lossless", 3);
	expect_loss("no_buffer", "3 of these packets came while a lossless", "lossless_deadline_ms");
	expect_loss("no_buffer", "the others came while no row was free: the worker", "receive_queue_slots");
}

Test(why, fragments_are_a_loss_that_reassembly_mends)
{
	cr_expect(eq(ptr, (void *)judge("fragments"), NULL));
	set(stream_counts, N_STREAM, "irregular", 200);
	set(stream_counts, N_STREAM, "fragments", 200);
	set(stream_counts, N_STREAM, "fragment_lost_bytes", 2227200);
	expect_loss("fragments", "2227200 payload bytes of their datagrams are lost", "payloads that fit the MTU");
	expect_loss("fragments", "does not join fragments", "set reassemble = \"on\"");
	cr_expect(eq(int, (int)judge("irregular")->level, WHY_NOTE));
}

Test(why, what_is_gone_of_the_lag_is_a_loss_before_the_consumer_skips_it)
{
	cr_expect(eq(ptr, (void *)judge("gone"), NULL));
	set(consumer_counts, N_CONSUMER, "lag", 62205);
	set(consumer_counts, N_CONSUMER, "gone", 58557);
	expect_loss("gone", "lost for this consumer", "history_blocks");
	cr_expect(eq(u64, judge("gone")->value, 58557));
	cr_expect(eq(ptr, (void *)strstr(judge("lag")->cause, "about to"), NULL));
}

Test(why, a_consumer_that_holds_all_its_leases_is_told_of_leases_and_not_of_its_speed)
{
	set(consumer_counts, N_CONSUMER, "skipped", 3);
	consumers[1].lease_blocks = 4;
	set(consumer_counts, N_CONSUMER, "leased_blocks", 3);
	expect_loss("skipped", "slower than the packets come", "history_blocks");
	set(consumer_counts, N_CONSUMER, "leased_blocks", 4);
	expect_loss("skipped", "holds all the blocks that it may", "extra_lease_blocks");
	cr_expect(eq(ptr, (void *)strstr(judge("skipped")->cause, "slower than"), NULL));
	consumers[1].lease_blocks = 0; /* of an older daemon: not known */
	expect_loss("skipped", "slower than the packets come", "lease_blocks");
}

Test(why, a_tap_has_a_line_but_no_counters)
{
	consumers[1].policy = IBVCAP_POLICY_TAP;
	consumers[1].n_counters = 0;
	cr_assert(ne(ptr, (void *)judge("tap"), NULL));
	cr_expect(eq(ptr, (void *)judge("tap")->consumer, (void *)&consumers[1]));
	cr_expect(eq(ptr, (void *)judge("delivered"), NULL));
	cr_expect(eq(ptr, (void *)judge("lag"), NULL));
}

Test(why, silence_and_lag_are_no_loss_yet)
{
	const struct why_line *line;

	set(stream_counts, N_STREAM, "matched", 0);
	line = judge("matched");
	cr_expect(eq(int, (int)line->level, WHY_NOTE));
	cr_expect(strstr(line->remedy, "flows") != NULL);
	set(consumer_counts, N_CONSUMER, "lag", 320);
	cr_expect(eq(int, (int)judge("lag")->level, WHY_OK));
	set(consumer_counts, N_CONSUMER, "lag", 321);
	cr_expect(eq(int, (int)judge("lag")->level, WHY_NOTE));
	set(stream_counts, N_STREAM, "in_flight", 1);
	cr_expect(eq(int, (int)judge("in_flight")->level, WHY_NOTE));
}

Test(why, packets_that_are_longer_than_their_rows_have_the_remedy_that_helps)
{
	set(stream_counts, N_STREAM, "truncated", 3);
	cr_expect(strcmp(judge("truncated")->remedy, "raise payload_size to the largest payload that is sent") == 0);
	set(stream_counts, N_STREAM, "irregular", 2);
	expect_loss("truncated", "longer than its row", "4 bytes for each VLAN tag");
	stream.slot_bytes = 65507;
	expect_loss("truncated", "longer than its row", "shorter packets: payload_size is 65507 already");
	cr_expect(eq(ptr, (void *)strstr(judge("truncated")->remedy, "raise"), NULL));
}

Test(why, fragments_among_irregular_packets_are_not_told_as_tags)
{
	set(stream_counts, N_STREAM, "irregular", 5);
	cr_expect(strstr(judge("irregular")->cause, "5 with a VLAN tag") != NULL);
	cr_expect(strstr(judge("irregular")->remedy, "ibvcap record s -c") != NULL);
	set(stream_counts, N_STREAM, "fragments", 3);
	cr_expect(strstr(judge("irregular")->cause, "2 with a VLAN tag") != NULL);
	set(stream_counts, N_STREAM, "fragments", 5);
	cr_expect(strcmp(judge("irregular")->cause, "of published: IP fragments; see fragments") == 0);
	cr_expect(eq(ptr, (void *)judge("irregular")->remedy, NULL));
}

Test(why, a_queue_that_cannot_be_longer_is_not_advised_to_be)
{
	set(stream_counts, N_STREAM, "no_buffer", 7);
	stream.receive_queue_slots = 32768;
	cr_expect(eq(ptr, (void *)strstr(judge("no_buffer")->remedy, "receive_queue_slots"), NULL));
}

/* ---- the worst first ------------------------------------------------------------------------------------------- */

/* What is the matter with a stream of the given name, in the order of the view. */
static struct ibvcap_counter lost_counts[4][2] = {{{"matched", 9}, {"no_buffer", 0}},
                                                  {{"matched", 9}, {"no_buffer", 5}},
                                                  {{"matched", 9}, {"no_buffer", 0}},
                                                  {{"matched", 9}, {"no_buffer", 7}}};
static struct ibvcap_counter skipped_counts[3][2] = {
	{{"delivered", 9}, {"skipped", 0}}, {{"delivered", 9}, {"skipped", 2}}, {{"delivered", 9}, {"skipped", 3}}};
static struct ibvcap_counter sent_counts[2][2] = {{{"completed", 9}, {"flushed", 0}},
                                                  {{"completed", 9}, {"flushed", 1}}};

static void expect_order(const struct status_view *view, enum status_kind_of_part kind, const char *wanted)
{
	int *order = why_worst_first(view, kind);

	for (int i = 0; wanted[i]; i++)
		cr_expect(eq(int, order[i], wanted[i] - '0'), "%s: place %d", status_parts[kind].list, i);
	free(order);
}

Test(why, the_worst_comes_first_in_each_list)
{
	struct ibvcap_status_stream streams[6] = {
		{.name = "good"}, {.name = "five"}, {.name = "down"}, {.name = "seven"}};
	struct ibvcap_status_consumer of_good[3] = {0};
	struct ibvcap_status_sender senders[2] = {0};
	struct ibvcap_status_interface of_packets[2] = {{.uncounted = "nothing"}, {.uncounted = "driver"}};
	const struct status_view view = {.streams = streams,
	                                 .n_streams = 6,
	                                 .consumers = of_good,
	                                 .n_consumers = 3,
	                                 .senders = senders,
	                                 .n_senders = 2,
	                                 .interfaces = of_packets,
	                                 .n_interfaces = 2};

	for (unsigned i = 0; i < 4; i++) {
		strcpy(streams[i].state, i == 2 ? "link_down" : "capturing");
		streams[i].counters = lost_counts[i];
		streams[i].n_counters = 2;
	}
	streams[4] = streams[5] = streams[0];
	strcpy(streams[4].name, "queues");
	strcpy(streams[5].name, "queues");
	strcpy(streams[5].state, "failed"); /* queue 1 */
	streams[5].queue = 1;
	for (unsigned i = 0; i < 3; i++) {
		strcpy(of_good[i].stream, "good");
		of_good[i].counters = skipped_counts[i];
		of_good[i].n_counters = 2;
	}
	for (unsigned i = 0; i < 2; i++) {
		senders[i].counters = sent_counts[i];
		senders[i].n_counters = 2;
	}
	expect_order(&view, STATUS_STREAM, "243105");
	expect_order(&view, STATUS_CONSUMER, "210");
	expect_order(&view, STATUS_SENDER, "10");
	expect_order(&view, STATUS_INTERFACE, "10");
	expect_order(&view, STATUS_CHANNEL, "");
}
