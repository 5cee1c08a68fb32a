// SPDX-License-Identifier: Apache-2.0
/* Whatever write fails, the files of a raw recording end behind the same row. */
#include "tests/unit/ibvcap/attached.h"
#include "tests/unit/tools/disk.h"
#include "tests/unit/tools/own_folder.h"
#include "tools/record/record_file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "raw_file.XXXXXX";
static struct attached attached;
static struct source source;
static struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);
static struct record_file_options options = {.format = &raw_format, .sources = &source};
static struct file_window window;
static struct record_file file;

static void open_rows(void)
{
	own_folder_enter(folder);
	disk_free_bytes = UINT64_C(1) << 40;
	attached_init(&attached);
	source = (struct source){.rx = attached.rx, .n_queues = 1, .stream = "s", .name = "s"};
	STAILQ_INIT(&window.kept);
	TAILQ_INIT(&window.open);
	cr_assert_eq(record_file_open(&file, &options, &window, "a"), 0);
	part_file_close(&(struct part_file){.folder = -1, .fd = file.parts[RAW_ROWS].direct, .direct = -1});
	file.parts[RAW_ROWS].direct = -1; /* so that each write is one call */
	attached_publish(&attached, N);
	cr_assert_eq(ibvcap_rx_acquire(attached.rx, &batch, 10, 1, 0), 10);
}

static struct unnamed_losses losses;

static int write_batch(const struct ibvcap_rx_batch *rows)
{
	const struct record_piece piece = {
		.at = rows->payload, .bytes = (size_t)rows->n * rows->stride, .rows = rows, .losses = &losses};

	return record_file_write(&file, &piece);
}

static void close_rows(void)
{
	attached_deinit(&attached);
	own_folder_leave(folder);
}

TestSuite(raw_file, .init = open_rows, .fini = close_rows);

static void expect_rows(unsigned n)
{
	cr_expect_eq(size_of("a.part"), (off_t)n * SLOT_BYTES);
	cr_expect_eq(size_of("a.part.meta"), (off_t)(n * sizeof(struct ibvcap_meta)));
	cr_expect_eq(file.rows->layout.n_rows, n);
	cr_expect_eq(record_file_bytes(&file), n * (SLOT_BYTES + sizeof(struct ibvcap_meta)) +
	                                               file.parts[RAW_HEADERS].bytes +
	                                               file.parts[RAW_DESCRIPTION].bytes);
}

static json_t *description(const char *name)
{
	json_t *said = json_load_file(name, 0, NULL);

	cr_assert(said);
	return said;
}

static size_t n_runs(void)
{
	json_t *said = description("a.part.json");
	size_t n = json_array_size(json_object_get(said, "runs"));

	json_decref(said);
	return n;
}

Test(raw_file, a_write_that_fails_leaves_no_row_in_any_file)
{
	cr_assert_eq(write_batch(&batch), 0);
	expect_rows(10);
	cr_expect_eq(file.rows->next_sequence, 10);
	for (unsigned after = 0; after < 2; after++) {
		batch.sequence = 10;
		disk_fail(DISK_PWRITE, after, 1, ENOSPC);
		cr_expect_eq(write_batch(&batch), -ENOSPC);
		expect_rows(10);
		cr_expect_eq(file.rows->next_sequence, 10);
	}
	disk_fail(DISK_PWRITE, 0, 1, EIO);
	disk_fail(DISK_FTRUNCATE, 1, 1, EROFS);
	cr_expect_eq(write_batch(&batch), -EROFS, "the error names the reason for which a file is too long");
	disk_fail(DISK_PWRITE, 1, 1, EIO); /* the rows are cut, and the meta is not */
	disk_fail(DISK_FTRUNCATE, 2, 1, EROFS);
	cr_expect_eq(write_batch(&batch), -EROFS);
	cr_expect_eq(write_batch(&batch), 0);
	expect_rows(20);
	cr_expect_eq(n_runs(), 1, "the packets follow one another");
	record_file_discard(&file);
	cr_expect(size_of("a.part") < 0 && size_of("a.part.meta") < 0 && size_of("a.part.json") < 0);
}

