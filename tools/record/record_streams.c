// SPDX-License-Identifier: Apache-2.0
/* ibvcap record: attaches to streams, records them, and says what became of every packet. */
#include "lib/base/safe_path.h"
#include "lib/base/time.h"
#include "lib/recording/verdict.h"
#include "tools/common/report.h"
#include "tools/common/stop_signal.h"
#include "tools/common/terminal.h"
#include "tools/record/file_window.h"
#include "tools/record/part_file.h"
#include "tools/record/record_file.h"
#include "tools/record/recorder.h"
#include "tools/record/row_filter.h"
#include "tools/record/source.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <systemd/sd-daemon.h>

#define SCHEMA_VERSION 1
#define SUM_TEXT_BYTES 400
#define N_BUFFERS_MIN  4u

/* A word that is no stream may be of a filter without quotes, or several streams. */
static void hint_at_word(const char *word)
{
	static const char *const words[] = {"host",  "net",  "port", "portrange", "src",      "dst",
	                                    "udp",   "tcp",  "ip",   "ip6",       "icmp",     "arp",
	                                    "ether", "vlan", "not",  "broadcast", "multicast"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(word, words[i]))
			fprintf(stderr,
			        "ibvcap record: a filter of several words stands in quotes behind the streams, 'port "
			        "7502'; one of one word behind --filter: --filter %s\n",
			        word);
	if (strchr(word, ' '))
		fputs("ibvcap record: one filter at a time: join several by 'and' or 'or' in one word in quotes\n",
		      stderr);
	if (strchr(word, ','))
		fputs("ibvcap record: several streams are several words: ibvcap record STREAM STREAM -w FILE\n",
		      stderr);
}

/* All queues of a stream. */
static int open_stream(struct recorder *recorder, const char *stream)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);
	uint32_t queue = 0;
	int r;

	do {
		struct source *source = &recorder->sources[recorder->n_sources];

		if (recorder->n_sources == RECORD_SOURCES_MAX) {
			fprintf(stderr, "ibvcap record: more than %d queues: record them by several processes\n",
			        RECORD_SOURCES_MAX);
			return EX_USAGE;
		}
		r = source_open(source, &recorder->options, stream, queue);
		if (r < 0) {
			report_stream_failure("record", stream, r);
			hint_at_word(stream);
			return report_exit_code(r);
		}
		if (recorder->options.by_flow && !source->has_flow_numbers) {
			fprintf(stderr,
			        "ibvcap record: --by-flow: stream '%s' does not say which flow a packet matched; set "
			        "'flow_numbers = true;' in its configuration, and restart ibvcapd\n",
			        source->stream);
			source_close(source);
			return EX_CONFIG;
		}
		source_describe(source, &recorder->options);
		recorder->n_sources++;
		ibvcap_rx_info(source->rx, &info);
	} while (++queue < info.n_queues);
	r = source_begin(&recorder->sources[recorder->n_sources - queue], queue);
	if (r == 0)
		return EX_OK;
	report_failure("record", r);
	return report_exit_code(r);
}

static int open_sources(struct recorder *recorder)
{
	const struct record_options *options = &recorder->options;
	int code = EX_OK;

	for (unsigned i = 0; i < options->n_streams && code == EX_OK; i++)
		code = open_stream(recorder, options->streams[i]);
	for (unsigned i = 0; i < recorder->n_sources && code == EX_OK && !options->quiet; i++)
		fprintf(stderr, "%s: %s\n", recorder->sources[i].name,
		        recorder->sources[i].is_lossless ? "lossless" : "lossy");
	return code;
}

static int refuse_place(const struct record_options *options, int error)
{
	char text[PATH_MAX];

	fprintf(stderr, "ibvcap record: --write '%s': %s\n", options->path,
	        safe_path_explain(options->path, -error, text));
	return error == -ENOMEM ? EX_OSERR : EX_CANTCREAT;
}

/* Before the recorder attaches: later the fault would cost packets. */
static int check_place(const struct record_options *options)
{
	struct failure failure;
	int r = file_window_check(options->path, &failure);

	if (!failure.text[0])
		return r < 0 ? refuse_place(options, r) : EX_OK;
	fprintf(stderr, "ibvcap record: --write %s\n", failure.text);
	return failure.exit_code;
}

struct file_window record_options_window(const struct record_options *options)
{
	return (struct file_window){.pattern = options->path,
	                            .numbered = record_options_rotate(options),
	                            .by_flow = options->by_flow,
	                            .streams = {options->streams, options->n_streams, options->raw},
	                            .files = options->files,
	                            .quota = options->quota,
	                            .disk_limit = options->disk_limit};
}

