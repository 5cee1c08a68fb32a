// SPDX-License-Identifier: Apache-2.0
/* ibvcap record: attaches to streams, records them, and says what became of every packet. */
#include "tools/ibvcap/ibvcap.h"

#include "daemon/base/time.h"
#include "tools/ibvcap/report.h"
#include "tools/ibvcap/stop_signal.h"
#include "tools/record/recorder.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define SCHEMA_VERSION    1
#define SUM_TEXT_BYTES    400
#define N_BUFFERS_MIN     4u
#define EXIT_NOT_COMPLETE 1 /* packets are missing */

/* All queues of a stream. */
static int open_stream(struct recorder *recorder, const char *stream)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);
	uint32_t queue = 0;

	do {
		struct source *source = &recorder->sources[recorder->n_sources];
		int r;

		if (recorder->n_sources == RECORD_SOURCES_MAX) {
			fprintf(stderr, "ibvcap record: more than %d queues: record them by several processes\n",
			        RECORD_SOURCES_MAX);
			return EX_USAGE;
		}
		r = source_open(source, &recorder->options, stream, queue);
		if (r < 0)
			return report_failure("record", r);
		source_describe(source, &recorder->options);
		recorder->names[recorder->n_sources++] = source->name;
		ibvcap_rx_info(source->rx, &info);
	} while (++queue < info.n_queues);
	return EX_OK;
}

static int open_recorder(struct recorder *recorder)
{
	const struct record_options *options = &recorder->options;
	struct writer *writer = &recorder->writer;
	int code = EX_OK, r;

	for (unsigned i = 0; i < options->n_streams && code == EX_OK; i++)
		code = open_stream(recorder, options->streams[i]);
	if (code != EX_OK)
		return code;
	writer->path = options->path;
	writer->file_options = (struct record_file_options){.command = options->command,
	                                                    .zstd_level = options->zstd_level,
	                                                    .sync = options->sync,
	                                                    .index = options->index};
	writer->window =
		(struct file_window){.pattern = options->path,
	                             .numbered = options->file_bytes != UINT64_MAX ||
	                                         options->file_packets != UINT64_MAX || options->file_ns != UINT64_MAX,
	                             .files = options->files,
	                             .quota = options->quota,
	                             .disk_limit = options->disk_limit};
	writer->names = recorder->names;
	writer->n_sources = recorder->n_sources;
	writer->n_outputs = 1;
	writer->n_buffers = (unsigned)(options->buffer_bytes / WRITER_BUFFER_BYTES);
	if (writer->n_buffers < N_BUFFERS_MIN)
		writer->n_buffers = N_BUFFERS_MIN;
	r = writer_start(writer);
	if (r == 0)
		return EX_OK;
	fprintf(stderr, "ibvcap record: --write '%s': %s\n", options->path, strerror(-r));
	return r == -ENOMEM ? EX_OSERR : EX_CANTCREAT;
}

/* ---- summary ------------------------------------------------------------------------------------- */

static json_t *sum_to_json(const struct recorder *recorder, unsigned i)
{
	const struct record_sum *sum = &recorder->writer.unwritten[i];

	return json_pack("{s:s, s:I, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "name", recorder->names[i],
	                 "queue", (json_int_t)recorder->sources[i].queue, "lossless", recorder->sources[i].is_lossless,
	                 "published", (json_int_t)sum->published, "written", (json_int_t)sum->written, "unwritten",
	                 (json_int_t)sum->unwritten, "errored", (json_int_t)sum->errored, "skipped",
	                 (json_int_t)sum->skipped, "disk_wait", (json_int_t)sum->disk_wait, "lag", (json_int_t)sum->lag,
	                 "no_buffer", (json_int_t)sum->no_buffer, "restarts", (json_int_t)sum->restarts);
}

static void print_record_json(struct recorder *recorder)
{
	json_t *sources = json_array(), *all;

	for (unsigned i = 0; i < recorder->n_sources; i++)
		json_array_append_new(sources, sum_to_json(recorder, i));
	all = json_pack("{s:i, s:o, s:I, s:I, s:I, s:I, s:i}", "schema_version", SCHEMA_VERSION, "sources", sources,
	                "files", (json_int_t)recorder->writer.n_files, "deleted",
	                (json_int_t)recorder->writer.window.n_deleted, "bytes", (json_int_t)recorder->writer.bytes,
	                "disk_wait_ms", (json_int_t)(recorder->waited_ns / 1000000), "error", recorder->writer.error);
	/* Standard output may be the recording. */
	json_dumpf(all, !strcmp(recorder->options.path, "-") ? stderr : stdout, JSON_INDENT(2));
	fputc('\n', !strcmp(recorder->options.path, "-") ? stderr : stdout);
	json_decref(all);
}

static void print_record_summary(const struct recorder *recorder)
{
	char text[SUM_TEXT_BYTES];

	fprintf(stderr, "%s: %" PRIu64 " packets, %" PRIu64 " bytes in %u files, %" PRIu64 " files deleted\n",
	        recorder->options.path, recorder->n_packets, (uint64_t)recorder->writer.bytes,
	        (unsigned)recorder->writer.n_files, recorder->writer.window.n_deleted);
	for (unsigned i = 0; i < recorder->n_sources; i++) {
		record_sum_print(text, sizeof(text), &recorder->writer.unwritten[i]);
		fprintf(stderr, "%s: %s\n", recorder->names[i], text);
	}
}

static bool is_complete(const struct recorder *recorder)
{
	struct record_sum all = {0};

	for (unsigned i = 0; i < recorder->n_sources; i++)
		record_sum_add(&all, &recorder->writer.unwritten[i]);
	return record_sum_missing(&all) == 0 && all.restarts == 0;
}

/* ---- the command --------------------------------------------------------------------------------- */

static int run_record(struct recorder *recorder)
{
	unsigned which = 0;
	int r, error, code;

	for (unsigned i = 0; i < recorder->n_sources; i++)
		if (!recorder->options.quiet)
			fprintf(stderr, "%s: %s\n", recorder->names[i],
			        recorder->sources[i].is_lossless ? "lossless" : "lossy");
	r = recorder_run(recorder, &which);
	recorder_finish(recorder);
	if (recorder->options.json)
		print_record_json(recorder);
	else
		print_record_summary(recorder);
	error = atomic_load(&recorder->writer.error);
	if (error)
		return error == EPIPE ? EX_OK : EX_IOERR;
	code = report_end("record", "stream", recorder->names[which < recorder->n_sources ? which : 0], r);
	return code == EX_OK && !is_complete(recorder) ? EXIT_NOT_COMPLETE : code;
}

int cmd_record(int argc, char **argv)
{
	static struct recorder recorder;
	int code = record_parse_arguments(argc, argv, &recorder.options);

	if (code >= 0)
		return code;
	stop_signal_catch();
	recorder_catch_rotate_signal();
	signal(SIGPIPE, SIG_IGN); /* the reader of a pipe may end at any time: then write() returns EPIPE */
	signal(SIGCHLD, SIG_IGN); /* the ends of commands are not waited for */
	code = open_recorder(&recorder);
	if (code == EX_OK)
		code = run_record(&recorder);
	for (unsigned i = 0; i < recorder.n_sources; i++)
		source_close(&recorder.sources[i]);
	writer_deinit(&recorder.writer);
	return code;
}
