// SPDX-License-Identifier: Apache-2.0
/* Writes and reads accounts and losses field by field. A file comes from anywhere: all is checked. */
#include "lib/recording/account_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION    1
#define ACCOUNT    "account " /* how the lines begin */
#define LOSSES     "losses "
#define LAST       "last"
#define COUNTS_ALL "interface_counts_all"
#define FLOW_MAX   255
#define HEX_DIGITS 16

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

struct count {
	const char *key;
	size_t offset;
	bool may_be_unknown; /* null, and UINT64_MAX */
	bool may_be_absent;  /* and 0: of older files */
};

#define OFFSET(name) offsetof(struct recording_account, name)
#define COUNT(name)                                  \
	{                                            \
		.key = #name, .offset = OFFSET(name) \
	}

#define TERM(name)                                       \
	{                                                \
		.key = #name, .offset = OFFSET(sum.name) \
	}
#define KNOWN(name)                                     \
	{                                               \
		.key = #name, .offset = OFFSET(rx.name) \
	}

#define LATER(name)                                                            \
	{                                                                      \
		.key = #name, .offset = OFFSET(rx.name), .may_be_absent = true \
	}

static const struct count counts[] = {
	COUNT(file),
	TERM(written),
	TERM(other_files),
	TERM(filtered),
	TERM(unwritten),
	TERM(errored),
	TERM(skipped),
	TERM(disk_wait),
	TERM(lag),
	{.key = "pieces", .offset = OFFSET(sum.pieces), .may_be_absent = true},
	{.key = "malformed", .offset = OFFSET(sum.malformed), .may_be_absent = true},
	KNOWN(abandoned),
	KNOWN(no_buffer),
	KNOWN(no_buffer_least),
	{.key = "no_buffer_most", .offset = OFFSET(rx.no_buffer_most), .may_be_unknown = true},
	LATER(unjoined),
	KNOWN(restarts),
	KNOWN(failures),
	KNOWN(outages),
	KNOWN(outage_from_ns),
	KNOWN(outage_until_ns),
	LATER(interface_lost),
	LATER(interface_from_ns),
	LATER(interface_until_ns),
	LATER(interface_quiet_ns),
	LATER(interface_uncounted),
};

uint64_t recording_account_missing(const struct recording_account *account)
{
	const struct recording_sum *sum = &account->sum;

	return sum->unwritten + sum->errored + sum->skipped + sum->disk_wait + sum->pieces +
	       account->rx.no_buffer_least;
}

/* The recorder knows the rows around a gap. The library knows only the batches around it. */
enum ibvcap_verdict recording_account_verdict(const struct recording_account *account)
{
	struct ibvcap_rx_account rx = account->rx;

	rx.missing = recording_account_missing(account);
	return ibvcap_account_verdict(&rx);
}

uint32_t recording_accounts_unknown(const struct recording_account *accounts, unsigned n)
{
	uint32_t unknown = 0;

	for (unsigned i = 0; i < n; i++)
		unknown |= accounts[i].rx.unknown;
	return unknown;
}

/* ---- to JSON ------------------------------------------------------------------------------------- */

/* UINT64_MAX: not known. */
static void set_count(json_t *json, const char *key, uint64_t value)
{
	if (value == UINT64_MAX)
		json_object_set_new(json, key, json_null());
	else
		json_object_set_new(json, key, json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value));
}

/* Identifiers use all 64 bits, and JSON's numbers do not have that many. */
static void set_identifier(json_t *json, const char *key, uint64_t value)
{
	json_object_set_new(json, key, json_sprintf("%016" PRIx64, value));
}

static json_t *end_to_json(const struct recording_account_end *end)
{
	json_t *json = json_object();

	set_count(json, "utc_ns", end->utc_ns);
	set_identifier(json, "epoch", end->epoch);
	set_count(json, "sequence", end->sequence);
	return json;
}

static json_t *unknown_to_json(uint32_t unknown)
{
	json_t *json = json_array();

	for (uint32_t bit = 1; bit; bit <<= 1)
		if (unknown & bit && ibvcap_unknown_word(bit))
			json_array_append_new(json, json_string(ibvcap_unknown_word(bit)));
	return json;
}

