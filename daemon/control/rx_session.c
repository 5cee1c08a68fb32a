// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/rx_session.h"

#include "daemon/base/fd.h"
#include "daemon/base/size.h"
#include "daemon/control/loop.h"
#include "daemon/control/server.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void rx_session_detach(struct rx_session *rx)
{
	if (rx->session)
		rx->session->rx = NULL;
	rx->session = NULL;
	rx->served = false;
}

void rx_session_free(struct rx_session *rx)
{
	struct rx_endpoint *endpoint = rx->endpoint;

	LIST_REMOVE(rx, link);
	endpoint->n_sessions--;
	rx_session_detach(rx);
	fd_close(&rx->wake_theirs);
	if (!rx->released)
		notifier_dispose(endpoint->notifier, &rx->consumer, rx->wake);
	retained_memory_drop(&rx->retained);
	free(rx);
}

void rx_session_release(struct rx_session *rx)
{
	struct ring_consumer *consumer = &rx->consumer;
	const struct shm *const lent[] = {&consumer->state_shm, &consumer->page_shm};

	rx_session_detach(rx);
	retained_memory_watch(&rx->endpoint->control->retained, &rx->retained, lent, sizeof(lent) / sizeof(lent[0]));
	notifier_dispose(rx->endpoint->notifier, consumer, rx->wake);
	*consumer = (struct ring_consumer){.state_shm = SHM_INIT, .page_shm = SHM_INIT};
	rx->released = true;
	if (!retained_memory_exists(&rx->retained))
		rx_session_free(rx);
}

void rx_endpoint_free_retained(struct rx_endpoint *endpoint)
{
	struct rx_session *rx, *next;

	for (rx = LIST_FIRST(&endpoint->sessions); rx; rx = next) {
		next = LIST_NEXT(rx, link);
		if (rx->released && !retained_memory_exists(&rx->retained))
			rx_session_free(rx);
	}
}

/* ---- leaving ------------------------------------------------------------------------------------- */

/* A full mailbox is tried again by rx_endpoint_retry(). */
void rx_session_mail_removal(struct rx_session *rx)
{
	struct mail mail = {.type = MAIL_REMOVE_CONSUMER, .consumer = &rx->consumer};

	if (!rx->endpoint->ended && !rx->remove_mailed)
		rx->remove_mailed = mailbox_send(rx->endpoint->stream->inbox, &mail) == 0;
}

static enum ibvcap_disconnect reason_to_hang_up(const struct rx_endpoint *endpoint)
{
	if (!endpoint->ended)
		return IBVCAP_DISCONNECT_HUNG_UP;
	return endpoint->ending != IBVCAP_DISCONNECT_NONE ? endpoint->ending : IBVCAP_DISCONNECT_SHUTDOWN;
}

void rx_session_hang_up(struct session *session)
{
	struct rx_session *rx = session->rx;
	enum ibvcap_disconnect reason = session->reason;

	rx_session_detach(rx);
	/* The client may live on and read: it must learn that its leases end before the worker ends them. */
	daemon_disconnect(rx->consumer.state,
	                  reason != IBVCAP_DISCONNECT_NONE ? reason : reason_to_hang_up(rx->endpoint));
	notifier_remove(rx->endpoint->notifier, rx->consumer.page);
	rx_session_mail_removal(rx);
}

/* ---- coming ----- */

static uint64_t epoch_of_endpoint(const struct rx_endpoint *endpoint)
{
	return endpoint->stream->ring->ring->segment.epoch;
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
	int r = shm_create(&consumer->state_shm, "ibvcap-consumer-state", SMALL_PAGE_BYTES, SMALL_PAGE_BYTES);

	if (r < 0)
		return r;
	r = shm_create(&consumer->page_shm, "ibvcap-consumer-page", SMALL_PAGE_BYTES, SMALL_PAGE_BYTES);
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

int rx_session_new(struct rx_session **out, struct rx_endpoint *endpoint, const struct peer *peer,
                   uint32_t lease_blocks, enum ibvcap_policy policy)
{
	struct rx_session *rx = calloc(1, sizeof(*rx));
	int wake[2];
	int r;

	if (!rx)
		return -ENOMEM;
	rx->consumer.state_shm = (struct shm)SHM_INIT;
	rx->consumer.page_shm = (struct shm)SHM_INIT;
	rx->consumer.lease_blocks = lease_blocks;
	rx->consumer.policy = policy;
	rx->consumer.deadline_ns = endpoint->stream->config->lossless_deadline_ms * UINT64_C(1000000);
	rx->endpoint = endpoint;
	rx->wake_theirs = -1;
	rx->wake = -1;
	rx->pid = peer->pid;
	rx->uid = peer->uid;
	LIST_INSERT_HEAD(&endpoint->sessions, rx, link);
	endpoint->n_sessions++;
	if (policy == IBVCAP_POLICY_LOSSLESS) {
		rx->consumer.budget =
			account_take(endpoint, peer->uid, loop_now_us(endpoint->control->options.event) * 1000);
		r = -ENOMEM;
		if (!rx->consumer.budget)
			goto fail;
	}
	r = create_pages(&rx->consumer, epoch_of_endpoint(endpoint));
	if (r < 0)
		goto fail;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wake) < 0) {
		r = -errno;
		goto fail;
	}
	rx->wake_theirs = wake[0];
	rx->wake = wake[1];
	shutdown(rx->wake_theirs, SHUT_WR);
	r = notifier_add(endpoint->notifier, &rx->consumer, rx->wake, peer->uid);
	if (r < 0)
		goto fail;
	*out = rx;
	return 0;

fail:
	rx_session_free(rx);
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

int rx_session_send(struct rx_session *rx)
{
	const struct rx_ring *ring = rx->endpoint->stream->ring;
	const struct shm *const readonly[] = {&ring->payload, &ring->headers, &ring->ring_shm, &rx->consumer.state_shm};
	struct protocol_attached message = {.epoch = epoch_of_endpoint(rx->endpoint)};
	int fds[PROTOCOL_FD_N];
	int r = reopen_readonly(readonly, PROTOCOL_FD_CONSUMER_PAGE, fds);

	protocol_init(&message.header, PROTOCOL_ATTACHED, sizeof(message));
	fds[PROTOCOL_FD_CONSUMER_PAGE] = rx->consumer.page_shm.fd;
	fds[PROTOCOL_FD_WAKE_SOCKET] = rx->wake_theirs;
	if (r == 0)
		r = session_send(rx->session, &message.header, fds, PROTOCOL_FD_N);
	for (unsigned i = 0; i < PROTOCOL_FD_CONSUMER_PAGE; i++)
		fd_close(&fds[i]);
	fd_close(&rx->wake_theirs);
	return r;
}

int rx_session_send_tap(struct session *session, const struct rx_endpoint *endpoint)
{
	const struct rx_ring *ring = endpoint->stream->ring;
	const struct shm *const readonly[] = {&ring->payload, &ring->headers, &ring->ring_shm};
	struct protocol_attached message = {.epoch = epoch_of_endpoint(endpoint)};
	int fds[PROTOCOL_FD_TAP_N];
	int r = reopen_readonly(readonly, PROTOCOL_FD_TAP_N, fds);

	protocol_init(&message.header, PROTOCOL_ATTACHED, sizeof(message));
	if (r == 0)
		r = session_send(session, &message.header, fds, PROTOCOL_FD_TAP_N);
	for (unsigned i = 0; i < PROTOCOL_FD_TAP_N; i++)
		fd_close(&fds[i]);
	return r;
}
