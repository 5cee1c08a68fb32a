// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/tools/own_folder.h"
#include "tests/unit/tools/recorded.h"

#include "lib/base/time.h"
#include "lib/recording/recording.h"
#include "tools/common/stop_signal.h"
#include "tools/record/record_file.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct attached rings[RECORDED_SOURCES_MAX];
struct recorder recorder;
struct recorded_file files[RECORDED_FILES_MAX];
unsigned n_files;
char recorded_folder[] = "recorded.XXXXXX";
void (*recorded_script)(unsigned call);
void (*recorded_sleep)(void);
uint64_t recorded_slept_ns;
unsigned recorded_n_sleeps;
uint32_t recorded_max, recorded_min;
int recorded_timeout_ms;
int recorded_error[RECORDED_SOURCES_MAX];

static char path[64];
static unsigned n_calls;
static _Atomic uint64_t ahead_ns;
static uint64_t settled_losses[RECORDED_SOURCES_MAX];

/* ---- calls of the recorder --------------------------------------------------------------------------- */

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *left);
int __real_ibvcap_rx_acquire(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min,
                             int timeout_ms);
int __wrap_ibvcap_rx_acquire(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min,
                             int timeout_ms);

/* Both clocks stand still but for a microsecond at each look: how busy the machine is makes no difference. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	static _Atomic uint64_t begin_ns[2], n_looks;
	_Atomic uint64_t *begin = &begin_ns[clock == CLOCK_REALTIME];
	uint64_t none = 0, ns;
	int r = __real_clock_gettime(clock, now);

	ns = (uint64_t)now->tv_sec * TIME_SECOND_NS + (uint64_t)now->tv_nsec;
	atomic_compare_exchange_strong(begin, &none, ns);
	ns = atomic_load(begin) + atomic_load(&ahead_ns) + 1000 * atomic_fetch_add(&n_looks, 1);
	now->tv_sec = (time_t)(ns / TIME_SECOND_NS);
	now->tv_nsec = (long)(ns % TIME_SECOND_NS);
	return r;
}

void recorded_pass_ns(uint64_t ns)
{
	atomic_fetch_add(&ahead_ns, ns);
}

int __wrap_nanosleep(const struct timespec *pause, struct timespec *left)
{
	(void)left;
	recorded_slept_ns = (uint64_t)pause->tv_sec * TIME_SECOND_NS + (uint64_t)pause->tv_nsec;
	recorded_pass_ns(recorded_slept_ns);
	recorded_n_sleeps++;
	if (recorded_sleep)
		recorded_sleep();
	return 0;
}

int __wrap_ibvcap_rx_acquire(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min,
                             int timeout_ms)
{
	int r;

	recorded_max = max;
	recorded_min = min;
	recorded_timeout_ms = timeout_ms;
	if (recorded_script)
		recorded_script(n_calls++);
	for (unsigned i = 0; i < recorder.n_sources; i++)
		if (recorder.sources[i].rx == rx && recorded_error[i])
			return recorded_error[i];
	r = __real_ibvcap_rx_acquire(rx, batch, max, 1, 0);
	/* While nothing comes, the time passes at once. */
	if (r == 0)
		recorded_pass_ns((uint64_t)timeout_ms * 1000000);
	return r;
}

/* ---- the daemon -------------------------------------------------------------------------------------- */

static void fill_rows(const struct rx_span *span, uint64_t time_ns, uint64_t step_ns, uint16_t flags, uint8_t flow)
{
	for (uint32_t i = 0; i < span->n; i++) {
		uint64_t number = span->sequence + i;

		memcpy(span->payload + (size_t)i * SLOT_BYTES, &number, sizeof(number));
		memset(span->headers + (size_t)i * 64, 0, 64);
		span->meta[i] = (struct ibvcap_meta){.timestamp_ns = time_ns + i * step_ns,
		                                     .length = SLOT_BYTES,
		                                     .wire_length = SLOT_BYTES,
		                                     .header_length = 42,
		                                     .flags = flags,
		                                     .flow = flow};
	}
}

void recorded_publish_kind(unsigned ring, unsigned n, uint64_t time_ns, uint64_t step_ns, uint16_t flags, uint8_t flow)
{
	while (n > 0) {
		struct rx_span span;

		rx_ring_post_span(&rings[ring].ring, n < N ? n : N, &span);
		cr_assert_gt(span.n, 0, "the ring starves");
		fill_rows(&span, time_ns, step_ns, flags, flow);
		rx_ring_publish(&rings[ring].ring, span.n);
		time_ns += span.n * step_ns;
		n -= span.n;
	}
}

