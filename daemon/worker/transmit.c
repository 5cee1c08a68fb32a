// SPDX-License-Identifier: Apache-2.0
#include "daemon/worker/transmit.h"

#include "daemon/base/time.h"
#include "daemon/worker/thread.h"
#include "daemon/worker/transmit_sleep.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#define NAP_NS UINT64_C(1000000)
/* A sleep ends late by less than that, as a rule; the rest is spun. */
#define SPIN_NS UINT64_C(100000)

struct transmit {
	struct channel **channels;
	uint32_t n_channels;
	struct mailbox *inbox;
	struct mailbox *outbox;
	struct transmit_sleep sleep;
	pthread_t thread;
	char name[16];
	uint64_t spin_ns;
	int32_t cpu;
	int doorbell;
	bool stopping;
	bool stopped;
};

static void look(struct transmit_now *now)
{
	now->monotonic_ns = time_monotonic_ns();
	now->utc_ns = time_utc_ns();
}

static struct transmit_now now(void)
{
	struct transmit_now at = {.look = look};

	look(&at);
	return at;
}

/* n_channels: it has no such channel, whatever is at that address by now. */
static uint32_t find_channel(const struct transmit *transmit, const struct channel *channel)
{
	uint32_t i = 0;

	while (i < transmit->n_channels && transmit->channels[i] != channel)
		i++;
	return i;
}

static bool has_channel(const struct transmit *transmit, const struct channel *channel)
{
	return find_channel(transmit, channel) < transmit->n_channels;
}

/* ---- channels and senders that go ----------------------------------------------------------------- */

static void say(struct transmit *transmit, const struct mail *mail)
{
	mailbox_send(transmit->outbox, mail); /* room was checked before */
}

/*
 * A removal that was asked for is answered in any case; who broke the rules is reported, unless its channel goes. Of a
 * queue that could not be reset the device may still read, so that says who asked.
 */
static void report_gone(struct transmit *transmit, struct channel *channel, struct sender *sender)
{
	transmit_sleep_forget(&transmit->sleep, sender->socket);
	if (sender->removal_asked)
		say(transmit, &(struct mail){.type = MAIL_SENDER_REMOVED,
		                             .error = channel->fatal,
		                             .channel = channel,
		                             .sender = sender});
	else if (sender->bad && !channel->leaving)
		say(transmit, &(struct mail){.type = MAIL_SENDER_BAD,
		                             .error = -EBADMSG,
		                             .channel = channel,
		                             .reason = (uint32_t)sender->bad,
		                             .sender = sender});
}

static void let_senders_go(struct transmit *transmit, struct channel *channel)
{
	struct sender *sender;

	while (channel->n_leaving && !mailbox_full(transmit->outbox) && (sender = channel_take_gone(channel)) != NULL)
		report_gone(transmit, channel, sender);
}

/* From then on it may be freed at any time. */
static void let_channel_go(struct transmit *transmit, struct channel *channel)
{
	struct mail mail = {.error = channel->fatal, .channel = channel};

	if (channel->n_senders || channel->first != channel->next || mailbox_full(transmit->outbox))
		return;
	transmit_sleep_forget(&transmit->sleep, channel->queue->ops->fd(channel->queue));
	transmit->channels[find_channel(transmit, channel)] = transmit->channels[transmit->n_channels - 1];
	transmit->n_channels--;
	mail.type = channel->removal_asked ? MAIL_CHANNEL_REMOVED : MAIL_CHANNEL_FAILED;
	if (channel->removal_asked || channel->fatal)
		say(transmit, &mail);
}

/* ---- mail ----------------------------------------------------------------------------------------- */

/* No limit of its own: beside those of a configuration there may be all of earlier ones, until their queues are empty. */
static int add_channel(struct transmit *transmit, struct channel *channel)
{
	struct channel **channels = realloc(transmit->channels, (transmit->n_channels + 1) * sizeof(channels[0]));
	int r = transmit->stopping ? -EAGAIN : -ENOMEM;

	if (channels)
		transmit->channels = channels;
	if (channels && !transmit->stopping)
		r = transmit_sleep_watch(&transmit->sleep, channel->queue->ops->fd(channel->queue));
	if (r == 0)
		transmit->channels[transmit->n_channels++] = channel;
	return r;
}

static int add_sender(struct transmit *transmit, struct channel *channel, struct sender *sender)
{
	int r;

	if (!has_channel(transmit, channel))
		return -ENODEV;
	r = transmit_sleep_watch(&transmit->sleep, sender->socket);
	if (r < 0)
		return r;
	r = channel_add_sender(channel, sender);
	if (r < 0)
		transmit_sleep_forget(&transmit->sleep, sender->socket);
	return r;
}