json_t *recording_account_to_json(const struct recording_account *account)
{
	json_t *json = json_pack("{s:i}", "version", VERSION);

	set_identifier(json, "recording", account->recording);
	if (account->flow != RECORDING_ACCOUNT_NO_FLOW)
		json_object_set_new(json, "flow", json_integer(account->flow));
	json_object_set_new(json, "stream", json_string(account->stream));
	json_object_set_new(json, "queue", json_integer(account->queue));
	json_object_set_new(json, "queues", json_integer(account->n_queues));
	json_object_set_new(json, "from", end_to_json(&account->from));
	json_object_set_new(json, "until", end_to_json(&account->until));
	for (size_t i = 0; i < N_OF(counts); i++) {
		uint64_t value;

		memcpy(&value, (const uint8_t *)account + counts[i].offset, sizeof(value));
		set_count(json, counts[i].key, value);
	}
	json_object_set_new(json, "unknown", unknown_to_json(account->rx.unknown));
	json_object_set_new(json, COUNTS_ALL, json_boolean(account->rx.interface_counts_all));
	if (account->is_last)
		json_object_set_new(json, LAST, json_true());
	json_object_set_new(json, "verdict", json_string(ibvcap_verdict_word(recording_account_verdict(account))));
	return json;
}

/* ---- from JSON ----------------------------------------------------------------------------------- */

static bool get_count(const json_t *json, const char *key, uint64_t max, uint64_t *value)
{
	const json_t *member = json_object_get(json, key);

	if (!json_is_integer(member) || json_integer_value(member) < 0)
		return false;
	*value = (uint64_t)json_integer_value(member);
	return *value <= max;
}

static bool get_number(const json_t *json, const char *key, uint32_t *value)
{
	uint64_t number;

	if (!get_count(json, key, UINT32_MAX, &number))
		return false;
	*value = (uint32_t)number;
	return true;
}

static bool get_identifier(const json_t *json, const char *key, uint64_t *value)
{
	const char *text = json_string_value(json_object_get(json, key));

	if (!text || strlen(text) != HEX_DIGITS || strspn(text, "0123456789abcdef") != HEX_DIGITS)
		return false;
	*value = strtoull(text, NULL, 16);
	return true;
}

static bool get_end(const json_t *json, const char *key, struct recording_account_end *end)
{
	const json_t *member = json_object_get(json, key);

	return get_count(member, "utc_ns", INT64_MAX, &end->utc_ns) && get_identifier(member, "epoch", &end->epoch) &&
	       get_count(member, "sequence", INT64_MAX, &end->sequence);
}

static bool get_flow(const json_t *json, int32_t *flow)
{
	uint64_t number;

	*flow = RECORDING_ACCOUNT_NO_FLOW;
	if (!json_object_get(json, "flow"))
		return true;
	if (!get_count(json, "flow", FLOW_MAX, &number))
		return false;
	*flow = (int32_t)number;
	return true;
}

static bool get_stream(const json_t *json, struct recording_account *account)
{
	const char *stream = json_string_value(json_object_get(json, "stream"));

	if (!stream || strlen(stream) >= sizeof(account->stream))
		return false;
	strcpy(account->stream, stream);
	return get_number(json, "queue", &account->queue) && get_number(json, "queues", &account->n_queues) &&
	       account->queue < account->n_queues;
}

/* 0: it is none of the library's words. */
static uint32_t find_unknown(const char *word)
{
	uint32_t bit = 1;

	while (bit && (!ibvcap_unknown_word(bit) || strcmp(ibvcap_unknown_word(bit), word) != 0))
		bit <<= 1;
	return bit;
}

static bool get_unknown(const json_t *json, uint32_t *unknown)
{
	const json_t *words = json_object_get(json, "unknown");

	*unknown = 0;
	for (size_t i = 0; i < json_array_size(words); i++) {
		const char *word = json_string_value(json_array_get(words, i));
		uint32_t bit = word ? find_unknown(word) : 0;

		if (!bit)
			return false;
		*unknown |= bit;
	}
	return json_is_array(words);
}

/* Absent: false. */
static bool get_bool(const json_t *json, const char *key, bool *value)
{
	const json_t *member = json_object_get(json, key);

	*value = json_is_true(member);
	return !member || json_is_boolean(member);
}

/* A file that claims more than its own numbers say is not believed. */
static bool agrees_with_verdict(const json_t *json, const struct recording_account *account)
{
	const char *word = json_string_value(json_object_get(json, "verdict"));

	return word && !strcmp(word, ibvcap_verdict_word(recording_account_verdict(account)));
}

bool recording_account_from_json(const json_t *json, struct recording_account *account)
{
	uint64_t value;
	bool counts_all;

	*account = (struct recording_account){0};
	if (!get_count(json, "version", VERSION, &value) || value != VERSION)
		return false;
	for (size_t i = 0; i < N_OF(counts); i++) {
		const json_t *member = json_object_get(json, counts[i].key);

		if (counts[i].may_be_unknown && json_is_null(member))
			value = UINT64_MAX;
		else if (counts[i].may_be_absent && !member)
			value = 0;
		else if (!get_count(json, counts[i].key, INT64_MAX, &value))
			return false;
		memcpy((uint8_t *)account + counts[i].offset, &value, sizeof(value));
	}
	if (!get_bool(json, COUNTS_ALL, &counts_all))
		return false;
	account->rx.interface_counts_all = counts_all;
	return get_identifier(json, "recording", &account->recording) && get_flow(json, &account->flow) &&
	       get_stream(json, account) && get_end(json, "from", &account->from) &&
	       get_end(json, "until", &account->until) && get_unknown(json, &account->rx.unknown) &&
	       get_bool(json, LAST, &account->is_last) && agrees_with_verdict(json, account);
}

