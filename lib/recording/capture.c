// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the packets of recordings, of captures of other programs, and of raw rows. Names the fault of a file. A packet
 * that cannot be used is given on for the caller to count, so one odd packet never makes a file unreadable.
 */
#include "lib/recording/capture.h"

#include "lib/base/time.h"
#include "lib/recording/account_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

/* 2^33 s are reached in the year 2242. In ns a later time might overflow later sums. */
#define SECONDS_MAX (UINT64_C(1) << 33)

struct capture_interface {
	enum datagram_link link;
	uint16_t link_type;
	uint64_t n_dropped; /* by its last statistics: they count from its beginning */
};

const uint64_t *capture_passed(const struct capture *capture)
{
	return capture->recording.reader.passed;
}

/* ---- packets ------------------------------------------------------------------------------------- */

static int damaged(struct capture *capture, const char *why)
{
	snprintf(capture->error, sizeof(capture->error), "%s: damaged or cut off after packet %" PRIu64 ": %s",
	         capture->path, capture->n_packets, why);
	return -EBADMSG;
}

static void count_loss(struct capture *capture, uint64_t n_lost)
{
	capture->n_gaps += n_lost != 0;
	capture->n_lost += n_lost;
}

/* A packet without a time follows the one before at once. */
static void set_time(struct capture *capture, struct capture_packet *packet, bool has_time)
{
	if (!has_time || packet->time_ns / TIME_SECOND_NS > SECONDS_MAX) {
		capture->n_untimed++;
		packet->time_ns = capture->last_ns;
	}
	capture->last_ns = packet->time_ns;
}

/* The queues of a stream have the same description; that of an interface without one is not known. */
static void take_sequence(struct capture *capture, const struct ibvcap_sequence *sequence, bool has_frames)
{
	if (capture->numbers == CAPTURE_NUMBERS_UNKNOWN) {
		capture->numbers = has_frames ? CAPTURE_NUMBERS_IN_FRAMES : CAPTURE_NUMBERS_KNOWN;
		capture->sequence = *sequence;
	} else if (memcmp(&capture->sequence, sequence, sizeof(*sequence)) ||
	           has_frames != (capture->numbers == CAPTURE_NUMBERS_IN_FRAMES)) {
		capture->numbers = CAPTURE_NUMBERS_DIFFER;
	}
}

static void find_sequence(struct capture *capture, const struct pcapng_text *comment)
{
	struct ibvcap_sequence sequence;
	bool has_frames;

	if (sequence_from_comment(comment->at, comment->bytes, &sequence, &has_frames))
		take_sequence(capture, &sequence, has_frames);
}

static int add_interface_of(struct capture *capture, uint16_t link_type)
{
	struct capture_interface *interfaces =
		realloc(capture->interfaces, (capture->n_interfaces + 1) * sizeof(*interfaces));

	if (!interfaces) {
		snprintf(capture->error, sizeof(capture->error), "%s: no memory for an interface", capture->path);
		return -ENOMEM;
	}
	capture->interfaces = interfaces;
	interfaces[capture->n_interfaces++] =
		(struct capture_interface){.link = datagram_link_of(link_type), .link_type = link_type};
	return 0;
}

static void take_statistics(struct capture *capture, const struct pcapng_statistics *statistics)
{
	static const enum pcapng_statistic losses[] = {PCAPNG_STATISTIC_DROPPED, PCAPNG_STATISTIC_OS_DROPPED};
	struct capture_interface *interface = &capture->interfaces[statistics->interface];

	capture->n_dropped -= interface->n_dropped;
	interface->n_dropped = 0;
	for (unsigned i = 0; i < sizeof(losses) / sizeof(losses[0]); i++)
		interface->n_dropped += statistics->values[losses[i]];
	capture->n_dropped += interface->n_dropped;
}

static int take_packet_of(struct capture *capture, const struct pcapng_packet *from, struct capture_packet *packet)
{
	const struct capture_interface *interface = &capture->interfaces[from->interface];

	capture->n_packets++;
	if (from->options & PCAPNG_PACKET_HAS_DROPS)
		count_loss(capture, from->drop_count);
	if (interface->link == DATAGRAM_LINK_UNKNOWN && !capture->unknown_link)
		capture->unknown_link = interface->link_type;
	*packet = (struct capture_packet){
		.time_ns = from->time_ns,
		.frame = from->frame[0],
		.link = interface->link,
		.captured = from->frame_bytes[0],
		.wire_bytes = from->wire_bytes,
	};
	set_time(capture, packet, !(from->options & PCAPNG_PACKET_NO_TIME));
	return 1;
}

