// SPDX-License-Identifier: Apache-2.0
/* When packets reach the disk, how the recorder sleeps, and what it does while the disk takes nothing. */
#include "lib/base/time.h"
#include "tests/unit/tools/recorded.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define T RECORDED_BASE_NS

TestSuite(recorder_waits, .fini = recorded_clean_up, .timeout = 30);

static uint64_t bytes_of_head;

static void look_at_the_buffer(unsigned call)
{
	const struct record_output *output = SLIST_FIRST(&recorder.outputs);

	if (call == 0) {
		cr_expect_eq(output->buffer->used, 0, "the head is handed over at once");
		bytes_of_head = output->bytes;
		recorded_publish(0, 1, T, 1);
	}
	if (call == 1)
		cr_expect_gt(output->buffer->used, 0);
	if (call == 2) {
		cr_expect_gt(output->buffer->used, 0);
		recorded_pass_ns(TIME_SECOND_NS);
	}
	if (call == 4) {
		cr_expect_eq(output->buffer->used, 0);
		cr_expect_gt(output->bytes, bytes_of_head);
		recorded_stop();
	}
}

Test(recorder_waits, packets_are_on_the_disk_after_a_second)
{
	recorded_prepare(1, false);
	recorded_script = look_at_the_buffer;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_assert_eq(n_files, 1);
	cr_expect_str_eq(files[0].packets, "0:0");
}

/* Calls 0, 2, 4 … do not wait, and the others wait for packets. */
static void look_how_it_waits(unsigned call)
{
	if (call == 2)
		cr_expect_eq(recorded_timeout_ms, 0);
	if (call == 3) {
		cr_expect_eq(recorded_timeout_ms, RECORDER_SLEEP_MS, "nothing came");
		cr_expect_eq(recorded_min, 512);
		cr_expect_eq(recorded_max, 4096);
		recorded_publish(0, 20, T, 1);
	}
	/* 20 rows in a ms: sleep until there are 16 more, an eighth of the ring. */
	if (call == 4) {
		cr_expect_eq(recorded_n_sleeps, 0);
		recorded_pass_ns(1000000);
	}
	if (call == 5) {
		cr_expect_eq(recorded_n_sleeps, 1);
		cr_expect(recorded_slept_ns >= 800000 && recorded_slept_ns < 1500000, "%lu", recorded_slept_ns);
		cr_expect_eq(recorded_timeout_ms, 0);
	}
	if (call == 6) {
		cr_expect_eq(recorded_timeout_ms, RECORDER_SLEEP_MS, "nothing came in that time");
		recorded_publish(0, 20, T, 1);
	}
	if (call == 7)
		recorded_pass_ns(2000000);
	if (call == 8) {
		cr_expect_eq(recorded_n_sleeps, 1, "20 rows in 2 ms are few");
		cr_expect_eq(recorded_timeout_ms, RECORDER_SLEEP_MS);
		recorded_stop();
	}
}

Test(recorder_waits, the_recorder_sleeps_as_long_as_packets_are_few)
{
	recorded_prepare(1, false);
	recorded_script = look_how_it_waits;
	cr_expect_eq(recorded_run(NULL), 0);
	cr_expect_eq(recorder.accounts[0].sum.written, 40);
}

static char pipe_path[80];
static unsigned n_published;

static void *read_pipe(void *unused)
{
	static uint8_t piped[1 << 16];
	int fd = open(pipe_path, O_RDONLY), copy;
	char part[80], path[80];
	ssize_t n;

	/* Until then the writer waits, and the recorder has no buffer. */
	while (!atomic_load((_Atomic uint64_t *)&recorder.waited_ns))
		usleep(1000);
	usleep(50000);
	snprintf(part, sizeof(part), "%s/part", recorded_folder);
	snprintf(path, sizeof(path), "%s/a.pcapng", recorded_folder);
	copy = open(part, O_WRONLY | O_CREAT, 0600);
	while ((n = read(fd, piped, sizeof(piped))) > 0)
		cr_assert_eq(write(copy, piped, (size_t)n), n);
	close(copy);
	close(fd);
	/* The recorder may have ended before: recorded_run() then finds no file rather than a part of one. */
	cr_assert_eq(rename(part, path), 0);
	return unused;
}

static void publish_until_it_waits(unsigned call)
{
	(void)call;
	if (!recorder.waited_ns) {
		recorded_publish(0, 64, T + n_published, 1);
		n_published += 64;
		return;
	}
	if (n_published % 64 == 0) {
		recorded_publish(0, 1001, T + n_published, 1);
		n_published += 1001;
	} else {
		recorded_stop();
	}
}

Test(recorder_waits, while_the_disk_takes_nothing_the_ring_is_the_last_buffer)
{
	const struct recording_account *account = &recorder.accounts[0];
	pthread_t reader;

	recorded_prepare(1, false);
	snprintf(pipe_path, sizeof(pipe_path), "%s/pipe", recorded_folder);
	cr_assert_eq(mkfifo(pipe_path, 0600), 0);
	recorder.options.path = pipe_path;
	recorded_script = publish_until_it_waits;
	cr_assert_eq(pthread_create(&reader, NULL, read_pipe, NULL), 0);
	cr_expect_eq(recorded_run(NULL), 0);
	cr_assert_eq(pthread_join(reader, NULL), 0);
	recorded_read();
	cr_expect(recorder.waited_ns > 0 && recorder.waited_ns < 10 * TIME_SECOND_NS);
	cr_assert_eq(n_files, 1);
	cr_expect_eq(files[0].accounts[0].sum.written, account->sum.written);
	cr_expect_eq(files[0].accounts[0].sum.disk_wait, account->sum.disk_wait);
	cr_expect(strstr(files[0].comments, "packets lost (disk_wait): the disk did not take the data, and"), "%s",
	          files[0].comments);
	cr_expect_gt(account->sum.disk_wait, 0);
	cr_expect_eq(account->sum.skipped, 0);
	cr_expect_eq(account->sum.disk_wait + account->sum.written, n_published);
	cr_expect_eq(recording_account_verdict(account), IBVCAP_VERDICT_INCOMPLETE);
}
