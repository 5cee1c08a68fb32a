// SPDX-License-Identifier: Apache-2.0
/* Reads capture files with libpcap, and names what is wrong with a file. */
#include "tools/ibvcap/capture.h"

#include "daemon/base/time.h"

#include <errno.h>
#include <inttypes.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

/* 2^33 s are reached in the year 2242. A later time stamp is taken for damage: in ns it might overflow later sums. */
#define SECONDS_MAX (INT64_C(1) << 33)

static bool find_capture_link(int type, enum datagram_link *link)
{
	switch (type) {
	case DLT_EN10MB:
		*link = DATAGRAM_LINK_ETHERNET;
		return true;
	case DLT_RAW:
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

/* Files that libpcap does not read, and the command that makes a capture of them. */
static const struct {
	const char *magic;
	size_t bytes;
	const char *what;
	const char *command; /* … FILE … */
	const char *rest;
} known_files[] = {
	{"\x1f\x8b", 2, "compressed by gzip", "zcat", ""},
	{"\xfd\x37zXZ", 5, "compressed by xz", "xzcat", ""},
	{"\x28\xb5\x2f\xfd", 4, "compressed by zstd", "zstdcat", ""},
	{"BZh", 3, "compressed by bzip2", "bzcat", ""},
	{"snoop\0\0", 8, "a capture of snoop", "editcap -F pcap", " -"},
};

/* Say what the file is. text: why libpcap does not read it. */
static void explain_file(struct capture *capture, FILE *file, const char *text)
{
	const char *name = file == stdin ? "FILE" : capture->path;
	char begin[8];
	size_t n;

	snprintf(capture->error, sizeof(capture->error), "%s: not a capture in pcap or pcapng format: %s",
	         capture->path, text);
	if (capture->is_pipe)
		return;
	rewind(file);
	n = fread(begin, 1, sizeof(begin), file);
	for (unsigned i = 0; i < sizeof(known_files) / sizeof(known_files[0]); i++)
		if (n >= known_files[i].bytes && !memcmp(begin, known_files[i].magic, known_files[i].bytes))
			snprintf(capture->error, sizeof(capture->error), "%s is %s: %s %s%s | ibvcap replay CHANNEL -",
			         capture->path, known_files[i].what, known_files[i].command, name, known_files[i].rest);
}

static int capture_fail(struct capture *capture, int code, const char *what, const char *why)
{
	snprintf(capture->error, sizeof(capture->error), "%s: %s%s", capture->path, what, why);
	capture_close(capture);
	return code;
}

static bool is_regular_file(FILE *file)
{
	struct stat status;

	return fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode);
}

int capture_open(struct capture *capture, const char *path)
{
	bool is_stdin = !strcmp(path, "-");
	char text[PCAP_ERRBUF_SIZE];
	FILE *file;
	int type;

	*capture = (struct capture){.path = is_stdin ? "standard input" : path};
	file = is_stdin ? stdin : fopen(path, "re");
	if (!file)
		return capture_fail(capture, EX_NOINPUT, "", strerror(errno));
	capture->is_pipe = !is_regular_file(file);
	capture->reader = pcap_fopen_offline_with_tstamp_precision(file, PCAP_TSTAMP_PRECISION_NANO, text);
	if (!capture->reader) {
		explain_file(capture, file, text);
		if (!is_stdin)
			fclose(file);
		return EX_DATAERR;
	}
	type = pcap_datalink(capture->reader);
	if (find_capture_link(type, &capture->link))
		return 0;
	snprintf(text, sizeof(text), "%d (%s); Ethernet, raw IP and Linux' cooked captures are", type,
	         pcap_datalink_val_to_description_or_dlt(type));
	return capture_fail(capture, EX_DATAERR, "frames of a link type that is not known here: ", text);
}

int capture_next(struct capture *capture, struct capture_packet *packet)
{
	struct pcap_pkthdr *header;
	const u_char *frame;
	int r = pcap_next_ex(capture->reader, &header, &frame);

	if (r == PCAP_ERROR_BREAK)
		return 0;
	if (r != 1) {
		snprintf(capture->error, sizeof(capture->error), "%s: damaged or cut off after packet %" PRIu64 ": %s",
		         capture->path, capture->n_packets, pcap_geterr(capture->reader));
		return -EBADMSG;
	}
	capture->n_packets++;
	/* With PCAP_TSTAMP_PRECISION_NANO libpcap stores nanoseconds in tv_usec. */
	if (header->ts.tv_sec < 0 || header->ts.tv_sec > SECONDS_MAX || header->ts.tv_usec < 0 ||
	    (uint64_t)header->ts.tv_usec >= TIME_SECOND_NS) {
		snprintf(capture->error, sizeof(capture->error),
		         "%s: damaged: packet %" PRIu64 " has a time that there is not: %lld s and %lld ns",
		         capture->path, capture->n_packets, (long long)header->ts.tv_sec,
		         (long long)header->ts.tv_usec);
		return -EBADMSG;
	}
	*packet = (struct capture_packet){
		.time_ns = (uint64_t)header->ts.tv_sec * TIME_SECOND_NS + (uint64_t)header->ts.tv_usec,
		.frame = frame,
		.captured = header->caplen,
		.wire_bytes = header->len,
	};
	return 1;
}

void capture_close(struct capture *capture)
{
	if (capture->reader)
		pcap_close(capture->reader);
	capture->reader = NULL;
}