static int start_writer(struct recorder *recorder)
{
	const struct record_options *options = &recorder->options;
	struct writer *writer = &recorder->writer;
	int r;

	writer->path = options->path;
	writer->file_options =
		(struct record_file_options){.format = options->raw ? &raw_format : &pcapng_format,
	                                     .sources = recorder->sources,
	                                     .command = options->command,
	                                     .zstd_level = options->zstd_level,
	                                     .sync = options->sync,
	                                     .index = !options->no_index,
	                                     .end_bytes = options->raw ? 0 : CONTENTS_END_BYTES(recorder->n_sources)};
	writer->window = record_options_window(options);
	writer->sources = recorder->sources;
	writer->n_sources = recorder->n_sources;
	writer->n_buffers = (unsigned)(options->buffer_bytes / WRITER_BUFFER_BYTES);
	if (writer->n_buffers < N_BUFFERS_MIN)
		writer->n_buffers = N_BUFFERS_MIN;
	r = writer_start(writer);
	return r < 0 ? refuse_place(options, r) : EX_OK;
}

/* ---- summary ------------------------------------------------------------------------------------- */

static json_t *recorded_source_to_json(const struct source *source, const struct recording_account *account)
{
	json_t *object = recording_account_to_json(account);

	json_object_del(object, "file"); /* the account is of all files */
	json_object_set_new(object, "published", json_integer((json_int_t)record_sum_published(&account->sum)));
	json_object_set_new(object, "name", json_string(source->name));
	json_object_set_new(object, "lossless", json_boolean(source->is_lossless));
	return object;
}

/* A file that could not be written to its end proves nothing, also if no packet is known to be missing. */
static struct verdict judge_recording(const struct recorder *recorder)
{
	struct verdict verdict = {0};

	verdict_find_accounts(&verdict, recorder->accounts, recorder->n_sources, recorder->options.filter);
	if (recorder->writer.error == EPIPE || (recorder->writer.error && !verdict.has_loss)) {
		verdict = (struct verdict){0};
		verdict_find(&verdict, FINDING_DOUBT,
		             recorder->writer.error == EPIPE
		                     ? "the reader of standard output has left, and what it has read is not known"
		                     : "the recording could not be written to its end");
	}
	return verdict;
}

static void print_record_json(const struct recorder *recorder, const struct verdict *verdict)
{
	const struct writer *writer = &recorder->writer;
	/* Standard output may be the recording. */
	FILE *to = !strcmp(recorder->options.path, "-") ? stderr : stdout;
	json_t *sources = json_array(), *all;

	for (unsigned i = 0; i < recorder->n_sources; i++)
		json_array_append_new(sources, recorded_source_to_json(&recorder->sources[i], &recorder->accounts[i]));
	all = json_pack("{s:i, s:o, s:f, s:I, s:I, s:I, s:I, s:i}", "schema_version", SCHEMA_VERSION, "sources",
	                sources, "seconds", (double)(time_monotonic_ns() - recorder->start_ns) * 1e-9, "files",
	                (json_int_t)writer->n_files, "deleted", (json_int_t)writer->window.n_deleted, "bytes",
	                (json_int_t)writer->bytes, "disk_wait_ms", (json_int_t)(recorder->waited_ns / 1000000), "error",
	                writer->error);
	json_object_set_new(all, "verdict", json_string(verdict_word(verdict)));
	json_object_set_new(all, "from_flow_rules", json_boolean(verdict_is_from_rules(verdict)));
	if (recorder->options.filter)
		json_object_set_new(all, "filter", json_string(recorder->options.filter));
	if (recorder->options.why)
		json_object_set_new(all, "trigger", json_string(recorder->options.why));
	json_dumpf(all, to, JSON_INDENT(2));
	fputc('\n', to);
	json_decref(all);
}

/* The verdict is of all streams, and does not say of which no packet came. */
static void append_silent(char *text, size_t bytes, const struct recorder *recorder)
{
	for (unsigned i = 0; i < recorder->n_sources && recorder->options.n_streams > 1; i++)
		if (recorder->sources[i].queue == 0 && recorder->accounts[i].rx.unknown & IBVCAP_UNKNOWN_NO_PACKETS)
			snprintf(text + strlen(text), bytes - strlen(text), " No packet came: %s.",
			         recorder->sources[i].stream);
}

/* The account has every packet, and of some only the beginning. */
static void append_truncated(char *text, size_t bytes, const struct recorder *recorder)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < recorder->n_sources; i++)
		n += recorder->sources[i].n_truncated;
	if (n)
		snprintf(text + strlen(text), bytes - strlen(text),
		         " %" PRIu64 " are cut: they were longer than their rows; raise payload_size of the stream.",
		         n);
}

