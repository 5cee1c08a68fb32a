// SPDX-License-Identifier: Apache-2.0
/* ibvcap replay: sends the UDP payloads of a capture file on a channel, at the times at which they were recorded. */
#include "lib/base/time.h"
#include "lib/recording/capture.h"
#include "tools/common/report.h"
#include "tools/common/stop_signal.h"
#include "tools/send/tx_run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define READER_COMMAND "ibvcap replay CHANNEL -"
#define SAID_WAIT_NS   (5 * TIME_SECOND_NS)

/* ---- replaying ----------------------------------------------------------------------------------- */

/* Why a packet of the capture was not sent. The first ones are datagram_find()'s verdicts. */
enum skip { SKIP_TOO_LONG = DATAGRAM_VERDICT_N, SKIP_OTHER_PORT, SKIP_N };

static const struct {
	const char *key;
	const char *text;
	bool wanted; /* the user asked for this packet to be sent */
} skips[SKIP_N] = {
	[DATAGRAM_NOT_UDP] = {"not_udp", "not UDP", false},
	[DATAGRAM_FRAGMENT] = {"fragment", "datagrams whose IP fragments are not all there, or overlap", true},
	[DATAGRAM_CUT] = {"cut", "cut off in the capture: record whole packets (tcpdump -s 0)", true},
	[DATAGRAM_MALFORMED] = {"malformed", "malformed: their lengths contradict each other", true},
	[DATAGRAM_UNKNOWN_LINK] = {"unknown_link", "of a link type that is not known here", false},
	[SKIP_TOO_LONG] = {"too_long", "longer than the channel's payload_size", true},
	[SKIP_OTHER_PORT] = {"other_port", "to other UDP ports", false},
};

struct replay {
	struct tx_run run;
	struct replay_options options;
	struct capture capture;
	struct timing_capture timing;
	uint64_t start_utc_ns;            /* 0: no packet was sent yet, or packets have no send time */
	uint64_t passes;                  /* completed */
	uint64_t n_packets;               /* read from the capture, in all passes */
	uint64_t n_gaps;                  /* in one pass: packets before which the capture names losses */
	uint64_t n_lost;                  /* packets that it says it lacks, in one pass */
	struct joiner_counts joined;      /* in all passes */
	uint64_t n_untimed;               /* in all passes: the file has no time for them */
	uint64_t passed[PCAPNG_PASSED_N]; /* in one pass: blocks that are no packets */
	uint32_t unknown_link;            /* the link type of the first packet whose link is not known */
	uint64_t n_given;                 /* of these: put into rows of the channel */
	uint64_t skipped[SKIP_N];
	uint32_t longest_bytes; /* the longest payload that was too long */
	uint16_t ports[2];      /* the first two UDP ports to which payloads went in the capture */
	int file_code;          /* exit code if the file was damaged or unusable; else 0 */
};

static bool skip_packet(struct replay *replay, unsigned why)
{
	replay->skipped[why]++;
	replay->run.skipped++;
	return false;
}

/* True: datagram is the payload to send. False: the packet is skipped and counted. */
static bool find_payload(struct replay *replay, const struct capture_packet *packet, struct datagram *datagram)
{
	enum datagram_verdict verdict =
		datagram_find(packet->link, packet->frame, packet->captured, packet->wire_bytes, datagram);

	if (verdict != DATAGRAM_WHOLE)
		return skip_packet(replay, verdict);
	if (replay->options.port && datagram->destination_port != replay->options.port)
		return skip_packet(replay, SKIP_OTHER_PORT);
	if (datagram->bytes <= replay->run.info.slot_bytes) {
		if (replay->n_given == 0)
			replay->ports[0] = datagram->destination_port;
		else if (replay->ports[1] == 0 && datagram->destination_port != replay->ports[0])
			replay->ports[1] = datagram->destination_port;
		return true;
	}
	if (datagram->bytes > replay->longest_bytes)
		replay->longest_bytes = datagram->bytes;
	return skip_packet(replay, SKIP_TOO_LONG);
}

/* End the replay because of the file. The packets that were read before are still sent. */
static int fail_capture_file(struct replay *replay, int code, const char *why)
{
	fprintf(stderr, "ibvcap replay: %s\n", why);
	replay->file_code = code;
	return 0;
}

