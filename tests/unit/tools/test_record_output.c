// SPDX-License-Identifier: Apache-2.0
/* Files of a recording get their ends when the daemon has settled them, and one begins where the other ends. */
#include "lib/base/time.h"
#include "lib/recording/pcapng.h"
#include "tests/unit/ibvcap/attached.h"
#include "tests/unit/tools/own_folder.h"
#include "tools/record/record_file.h"
#include "tools/record/recorder.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define N_ROTATIONS 100

static struct attached attached;
static struct recorder recorder;
static struct source *const source = &recorder.sources[0];
static char folder[] = "record_output.XXXXXX", pattern[64];

static void begin_recording(void)
{
	struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);

	cr_assert(mkdtemp(folder));
	snprintf(pattern, sizeof(pattern), "%s/a.pcapng", folder);
	attached_init(&attached);
	recorder.options = (struct record_options){.path = pattern,
	                                           .quiet = true,
	                                           .file_bytes = UINT64_MAX,
	                                           .file_packets = UINT64_MAX,
	                                           .file_ns = UINT64_MAX};
	*source = (struct source){.rx = attached.rx, .n_queues = 1, .stream = "test", .name = "test"};
	attached_publish(&attached, 1);
	cr_assert_eq(ibvcap_rx_acquire(source->rx, &batch, 1, 1, 0), 1);
	ibvcap_rx_release(source->rx, &batch);
	source->card = (struct ibvcap_rx_losses)IBVCAP_INIT(struct ibvcap_rx_losses);
	source_take_moment(source, &source->from);
	recorder.n_sources = 1;
	STAILQ_INIT(&recorder.ending);
	recorder.writer.path = pattern;
	recorder.writer.file_options =
		(struct record_file_options){.format = &pcapng_format, .end_bytes = CONTENTS_END_BYTES(1)};
	recorder.writer.window = (struct file_window){.pattern = pattern};
	recorder.writer.sources = recorder.sources;
	recorder.writer.n_sources = 1;
	recorder.writer.n_buffers = 4;
	cr_assert_eq(writer_start(&recorder.writer), 0);
	cr_assert_eq(output_begin_all(&recorder), 0);
}

static void remove_folder(void)
{
	writer_deinit(&recorder.writer);
	output_free_all(&recorder);
	attached_deinit(&attached);
	own_folder_remove(folder);
}

TestSuite(record_output, .init = begin_recording, .fini = remove_folder);

static struct record_output *output(void)
{
	return SLIST_FIRST(&recorder.outputs);
}

/* The daemon has settled all that came before now: so many packets were lost. */
static void settle(uint64_t lost)
{
	attached_settle(&attached, lost, time_monotonic_ns(), time_utc_ns());
}

static void put_packet(void)
{
	struct pcapng_packet packet = {.time_ns = time_utc_ns(), .packet_id = source->n_written};

	output_put(&recorder, output(), 0, &packet, &(struct row_counts){.rows = 1});
	source->n_written++;
}

static void rotate(void)
{
	output_rotate(&recorder, output(), time_utc_ns());
}

static void end_recording(void)
{
	const struct source_end end = {0};

	source_take_moment(source, &source->until);
	settle(0);
	source_settle_ends(source);
	output_end(&recorder, output(), &end);
	output_end_settled(&recorder, UINT64_MAX);
	writer_stop(&recorder.writer);
}

/* Of the file with that number. False: it is not complete. */
static bool read_account(unsigned number, struct recording_account *account)
{
	static char found[1 << 20];
	char command[160];
	ssize_t n;
	FILE *all;

	snprintf(command, sizeof(command), "cat /dev/null $(ls %s/*.pcapng | sed -n %up)", folder, number + 1);
	all = popen(command, "r");
	n = (ssize_t)fread(found, 1, sizeof(found), all);
	pclose(all);
	for (ssize_t i = 0; i + 9 < n; i++)
		if (!memcmp(found + i, "\naccount ", 9))
			return recording_account_find(found + i, (size_t)(strrchr(found + i, '}') + 1 - found - i),
			                              account);
	return false;
}

Test(record_output, a_file_ends_when_its_end_is_settled, .timeout = 30)
{
	struct recording_account first, second;

	settle(0);
	put_packet();
	rotate();
	cr_expect_not(STAILQ_EMPTY(&recorder.ending), "the daemon has settled nothing since");
	output_end_settled(&recorder, time_monotonic_ns());
	cr_expect_not(STAILQ_EMPTY(&recorder.ending));
	put_packet();
	settle(0);
	output_end_settled(&recorder, time_monotonic_ns());
	cr_expect(STAILQ_EMPTY(&recorder.ending));
	end_recording();
	cr_assert(read_account(0, &first));
	cr_assert(read_account(1, &second));
	cr_expect_eq(recording_account_verdict(&first), IBVCAP_VERDICT_COMPLETE, "%u", first.rx.unknown);
	cr_expect_eq(recording_account_verdict(&second), IBVCAP_VERDICT_COMPLETE, "%u", second.rx.unknown);
	cr_expect_eq(memcmp(&first.until, &second.from, sizeof(first.until)), 0);
	cr_expect_eq(first.sum.written, 1);
	cr_expect_eq(second.sum.written, 1);
	cr_expect_eq(first.recording, second.recording);
	cr_expect(first.file == 0 && second.file == 1 && !first.is_last && second.is_last);
}

