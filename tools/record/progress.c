// SPDX-License-Identifier: Apache-2.0
/* The line that `ibvcap record` prints every second: rates, room on the disk, and losses by their cause. */
#include "tools/record/recorder.h"

#include "lib/base/time.h"
#include "tools/common/report.h"
#include "tools/common/terminal.h"
#include "tools/record/account.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#define RATE_SECONDS 10.0
#define RATE_BYTES   1000000u /* less says nothing of the rate */

/* The rate is that of the last seconds: the writer keeps packets for a while, and then writes many. */
static double follow_disk_rate(struct recorder *recorder, uint64_t disk_bytes, double seconds)
{
	double all = (double)(recorder->printed_ns - recorder->start_ns) * 1e-9 + seconds;
	double now = (double)(disk_bytes - recorder->printed_disk_bytes) / seconds;

	recorder->disk_rate += (now - recorder->disk_rate) * seconds / (all < RATE_SECONDS ? all : RATE_SECONDS);
	return disk_bytes < RATE_BYTES ? 0 : recorder->disk_rate;
}

/* Room on the disk, and how long it lasts. */
static void print_head_room(const struct recorder *recorder, double bytes_per_second)
{
	const char *slash = strrchr(recorder->options.path, '/');
	char folder[PATH_MAX];
	struct statvfs disk;
	double room;

	if (!strcmp(recorder->options.path, "-"))
		return;
	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - recorder->options.path) + 1 : 1,
	         slash ? recorder->options.path : ".");
	if (statvfs(folder, &disk) < 0)
		return;
	room = (double)disk.f_bavail * (double)disk.f_frsize;
	fprintf(stderr, "  disk %.1f GB free", room * 1e-9);
	if (bytes_per_second >= 1)
		fprintf(stderr, " (%.0f min)", room / bytes_per_second / 60);
}

/* Once: the streams of which no packet has come. */
static void tell_silence_of_streams(struct recorder *recorder, uint64_t now_ns)
{
	if (recorder->silence_told || now_ns - recorder->start_ns < REPORT_SILENCE_NS)
		return;
	recorder->silence_told = true;
	for (unsigned i = 0; i < recorder->n_sources;) {
		struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);
		const char *stream = recorder->sources[i].stream;
		uint64_t n = 0;

		do {
			ibvcap_rx_counts(recorder->sources[i].rx, &counts);
			n += counts.published;
		} while (++i < recorder->n_sources && recorder->sources[i].queue > 0);
		if (!n)
			report_silence("record", stream, recorder->options.socket);
	}
}

/*
 * Add the losses until the line before, by the daemon's records, which go on while no packet is read: of the card, and
 * of the interface. The records are those of the stream, so one of its queues has them.
 */
static void add_recorded_losses(struct source *source, uint64_t *no_buffer, uint64_t *interface_lost)
{
	struct ibvcap_rx_account account = IBVCAP_INIT(struct ibvcap_rx_account);

	if (source->queue || ibvcap_rx_settle_moment(source->rx, &source->printed) <= 0 ||
	    ibvcap_rx_account_between(&source->from, &source->printed, &account) < 0)
		return;
	*no_buffer += account.no_buffer;
	*interface_lost += account.interface_lost;
}

void recorder_print_progress(struct recorder *recorder, uint64_t now_ns)
{
	struct recording_sum all = {0};
	uint64_t n_filtered = 0, no_buffer = 0, counted = 0, interface_lost = 0, lost;
	double seconds = (double)(now_ns - recorder->printed_ns) * 1e-9;
	uint64_t disk_bytes = atomic_load(&recorder->writer.bytes);
	unsigned n_unused;

	tell_silence_of_streams(recorder, now_ns);
	if (recorder->options.quiet || now_ns - recorder->printed_ns < TIME_SECOND_NS)
		return;
	pthread_mutex_lock(&recorder->writer.lock);
	n_unused = recorder->writer.n_unused;
	pthread_mutex_unlock(&recorder->writer.lock);
	for (unsigned i = 0; i < recorder->n_sources; i++) {
		struct source *source = &recorder->sources[i];

		record_sum_add(&all, &source->losses.sum);
		losses_add_unread(&source->losses, source->rx, now_ns, &all);
		no_buffer += source->losses.no_buffer;
		add_recorded_losses(source, &counted, &interface_lost);
		source_take_moment(source, &source->printed);
		n_filtered += source->n_filtered;
		all.pieces += source->n_pieces;
	}
	no_buffer = no_buffer > counted ? no_buffer : counted;
	fprintf(stderr, "%6.1f s  %.0f packets/s  %.3f Gb/s", (double)(now_ns - recorder->start_ns) * 1e-9,
	        (double)(recorder->n_packets - recorder->printed_packets) / seconds,
	        (double)(recorder->n_bytes - recorder->printed_bytes) * 8e-9 / seconds);
	print_head_room(recorder, follow_disk_rate(recorder, disk_bytes, seconds));
	if (!recorder->options.raw)
		fprintf(stderr, "  buffers %u %% full", 100 - 100 * n_unused / recorder->writer.n_buffers);
	if (recorder->options.filter)
		fprintf(stderr, "  filtered %" PRIu64, n_filtered);
	fprintf(stderr, "  skipped %" PRIu64 "  disk_wait %" PRIu64 "  no_buffer %" PRIu64 "  errored %" PRIu64,
	        all.skipped, all.disk_wait, no_buffer, all.errored);
	if (all.pieces)
		fprintf(stderr, "  pieces of datagrams %" PRIu64, all.pieces);
	if (interface_lost) /* of all programs, so the share of losses does not have it */
		fprintf(stderr, "  interface_lost %" PRIu64, interface_lost);
	lost = all.skipped + all.disk_wait + no_buffer + all.errored;
	terminal_print_lost(stderr, lost + all.pieces, lost + recorder->n_packets + n_filtered);
	fputc('\n', stderr);
	recorder->printed_ns = now_ns;
	recorder->printed_packets = recorder->n_packets;
	recorder->printed_bytes = recorder->n_bytes;
	recorder->printed_disk_bytes = disk_bytes;
}
