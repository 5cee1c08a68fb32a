// SPDX-License-Identifier: Apache-2.0
/*
 * Random histories of a handle: packets, batches, releases on several streams, work that ends late or never, calls of
 * the driver that fail, a lost device, restarts of the daemon. A model knows which leases and how much pending work
 * there must be after each step.
 */
#include "tests/unit/cuda/cuda_bed.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#define HISTORIES 30
#define STEPS     120
#define OUT_MAX   400

/* A batch that is out. */
struct out {
	struct ibvcap_cuda_batch batch;
	bool is_pending;
	bool is_staged;
	unsigned stream;
	uint64_t until; /* launches of its stream that have to run before it is over */
	uint64_t *sum;  /* of the device */
	uint64_t expected;
};

static struct cuda_bed bed;
static struct out outs[OUT_MAX];
static unsigned n_outs;
static uint64_t queued[BED_STREAMS], run[BED_STREAMS];
static unsigned seed;

static unsigned draw(unsigned n)
{
	return (unsigned)rand_r(&seed) % n;
}

/* ---- the model --------------------------------------------------------------------------------------- */

static bool is_over(const struct out *out)
{
	return out->is_pending && run[out->stream] >= out->until;
}

static unsigned count_outs(bool is_pending)
{
	unsigned n = 0;

	for (unsigned i = 0; i < n_outs; i++)
		n += outs[i].is_pending == is_pending;
	return n;
}

/* Blocks of the ring that batches hold. */
static unsigned count_blocks(uint64_t epoch)
{
	unsigned n = 0;

	for (unsigned i = 0; i < n_outs; i++) {
		unsigned k = 0;

		if (outs[i].is_staged || outs[i].batch.rows.epoch != epoch)
			continue;
		while (outs[k].is_staged || outs[k].batch.rows.epoch != epoch ||
		       outs[k].batch.rows.sequence / N != outs[i].batch.rows.sequence / N)
			k++;
		n += k == i;
	}
	return n;
}

/* The handle has looked at the events. */
static void drop_over(void)
{
	unsigned left = 0;

	for (unsigned i = 0; i < n_outs; i++) {
		if (!is_over(&outs[i])) {
			outs[left++] = outs[i];
			continue;
		}
		cr_expect_eq(*outs[i].sum, outs[i].expected, "the device read other bytes");
		free(outs[i].sum);
	}
	n_outs = left;
}

static struct attached *now(void)
{
	return bed.has_next ? &bed.b : &bed.a;
}

static void check(const char *step)
{
	struct ibvcap_cuda_info info = bed_info(&bed);

	cr_expect_eq(info.n_held, count_outs(false), "%s: held", step);
	cr_expect_eq(info.n_pending, count_outs(true), "%s: pending", step);
	if (info.way == IBVCAP_CUDA_IN_PLACE)
		cr_expect_eq(bed_count_leases(now()), count_blocks(bed.has_next ? EPOCH + 1 : EPOCH), "%s: leases",
		             step);
	bed_check_counts(&bed);
}

/* ---- steps ------------------------------------------------------------------------------------------- */

static void step_publish(void)
{
	attached_publish(now(), 1 + draw(N));
}

static void step_acquire(void)
{
	struct out out = {.batch = IBVCAP_INIT(struct ibvcap_cuda_batch)};
	int r;

	if (n_outs == OUT_MAX)
		return;
	r = ibvcap_cuda_acquire(bed.cuda, &out.batch, 1 + draw(2 * N), 1, 0);
	drop_over();
	cr_assert(r >= 0 || r == -ENOBUFS, "%s", ibvcap_error_text());
	if (r <= 0)
		return;
	for (uint32_t i = 0; i < out.batch.rows.n; i++)
		cr_assert_eq(attached_number(&out.batch.rows, i), out.batch.rows.sequence + i);
	out.is_staged = bed_info(&bed).way == IBVCAP_CUDA_STAGED;
	outs[n_outs++] = out;
}

static void step_release(void)
{
	struct out *out;
	unsigned i = 0, skip = count_outs(false);

	if (skip == 0)
		return;
	for (skip = draw(skip); outs[i].is_pending || skip--; i++)
		;
	out = &outs[i];
	out->stream = draw(BED_STREAMS);
	out->expected = bed_sum(&out->batch);
	out->sum = malloc(sizeof(*out->sum));
	*out->sum = out->expected;
	if (draw(4)) {
		bed_read(&bed, &out->batch, out->stream, out->sum);
		queued[out->stream] += 3;
	}
	out->until = queued[out->stream];
	cr_assert_eq(ibvcap_cuda_release(bed.cuda, &out->batch, bed.streams[out->stream]), 0, "%s",
	             ibvcap_error_text());
	out->is_pending = true;
}

