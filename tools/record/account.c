// SPDX-License-Identifier: Apache-2.0
/*
 * Takes the moments at which files begin and end. Makes an account of two moments: the recorder's sums of the packets
 * that it got, and the library's account of those that it did not get.
 */
#include "tools/record/account.h"

#include "lib/base/time.h"
#include "tools/record/record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>

/* ---- the ends of a file or a recording ----------------------------------------------------------- */

void source_take_moment(const struct source *source, struct ibvcap_rx_moment *moment)
{
	*moment = (struct ibvcap_rx_moment)IBVCAP_INIT(struct ibvcap_rx_moment);
	ibvcap_rx_take_moment(source->rx, moment);
	if (source->has_batch && moment->epoch)
		moment->sequence = source->batch.sequence + source->next;
}

bool source_settle(const struct source *source, struct ibvcap_rx_moment *moment)
{
	return moment->is_settled || ibvcap_rx_settle_moment(source->rx, moment) != 0;
}

void source_pass_over(const struct source *source, const struct recording_sum *so_far, struct ibvcap_rx_moment *moment)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);

	if (record_sum_published(so_far) == 0 && ibvcap_rx_info(source->rx, &info) == 0 && moment->epoch == info.epoch)
		moment->sequence = info.attach_sequence;
}

bool source_settle_ends(struct source *source)
{
	bool is_settled = source_settle(source, &source->from);

	return source_settle(source, &source->until) && is_settled;
}

void source_end_later(struct source *source, const struct source_end *end)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);

	ibvcap_rx_counts(source->rx, &counts);
	if (!end->lag && !counts.lag && counts.skipped == end->skipped)
		source_take_moment(source, &source->until);
}

/* The reasons (enum ibvcap_unknown) why losses are unknown after the end of the source. 0: it has not ended. */
static uint32_t unknown_of_error(int error)
{
	switch (error) {
	case 0:
		return 0;
	case -ENODEV:
		return IBVCAP_UNKNOWN_REMOVED;
	case -EIO:
		return IBVCAP_UNKNOWN_FAILED;
	default:
		return IBVCAP_UNKNOWN_AWAY;
	}
}

void source_end_parts(const struct source *source, struct row_counts written, struct account_parts *parts)
{
	parts->end = source->losses.sum;
	parts->end.written = written.rows;
	parts->end.pieces = written.pieces;
	parts->end.malformed = written.malformed;
	parts->end.other_files = source->n_written - written.rows;
	parts->end.filtered = source->n_filtered;
	parts->named_no_buffer = source->losses.no_buffer;
	parts->unknown = unknown_of_error(source->end_error) | (source->is_late ? IBVCAP_UNKNOWN_QUEUES : 0);
}

/* ---- accounts ------------------------------------------------------------------------------------ */

/* Reasons that follow from the moments of all queues, and not from those of one queue. */
#define STREAM_UNKNOWN \
	(IBVCAP_UNKNOWN_EDGE | IBVCAP_UNKNOWN_UNSETTLED | IBVCAP_UNKNOWN_QUEUES | IBVCAP_UNKNOWN_NO_PACKETS)

static struct recording_account_end end_of_moment(const struct ibvcap_rx_moment *moment)
{
	return (struct recording_account_end){
		.utc_ns = moment->utc_ns, .epoch = moment->epoch, .sequence = moment->sequence};
}

/* More or fewer queues than the recording has. Without an epoch the number is not known. */
static bool has_other_queues(const struct ibvcap_rx_moment *moment, const struct source *source)
{
	return moment->epoch && moment->n_queues != source->n_queues;
}

static const size_t sum_terms = sizeof(struct recording_sum) / sizeof(uint64_t);

static void record_sum_subtract(struct recording_sum *sum, const struct recording_sum *less)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)less;

	for (size_t i = 0; i < sum_terms; i++)
		to[i] -= from[i];
}

static void make_account(const struct account_parts *parts, const struct source *source,
                         struct recording_account *account)
{
	*account = (struct recording_account){.flow = RECORDING_ACCOUNT_NO_FLOW,
	                                      .queue = source->queue,
	                                      .n_queues = source->n_queues,
	                                      .from = end_of_moment(&parts->from),
	                                      .until = end_of_moment(&parts->until),
	                                      .sum = parts->end,
	                                      .rx = IBVCAP_INIT(struct ibvcap_rx_account)};
	snprintf(account->stream, sizeof(account->stream), "%s", source->stream);
	record_sum_subtract(&account->sum, &parts->start);
	account->sum.written -= parts->unwritten.rows;
	account->sum.unwritten += parts->unwritten.rows;
	account->sum.pieces -= parts->unwritten.pieces;
	account->sum.malformed -= parts->unwritten.malformed;
	if (ibvcap_rx_account_between(&parts->from, &parts->until, &account->rx) < 0)
		account->rx.unknown = IBVCAP_UNKNOWN_UNSETTLED; /* nothing is known */
	account->rx.unknown |= parts->unknown;
	if (has_other_queues(&parts->from, source) || has_other_queues(&parts->until, source))
		account->rx.unknown |= IBVCAP_UNKNOWN_QUEUES;
}