Test(raw_file, a_run_that_cannot_be_noted_is_not_begun)
{
	cr_assert_eq(write_batch(&batch), 0);
	batch.sequence = 100;
	disk_fail(DISK_PWRITE, 0, 1, ENOSPC);
	cr_expect_eq(write_batch(&batch), -ENOSPC);
	expect_rows(10);
	cr_expect_eq(json_array_size(file.rows->runs), 1);
	cr_expect_eq(write_batch(&batch), 0);
	cr_expect_eq(n_runs(), 2);
	batch.sequence = 110;
	batch.epoch++;
	cr_expect_eq(write_batch(&batch), 0);
	cr_expect_eq(n_runs(), 3, "packets of another run of the daemon have other numbers");
	batch.sequence = 120;
	cr_expect_eq(write_batch(&batch), 0);
	cr_expect_eq(n_runs(), 3);
	record_file_discard(&file);
}

Test(raw_file, a_loss_is_noted_with_its_rows_or_not_at_all)
{
	const json_t *loss;
	json_t *said;

	cr_assert_eq(write_batch(&batch), 0);
	batch.sequence = 10;
	losses = (struct unnamed_losses){
		.n = 7,
		.named = {.n = {[RECORDING_CAUSE_SKIPPED] = 3, [RECORDING_CAUSE_NO_BUFFER] = 4}},
		.text = "why"};
	for (unsigned after = 0; after < 3; after++) { /* the description, the rows, the meta */
		disk_fail(DISK_PWRITE, after, 1, ENOSPC);
		cr_expect_eq(write_batch(&batch), -ENOSPC);
		expect_rows(10);
		cr_expect_eq(json_array_size(file.rows->losses), 0);
	}
	cr_expect_eq(write_batch(&batch), 0);
	said = description("a.part.json");
	cr_expect_eq(json_array_size(json_object_get(said, "losses")), 1);
	loss = json_array_get(json_object_get(said, "losses"), 0);
	cr_expect_eq(json_integer_value(json_object_get(loss, "row")), 10);
	cr_expect_eq(json_integer_value(json_object_get(loss, "packets")), 7);
	cr_expect_str_eq(json_string_value(json_object_get(loss, "why")), "why");
	cr_expect_eq(json_integer_value(json_object_get(loss, "skipped")), 3);
	cr_expect_eq(json_integer_value(json_object_get(loss, "no_buffer")), 4);
	cr_expect_not(json_object_get(loss, "errored"));
	json_decref(said);
	record_file_discard(&file);
}

Test(raw_file, rows_of_another_size_are_refused)
{
	struct ibvcap_rx_batch other = batch;

	cr_expect(raw_file_takes(&file, &batch));
	other.stride++;
	cr_expect_not(raw_file_takes(&file, &other));
	cr_expect_eq(write_batch(&other), -ESTALE);
	other = batch;
	other.header_bytes++;
	cr_expect_not(raw_file_takes(&file, &other));
	other = batch;
	other.application_header_bytes = 4;
	cr_expect_not(raw_file_takes(&file, &other));
	record_file_discard(&file);
}

/* As of a stream that splits 8 bytes of application header off. */
Test(raw_file, headers_of_the_application_have_a_file_of_their_own)
{
	/* The daemon's own memory of the batch's headers. */
	uint8_t *rows = (uint8_t *)attached.ring.headers.address +
	                (ibvcap_rx_headers(&batch, 0) - (const uint8_t *)attached.rx->parts[0]->headers.address);
	uint64_t found[10];
	FILE *headers;

	cr_assert_eq(part_file_open_beside(&file.parts[RAW_HEADERS], &file.parts[RAW_ROWS], ".headers"), 0);
	file.rows->layout.network_header_bytes = 34;
	file.rows->layout.application_header_bytes = 8;
	batch.application_header_bytes = 8;
	for (unsigned i = 0; i < 10; i++) {
		uint64_t number = 1000 + i;

		memcpy(rows + (size_t)i * 64 + 34, &number, sizeof(number));
	}
	cr_assert_eq(write_batch(&batch), 0);
	cr_expect_eq(file.parts[RAW_HEADERS].bytes, 80);
	headers = fopen("a.part.headers", "r");
	cr_assert_eq(fread(found, sizeof(found[0]), 10, headers), 10);
	cr_expect_eq(fgetc(headers), EOF);
	fclose(headers);
	for (unsigned i = 0; i < 10; i++)
		cr_expect_eq(found[i], 1000 + i);
	batch.sequence = 10;
	disk_fail(DISK_PWRITE, 2, 1, ENOSPC);
	cr_expect_eq(write_batch(&batch), -ENOSPC);
	expect_rows(10);
	cr_expect_eq(size_of("a.part.headers"), 80);
	record_file_discard(&file);
	cr_expect_lt(size_of("a.part.headers"), 0);
}