/* Add text as one word of the shell. No quotes if it needs none, or is empty. */
static void append_word(char *words, size_t bytes, const char *text, int n)
{
	size_t used = strlen(words);
	bool is_plain = !text[strcspn(text, " \t\n'\"\\$&;|<>()*?[]{}`!#~")];

	if (is_plain) {
		snprintf(words + used, bytes - used, "%.*s", n, text);
		return;
	}
	used += (size_t)snprintf(words + used, bytes - used, "'");
	for (int i = 0; i < n && used < bytes; i++)
		used += (size_t)snprintf(words + used, bytes - used, text[i] == '\'' ? "'\\''" : "%c", text[i]);
	if (used < bytes)
		snprintf(words + used, bytes - used, "'");
}

/* The files of a name without a time, as the shell finds them: STEM_*.END, and STEM.END if SIGUSR1 began the others. */
static void append_files(char *words, size_t bytes, const struct recorder *recorder)
{
	const char *path = recorder->options.path, *base = file_names_base(path);
	const char *dot = *base ? strchr(base + 1, '.') : NULL;
	int n = (int)strlen(path), stem = dot ? (int)(dot - path) : n;
	bool is_numbered = recorder->writer.window.numbered;

	if (!is_numbered)
		append_word(words, bytes, path, n);
	if (!is_numbered && recorder->writer.n_files > 1)
		snprintf(words + strlen(words), bytes - strlen(words), " ");
	if (is_numbered || recorder->writer.n_files > 1) {
		append_word(words, bytes, path, stem);
		snprintf(words + strlen(words), bytes - strlen(words), "_*");
		append_word(words, bytes, path + stem, n - stem);
	}
}

/* The recorder does not follow the packets' own numbers. They may show losses, or that the interface dropped others. */
static void append_info(char *text, size_t bytes, const struct recorder *recorder)
{
	const struct record_options *options = &recorder->options;
	bool has_sequence = false;

	for (unsigned i = 0; i < recorder->n_sources; i++)
		has_sequence |= recorder->sources[i].sequence != NULL;
	if (!has_sequence || options->filter || options->raw || options->by_flow || part_file_is_special(options->path))
		return;
	snprintf(text + strlen(text), bytes - strlen(text),
	         " This is by the counts of ibvcapd; for the verdict by the packets' own numbers, too: ibvcap info %s",
	         strchr(options->path, '%') ? "FILE..." : "");
	if (!strchr(options->path, '%'))
		append_files(text, bytes, recorder);
}

/* The exit code. r: how reading ended, of the source that had it. */
static int end_record(const struct recorder *recorder, unsigned which, int r)
{
	static const enum terminal_colour colours[] = {
		[FINDING_NOTE] = TERMINAL_GREEN, [FINDING_DOUBT] = TERMINAL_YELLOW, [FINDING_LOSS] = TERMINAL_RED};
	const struct verdict verdict = judge_recording(recorder);
	int code;

	if (recorder->options.json)
		print_record_json(recorder, &verdict);
	else if (!recorder->options.silent) {
		const struct writer *writer = &recorder->writer;
		char text[SUM_TEXT_BYTES + VERDICT_TEXT_BYTES + PATH_MAX];

		fprintf(stderr, "%s: %" PRIu64 " bytes in %" PRIu32 " files, %" PRIu64 " files deleted\n",
		        recorder->options.path, writer->bytes, writer->n_files, writer->window.n_deleted);
		for (unsigned i = 0; i < recorder->n_sources; i++) {
			record_print_sum(text, sizeof(text), &recorder->accounts[i]);
			fprintf(stderr, "%s: %s\n", recorder->sources[i].name, text);
		}
		verdict_print_sentences(text, sizeof(text), &verdict);
		append_silent(text, sizeof(text), recorder);
		append_truncated(text, sizeof(text), recorder);
		append_info(text, sizeof(text), recorder);
		terminal_print(stderr, colours[verdict.worst], "%s\n", text);
	}
	if (recorder->writer.error)
		return recorder->writer.error == EPIPE ? EX_OK : EX_IOERR;
	code = report_end("record", "stream", recorder->sources[which < recorder->n_sources ? which : 0].name, r);
	if (code == EX_OK && verdict.has_loss)
		return verdict_exit_status(&verdict);
	for (unsigned i = 0; i < recorder->n_sources && code == EX_OK; i++)
		if (recorder->sources[i].end_error)
			code = report_exit_code(recorder->sources[i].end_error);
	return code == EX_OK ? verdict_exit_status(&verdict) : code;
}

/* ---- the command --------------------------------------------------------------------------------- */

