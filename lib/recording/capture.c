// SPDX-License-Identifier: Apache-2.0
/*
 * Reads capture files: recordings by their readers, others with libpcap. Names the fault of a file, and judges
 * whether the UDP payload of a frame can be sent again. Nothing in a frame is trusted.
 */
#include "lib/recording/capture.h"

#include "lib/base/min.h"
#include "lib/base/time.h"
#include "lib/frame/frame.h"

#include <errno.h>
#include <inttypes.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

/* 2^33 s are reached in the year 2242. A later time stamp is taken for damage: in ns it might overflow later sums. */
#define SECONDS_MAX (INT64_C(1) << 33)

/* ---- kinds of files ------------------------------------------------------------------------------ */

/* Files that are not read, and the command that makes a capture of them. */
static const struct {
	const char *magic;
	size_t bytes;
	const char *what;
	const char *command; /* … FILE … */
	const char *rest;
} known_files[] = {
	{"\x1f\x8b", 2, "compressed by gzip", "zcat", ""},
	{"\xfd\x37zXZ", 5, "compressed by xz", "xzcat", ""},
	{"\x28\xb5\x2f\xfd", 4, "compressed by zstd", "zstdcat", ""}, /* and it has no pcapng in it */
	{"BZh", 3, "compressed by bzip2", "bzcat", ""},
	{"snoop\0\0", 8, "a capture of snoop", "editcap -F pcap", " -"},
};

/* Say what the file is. text: why it is not read. */
static int explain_file(struct capture *capture, const uint8_t *head, size_t n, const char *text)
{
	snprintf(capture->error, sizeof(capture->error), "%s: not a capture in pcap or pcapng format: %s",
	         capture->path, text);
	for (unsigned i = 0; i < sizeof(known_files) / sizeof(known_files[0]); i++)
		if (n >= known_files[i].bytes && !memcmp(head, known_files[i].magic, known_files[i].bytes))
			snprintf(capture->error, sizeof(capture->error), "%s is %s: %s %s%s | %s", capture->path,
			         known_files[i].what, known_files[i].command, capture->is_pipe ? "FILE" : capture->path,
			         known_files[i].rest, capture->reader_command);
	return EX_DATAERR;
}