/* ---- lines of comments --------------------------------------------------------------------------- */

static bool append_line(char *text, size_t bytes, size_t room, const char *word, json_t *json)
{
	size_t used = strlen(text);
	char *line = json ? json_dumps(json, JSON_COMPACT) : NULL;
	bool fits = line && bytes - used >= room;

	if (fits)
		snprintf(text + used, bytes - used, "\n%s%s", word, line);
	free(line);
	json_decref(json);
	return fits;
}

/* *at: where the line begins. NULL: there is none, or it is no JSON. */
static json_t *find_comment_line(const char *comment, size_t bytes, size_t max, const char *word, size_t *at)
{
	const char *line = comment, *end = comment + bytes, *line_end;
	size_t n = strlen(word);

	for (;; line = line_end + 1) {
		line_end = memchr(line, '\n', (size_t)(end - line));
		bytes = (size_t)((line_end ? line_end : end) - line);
		if (bytes > n && !memcmp(line, word, n))
			break;
		if (!line_end)
			return NULL;
	}
	*at = (size_t)(line - comment);
	return bytes - n < max ? json_loadb(line + n, bytes - n, JSON_REJECT_DUPLICATES, NULL) : NULL;
}

bool recording_account_append(char *text, size_t bytes, const struct recording_account *account)
{
	return append_line(text, bytes, RECORDING_ACCOUNT_TEXT_SIZE, ACCOUNT, recording_account_to_json(account));
}

bool recording_account_find(const char *comment, size_t bytes, struct recording_account *account)
{
	size_t at;
	json_t *json = find_comment_line(comment, bytes, RECORDING_ACCOUNT_TEXT_SIZE, ACCOUNT, &at);
	bool is_valid = json && recording_account_from_json(json, account);

	json_decref(json);
	return is_valid;
}

static_assert(offsetof(struct recording_losses, no_buffer_since_ns) == RECORDING_CAUSE_N * sizeof(uint64_t),
              "a number for each cause");

#define SINCE "no_buffer_since_ns"

void recording_losses_to_json(const struct recording_losses *losses, json_t *json)
{
	for (size_t i = 0; i < RECORDING_CAUSE_N; i++)
		if (losses->n[i])
			set_count(json, recording_causes[i].name, losses->n[i]);
	if (losses->no_buffer_since_ns)
		set_count(json, SINCE, losses->no_buffer_since_ns);
}

bool recording_losses_append(char *text, size_t bytes, const struct recording_losses *losses)
{
	json_t *json = json_object();

	recording_losses_to_json(losses, json);
	return append_line(text, bytes, RECORDING_LOSSES_TEXT_SIZE, LOSSES, json);
}

void recording_losses_add(struct recording_losses *sum, const struct recording_losses *more)
{
	for (size_t i = 0; i < RECORDING_CAUSE_N; i++)
		sum->n[i] += more->n[i];
	if (!sum->no_buffer_since_ns ||
	    (more->n[RECORDING_CAUSE_NO_BUFFER] && more->no_buffer_since_ns < sum->no_buffer_since_ns))
		sum->no_buffer_since_ns = more->no_buffer_since_ns;
}

static bool losses_from_json(const json_t *json, struct recording_losses *losses)
{
	*losses = (struct recording_losses){0};
	for (size_t i = 0; i < RECORDING_CAUSE_N; i++)
		if (json_object_get(json, recording_causes[i].name) &&
		    !get_count(json, recording_causes[i].name, INT64_MAX, &losses->n[i]))
			return false;
	return !json_object_get(json, SINCE) || get_count(json, SINCE, INT64_MAX, &losses->no_buffer_since_ns);
}

bool recording_losses_find(const char *comment, size_t bytes, struct recording_losses *losses, size_t *for_people)
{
	size_t at = 0;
	json_t *json = bytes ? find_comment_line(comment, bytes, RECORDING_LOSSES_TEXT_SIZE, LOSSES, &at) : NULL;
	bool is_valid = json_is_object(json) && losses_from_json(json, losses);

	*for_people = !is_valid ? bytes : at ? at - 1 : 0;
	json_decref(json);
	return is_valid;
}