static int finish(const struct recording_account *account, int error)
{
	const struct record_end end = {.accounts = account, .n_sources = 1, .error = error, .note = ""};

	cr_assert_eq(record_file_end(&file, &end), 0);
	return record_file_finish(&file, true);
}

Test(raw_file, the_description_says_what_the_rows_are)
{
	static const char *const names[] = {"timestamp_ns", "length", "flags", "header_length", "flow", "wire_length"};
	static const char *const types[] = {"<u8", "<u2", "<u2", "u1", "u1", "<u2"};
	struct recording_account account = {.stream = "s",
	                                    .n_queues = 1,
	                                    .flow = RECORDING_ACCOUNT_NO_FLOW,
	                                    .sum.written = 10,
	                                    .sum.unwritten = 1,
	                                    .sum.errored = 2,
	                                    .sum.skipped = 3,
	                                    .sum.disk_wait = 4,
	                                    .sum.lag = 5};
	json_t *said, *dtype;

	strcpy(source.flows, "flows");
	strcpy(source.interface, "interface x");
	strcpy(source.clock, "clock y");
	source.sequence = json_pack("{s:i}", "offset", 4);
	cr_assert_eq(write_batch(&batch), 0);
	options.sync = true;
	cr_assert_eq(finish(&account, ENOSPC), 0);
	cr_expect(size_of("a") == 10 * SLOT_BYTES && size_of("a.meta") == 160 && size_of("a.part") < 0);
	cr_expect_eq(disk_count(DISK_FDATASYNC), 3);
	cr_expect_eq(disk_count(DISK_FSYNC), 1);
	said = description("a.json");
	cr_expect_str_eq(json_string_value(json_object_get(said, "dtype")), "u1");
	cr_expect_str_eq(json_string_value(json_object_get(said, "byte_order")), "little");
	cr_expect_str_eq(json_string_value(json_object_get(said, "flows")), "flows");
	cr_expect_str_eq(json_string_value(json_object_get(said, "interface")), "interface x");
	cr_expect_str_eq(json_string_value(json_object_get(said, "clock")), "clock y");
	cr_expect_str_eq(json_string_value(json_object_get(said, "error")), "No space left on device");
	cr_expect_eq(json_integer_value(json_object_get(said, "schema_version")), 1);
	cr_expect_eq(json_integer_value(json_object_get(json_object_get(said, "sequence"), "offset")), 4);
	cr_expect_eq(json_integer_value(json_object_get(json_object_get(said, "sum"), "published")), 25);
	cr_expect_eq(json_integer_value(json_object_get(json_object_get(said, "sum"), "unwritten")), 1);
	cr_expect_eq(json_integer_value(json_object_get(json_object_get(said, "sum"), "disk_wait")), 4);
	cr_expect(json_object_get(said, "account"));
	cr_expect_eq(json_integer_value(json_object_get(said, "network_header_bytes")), 42);
	cr_expect(json_is_integer(json_object_get(said, "application_header_bytes")));
	dtype = json_object_get(said, "meta_dtype");
	for (unsigned i = 0; i < 6; i++) {
		cr_expect_str_eq(json_string_value(json_array_get(json_array_get(dtype, i), 0)), names[i]);
		cr_expect_str_eq(json_string_value(json_array_get(json_array_get(dtype, i), 1)), types[i]);
	}
	json_decref(said);
	json_decref(source.sequence);
	cr_expect_eq(record_file_finish(&file, true), 0, "it is closed");
}

Test(raw_file, files_that_the_disk_did_not_take_keep_their_part)
{
	const struct recording_account account = {.stream = "s", .n_queues = 1, .flow = RECORDING_ACCOUNT_NO_FLOW};

	cr_assert_eq(write_batch(&batch), 0);
	disk_fail(DISK_FDATASYNC, 1, 1, EIO);
	cr_expect_eq(finish(&account, 0), -EIO);
	cr_expect(size_of("a.part") > 0 && size_of("a.part.meta") > 0 && size_of("a.part.json") > 0);
	cr_expect_lt(size_of("a"), 0);
}

Test(raw_file, files_that_cannot_be_opened_leave_none)
{
	struct record_file other;

	cr_assert_eq(mkdir("b.part.json", 0755), 0);
	cr_expect_eq(record_file_open(&other, &options, &window, "b"), -EEXIST);
	cr_expect(size_of("b.part") < 0 && size_of("b.part.meta") < 0);
	cr_expect_eq(record_file_open(&other, &options, &window, "/dev/null"), -ESPIPE);
	record_file_discard(&file);
}