/*
 * The card's losses are those of the stream, so the account of its first queue has them. Blocks also name losses of the
 * time before the source was attached, which no moment has.
 */
static void place_losses(struct recording_account *queues, const struct account_parts *parts, unsigned n)
{
	struct ibvcap_rx_account stream = IBVCAP_INIT(struct ibvcap_rx_account), *first = &queues[0].rx;
	struct ibvcap_rx_moment from = IBVCAP_INIT(struct ibvcap_rx_moment);
	struct ibvcap_rx_moment until = IBVCAP_INIT(struct ibvcap_rx_moment);
	uint64_t named = 0;
	int r = 0;

	for (unsigned i = 0; i < n && r == 0; i++) {
		named += parts[i].is_first ? parts[i].named_no_buffer : 0;
		r = ibvcap_moment_add_queue(&from, &parts[i].from);
		if (r == 0)
			r = ibvcap_moment_add_queue(&until, &parts[i].until);
	}
	if (r == 0)
		r = ibvcap_rx_account_between(&from, &until, &stream);
	for (unsigned i = 0; i < n; i++) {
		queues[i].rx.no_buffer = queues[i].rx.no_buffer_least = queues[i].rx.no_buffer_most = 0;
		queues[i].rx.unjoined = 0;
		queues[i].rx.unknown &= ~(uint32_t)(IBVCAP_UNKNOWN_EDGE | IBVCAP_UNKNOWN_NO_PACKETS);
	}
	if (named > stream.no_buffer)
		stream.no_buffer = named < stream.no_buffer_most ? named : stream.no_buffer_most;
	first->no_buffer = stream.no_buffer;
	first->unjoined = stream.unjoined;
	first->no_buffer_least = stream.no_buffer_least;
	first->no_buffer_most = r < 0 ? UINT64_MAX : stream.no_buffer_most;
	first->unknown |= r < 0 ? IBVCAP_UNKNOWN_UNSETTLED : stream.unknown & STREAM_UNKNOWN;
}

void account_of_sources(const struct account_parts *parts, const struct source *sources, unsigned n,
                        struct recording_account *accounts)
{
	unsigned first = 0;

	for (unsigned i = 0; i < n; i++)
		make_account(&parts[i], &sources[i], &accounts[i]);
	for (unsigned i = 1; i <= n; i++)
		if (i == n || sources[i].queue == 0) {
			place_losses(accounts + first, parts + first, i - first);
			first = i;
		}
}

/* Without the kernel's random numbers, which are there in all but the first second of a machine, the time has to do. */
uint64_t account_random(void)
{
	uint64_t number;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
		number = time_utc_ns();
	return number;
}

/* ---- loss sums ----------------------------------------------------------------------------------- */

uint64_t record_sum_published(const struct recording_sum *sum)
{
	return sum->written + sum->other_files + sum->filtered + sum->unwritten + sum->errored + sum->skipped +
	       sum->disk_wait + sum->lag;
}

void record_sum_add(struct recording_sum *sum, const struct recording_sum *more)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)more;

	for (size_t i = 0; i < sum_terms; i++)
		to[i] += from[i];
}

void record_print_sum(char *text, size_t bytes, const struct recording_account *account)
{
	const struct recording_sum *sum = &account->sum;
	char others[96] = "", of_written[112] = "", of_no_buffer[64] = "";
	int n = 0;

	if (sum->other_files)
		n = snprintf(others, sizeof(others), " + other_files %" PRIu64, sum->other_files);
	if (sum->filtered)
		snprintf(others + n, sizeof(others) - (size_t)n, " + filtered %" PRIu64, sum->filtered);
	if (account->rx.unjoined)
		snprintf(of_no_buffer, sizeof(of_no_buffer), ", unjoined %" PRIu64 " of these", account->rx.unjoined);
	n = 0;
	if (sum->pieces)
		n = snprintf(of_written, sizeof(of_written), "; pieces %" PRIu64 " of written", sum->pieces);
	if (sum->malformed)
		snprintf(of_written + n, sizeof(of_written) - (size_t)n, "; malformed %" PRIu64 " of written",
		         sum->malformed);
	snprintf(text, bytes,
	         "published %" PRIu64 " = written %" PRIu64 "%s + unwritten %" PRIu64 " + errored %" PRIu64
	         " + skipped %" PRIu64 " + disk_wait %" PRIu64 " + lag %" PRIu64 "; not published: no_buffer %" PRIu64
	         "%s; restarts %" PRIu64 "%s",
	         record_sum_published(sum), sum->written, others, sum->unwritten, sum->errored, sum->skipped,
	         sum->disk_wait, sum->lag, account->rx.no_buffer, of_no_buffer, account->rx.restarts, of_written);
}
