// SPDX-License-Identifier: Apache-2.0
/*
 * Makes what one consumer shares with its client, sends it to the client, and takes it back when the client has left.
 */
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

void rx_session_free(struct rx_session *rx)
{
	fd_close(&rx->wake_theirs);
	if (!rx->client.is_retained)
		notifier_dispose(rx_session_endpoint(rx)->notifier, &rx->consumer, rx->wake);
	endpoint_remove_client(&rx->client);
	free(rx);
}

void rx_session_free_client(struct endpoint_client *client)
{
	rx_session_free((struct rx_session *)client);
}

void rx_session_release(struct rx_session *rx)
{
	struct ring_consumer *consumer = &rx->consumer;
	const struct shm *const lent[] = {&consumer->state_shm, &consumer->page_shm};

	endpoint_detach_client(&rx->client);
	endpoint_discharge_leases(&rx->client); /* the worker has given them back */
	retained_memory_watch(&rx->client.endpoint->control->retained, &rx->client.retained, lent,
	                      sizeof(lent) / sizeof(lent[0]));
	notifier_dispose(rx_session_endpoint(rx)->notifier, consumer, rx->wake);
	*consumer = (struct ring_consumer){.state_shm = SHM_INIT, .page_shm = SHM_INIT};
	rx->client.is_retained = true;
	if (!retained_memory_exists(&rx->client.retained))
		rx_session_free(rx);
}

/* If the mailbox is full, rx_endpoint_retry() tries again. */
void rx_session_mail_removal(struct rx_session *rx)
{
	const struct mail mail = {.type = MAIL_REMOVE_CONSUMER, .consumer = &rx->consumer};

	if (!rx->client.endpoint->ended && !rx->client.remove_mailed)
		rx->client.remove_mailed = mailbox_send(rx_session_endpoint(rx)->stream->inbox, &mail) == 0;
}

void rx_session_close(struct endpoint_client *client)
{
	struct rx_session *rx = (struct rx_session *)client;
	enum ibvcap_disconnect reason = endpoint_disconnect_reason(client->endpoint, client->session);

	endpoint_detach_client(client);
	/* The client may live on and read: it must learn that its leases end before the worker ends them. */
	daemon_disconnect(rx->consumer.state, reason);
	notifier_remove(rx_session_endpoint(rx)->notifier, rx->consumer.page);
	rx_session_mail_removal(rx);
}

/* ---- coming -------------------------------------------------------------------------------------- */

static uint64_t rx_epoch(const struct rx_endpoint *rx_endpoint)
{
	return rx_endpoint->stream->ring->ring->segment.epoch;
}

static void describe_page(struct ibvcap_segment *segment, uint64_t magic, uint64_t bytes, uint64_t epoch)
{
	*segment = (struct ibvcap_segment){
		.magic = magic,
		.abi_major = IBVCAP_ABI_MAJOR,
		.abi_minor = IBVCAP_ABI_MINOR,
		.bytes = bytes,
		.epoch = epoch,
	};
}

/*
 * The state page, which only the daemon may write, and the consumer's page, which the client may write but not resize.
 */
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
	describe_page(&consumer->state->segment, IBVCAP_STATE_MAGIC, consumer->state_shm.bytes, epoch);
	describe_page(&consumer->page->segment, IBVCAP_CONSUMER_MAGIC, consumer->page_shm.bytes, epoch);
	daemon_store_policy(consumer->state, consumer->policy);
	consumer->state->lease_blocks = consumer->lease_blocks;
	r = shm_seal_readonly(&consumer->state_shm);
	if (r < 0)
		return r;
	return shm_seal_size(&consumer->page_shm);
}

static int make_wake_socket(struct rx_session *rx)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	rx->wake_theirs = ends[0];
	rx->wake = ends[1];
	shutdown(rx->wake_theirs, SHUT_WR);
	return 0;
}

int rx_session_new(struct rx_session **out, struct rx_endpoint *rx_endpoint, struct session *session,
                   uint32_t lease_blocks, enum ibvcap_policy policy)
{
	struct user_share *share = endpoint_share(session, &rx_endpoint->endpoint);
	struct rx_session *rx = calloc(1, sizeof(*rx));
	int r;

	if (!rx || !share) {
		free(rx);
		return -ENOMEM;
	}
	rx->consumer = (struct ring_consumer){
		.state_shm = SHM_INIT,
		.page_shm = SHM_INIT,
		.lease_blocks = lease_blocks,
		.policy = policy,
		.deadline_ns = rx_endpoint->stream->config->lossless_deadline_ms * UINT64_C(1000000),
		.budget = policy == IBVCAP_POLICY_LOSSLESS ? &share->stall : NULL,
	};
	rx->wake_theirs = -1;
	rx->wake = -1;
	endpoint_add_client(&rx_endpoint->endpoint, &rx->client, session, share, lease_blocks);
	r = create_pages(&rx->consumer, rx_epoch(rx_endpoint));
	if (r == 0)
		r = make_wake_socket(rx);
	if (r == 0)
		r = notifier_add(rx_endpoint->notifier, &rx->consumer, rx->wake, share->user, &rx->client);
	if (r < 0) {
		rx_session_free(rx);
		return r;
	}
	*out = rx;
	return 0;
}

/* Opens n read-only descriptors, which the caller sends and closes; -1 where none was opened. 0 or -errno. */
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
	const struct rx_ring *ring = rx_session_endpoint(rx)->stream->ring;
	const struct shm *const readonly[] = {&ring->payload, &ring->headers, &ring->ring_shm, &rx->consumer.state_shm};
	struct protocol_attached message = {.epoch = rx_epoch(rx_session_endpoint(rx))};
	int fds[PROTOCOL_FD_N];
	int r = reopen_readonly(readonly, PROTOCOL_FD_CONSUMER_PAGE, fds);

	protocol_init(&message.header, PROTOCOL_ATTACHED, sizeof(message));
	fds[PROTOCOL_FD_CONSUMER_PAGE] = rx->consumer.page_shm.fd;
	fds[PROTOCOL_FD_WAKE_SOCKET] = rx->wake_theirs;
	if (r == 0)
		r = session_send(rx->client.session, &message.header, fds, PROTOCOL_FD_N);
	for (unsigned i = 0; i < PROTOCOL_FD_CONSUMER_PAGE; i++)
		fd_close(&fds[i]);
	fd_close(&rx->wake_theirs);
	return r;
}

int rx_session_send_tap(struct session *session, const struct rx_endpoint *rx_endpoint)
{
	const struct rx_ring *ring = rx_endpoint->stream->ring;
	const struct shm *const readonly[] = {&ring->payload, &ring->headers, &ring->ring_shm};
	struct protocol_attached message = {.epoch = rx_epoch(rx_endpoint)};
	int fds[PROTOCOL_FD_TAP_N];
	int r = reopen_readonly(readonly, PROTOCOL_FD_TAP_N, fds);

	protocol_init(&message.header, PROTOCOL_ATTACHED, sizeof(message));
	if (r == 0)
		r = session_send(session, &message.header, fds, PROTOCOL_FD_TAP_N);
	for (unsigned i = 0; i < PROTOCOL_FD_TAP_N; i++)
		fd_close(&fds[i]);
	return r;
}