/* Attach, record to the end that the options set, and detach. */
static int record_once(struct recorder *recorder)
{
	const struct record_options *options = &recorder->options;
	unsigned which = 0;
	int code = open_sources(recorder), r;

	if (code == EX_OK && options->raw && recorder->n_sources > 1) {
		fprintf(stderr, "ibvcap record: stream '%s' has %u queues, and --raw records one\n",
		        options->streams[0], recorder->n_sources);
		code = EX_USAGE;
	}
	if (code == EX_OK && (code = start_writer(recorder)) == EX_OK) {
		sd_notify(1, "READY=1");
		r = recorder_run(recorder, &which);
		recorder_finish(recorder);
		if (options->raw && !options->quiet)
			fprintf(stderr, "%" PRIu64 " of %" PRIu64 " bytes went to the disk straight from the ring\n",
			        recorder->writer.direct_bytes, recorder->writer.bytes);
		code = end_record(recorder, which, r);
	}
	for (unsigned i = 0; i < recorder->n_sources; i++)
		source_close(&recorder->sources[i]);
	writer_deinit(&recorder->writer);
	return code;
}

/* Record the packets in the ring from from_ns until until_ns. */
static int record_window(struct recorder *recorder, const struct record_options *options, uint64_t from_ns,
                         uint64_t until_ns)
{
	uint64_t now_ns = time_utc_ns();

	rotate_signal_is_new(); /* one that came while there was no file */
	memset(recorder, 0, sizeof(*recorder));
	recorder->options = *options;
	recorder->options.from_ns = from_ns;
	recorder->options.duration_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	return record_once(recorder);
}

/* A file for each trigger. The exit code of the last one that is not 0, or of the command that was not found. */
static int record_triggers(struct recorder *recorder, struct record_options *options)
{
	struct triggers triggers = {.kinds = options->triggers,
	                            .socket = options->socket,
	                            .streams = options->streams,
	                            .n_streams = options->n_streams};
	static char why[TRIGGER_TEXT_BYTES + 120]; /* the recorder refers to it */
	char at[REPORT_UTC_BYTES];
	struct trigger_window window;
	int code = ring_reach_print(options, options->before_ns, "--before"), one;

	if (code == EX_OK)
		code = triggers_open(&triggers);
	if (code != EX_OK)
		return code;
	sd_notify(1, "READY=1");
	if (!options->quiet)
		fprintf(stderr, "waiting: nothing is written until a trigger comes\n");
	while (triggers_can_come(&triggers) && triggers_wait(&triggers, &window)) {
		report_format_utc(window.first_ns, 3, at);
		snprintf(why, sizeof(why), "trigger: %s at %s; %.6g s before and %.6g s after it", window.text, at,
		         (double)options->before_ns * 1e-9, (double)options->after_ns * 1e-9);
		if (!options->quiet)
			fprintf(stderr, "%s\n", why);
		options->why = why;
		one = record_window(recorder, options, window.first_ns - options->before_ns,
		                    window.last_ns + options->after_ns);
		code = one == EX_OK ? code : one;
	}
	triggers_close(&triggers);
	return triggers.code == EX_OK ? code : triggers.code;
}

/* An exit code. */
static int make_filter(struct record_options *options)
{
	char error[PACKET_FILTER_ERROR_BYTES];

	if (!options->filter)
		return EX_OK;
	options->row_filter = row_filter_new(options->filter, error);
	if (options->row_filter)
		return EX_OK;
	fprintf(stderr, "ibvcap record: --filter '%s': %s\n", options->filter, error);
	return EX_USAGE;
}

static int record_as_told(struct record_options *options)
{
	static struct recorder recorder;

	if (options->has_triggers)
		return record_triggers(&recorder, options);
	if (options->last_ns) {
		uint64_t now_ns = time_utc_ns();
		int code = ring_reach_print(options, options->last_ns, "--last");

		return code == EX_OK ? record_window(&recorder, options, now_ns - options->last_ns, now_ns) : code;
	}
	recorder.options = *options;
	return record_once(&recorder);
}

int record_streams(struct record_options *options)
{
	int code = make_filter(options);

	if (code == EX_OK)
		code = check_place(options);
	if (code != EX_OK)
		return code;
	stop_signal_catch();
	stop_signal_end_by_second();
	rotate_signal_catch();
	signal(SIGPIPE, SIG_IGN); /* the reader of a pipe may end at any time: then write() returns EPIPE */
	signal(SIGXFSZ, SIG_IGN); /* a file that may not grow any more: write() returns EFBIG */
	signal(SIGCHLD, SIG_IGN); /* the ends of commands are not waited for */
	code = record_as_told(options);
	row_filter_free(options->row_filter);
	return code;
}