/* A replay that waits for the next packet of a capture with a gap must not look hung. */
static void say_wait(const struct replay *replay, uint64_t due_ns)
{
	uint64_t now_ns = time_utc_ns(), seconds;

	if (replay->options.run.json || due_ns < now_ns + SAID_WAIT_NS)
		return;
	seconds = (due_ns - now_ns) / TIME_SECOND_NS;
	printf("next packet in %02" PRIu64 ":%02" PRIu64 ":%02" PRIu64 "%s\n", seconds / 3600, seconds / 60 % 60,
	       seconds % 60, replay->options.max_gap_ns ? "" : "; --max-gap S waits S seconds at most");
}

/* As the file says, or at the rate. 0; -ERANGE: it is decades away. */
static int find_offset(struct replay *replay, uint64_t time_ns, uint64_t *offset_ns)
{
	int r = timing_of_packet(&replay->timing, time_ns, offset_ns);

	if (!replay->options.rate_pps)
		return r;
	*offset_ns = timing_at_rate(replay->n_given, replay->options.rate_pps);
	return 0;
}

/* 1: go on; 0: the replay ends because of the file; negative: the library's error. */
static int send_payload(struct replay *replay, const struct capture_packet *packet, const struct datagram *datagram)
{
	struct tx_run_row row;
	char why[CAPTURE_TEXT_BYTES + 80];
	uint64_t offset_ns = 0;
	int r;

	if (find_offset(replay, packet->time_ns, &offset_ns) < 0) {
		snprintf(why, sizeof(why), "%s: packet %" PRIu64 " would be due decades after the first",
		         replay->capture.path, replay->capture.n_packets);
		return fail_capture_file(replay, EX_DATAERR, why);
	}
	/* The start is set by the first packet: a pipe may deliver it long after the program began. */
	if (!replay->options.top_speed && !replay->start_utc_ns)
		replay->start_utc_ns = tx_run_start(&replay->run);
	if (!replay->options.top_speed)
		say_wait(replay, replay->start_utc_ns + offset_ns);
	r = tx_run_row(&replay->run, replay->options.top_speed ? 0 : replay->start_utc_ns + offset_ns, &row);
	if (r < 0)
		return r;
	memcpy(row.payload, datagram->payload, datagram->bytes);
	row.packet->length = (uint16_t)datagram->bytes;
	tx_run_add(&replay->run);
	replay->n_given++;
	/* The next packet of a pipe may come much later: submit now. */
	r = replay->capture.is_pipe ? tx_run_push(&replay->run) : 0;
	return r == 0 ? 1 : r;
}

/* Send all packets once. 1: done; 0: the replay ends, by the file or by --count; negative: the library's error. */
static int play_pass(struct replay *replay)
{
	struct capture_packet packet;
	struct datagram datagram;
	int r;

	while ((r = capture_next(&replay->capture, &packet)) > 0) {
		if (stop_signal_came())
			return -EINTR;
		if (!find_payload(replay, &packet, &datagram))
			continue;
		r = send_payload(replay, &packet, &datagram);
		if (r <= 0)
			return r;
		if (replay->n_given == replay->options.count)
			return 0;
	}
	if (r < 0 && stop_signal_came()) /* the signal interrupted a read from a pipe */
		return -EINTR;
	return r == 0 ? 1 : fail_capture_file(replay, EX_DATAERR, replay->capture.error);
}

static void note_joined(struct replay *replay, struct joiner_counts joined)
{
	replay->joined.fragments += joined.fragments;
	replay->joined.joined += joined.joined;
	replay->joined.incomplete += joined.incomplete;
	replay->joined.refused += joined.refused;
	replay->skipped[DATAGRAM_FRAGMENT] += joined.incomplete + joined.refused;
	replay->run.skipped += joined.incomplete + joined.refused;
}