static int next_of_recording(struct capture *capture, struct capture_packet *packet)
{
	struct pcapng_block block;
	int r;

	while ((r = recording_next(&capture->recording, &block)) > 0) {
		switch (block.type) {
		case PCAPNG_BLOCK_SECTION:
			capture->n_interfaces = 0;
			break;
		case PCAPNG_BLOCK_INTERFACE:
			find_sequence(capture, &block.interface.comment);
			r = add_interface_of(capture, block.interface.link_type);
			if (r < 0)
				return r;
			break;
		case PCAPNG_BLOCK_STATISTICS:
			take_statistics(capture, &block.statistics);
			break;
		case PCAPNG_BLOCK_PACKET:
			return take_packet_of(capture, &block.packet, packet);
		}
	}
	if (r == 0 && recording_is_cut_off(&capture->recording))
		return damaged(capture, "it ends within its compressed data: it was cut off, or is still written");
	return r == 0 ? 0 : damaged(capture, recording_error(&capture->recording));
}

static int next_of_raw(struct capture *capture, struct capture_packet *packet)
{
	static const enum datagram_link links[] = {[RAW_PACKET_FRAME] = DATAGRAM_LINK_ETHERNET,
	                                           [RAW_PACKET_PAYLOAD] = DATAGRAM_LINK_PAYLOAD,
	                                           [RAW_PACKET_FRAGMENT] = DATAGRAM_LINK_FRAGMENT};
	struct raw_packet row;
	int r = raw_recording_next(capture->raw, &row);

	if (r < 0)
		return damaged(capture, r == -EBADMSG ? "it has fewer rows than its description says" : strerror(-r));
	if (r == 0)
		return 0;
	capture->n_packets++;
	count_loss(capture, row.n_lost);
	*packet = (struct capture_packet){.time_ns = row.time_ns,
	                                  .frame = row.at,
	                                  .link = links[row.kind],
	                                  .captured = row.captured,
	                                  .wire_bytes = row.wire_bytes};
	set_time(capture, packet, true);
	return 1;
}

/* enum joiner_verdict or -ENOMEM. */
static int join_packet(struct capture *capture, struct capture_packet *packet)
{
	struct joiner_frame frame = {
		.at = packet->frame, .captured = packet->captured, .wire_bytes = packet->wire_bytes};
	int r = joiner_take(&capture->joiner, packet->link, &frame, packet->time_ns);

	if (r < 0)
		snprintf(capture->error, sizeof(capture->error), "%s: no memory to join fragments", capture->path);
	packet->frame = frame.at;
	packet->captured = frame.captured;
	packet->wire_bytes = frame.wire_bytes;
	return r;
}

int capture_next(struct capture *capture, struct capture_packet *packet)
{
	int r;

	do {
		r = capture->raw ? next_of_raw(capture, packet) : next_of_recording(capture, packet);
		if (r <= 0) {
			joiner_end(&capture->joiner);
			return r;
		}
		r = join_packet(capture, packet);
	} while (r == JOINER_FRAGMENT);
	return r < 0 ? r : 1;
}

/* ---- life ---------------------------------------------------------------------------------------- */

static bool is_pipe(int fd)
{
	struct stat status;

	return fstat(fd, &status) < 0 || !S_ISREG(status.st_mode);
}

static int open_raw(struct capture *capture)
{
	int r = raw_recording_open(&capture->raw, capture->path, capture->error, sizeof(capture->error));
	struct ibvcap_sequence sequence;
	bool has_frames;

	if (r < 0)
		return r == -EBADMSG ? EX_DATAERR : EX_NOINPUT;
	capture->n_dropped = raw_recording_dropped(capture->raw);
	if (sequence_from_json(raw_recording_sequence(capture->raw), &sequence, &has_frames))
		take_sequence(capture, &sequence, has_frames);
	return 0;
}

int capture_open(struct capture *capture, const char *path, const char *reader_command)
{
	int r;

	*capture = (struct capture){.path = strcmp(path, "-") ? path : "standard input"};
	if (strcmp(path, "-") != 0 && raw_recording_is_one(path))
		return open_raw(capture);
	r = recording_open(&capture->recording, path);
	if (r < 0) {
		snprintf(capture->error, sizeof(capture->error), "%s: %s", capture->path, strerror(-r));
		return EX_NOINPUT;
	}
	capture->is_pipe = is_pipe(capture->recording.unpack.fd);
	if (recording_is_one(&capture->recording))
		return 0;
	recording_explain(&capture->recording, reader_command, capture->error, sizeof(capture->error));
	capture_close(capture);
	return EX_DATAERR;
}

void capture_close(struct capture *capture)
{
	raw_recording_close(capture->raw);
	capture->raw = NULL;
	if (capture->recording.path)
		recording_close(&capture->recording);
	joiner_deinit(&capture->joiner);
	free(capture->interfaces);
	capture->interfaces = NULL;
	capture->n_interfaces = 0;
}