static bool is_regular_file(int fd)
{
	struct stat status;

	return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

/* ---- links --------------------------------------------------------------------------------------- */

/* The numbers in pcapng files; libpcap has another one for IP. */
static bool find_capture_link(int type, enum datagram_link *link)
{
	switch (type) {
	case DLT_EN10MB:
		*link = DATAGRAM_LINK_ETHERNET;
		return true;
	case DLT_RAW:
	case 101: /* DLT_RAW in files */
	case DLT_IPV4:
	case DLT_IPV6:
		*link = DATAGRAM_LINK_IP;
		return true;
	case DLT_LINUX_SLL:
		*link = DATAGRAM_LINK_SLL;
		return true;
	case DLT_LINUX_SLL2:
		*link = DATAGRAM_LINK_SLL2;
		return true;
	}
	return false;
}

/* 0; -ENOMEM; -EBADMSG: the type is not known. */
static int add_link(struct capture *capture, int type)
{
	enum datagram_link link, *links;

	if (!find_capture_link(type, &link)) {
		snprintf(capture->error, sizeof(capture->error),
		         "%s: frames of a link type that is not known here: %d (%s); Ethernet, raw IP and Linux' "
		         "cooked captures are",
		         capture->path, type, pcap_datalink_val_to_description_or_dlt(type));
		return -EBADMSG;
	}
	links = realloc(capture->links, (capture->n_links + 1) * sizeof(*links));
	if (!links) {
		snprintf(capture->error, sizeof(capture->error), "%s: no memory for an interface", capture->path);
		return -ENOMEM;
	}
	capture->links = links;
	links[capture->n_links++] = link;
	return 0;
}

/* ---- packets ------------------------------------------------------------------------------------- */

static int damaged(struct capture *capture, const char *why)
{
	snprintf(capture->error, sizeof(capture->error), "%s: damaged or cut off after packet %" PRIu64 ": %s",
	         capture->path, capture->n_packets, why);
	return -EBADMSG;
}

static int refuse_time(struct capture *capture, int64_t seconds, int64_t ns)
{
	snprintf(capture->error, sizeof(capture->error),
	         "%s: damaged: packet %" PRIu64 " has a time that there is not: %" PRId64 " s and %" PRId64 " ns",
	         capture->path, capture->n_packets, seconds, ns);
	return -EBADMSG;
}

static int take_pcapng_packet(struct capture *capture, const struct pcapng_packet *from, struct capture_packet *packet)
{
	capture->n_packets++;
	if (from->time_ns / TIME_SECOND_NS > (uint64_t)SECONDS_MAX)
		return refuse_time(capture, (int64_t)(from->time_ns / TIME_SECOND_NS),
		                   (int64_t)(from->time_ns % TIME_SECOND_NS));
	if (from->options & PCAPNG_PACKET_HAS_DROPS && from->drop_count) {
		capture->n_gaps++;
		capture->n_lost += from->drop_count;
	}
	*packet = (struct capture_packet){
		.time_ns = from->time_ns,
		.frame = from->frame[0],
		.link = capture->links[from->interface],
		.captured = from->frame_bytes[0],
		.wire_bytes = from->wire_bytes,
	};
	return 1;
}

static void take_statistics(struct capture *capture, const struct pcapng_statistics *statistics)
{
	static const enum pcapng_statistic losses[] = {PCAPNG_STATISTIC_DROPPED, PCAPNG_STATISTIC_OS_DROPPED};

	for (unsigned i = 0; i < sizeof(losses) / sizeof(losses[0]); i++)
		if (statistics->values_set & 1u << losses[i])
			capture->n_dropped += statistics->values[losses[i]];
}

static int next_of_pcapng(struct capture *capture, struct capture_packet *packet)
{
	struct pcapng_block block;
	int r;

	while ((r = recording_next(&capture->recording, &block)) > 0) {
		switch (block.type) {
		case PCAPNG_BLOCK_SECTION:
			capture->n_links = 0;
			break;
		case PCAPNG_BLOCK_INTERFACE:
			r = add_link(capture, block.interface.link_type);
			if (r < 0)
				return r;
			break;
		case PCAPNG_BLOCK_STATISTICS:
			take_statistics(capture, &block.statistics);
			break;
		case PCAPNG_BLOCK_PACKET:
			return take_pcapng_packet(capture, &block.packet, packet);
		case PCAPNG_BLOCK_SIMPLE_PACKET:
		case PCAPNG_BLOCK_OLD_PACKET:
			return damaged(capture, "a packet block without a time, or of a form that is obsolete; "
			                        "'editcap FILE NEW' writes others");
		}
	}
	if (r == 0 && recording_is_cut_off(&capture->recording))
		return damaged(capture, "it ends within its compressed data: it was cut off, or is still written");
	return r == 0 ? 0 : damaged(capture, recording_error(&capture->recording));
}

static int next_of_libpcap(struct capture *capture, struct capture_packet *packet)
{
	struct pcap_pkthdr *header;
	const u_char *frame;
	int r = pcap_next_ex(capture->reader, &header, &frame);

	if (r == PCAP_ERROR_BREAK)
		return 0;
	if (r != 1)
		return damaged(capture, pcap_geterr(capture->reader));
	capture->n_packets++;
	/* With PCAP_TSTAMP_PRECISION_NANO libpcap stores nanoseconds in tv_usec. */
	if (header->ts.tv_sec < 0 || header->ts.tv_sec > SECONDS_MAX || header->ts.tv_usec < 0 ||
	    (uint64_t)header->ts.tv_usec >= TIME_SECOND_NS)
		return refuse_time(capture, header->ts.tv_sec, header->ts.tv_usec);
	*packet = (struct capture_packet){
		.time_ns = (uint64_t)header->ts.tv_sec * TIME_SECOND_NS + (uint64_t)header->ts.tv_usec,
		.frame = frame,
		.link = capture->links[0],
		.captured = header->caplen,
		.wire_bytes = header->len,
	};
	return 1;
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
	if (row.time_ns / TIME_SECOND_NS > (uint64_t)SECONDS_MAX)
		return refuse_time(capture, (int64_t)(row.time_ns / TIME_SECOND_NS),
		                   (int64_t)(row.time_ns % TIME_SECOND_NS));
	capture->n_gaps += row.n_lost != 0;
	capture->n_lost += row.n_lost;
	*packet = (struct capture_packet){.time_ns = row.time_ns,
	                                  .frame = row.at,
	                                  .link = links[row.kind],
	                                  .captured = row.captured,
	                                  .wire_bytes = row.wire_bytes};
	return 1;
}

int capture_next(struct capture *capture, struct capture_packet *packet)
{
	if (capture->raw)
		return next_of_raw(capture, packet);
	return capture->reader ? next_of_libpcap(capture, packet) : next_of_pcapng(capture, packet);
}

/* ---- life ---------------------------------------------------------------------------------------- */

/* Read until the first interface, which says whether its packets are known here. */
static int begin_pcapng(struct capture *capture)
{
	const struct recording *recording = &capture->recording;
	struct pcapng_block block = {.type = PCAPNG_BLOCK_SECTION};
	int r = 1;

	while (r > 0 && block.type != PCAPNG_BLOCK_INTERFACE)
		r = recording_next(&capture->recording, &block);
	if (r <= 0)
		return explain_file(capture, recording->head, recording->head_bytes,
		                    r < 0 ? recording_error(recording) : "it has no interface");
	return add_link(capture, block.interface.link_type) < 0 ? EX_DATAERR : 0;
}

static int begin_libpcap(struct capture *capture)
{
	char text[PCAP_ERRBUF_SIZE];
	uint8_t head[RECORDING_HEAD_BYTES];
	size_t n = capture->recording.head_bytes;
	FILE *file;

	memcpy(head, capture->recording.head, n);
	file = recording_give_file(&capture->recording);
	if (!file)
		return explain_file(capture, head, 0, strerror(errno));
	capture->reader = pcap_fopen_offline_with_tstamp_precision(file, PCAP_TSTAMP_PRECISION_NANO, text);
	if (!capture->reader) {
		fclose(file);
		return explain_file(capture, head, n, text);
	}
	return add_link(capture, pcap_datalink(capture->reader)) < 0 ? EX_DATAERR : 0;
}

int capture_open(struct capture *capture, const char *path, const char *reader_command)
{
	int r;

	*capture =
		(struct capture){.path = strcmp(path, "-") ? path : "standard input", .reader_command = reader_command};
	if (strcmp(path, "-") != 0 && raw_recording_is_one(path)) {
		r = raw_recording_open(&capture->raw, capture->path, capture->error, sizeof(capture->error));
		if (r < 0)
			return r == -EBADMSG ? EX_DATAERR : EX_NOINPUT;
		capture->n_dropped = raw_recording_dropped(capture->raw);
		return 0;
	}
	r = recording_open(&capture->recording, path);
	if (r < 0) {
		snprintf(capture->error, sizeof(capture->error), "%s: %s", capture->path, strerror(-r));
		return EX_NOINPUT;
	}
	capture->is_pipe = !is_regular_file(capture->recording.fd);
	r = recording_is_one(&capture->recording) ? begin_pcapng(capture) : begin_libpcap(capture);
	if (r != 0)
		capture_close(capture);
	return r;
}

void capture_close(struct capture *capture)
{
	if (capture->reader)
		pcap_close(capture->reader);
	capture->reader = NULL;
	raw_recording_close(capture->raw);
	capture->raw = NULL;
	if (capture->recording.path)
		recording_close(&capture->recording);
	free(capture->links);
	capture->links = NULL;
	capture->n_links = 0;
}

/* ---- payloads of frames -------------------------------------------------------------------------- */

#define SLL_BYTES  16
#define SLL2_BYTES 20

static void walk_link(enum datagram_link link, const uint8_t *bytes, uint32_t captured, uint32_t wire_bytes,
                      struct frame *frame)
{
	uint8_t version = captured ? bytes[0] >> 4 : 4;

	switch (link) {
	case DATAGRAM_LINK_SLL:
		frame_walk_from(bytes, captured, wire_bytes, SLL_BYTES,
		                captured < SLL_BYTES ? 0 : frame_be16(bytes + SLL_BYTES - 2), frame);
		return;
	case DATAGRAM_LINK_SLL2:
		frame_walk_from(bytes, captured, wire_bytes, SLL2_BYTES, captured < 2 ? 0 : frame_be16(bytes), frame);
		return;
	case DATAGRAM_LINK_IP:
		frame_walk_from(bytes, captured, wire_bytes, 0,
		                version == 4   ? ETHERTYPE_IP
		                : version == 6 ? ETHERTYPE_IPV6
		                               : 0,
		                frame);
		return;
	default:
		frame_walk(bytes, captured, wire_bytes, frame);
	}
}

static enum datagram_verdict judge_frame(const struct frame *frame, uint32_t captured, uint32_t wire_bytes)
{
	bool is_udp = frame->ip_version && frame->protocol == IPPROTO_UDP;

	if (is_udp && frame_is_fragment(frame))
		return DATAGRAM_FRAGMENT;
	if (frame_is_malformed(frame, wire_bytes))
		return DATAGRAM_MALFORMED;
	switch (frame->end) {
	case FRAME_UDP:
		return frame->payload_at + frame->payload_bytes > captured ? DATAGRAM_CUT : DATAGRAM_WHOLE;
	case FRAME_CUT:
		return DATAGRAM_CUT;
	default:
		return DATAGRAM_NOT_UDP;
	}
}

enum datagram_verdict datagram_find(enum datagram_link link, const uint8_t *frame, uint32_t captured,
                                    uint32_t wire_bytes, struct datagram *datagram)
{
	uint32_t whole_bytes = wire_bytes > captured ? wire_bytes : captured;
	enum datagram_verdict verdict;
	struct frame headers;

	if (link == DATAGRAM_LINK_FRAGMENT)
		return DATAGRAM_FRAGMENT;
	if (link == DATAGRAM_LINK_PAYLOAD) {
		*datagram = (struct datagram){.payload = frame, .bytes = captured, .whole_bytes = whole_bytes};
		return captured < whole_bytes ? DATAGRAM_CUT : DATAGRAM_WHOLE;
	}
	walk_link(link, frame, captured, whole_bytes, &headers);
	verdict = judge_frame(&headers, captured, whole_bytes);
	if (headers.end == FRAME_UDP && verdict != DATAGRAM_MALFORMED)
		*datagram =
			(struct datagram){.payload = frame + headers.payload_at,
		                          .bytes = verdict == DATAGRAM_WHOLE ? headers.payload_bytes
		                                                             : u32_min(headers.payload_bytes,
		                                                                       captured - headers.payload_at),
		                          .whole_bytes = headers.payload_bytes,
		                          .destination_port = frame_be16(frame + headers.l4_at + 2),
		                          .ip_at = headers.l3_at};
	return verdict;
}