/* At the end of a pass. One may end early: losses and other blocks are those of the longest. */
static void note_pass(struct replay *replay)
{
	const struct capture *capture = &replay->capture;

	note_joined(replay, joiner_counts(&capture->joiner));
	replay->n_packets += capture->n_packets;
	replay->n_untimed += capture->n_untimed;
	replay->unknown_link = capture->unknown_link;
	for (unsigned i = 0; i < PCAPNG_PASSED_N; i++)
		if (capture_passed(capture)[i] > replay->passed[i])
			replay->passed[i] = capture_passed(capture)[i];

	if (capture_lost(capture) > replay->n_lost)
		replay->n_lost = capture_lost(capture);
	if (capture->n_gaps > replay->n_gaps)
		replay->n_gaps = capture->n_gaps;
}

/* Open the file again. 1; 0 if that fails, because the file was changed meanwhile. */
static int rewind_capture(struct replay *replay)
{
	int code;

	timing_next_pass(&replay->timing);
	note_pass(replay);
	capture_close(&replay->capture);
	code = capture_open(&replay->capture, replay->options.file, READER_COMMAND);
	return code == EX_OK ? 1 : fail_capture_file(replay, code, replay->capture.error);
}

/* 0: all passes are done, or the replay ended because of the file; negative: the library's error. */
static int play_passes(struct replay *replay)
{
	uint64_t n_before;
	int r;

	do {
		n_before = replay->n_given;
		r = play_pass(replay);
		if (r <= 0)
			return r;
		if (replay->n_given == n_before)
			return fail_capture_file(
				replay, EX_DATAERR,
				replay->run.skipped && replay->skipped[SKIP_OTHER_PORT] == replay->run.skipped
					? "no packet is to the UDP port of --port; 'ibvcap info' lists the ports"
					: "nothing of the capture can be sent on this channel");
		if (++replay->passes == replay->options.loops)
			return 0;
		r = rewind_capture(replay);
	} while (r > 0);
	return r;
}

/* ---- the summary --------------------------------------------------------------------------------- */

/* Behind the last packet of the last pass, a signal interrupts nothing. */
static bool is_interrupted(const struct replay *replay)
{
	return stop_signal_came() && replay->passes != replay->options.loops;
}

static bool all_wanted_sent(const struct replay *replay)
{
	for (unsigned why = 0; why < SKIP_N; why++)
		if (skips[why].wanted && replay->skipped[why])
			return false;
	return true;
}

static void print_replay(const struct replay *replay)
{
	printf("%s: %" PRIu64 " packets read, %" PRIu64 " given to the channel, %" PRIu64 " skipped\n",
	       replay->options.file, replay->n_packets, replay->n_given, replay->run.skipped);
	if (is_interrupted(replay))
		puts("interrupted by a signal: what follows in the file was not read, and not sent");
	if (replay->n_lost)
		printf("the capture says that it lacks %" PRIu64 " packets (gaps passed: %" PRIu64 ")\n",
		       replay->n_lost, replay->n_gaps);
	if (replay->ports[1])
		printf("recorded to UDP ports %u, %u and perhaps more, all sent to the channel's; --port N: those of "
		       "one\n",
		       replay->ports[0], replay->ports[1]);
	for (unsigned i = 0; i < PCAPNG_PASSED_N; i++)
		if (replay->passed[i])
			printf("passed over: %" PRIu64 " %s\n", replay->passed[i], pcapng_passed_labels[i].text);
	if (replay->joined.fragments)
		printf("%" PRIu64 " packets are IP fragments: %" PRIu64 " whole datagrams; with holes: %" PRIu64 "\n",
		       replay->joined.fragments, replay->joined.joined, replay->joined.incomplete);
	if (replay->n_untimed)
		printf("%" PRIu64 " packets have no time in the file: sent right behind the one before\n",
		       replay->n_untimed);
	if (replay->timing.shortened)
		printf("%" PRIu64 " gaps of the capture were longer than --max-gap, and were shortened\n",
		       replay->timing.shortened);
	if (replay->timing.backwards)
		printf("%" PRIu64 " packets were recorded before one ahead of them in the file: sent right behind it\n",
		       replay->timing.backwards);
	tx_run_print(&replay->run);
	/* The last thing said. */
	for (unsigned why = 0; why < SKIP_N; why++) {
		if (!skips[why].text || !replay->skipped[why])
			continue;
		printf("skipped: %" PRIu64 " %s", replay->skipped[why], skips[why].text);
		if (why == SKIP_TOO_LONG)
			printf(" of %u bytes (up to %u)", replay->run.info.slot_bytes, replay->longest_bytes);
		else if (why == DATAGRAM_UNKNOWN_LINK)
			printf(" (%s)", pcap_file_link_text((uint16_t)replay->unknown_link));
		putchar('\n');
	}
}

