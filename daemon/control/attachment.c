// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/attachment.h"

#include "daemon/control/server.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAGE_BYTES 4096

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void forget_session(struct attachment *attachment)
{
	if (attachment->session)
		attachment->session->attachment = NULL;
	attachment->session = NULL;
	attachment->served = false;
}

void attachment_free(struct attachment *attachment)
{
	struct attach_point *point = attachment->point;

	LIST_REMOVE(attachment, link);
	point->n_attachments--;
	forget_session(attachment);
	close_fd(&attachment->wake_theirs);
	if (!attachment->released)
		notifier_dispose(point->notifier, &attachment->consumer, attachment->wake);
	kept_drop(&attachment->kept);
	free(attachment);
}

void attachment_release(struct attachment *attachment)
{
	struct ring_consumer *consumer = &attachment->consumer;
	const struct shm *const lent[] = {&consumer->state_shm, &consumer->page_shm};

	forget_session(attachment);
	kept_take(&attachment->point->control->kept, &attachment->kept, lent, sizeof(lent) / sizeof(lent[0]));
	notifier_dispose(attachment->point->notifier, consumer, attachment->wake);
	*consumer = (struct ring_consumer){.state_shm = SHM_INIT, .page_shm = SHM_INIT};
	attachment->released = true;
	if (!kept_look(&attachment->kept))
		attachment_free(attachment);
}

void attachment_forget_let_go(struct attach_point *point)
{
	struct attachment *attachment, *next;

	for (attachment = LIST_FIRST(&point->attachments); attachment; attachment = next) {
		next = LIST_NEXT(attachment, link);
		if (attachment->released && !kept_look(&attachment->kept))
			attachment_free(attachment);
	}
}

static void describe(struct ibvcap_segment *segment, uint64_t magic, uint64_t bytes, uint64_t epoch)
{
	*segment = (struct ibvcap_segment){
		.magic = magic,
		.abi_major = IBVCAP_ABI_MAJOR,
		.abi_minor = IBVCAP_ABI_MINOR,
		.bytes = bytes,
		.epoch = epoch,
	};
}

/* The two pages: one only we may write, one the client may, but not resize under our feet. */
static int create_pages(struct ring_consumer *consumer, uint64_t epoch)
{
	int r = shm_create(&consumer->state_shm, "ibvcap-consumer-state", PAGE_BYTES, PAGE_BYTES);

	if (r < 0)
		return r;
	r = shm_create(&consumer->page_shm, "ibvcap-consumer-page", PAGE_BYTES, PAGE_BYTES);
	if (r < 0)
		return r;
	consumer->state = consumer->state_shm.address;
	consumer->page = consumer->page_shm.address;
	describe(&consumer->state->segment, IBVCAP_STATE_MAGIC, consumer->state_shm.bytes, epoch);
	describe(&consumer->page->segment, IBVCAP_CONSUMER_MAGIC, consumer->page_shm.bytes, epoch);
	daemon_store_policy(consumer->state, consumer->policy);
	consumer->state->lease_blocks = consumer->lease_blocks;
	r = shm_seal_readonly(&consumer->state_shm);
	if (r < 0)
		return r;
	return shm_seal_size(&consumer->page_shm);
}

int attachment_new(struct attachment **out, struct attach_point *point, const struct peer *peer, uint32_t lease_blocks,
                   enum ibvcap_policy policy)
{
	struct attachment *attachment = calloc(1, sizeof(*attachment));
	int wake[2];
	int r;

	if (!attachment)
		return -ENOMEM;
	attachment->consumer.state_shm = (struct shm)SHM_INIT;
	attachment->consumer.page_shm = (struct shm)SHM_INIT;
	attachment->consumer.lease_blocks = lease_blocks;
	attachment->consumer.policy = policy;
	attachment->consumer.deadline_ns = point->ring->config->lossless_deadline_ms * UINT64_C(1000000);
	attachment->point = point;
	attachment->wake_theirs = -1;
	attachment->wake = -1;
	attachment->pid = peer->pid;
	attachment->uid = peer->uid;
	LIST_INSERT_HEAD(&point->attachments, attachment, link);
	point->n_attachments++;
	if (policy == IBVCAP_POLICY_LOSSLESS) {
		attachment->consumer.account = account_take(point, peer->uid, control_now_us(point->control) * 1000);
		r = -ENOMEM;
		if (!attachment->consumer.account)
			goto fail;
	}
	r = create_pages(&attachment->consumer, attach_point_epoch(point));
	if (r < 0)
		goto fail;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wake) < 0) {
		r = -errno;
		goto fail;
	}
	attachment->wake_theirs = wake[0];
	attachment->wake = wake[1];
	shutdown(attachment->wake_theirs, SHUT_WR);
	r = notifier_add(point->notifier, &attachment->consumer, attachment->wake, peer->uid);
	if (r < 0)
		goto fail;
	*out = attachment;
	return 0;

fail:
	attachment_free(attachment);
	return r;
}

/* n descriptors to be sent and closed; what is not open is -1. */
static int reopen_readonly(const struct shm *const *segments, unsigned n, int *fds)
{
	for (unsigned i = 0; i < n; i++)
		fds[i] = -1;
	for (unsigned i = 0; i < n; i++) {
		fds[i] = shm_reopen_readonly(segments[i]);
		if (fds[i] < 0)
			return fds[i];
	}
	return 0;
}

int attachment_send(struct attachment *attachment)
{
	const struct rx_ring *ring = attachment->point->ring->ring;
	const struct shm *const readonly[] = {&ring->payload, &ring->headers, &ring->ring_shm,
	                                      &attachment->consumer.state_shm};
	struct wire_attached message = {.epoch = attach_point_epoch(attachment->point)};
	int fds[WIRE_FD_N];
	int r = reopen_readonly(readonly, WIRE_FD_CONSUMER_PAGE, fds);

	wire_init(&message.header, WIRE_ATTACHED, sizeof(message));
	fds[WIRE_FD_CONSUMER_PAGE] = attachment->consumer.page_shm.fd;
	fds[WIRE_FD_WAKE_SOCKET] = attachment->wake_theirs;
	if (r == 0)
		r = session_send(attachment->session, &message.header, fds, WIRE_FD_N);
	for (unsigned i = 0; i < WIRE_FD_CONSUMER_PAGE; i++)
		close_fd(&fds[i]);
	close_fd(&attachment->wake_theirs);
	return r;
}

int attachment_send_tap(struct session *session, const struct attach_point *point)
{
	const struct rx_ring *ring = point->ring->ring;
	const struct shm *const readonly[] = {&ring->payload, &ring->headers, &ring->ring_shm};
	struct wire_attached message = {.epoch = attach_point_epoch(point)};
	int fds[WIRE_FD_TAP_N];
	int r = reopen_readonly(readonly, WIRE_FD_TAP_N, fds);

	wire_init(&message.header, WIRE_ATTACHED, sizeof(message));
	if (r == 0)
		r = session_send(session, &message.header, fds, WIRE_FD_TAP_N);
	for (unsigned i = 0; i < WIRE_FD_TAP_N; i++)
		close_fd(&fds[i]);
	return r;
}