void recorded_publish(unsigned ring, unsigned n, uint64_t time_ns, uint64_t step_ns)
{
	recorded_publish_kind(ring, n, time_ns, step_ns, 0, 0);
}

void recorded_settle(unsigned ring, uint64_t lost)
{
	settled_losses[ring] = lost;
	attached_settle(&rings[ring], lost, time_monotonic_ns(), time_utc_ns());
}

void recorded_settle_all(void)
{
	for (unsigned i = 0; i < recorder.n_sources; i++)
		recorded_settle(i, settled_losses[i]);
}

void recorded_stop(void)
{
	cr_assert_eq(raise(SIGTERM), 0);
}

/* ---- recording --------------------------------------------------------------------------------------- */

static void prepare_source(unsigned i, unsigned n, bool is_one_stream)
{
	struct source *source = &recorder.sources[i];

	rings[i] = (struct attached){.queue = is_one_stream ? i : 0, .n_queues = is_one_stream ? n : 1};
	attached_init(&rings[i]);
	*source = (struct source){.rx = rings[i].rx,
	                          .queue = is_one_stream ? i : 0,
	                          .n_queues = is_one_stream ? n : 1,
	                          .batch = IBVCAP_INIT(struct ibvcap_rx_batch),
	                          .card = IBVCAP_INIT(struct ibvcap_rx_losses)};
	if (is_one_stream)
		strcpy(source->stream, "s");
	else
		snprintf(source->stream, sizeof(source->stream), "s%u", i);
	source_print_name(source->name, source->stream, source->queue, source->n_queues);
	losses_caught_up(&source->losses, time_monotonic_ns());
}

void recorded_prepare(unsigned n, bool is_one_stream)
{
	cr_assert(mkdtemp(recorded_folder));
	snprintf(path, sizeof(path), "%s/a.pcapng", recorded_folder);
	stop_signal_catch();
	recorder.options = (struct record_options){.path = path,
	                                           .quiet = true,
	                                           .count = UINT64_MAX,
	                                           .duration_ns = UINT64_MAX,
	                                           .snap_bytes = UINT32_MAX,
	                                           .file_bytes = UINT64_MAX,
	                                           .file_packets = UINT64_MAX,
	                                           .file_ns = UINT64_MAX,
	                                           .no_index = true};
	recorder.n_sources = n;
	recorded_sleep = recorded_settle_all;
	for (unsigned i = 0; i < n; i++)
		prepare_source(i, n, is_one_stream);
	recorded_settle_all();
	for (unsigned i = 0; i < n; i++) {
		struct source *source = &recorder.sources[i];

		source_take_moment(source, &source->from);
	}
	recorded_settle_all();
}

static void start_writer(void)
{
	struct writer *writer = &recorder.writer;

	writer->path = recorder.options.path;
	writer->file_options = (struct record_file_options){
		.format = recorder.options.raw ? &raw_format : &pcapng_format,
		.sources = recorder.sources,
		.command = recorder.options.command,
		.zstd_level = recorder.options.zstd_level,
		.sync = recorder.options.sync,
		.index = !recorder.options.no_index,
		.end_bytes = recorder.options.raw ? 0 : CONTENTS_END_BYTES(recorder.n_sources)};
	writer->window = record_options_window(&recorder.options);
	writer->sources = recorder.sources;
	writer->n_sources = recorder.n_sources;
	writer->n_buffers = 4;
	cr_assert_eq(writer_start(writer), 0);
}

int recorded_run(unsigned *which)
{
	unsigned unused;
	int r;

	start_writer();
	r = recorder_run(&recorder, which ? which : &unused);
	recorder_finish(&recorder);
	recorded_read();
	return r;
}

void recorded_clean_up(void)
{
	if (recorder.writer.scratch)
		writer_deinit(&recorder.writer);
	for (unsigned i = 0; i < recorder.n_sources; i++)
		attached_deinit(&rings[i]);
	own_folder_remove(recorded_folder);
}

/* ---- reading ----------------------------------------------------------------------------------------- */

static void append(char *to, size_t room, const char *separator, const char *at, size_t n)
{
	size_t used = strlen(to);

	snprintf(to + used, room - used, "%s%.*s", used ? separator : "", (int)n, at);
}