static void remove_sender(struct transmit *transmit, const struct mail *mail)
{
	struct mail reply = {.type = MAIL_SENDER_REMOVED, .channel = mail->channel, .sender = mail->sender};
	bool has = has_channel(transmit, mail->channel);

	if (has && channel_has_sender(mail->channel, mail->sender)) {
		mail->sender->removal_asked = true;
		channel_dismiss_sender(mail->channel, mail->sender);
		return;
	}
	if (has)
		reply.error = mail->channel->fatal;
	say(transmit, &reply);
}

static void take_channel_mail(struct transmit *transmit, const struct mail *mail, const struct transmit_now *at)
{
	struct channel *channel = mail->channel;

	if (!has_channel(transmit, channel)) {
		/* It failed meanwhile, and that was said. */
		if (mail->type == MAIL_REMOVE_CHANNEL)
			say(transmit, &(struct mail){.type = MAIL_CHANNEL_REMOVED, .channel = channel});
	} else if (mail->type == MAIL_REMOVE_CHANNEL) {
		channel->removal_asked = true;
		channel_dismiss(channel, at->monotonic_ns);
	} else if (mail->type == MAIL_CHANNEL_ERROR) {
		channel->error = mail->error;
	} else {
		channel_set_destination(channel, mail->index, &mail->destination);
	}
}

static void take_mail(struct transmit *transmit, const struct mail *mail, const struct transmit_now *at)
{
	struct mail reply = {.channel = mail->channel, .sender = mail->sender};

	switch (mail->type) {
	case MAIL_ADD_CHANNEL:
		reply.type = MAIL_CHANNEL_ADDED;
		reply.error = add_channel(transmit, mail->channel);
		say(transmit, &reply);
		break;
	case MAIL_ADD_SENDER:
		reply.type = MAIL_SENDER_ADDED;
		reply.error = add_sender(transmit, mail->channel, mail->sender);
		say(transmit, &reply);
		break;
	case MAIL_REMOVE_SENDER:
		remove_sender(transmit, mail);
		break;
	case MAIL_REMOVE_CHANNEL:
	case MAIL_CHANNEL_ERROR:
	case MAIL_DESTINATION:
		take_channel_mail(transmit, mail, at);
		break;
	case MAIL_STOP:
		transmit->stopping = true;
		for (uint32_t i = 0; i < transmit->n_channels; i++)
			channel_dismiss(transmit->channels[i], at->monotonic_ns);
		break;
	default:
		break;
	}
}

static int take_mails(struct transmit *transmit, const struct transmit_now *at)
{
	struct mail mail;
	int n = 0;

	for (; !mailbox_full(transmit->outbox) && mailbox_receive(transmit->inbox, &mail); n++)
		take_mail(transmit, &mail, at);
	return n;
}

/* ---- one round ------------------------------------------------------------------------------------ */

static void ring_doorbell(struct transmit *transmit, struct channel *channel)
{
	if (!channel->to_wake)
		return;
	channel->to_wake = false;
	counter_add(&channel->counters[IBVCAP_TX_CTR_WAKES], 1);
	eventfd_write(transmit->doorbell, 1);
}

static int serve(struct transmit *transmit, struct channel *channel, const struct transmit_now *at)
{
	int n = channel_serve(channel, at);

	let_senders_go(transmit, channel);
	ring_doorbell(transmit, channel);
	if (channel->leaving)
		let_channel_go(transmit, channel);
	return n;
}

int transmit_do_work(struct transmit *transmit, const struct transmit_now *at)
{
	int n = 0;

	/* Backwards: one that goes has its place taken by the last, which was served. */
	for (uint32_t i = transmit->n_channels; i-- > 0;)
		n += serve(transmit, transmit->channels[i], at);
	n += take_mails(transmit, at);
	if (transmit->stopping && transmit->n_channels == 0 && !transmit->stopped)
		transmit->stopped = mailbox_send_last(transmit->outbox, &(struct mail){.type = MAIL_STOPPED}) == 0;
	return n;
}

/* ---- idling --------------------------------------------------------------------------------------- */

/* Nobody tells when an outbox is read or a drain ends. */
static uint64_t idle_ns(const struct transmit *transmit, const struct transmit_now *at)
{
	uint64_t idle = mailbox_full(transmit->outbox) || transmit->stopping ? NAP_NS : CHANNEL_NEVER;

	for (uint32_t i = 0; i < transmit->n_channels; i++) {
		uint64_t channel_idle = channel_idle_ns(transmit->channels[i], at);

		if (channel_idle < idle)
			idle = channel_idle;
	}
	return idle;
}

