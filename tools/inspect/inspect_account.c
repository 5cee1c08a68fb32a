// SPDX-License-Identifier: Apache-2.0
/*
 * Compares accounts with packets. The daemon numbers all packets that it publishes for a queue. So each number between
 * both ends of an account is that of a packet in the file or of a row that the account names as missing.
 */
#include "tools/inspect/inspect_verdict.h"

#include <stdio.h>
#include <string.h>

/* Rows that came to the queue, and are not in the file. */
static uint64_t rows_elsewhere(const struct recording_account *account)
{
	return account->sum.other_files + account->sum.filtered + account->sum.unwritten + account->sum.errored +
	       account->sum.skipped + account->sum.disk_wait;
}

/* The name that record gives to the interface: "lidar", or "lidar/1" if the stream has several queues. */
static bool is_account_of(const struct inspect_source *source)
{
	char name[IBVCAP_STREAM_NAME_MAX + 12];

	snprintf(name, sizeof(name), "%s/%u", source->account.stream, source->account.queue);
	return !strcmp(source->name, source->account.stream) || !strcmp(source->name, name);
}

static bool is_of_one_epoch(const struct recording_account *account)
{
	return account->from.epoch && account->from.epoch == account->until.epoch;
}

/* A file may begin behind a restart. Its first packet names the restart, and the account of the file before has it. */
static bool is_restart_before(const struct inspect_source *source)
{
	return source->begins_after_restart && source->account.sum.restarts < source->n_restarts_before_packets;
}

/* Restarts within the account that packets name. */
static uint64_t restarts_between(const struct inspect_source *source)
{
	return source->n_restarts_before_packets - is_restart_before(source);
}

/* Is the packets' last run of numbers the one in which the account ends? */
static bool ends_in_last_run(const struct inspect_source *source)
{
	const struct recording_account *account = &source->account;

	return account->until.epoch && account->sum.restarts == restarts_between(source) &&
	       (account->sum.restarts || is_of_one_epoch(account));
}

static bool is_within(const struct inspect_source *source)
{
	const struct recording_account *account = &source->account;
	bool begins_in_first_run = !source->begins_after_restart || is_restart_before(source);

	if (!source->has_numbers)
		return true;
	if (account->from.epoch && begins_in_first_run && source->first_id < account->from.sequence)
		return false;
	return !ends_in_last_run(source) || source->last_id < account->until.sequence;
}

/*
 * Rows that were in the ring when the recording ended are behind the account's end. Behind a restart, rows of the run
 * before may be among the losses.
 */
static bool adds_up(const struct inspect_source *source)
{
	const struct recording_account *account = &source->account;

	if (account->sum.restarts || source->begins_after_restart || !is_of_one_epoch(account))
		return true;
	return account->from.sequence <= account->until.sequence &&
	       account->until.sequence - account->from.sequence == account->sum.written + rows_elsewhere(account);
}

/* Does the account name an event that leaves losses unknown? */
static bool has_doubt(const struct recording_account *account)
{
	return account->sum.restarts || account->failures || account->outages || account->abandoned ||
	       !is_of_one_epoch(account);
}

static const char *contradiction_of_account(const struct inspect_source *source)
{
	const struct recording_account *account = &source->account;

	if (!is_account_of(source))
		return "its account is that of another queue";
	if (source->is_one_flow != (account->flow != RECORDING_ACCOUNT_NO_FLOW))
		return "its account is not that of its flow";
	if (account->sum.filtered && !source->is_filtered)
		return "its account is not that of its filter";
	if (account->sum.written != source->n_packets)
		return "its account names another number of packets than it has";
	if (!is_within(source))
		return "numbers of packets are outside the account";
	if (!adds_up(source))
		return "the terms of its account do not add up";
	if (source->n_named > rows_elsewhere(account) - account->sum.other_files - account->sum.filtered)
		return "gaps between its packets name more packets than its account";
	if (restarts_between(source) > account->sum.restarts && !account->unknown)
		return "a packet comes after a restart of ibvcapd that its account does not name";
	if (account->verdict == IBVCAP_VERDICT_COMPLETE && has_doubt(account))
		return "its account says complete, and names what leaves losses unknown";
	return NULL;
}

const char *inspect_contradiction(const struct inspect_source *source)
{
	if (source->n_repeated)
		return "numbers of packets come twice or go back";
	if (!inspect_is_explained(source))
		return "numbers of packets are absent that no gap explains";
	if (source->has_statistics && source->n_delivered != source->n_packets)
		return "its statistics name another number of packets than it has";
	return source->account_state == INSPECT_ACCOUNT_READ ? contradiction_of_account(source) : NULL;
}

static bool is_in_stream_of(const struct inspect_source *source, const struct inspect_source *other)
{
	return source->section == other->section && !strcmp(source->account.stream, other->account.stream);
}

/* Queues of a stream follow each other. */
static bool has_queues_of_account(const struct inspect_sum *sum, uint32_t first)
{
	const struct inspect_source *source = &sum->sources[first];
	uint32_t i = first;

	while (i < sum->n_sources && is_in_stream_of(source, &sum->sources[i]))
		i++;
	return i - first >= source->account.n_queues;
}

const char *inspect_contradiction_of_others(const struct inspect_sum *sum, uint32_t number)
{
	const struct inspect_source *source = &sum->sources[number];
	const struct inspect_source *before = &sum->sources[number ? number - 1 : 0];

	if (number && before->section == source->section) {
		if (before->account_state != source->account_state)
			return "it has an account, or none, unlike the interface before it";
		if (before->account.recording != source->account.recording ||
		    before->account.file != source->account.file || before->account.flow != source->account.flow)
			return "its account is of another file than that of the interface before it";
	}
	if (source->account_state == INSPECT_ACCOUNT_READ && !(source->account.unknown & IBVCAP_UNKNOWN_QUEUES) &&
	    !(number && is_in_stream_of(source, before)) && !has_queues_of_account(sum, number))
		return "its account names more queues than the file has";
	return NULL;
}
