// SPDX-License-Identifier: Apache-2.0
#include "daemon/worker/mailbox.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>

static bool readable(const struct mailbox *mailbox)
{
	struct pollfd fd = {.fd = mailbox_fd(mailbox), .events = POLLIN};

	return poll(&fd, 1, 0) == 1;
}

Test(mailbox, mail_comes_in_order_and_wakes_a_sleeper)
{
	struct mailbox *mailbox;
	struct mail mail;

	cr_assert(eq(int, mailbox_new(&mailbox), 0));
	cr_expect(not(readable(mailbox)));
	cr_expect(not(mailbox_receive(mailbox, &mail)));
	for (uint64_t i = 0; i < 3; i++)
		mailbox_send(mailbox, &(struct mail){.type = MAIL_MATCHED, .matched = i});
	cr_expect(readable(mailbox));
	mailbox_clear(mailbox);
	cr_expect(not(readable(mailbox)));
	for (uint64_t i = 0; i < 3; i++) {
		cr_assert(mailbox_receive(mailbox, &mail));
		cr_expect(eq(u64, mail.matched, i));
	}
	cr_expect(not(mailbox_receive(mailbox, &mail)));
	mailbox_free(mailbox);
}

Test(mailbox, a_full_mailbox_says_so_and_loses_nothing)
{
	struct mailbox *mailbox;
	struct mail mail = {.type = MAIL_MATCHED};
	uint64_t sent = 0;

	cr_assert(eq(int, mailbox_new(&mailbox), 0));
	while (!mailbox_full(mailbox)) {
		mail.matched = sent;
		cr_assert(eq(int, mailbox_send(mailbox, &mail), 0));
		sent++;
	}
	cr_expect(eq(int, mailbox_send(mailbox, &mail), -EAGAIN));
	for (uint64_t i = 0; i < sent; i++) {
		cr_assert(mailbox_receive(mailbox, &mail));
		cr_expect(eq(u64, mail.matched, i));
	}
	mailbox_free(mailbox);
}

Test(mailbox, a_last_word_has_room_in_a_full_mailbox)
{
	struct mailbox *mailbox;
	struct mail mail = {.type = MAIL_CLOCK};
	enum mail_type last[2] = {0};

	cr_assert(eq(int, mailbox_new(&mailbox), 0));
	while (mailbox_send(mailbox, &mail) == 0)
		;
	cr_expect(eq(int, mailbox_send_last(mailbox, &(struct mail){.type = MAIL_MATCHED}), 0));
	cr_expect(eq(int, mailbox_send(mailbox, &mail), -EAGAIN), "it is not for the others");
	cr_expect(eq(int, mailbox_send_last(mailbox, &(struct mail){.type = MAIL_STOP}), 0));
	cr_expect(eq(int, mailbox_send_last(mailbox, &(struct mail){.type = MAIL_STOP}), -EAGAIN));
	while (mailbox_receive(mailbox, &mail)) {
		last[0] = last[1];
		last[1] = mail.type;
	}
	cr_expect(eq(int, last[0], MAIL_MATCHED));
	cr_expect(eq(int, last[1], MAIL_STOP));
	mailbox_free(mailbox);
}

static void *send_many(void *argument)
{
	struct mail mail = {.type = MAIL_MATCHED};

	while (mail.matched < 100000)
		if (mailbox_send(argument, &mail) == 0)
			mail.matched++;
	return NULL;
}

Test(mailbox, two_threads_see_every_mail_once)
{
	struct mailbox *mailbox;
	struct mail mail;
	pthread_t thread;

	cr_assert(eq(int, mailbox_new(&mailbox), 0));
	pthread_create(&thread, NULL, send_many, mailbox);
	for (uint64_t i = 0; i < 100000; i++) {
		while (!mailbox_receive(mailbox, &mail))
			;
		cr_assert(eq(u64, mail.matched, i));
	}
	pthread_join(thread, NULL);
	mailbox_free(mailbox);
}