static void append_text(char *to, size_t room, const struct pcapng_text *text)
{
	if (text->at)
		append(to, room, "\n", text->at, text->bytes);
}

static void read_packet(struct recorded_file *file, const struct pcapng_packet *packet)
{
	char text[80];

	snprintf(text, sizeof(text), "%u:%llu", packet->interface, (unsigned long long)packet->packet_id);
	append(file->packets, sizeof(file->packets), " ", text, strlen(text));
	if (packet->options & PCAPNG_PACKET_HAS_DROPS) {
		snprintf(text, sizeof(text), "+%llu", (unsigned long long)packet->drop_count);
		append(file->packets, sizeof(file->packets), "", text, strlen(text));
	}
	append_text(file->comments, sizeof(file->comments), &packet->comment);
	if (!file->first_ns)
		file->first_ns = packet->time_ns;
	file->frame_bytes = packet->frame_bytes[0];
	file->wire_bytes = packet->wire_bytes;
	file->queue = packet->options & PCAPNG_PACKET_HAS_QUEUE ? packet->queue : UINT32_MAX;
}

static void read_statistics(struct recorded_file *file, const struct pcapng_statistics *statistics)
{
	cr_assert_lt(statistics->interface, RECORDED_SOURCES_MAX);
	cr_expect(recording_account_find(statistics->comment.at, statistics->comment.bytes,
	                                 &file->accounts[statistics->interface]));
	memcpy(file->values[statistics->interface], statistics->values, sizeof(statistics->values));
}

static void read_file(struct recorded_file *file, const char *name)
{
	struct recording recording;
	struct pcapng_block block;
	unsigned n_sections = 0;
	int r;

	*file = (struct recorded_file){0};
	snprintf(file->name, sizeof(file->name), "%s", name + strlen(recorded_folder) + 2);
	cr_assert_eq(recording_open(&recording, name), 0, "%s", name);
	while ((r = recording_next(&recording, &block)) > 0) {
		if (block.type == PCAPNG_BLOCK_SECTION && n_sections++)
			append_text(file->closing, sizeof(file->closing), &block.section.comment);
		else if (block.type == PCAPNG_BLOCK_SECTION)
			append_text(file->head, sizeof(file->head), &block.section.comment);
		if (block.type == PCAPNG_BLOCK_INTERFACE) {
			append_text(file->head, sizeof(file->head), &block.interface.name);
			append_text(file->head, sizeof(file->head), &block.interface.description);
			append_text(file->head, sizeof(file->head), &block.interface.comment);
		}
		if (block.type == PCAPNG_BLOCK_PACKET)
			read_packet(file, &block.packet);
		if (block.type == PCAPNG_BLOCK_STATISTICS)
			read_statistics(file, &block.statistics);
	}
	cr_expect_eq(r, 0, "%s: %s", name, recording_error(&recording));
	recording_close(&recording);
}

void recorded_read(void)
{
	char pattern[64];
	glob_t found = {0};

	snprintf(pattern, sizeof(pattern), "%s/a*.pcapng", recorded_folder);
	n_files = 0;
	if (glob(pattern, 0, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc && n_files < RECORDED_FILES_MAX; i++)
			read_file(&files[n_files++], found.gl_pathv[i]);
	globfree(&found);
}

/* ---- waiting ----------------------------------------------------------------------------------------- */

void recorded_wait_for_writer(void)
{
	bool is_idle = false;

	for (unsigned i = 0; i < 5000 && !is_idle; i++) {
		pthread_mutex_lock(&recorder.writer.lock);
		is_idle = STAILQ_EMPTY(&recorder.writer.full) && recorder.writer.n_unused >= recorder.writer.n_buffers;
		pthread_mutex_unlock(&recorder.writer.lock);
		if (!is_idle)
			usleep(1000);
	}
	cr_expect(is_idle, "the writer hangs");
}

void recorded_wait_for_files(unsigned n)
{
	char pattern[64];
	size_t found = 0;

	snprintf(pattern, sizeof(pattern), "%s/a*.pcapng", recorded_folder);
	for (unsigned i = 0; i < 5000 && found < n; i++) {
		glob_t all = {0};

		found = glob(pattern, 0, NULL, &all) == 0 ? all.gl_pathc : 0;
		globfree(&all);
		if (found < n)
			usleep(1000);
	}
	cr_expect_geq(found, n);
}