static void clear(struct transmit *transmit, int fd)
{
	if (fd == mailbox_fd(transmit->inbox)) {
		mailbox_clear(transmit->inbox);
		return;
	}
	for (uint32_t i = 0; i < transmit->n_channels; i++) {
		struct backend_queue *queue = transmit->channels[i]->queue;

		if (queue->ops->fd(queue) == fd) {
			queue->ops->clear(queue);
			return;
		}
	}
	transmit_sleep_empty(&transmit->sleep, fd);
	for (uint32_t i = 0; i < transmit->n_channels && !channel_kicked(transmit->channels[i], fd); i++)
		;
}

/* Kicks and completion events are asked for first, then everything is looked at once more: what comes later is told. */
static void sleep_for_work(struct transmit *transmit)
{
	struct transmit_woken woken;
	struct transmit_now at;
	uint64_t idle;

	for (uint32_t i = 0; i < transmit->n_channels; i++)
		channel_arm(transmit->channels[i]);
	at = now();
	if (transmit_do_work(transmit, &at) == 0 && !transmit->stopped) {
		idle = idle_ns(transmit, &at);
		if (idle > SPIN_NS) {
			transmit_sleep_wait(&transmit->sleep, idle == CHANNEL_NEVER ? idle : idle - SPIN_NS, &woken);
			for (uint32_t i = 0; i < woken.n; i++)
				clear(transmit, woken.fds[i]);
		}
	}
	for (uint32_t i = 0; i < transmit->n_channels; i++)
		channel_disarm(transmit->channels[i]);
}

static void *transmit_main(void *argument)
{
	struct transmit *transmit = argument;
	uint64_t idle_since_ns = 0;

	prctl(PR_SET_TIMERSLACK, 1000ul); /* ns; 50 µs would be the half of SPIN_NS */
	while (!transmit->stopped) {
		const struct transmit_now at = now();

		if (transmit_do_work(transmit, &at) > 0) {
			idle_since_ns = 0;
			continue;
		}
		if (transmit->spin_ns == TRANSMIT_SPIN_FOREVER || idle_ns(transmit, &at) <= SPIN_NS)
			continue;
		if (idle_since_ns == 0)
			idle_since_ns = at.monotonic_ns;
		if (at.monotonic_ns - idle_since_ns >= transmit->spin_ns)
			sleep_for_work(transmit);
	}
	return NULL;
}

/* ---- life ----------------------------------------------------------------------------------------- */

int transmit_new(struct transmit **transmit, const struct transmit_options *options)
{
	struct transmit *new = calloc(1, sizeof(*new));
	int r;

	if (!new)
		return -ENOMEM;
	new->spin_ns = options->spin_ns;
	new->cpu = options->cpu;
	snprintf(new->name, sizeof(new->name), "%s", options->name);
	new->doorbell = eventfd(0, EFD_CLOEXEC);
	r = new->doorbell < 0 ? -errno : 0;
	new->sleep.epoll = -1;
	if (r == 0)
		r = transmit_sleep_init(&new->sleep);
	if (r == 0)
		r = mailbox_new(&new->inbox);
	if (r == 0)
		r = mailbox_new(&new->outbox);
	if (r == 0)
		r = transmit_sleep_watch(&new->sleep, mailbox_fd(new->inbox));
	if (r < 0) {
		transmit_free(new);
		return r;
	}
	*transmit = new;
	return 0;
}

int transmit_start(struct transmit *transmit)
{
	return thread_start(&transmit->thread, transmit->name, transmit->cpu, transmit_main, transmit);
}

void transmit_join(struct transmit *transmit)
{
	pthread_join(transmit->thread, NULL);
}

void transmit_free(struct transmit *transmit)
{
	if (!transmit)
		return;
	transmit_sleep_deinit(&transmit->sleep);
	mailbox_free(transmit->inbox);
	mailbox_free(transmit->outbox);
	if (transmit->doorbell >= 0)
		close(transmit->doorbell);
	free(transmit->channels);
	free(transmit);
}

struct mailbox *transmit_inbox(struct transmit *transmit)
{
	return transmit->inbox;
}

struct mailbox *transmit_outbox(struct transmit *transmit)
{
	return transmit->outbox;
}

int transmit_doorbell(const struct transmit *transmit)
{
	return transmit->doorbell;
}
