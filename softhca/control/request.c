// SPDX-License-Identifier: Apache-2.0
/* Requests to a running process: takes them apart and answers them. */
#include "control.h"

#include "../wire/lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct request {
	struct control *control;
	int client;
	char *words; /* those that were not read yet */
	bool stays;  /* the client gets more later */
};

static bool request_send(int client, char kind, const char *text, size_t bytes)
{
	struct iovec parts[2] = {{.iov_base = &kind, .iov_len = 1}, {.iov_base = (void *)text, .iov_len = bytes}};
	struct msghdr packet = {.msg_iov = parts, .msg_iovlen = 2};

	return sendmsg(client, &packet, MSG_NOSIGNAL) > 0;
}

static void request_refuse(const struct request *q, const char *why)
{
	request_send(q->client, CONTROL_ERROR, why, strlen(why));
}

/* Sends whole lines, as many as a packet takes. */
static void request_send_lines(int client, const char *text, size_t bytes)
{
	while (bytes) {
		size_t n = bytes < CONTROL_MAX_PACKET ? bytes : CONTROL_MAX_PACKET - 1;

		while (n < bytes && text[n - 1] != '\n')
			n--;
		if (!request_send(client, TRACE_TEXT, text, n))
			return;
		text += n;
		bytes -= n;
	}
}

/* Takes the next word off the text. NULL at the end. */
static char *request_word(struct request *q)
{
	char *word = q->words + strspn(q->words, " ");
	size_t n = strcspn(word, " ");

	if (!n)
		return NULL;
	q->words = word + n;
	if (*q->words)
		*q->words++ = 0;
	return word;
}

/* Reads the word "json", if it is there. False if anything else is. */
static bool request_read_format(struct request *q, bool *json)
{
	const char *word = request_word(q);

	*json = word && !strcmp(word, "json");
	return (!word || *json) && !request_word(q);
}

static void request_objects(struct request *q)
{
	struct lines r = {.make_room = lines_enlarge};

	if (!request_read_format(q, &r.json)) {
		request_refuse(q, "objects [json]");
		return;
	}
	objects_report(q->control, &r);
	request_send_lines(q->client, r.text, r.bytes);
	free(r.text);
}

void control_stop_trace(struct control *c)
{
	c->listening = -1;
	trace_stop(c->trace);
	for (unsigned int i = 0; i < c->n_devices; i++)
		device_stop_trace(&c->devices[i]);
}

static void request_trace(struct request *q)
{
	struct control *c = q->control;
	bool json = false, frames = false;
	const char *word;
	int r = 0;

	while ((word = request_word(q))) {
		json |= !strcmp(word, "json");
		frames |= !strcmp(word, "frames");
		if (strcmp(word, "json") != 0 && strcmp(word, "frames") != 0) {
			request_refuse(q, "trace [json] [frames]");
			return;
		}
	}
	if (!trace_start(c->trace, q->client, json, frames)) {
		request_refuse(q, "it is traced already");
		return;
	}
	c->listening = q->client;
	for (unsigned int i = 0; !r && i < c->n_devices; i++)
		r = device_start_trace(&c->devices[i]);
	q->stays = !r;
	if (r)
		control_stop_trace(c);
}

static void request_mark(struct request *q)
{
	if (!*q->words)
		request_refuse(q, "mark TEXT");
	else if (!trace_mark(q->control->trace, q->words))
		request_refuse(q, "nobody traces it");
}

static bool request_is_for(const struct device *d, const char *name)
{
	return !name || !strcmp(d->name, name) || !strcmp(d->config.netdev, name);
}

static bool request_has_device(const struct control *c, const char *name)
{
	for (unsigned int i = 0; i < c->n_devices; i++)
		if (request_is_for(&c->devices[i], name))
			return true;
	return false;
}

/* `name`: of one device; NULL: all. */
static void request_tell(struct control *c, const char *name, enum fault fault, uint64_t told)
{
	for (unsigned int i = 0; i < c->n_devices; i++) {
		struct device *d = &c->devices[i];

		if (!request_is_for(d, name))
			continue;
		device_lock(d);
		injection_tell(d, fault, told);
		device_unlock(d);
	}
}

/* Reads the words, and sets the faults of the devices if `tell`. NULL, or what is wrong with `*word`. */
static const char *request_read_faults(struct request *q, bool tell, bool *json, const char **word)
{
	const char *device = NULL, *wrong = NULL;
	enum fault fault;
	uint64_t told;

	while (!wrong && (*word = request_word(q))) {
		if (!strncmp(*word, "device=", 7)) {
			device = *word + 7;
			wrong = request_has_device(q->control, device)
			                ? NULL
			                : "there is no such device; see: softhca objects";
		} else if (!strcmp(*word, "json")) {
			*json = true;
		} else {
			wrong = injection_parse(*word, &fault, &told);
			if (!wrong && tell)
				request_tell(q->control, device, fault, told);
		}
	}
	return wrong;
}

/* Checks all words. Only if none is wrong it sets the faults. */
static void request_inject(struct request *q)
{
	struct lines r = {.make_room = lines_enlarge};
	char copy[CONTROL_MAX_REQUEST + 1], text[CONTROL_MAX_REQUEST + 128];
	struct request check = {.control = q->control, .words = copy};
	const char *word, *wrong;

	strcpy(copy, q->words);
	wrong = request_read_faults(&check, false, &r.json, &word);
	if (wrong) {
		snprintf(text, sizeof(text), "'%s': %s; nothing was changed", word, wrong);
		request_refuse(q, text);
		return;
	}
	request_read_faults(q, true, &r.json, &word);
	for (unsigned int i = 0; i < q->control->n_devices; i++)
		injection_list(&q->control->devices[i], &r);
	request_send_lines(q->client, r.text, r.bytes);
	free(r.text);
}

/* The first time, the process begins to look. */
static void request_warnings(struct request *q)
{
	struct lines r = {.make_room = lines_enlarge};

	if (!request_read_format(q, &r.json)) {
		request_refuse(q, "warnings [json]");
		return;
	}
	for (unsigned int i = 0; i < q->control->n_devices; i++) {
		struct device *d = &q->control->devices[i];

		device_lock(d);
		warning_begin(d);
		warning_report(d, &r);
		device_unlock(d);
	}
	request_send_lines(q->client, r.text, r.bytes);
	free(r.text);
}

static const struct {
	const char *name;
	void (*answer)(struct request *q);
} requests[] = {
	{"inject", request_inject}, {"mark", request_mark},         {"objects", request_objects},
	{"trace", request_trace},   {"warnings", request_warnings},
};

bool control_request(struct control *c, int client, const char *request, size_t bytes)
{
	char text[CONTROL_MAX_REQUEST + 1];
	struct request q = {.control = c, .client = client, .words = text};
	const char *name;

	if (bytes > CONTROL_MAX_REQUEST)
		bytes = CONTROL_MAX_REQUEST;
	memcpy(text, request, bytes);
	text[bytes] = 0;
	name = request_word(&q);
	for (size_t i = 0; name && i < sizeof(requests) / sizeof(requests[0]); i++)
		if (!strcmp(requests[i].name, name)) {
			requests[i].answer(&q);
			return q.stays;
		}
	request_refuse(&q, "no such request");
	return false;
}