static void step_run(void)
{
	unsigned stream = draw(BED_STREAMS);

	run[stream] += softcuda_run(bed.streams[stream], 1 + draw(6));
}

static void step_poll(void)
{
	int r = ibvcap_cuda_poll(bed.cuda);

	drop_over();
	cr_expect_eq(r, (int)count_outs(true));
}

static void step_refused(void)
{
	static const char *const names[] = {"cuEventCreate", "cuEventRecord", "cuStreamIsCapturing"};
	struct ibvcap_cuda_batch batch = IBVCAP_INIT(struct ibvcap_cuda_batch);
	int r;

	softcuda_fail(names[draw(3)], 0, 2);
	r = ibvcap_cuda_acquire(bed.cuda, &batch, N, 1, 0);
	drop_over();
	if (r > 0) {
		r = ibvcap_cuda_release(bed.cuda, &batch, NULL);
		if (r == -ENOMEM)
			r = ibvcap_cuda_release(bed.cuda, &batch, NULL);
		cr_expect_eq(r, 0);
		step_poll();
	}
	softcuda_fail("", -1, 0);
}

/* The daemon ends; the handle goes on when all is released and over. */
static void step_restart(void)
{
	struct ibvcap_cuda_batch batch = IBVCAP_INIT(struct ibvcap_cuda_batch);

	if (bed.has_next)
		return;
	bed_end_daemon(&bed);
	for (int i = 0; i < 2000 && !bed_next_daemon(&bed); i++) {
		int r = ibvcap_cuda_acquire(bed.cuda, &batch, N, 1, 1);

		drop_over();
		if (r > 0)
			cr_assert_eq(ibvcap_cuda_release(bed.cuda, &batch, NULL), 0);
		if (r == -ENOBUFS) {
			step_release();
			step_run();
		}
	}
	cr_assert(bed.has_next, "%s", ibvcap_error_text());
}

static void take_step(void)
{
	static const struct {
		const char *name;
		void (*step)(void);
		unsigned weight;
	} steps[] = {
		{"publish", step_publish, 30}, {"acquire", step_acquire, 40}, {"release", step_release, 35},
		{"run", step_run, 25},         {"poll", step_poll, 15},       {"refused", step_refused, 5},
		{"restart", step_restart, 1},
	};
	unsigned total = 0, i = 0, at;

	for (unsigned k = 0; k < sizeof(steps) / sizeof(steps[0]); k++)
		total += steps[k].weight;
	for (at = draw(total); at >= steps[i].weight; i++)
		at -= steps[i].weight;
	steps[i].step();
	check(steps[i].name);
}

/* All work ends, or the device is lost with it. */
static void end_history(bool is_lost)
{
	if (is_lost) {
		softcuda_lose_device(0, 719);
		cr_expect(ibvcap_cuda_poll(bed.cuda) == (count_outs(true) ? -EIO : 0));
	}
	for (unsigned i = 0; i < n_outs; i++)
		if (!outs[i].is_pending)
			cr_expect_eq(ibvcap_cuda_release(bed.cuda, &outs[i].batch, bed.streams[0]), is_lost ? -EIO : 0);
	softcuda_run((void *)-1, -1u);
	cr_expect_eq(ibvcap_cuda_wait(bed.cuda, 1000), bed_info(&bed).has_failed ? -EIO : 0);
	cr_expect_eq(ibvcap_cuda_close(bed.cuda, 0), 0, "%s", ibvcap_error_text());
	bed.cuda = NULL;
	for (unsigned i = 0; i < n_outs; i++)
		free(outs[i].sum);
	cr_expect_eq(bed_count_leases(now()), 0);
	bed_check_counts(&bed);
	if (is_lost)
		bed_revive_device(&bed);
}

static void live_history(unsigned number)
{
	const enum ibvcap_cuda_way way = number % 3 == 2 ? IBVCAP_CUDA_STAGED : IBVCAP_CUDA_AUTO;

	seed = number;
	n_outs = 0;
	for (unsigned i = 0; i < BED_STREAMS; i++)
		queued[i] = run[i] = 0;
	bed_init(&bed);
	softcuda_set_hold(true);
	bed_open(&bed, way);
	for (unsigned i = 0; i < STEPS; i++)
		take_step();
	end_history(number % 5 == 0);
	bed_deinit(&bed);
}

Test(cuda_histories, leases_and_pending_work_are_as_a_model_has_them, .timeout = 110)
{
	for (unsigned i = 0; i < HISTORIES; i++)
		live_history(i);
}
