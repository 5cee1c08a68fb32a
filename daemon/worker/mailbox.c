// SPDX-License-Identifier: Apache-2.0
/* A ring of mails with one producer and one consumer, and an eventfd that wakes the consumer. */
#include "daemon/worker/mailbox.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MAILBOX_ENTRIES 128u /* a power of two */
#define LAST_ENTRIES    2u   /* of them, reserved for mailbox_send_last() */

struct mailbox {
	_Alignas(64) _Atomic uint32_t sent;     /* producer's */
	_Alignas(64) _Atomic uint32_t received; /* consumer's */
	int fd;
	struct mail entries[MAILBOX_ENTRIES];
};

int mailbox_new(struct mailbox **mailbox)
{
	struct mailbox *box = aligned_alloc(64, sizeof(*box));

	if (!box)
		return -ENOMEM;
	atomic_init(&box->sent, 0);
	atomic_init(&box->received, 0);
	box->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (box->fd < 0) {
		int error = errno;

		free(box);
		return -error;
	}
	*mailbox = box;
	return 0;
}

void mailbox_free(struct mailbox *mailbox)
{
	if (!mailbox)
		return;
	close(mailbox->fd);
	free(mailbox);
}

/* Producer's. */
static uint32_t mailbox_count_unread(const struct mailbox *mailbox)
{
	return atomic_load_explicit(&mailbox->sent, memory_order_relaxed) -
	       atomic_load_explicit(&mailbox->received, memory_order_acquire); /* pairs with mailbox_receive() */
}

static int mailbox_send_up_to(struct mailbox *mailbox, const struct mail *mail, uint32_t n_entries)
{
	uint32_t sent = atomic_load_explicit(&mailbox->sent, memory_order_relaxed);

	if (mailbox_count_unread(mailbox) >= n_entries)
		return -EAGAIN;
	mailbox->entries[sent % MAILBOX_ENTRIES] = *mail;
	atomic_store_explicit(&mailbox->sent, sent + 1, memory_order_release); /* pairs with mailbox_receive() */
	/* It fails only at 2^64 - 1 unread wake-ups, and the counter is readable then. */
	eventfd_write(mailbox->fd, 1);
	return 0;
}

bool mailbox_full(const struct mailbox *mailbox)
{
	return mailbox_count_unread(mailbox) >= MAILBOX_ENTRIES - LAST_ENTRIES;
}

int mailbox_send(struct mailbox *mailbox, const struct mail *mail)
{
	return mailbox_send_up_to(mailbox, mail, MAILBOX_ENTRIES - LAST_ENTRIES);
}

int mailbox_send_last(struct mailbox *mailbox, const struct mail *mail)
{
	return mailbox_send_up_to(mailbox, mail, MAILBOX_ENTRIES);
}

bool mailbox_receive(struct mailbox *mailbox, struct mail *mail)
{
	uint32_t received = atomic_load_explicit(&mailbox->received, memory_order_relaxed);

	if (atomic_load_explicit(&mailbox->sent, memory_order_acquire) == received)
		return false;
	*mail = mailbox->entries[received % MAILBOX_ENTRIES];
	atomic_store_explicit(&mailbox->received, received + 1, memory_order_release); /* pairs with count_unread() */
	return true;
}

int mailbox_fd(const struct mailbox *mailbox)
{
	return mailbox->fd;
}

void mailbox_clear(struct mailbox *mailbox)
{
	eventfd_t count;

	eventfd_read(mailbox->fd, &count);
}