Test(record_output, a_file_waits_a_second_for_the_daemon, .timeout = 30)
{
	struct recording_account first;

	settle(0);
	rotate();
	output_end_settled(&recorder, time_monotonic_ns() + SETTLE_NS_MAX / 2);
	cr_expect_not(STAILQ_EMPTY(&recorder.ending));
	output_end_settled(&recorder, time_monotonic_ns() + SETTLE_NS_MAX);
	cr_expect(STAILQ_EMPTY(&recorder.ending));
	end_recording();
	cr_assert(read_account(0, &first));
	cr_expect_eq(recording_account_verdict(&first), IBVCAP_VERDICT_NOT_PROVEN);
	cr_expect(first.rx.unknown & IBVCAP_UNKNOWN_UNSETTLED);
}

Test(record_output, files_that_wait_keep_no_buffers, .timeout = 30)
{
	struct recording_account account;

	for (unsigned i = 0; i < N_ROTATIONS; i++) {
		put_packet();
		rotate();
	}
	end_recording();
	cr_expect_eq(recorder.writer.n_unused, recorder.writer.n_buffers + 1, "one for the output");
	cr_expect_eq(recorder.writer.n_files, N_ROTATIONS + 1);
	for (unsigned i = 0; i <= N_ROTATIONS; i++)
		cr_expect(read_account(i, &account) && account.file == i && account.is_last == (i == N_ROTATIONS));
}

Test(record_output, after_a_failure_the_last_open_file_tells_of_those_that_were_not_opened, .timeout = 30)
{
	struct recording_account account;

	settle(0);
	put_packet();
	output_flush(&recorder, output());
	while (recorder.writer.n_unused < recorder.writer.n_buffers)
		usleep(1000);
	writer_fail(&recorder.writer, -EIO);
	put_packet();
	rotate();
	put_packet();
	rotate();
	put_packet();
	end_recording();
	cr_assert(read_account(0, &account));
	cr_expect_eq(recording_account_verdict(&account), IBVCAP_VERDICT_INCOMPLETE);
	cr_expect_eq(account.sum.written, 1);
	cr_expect_eq(account.sum.unwritten, 3);
	cr_expect(account.is_last);
	cr_expect_eq(recorder.writer.unwritten[0].rows, 3);
}

Test(record_output, a_stream_that_is_gone_or_has_other_queues_is_not_proven, .timeout = 30)
{
	struct recording_account first, second;

	settle(0);
	source->end_error = -ENODEV;
	rotate();
	settle(0);
	output_end_settled(&recorder, time_monotonic_ns());
	source->end_error = 0;
	source->n_queues = 2;
	end_recording();
	cr_assert(read_account(0, &first));
	cr_assert(read_account(1, &second));
	cr_expect(first.rx.unknown & IBVCAP_UNKNOWN_REMOVED);
	cr_expect(second.rx.unknown & IBVCAP_UNKNOWN_QUEUES);
	cr_expect_eq(recording_account_verdict(&first), IBVCAP_VERDICT_NOT_PROVEN);
	cr_expect_eq(recording_account_verdict(&second), IBVCAP_VERDICT_NOT_PROVEN);
}

Test(record_output, after_a_quiet_time_a_packet_is_in_a_file_of_its_own_time, .timeout = 30)
{
	struct recording_account first, second, third;
	uint64_t now_ns = time_utc_ns();

	recorder.options.file_ns = TIME_SECOND_NS;
	output()->rotate_ns = now_ns - 10 * TIME_SECOND_NS; /* the first file was opened, and nothing came */
	put_packet();
	rotate();
	cr_expect(output_is_unopened(output()));
	output()->rotate_ns = now_ns - 5 * TIME_SECOND_NS; /* the third was not */
	put_packet();
	cr_expect_geq(output()->file->start_ns, now_ns);
	cr_expect_gt(output()->rotate_ns, now_ns);
	end_recording();
	cr_assert(read_account(0, &first) && read_account(1, &second) && read_account(2, &third));
	cr_expect(first.sum.written == 0 && second.sum.written == 1 && third.sum.written == 1);
	cr_expect(third.file == 2 && third.is_last, "no empty file is between them");
	cr_expect_eq(memcmp(&first.until, &second.from, sizeof(first.until)), 0);
	cr_expect_eq(memcmp(&second.until, &third.from, sizeof(second.until)), 0);
}