static void print_replay_json(const struct replay *replay)
{
	json_t *all = tx_run_to_json(&replay->run), *skipped = json_object(), *passed = json_object();
	json_t *file = json_string(replay->options.file); /* NULL if the name is not UTF-8 */
	json_t *capture = json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "file", file ? file : json_null(),
	                            "passes", (json_int_t)replay->passes, "packets", (json_int_t)replay->n_packets,
	                            "given", (json_int_t)replay->n_given, "backwards",
	                            (json_int_t)replay->timing.backwards, "gaps", (json_int_t)replay->n_gaps, "lost",
	                            (json_int_t)replay->n_lost, "untimed", (json_int_t)replay->n_untimed);

	for (unsigned why = 0; why < SKIP_N; why++)
		if (skips[why].key)
			json_object_set_new(skipped, skips[why].key, json_integer((json_int_t)replay->skipped[why]));
	for (unsigned i = 0; i < PCAPNG_PASSED_N; i++)
		json_object_set_new(passed, pcapng_passed_labels[i].key, json_integer((json_int_t)replay->passed[i]));
	json_object_set_new(capture, "interrupted", json_boolean(is_interrupted(replay)));
	json_object_set_new(capture, "skipped", skipped);
	json_object_set_new(capture, "passed_over", passed);
	json_object_set_new(capture, "shortened", json_integer((json_int_t)replay->timing.shortened));
	json_object_set_new(capture, "fragments",
	                    json_pack("{s:I, s:I, s:I, s:I}", "packets", (json_int_t)replay->joined.fragments, "joined",
	                              (json_int_t)replay->joined.joined, "incomplete",
	                              (json_int_t)replay->joined.incomplete, "refused",
	                              (json_int_t)replay->joined.refused));
	json_object_set_new(all, "capture", capture);
	report_json(all, JSON_INDENT(2));
}

/* ---- the command --------------------------------------------------------------------------------- */

static int refuse_replay(const char *why)
{
	fprintf(stderr, "ibvcap replay: %s\n", why);
	return EX_USAGE;
}

static int open_replay(struct replay *replay)
{
	int code = capture_open(&replay->capture, replay->options.file, READER_COMMAND);

	if (code != EX_OK) {
		fprintf(stderr, "ibvcap replay: %s\n", replay->capture.error);
		if (code == EX_NOINPUT && access(replay->options.run.channel, R_OK) == 0)
			fputs("ibvcap replay: the channel comes before the file: ibvcap replay CHANNEL FILE\n", stderr);
		return code;
	}
	if (replay->capture.raw && replay->options.port)
		return refuse_replay("--port: a raw recording has payloads without ports; leave it out");
	if (replay->capture.is_pipe && replay->options.loops != 1)
		return refuse_replay("--loop wants a file: a pipe cannot be read again");
	return tx_run_open(&replay->run, &replay->options.run);
}

static int play_and_print(struct replay *replay)
{
	int code;

	replay->timing.speed = replay->options.speed;
	replay->timing.max_gap_ns = replay->options.max_gap_ns;
	replay->timing.loop_delay_ns = replay->options.loop_delay_ns;
	code = tx_run_finish(&replay->run, play_passes(replay));
	note_pass(replay);
	if (replay->options.run.json)
		print_replay_json(replay);
	else
		print_replay(replay);
	if (replay->file_code)
		return replay->file_code;
	return code == EX_OK && !all_wanted_sent(replay) ? 1 : code;
}

int replay_run(const struct replay_options *options)
{
	struct replay replay = {.options = *options};
	int code = open_replay(&replay);

	if (code == EX_OK)
		code = play_and_print(&replay);
	tx_run_close(&replay.run);
	capture_close(&replay.capture);
	return code;
}
