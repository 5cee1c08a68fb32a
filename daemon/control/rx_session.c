// SPDX-License-Identifier: Apache-2.0
/*
 * Makes the memory and descriptors that one consumer shares with its client, sends them to the client, and frees them
 * when the client has left.
 */
#include "daemon/control/rx_session.h"

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/control/id_name.h"
#include "daemon/control/server.h"
#include "daemon/control/user.h"
#include "lib/base/fd.h"
#include "lib/base/size.h"
#include "lib/base/time.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the user's thread --------------------------------------------------------------------------- */

/*
 * Memory and sockets shared with the client. The user's thread frees them, because the client can make close() take
 * long.
 */
struct rx_session_remains {
	struct background_job job;
	struct user *user;
	struct notifier *notifier;
	const void *page;
	struct shm state_shm;
	struct shm page_shm;
	int wake;
	int wake_theirs;
};

static void free_remains(void *context)
{
	struct rx_session_remains *remains = context;

	notifier_remove_and_wait(remains->notifier, remains->page);
	shm_deinit(&remains->state_shm);
	shm_deinit(&remains->page_shm);
	fd_close(&remains->wake);
	fd_close(&remains->wake_theirs);
}

static void on_remains_freed(void *context)
{
	struct rx_session_remains *remains = context;

	notifier_unref(remains->notifier);
	user_unref(remains->user);
	free(remains);
}

static struct rx_session_remains *make_remains(struct user *user, struct notifier *notifier)
{
	struct rx_session_remains *remains = user_thread(user, USER_SOCKETS) ? calloc(1, sizeof(*remains)) : NULL;

	if (!remains)
		return NULL;
	remains->job.work = free_remains;
	remains->job.done = on_remains_freed;
	remains->job.context = remains;
	remains->user = user;
	user_ref(user);
	remains->notifier = notifier_ref(notifier);
	return remains;
}

/* ---- leaving --------------------------------------------------------------------------------------- */

/* No effect the second time. */
static void give_remains_up(struct rx_session *rx)
{
	struct rx_session_remains *remains = rx->remains;

	if (!remains)
		return;
	notifier_remove(remains->notifier,
	                rx->consumer.page); /* it names its owner, which may be freed before the job */
	remains->page = rx->consumer.page;
	remains->state_shm = rx->consumer.state_shm;
	remains->page_shm = rx->consumer.page_shm;
	remains->wake = rx->wake;
	remains->wake_theirs = rx->wake_theirs;
	rx->consumer = (struct ring_consumer){.state_shm = SHM_INIT, .page_shm = SHM_INIT};
	rx->wake = rx->wake_theirs = -1;
	rx->remains = NULL;
	background_add(remains->user->threads[USER_SOCKETS], &remains->job);
}

void rx_session_free(struct endpoint_client *client)
{
	struct rx_session *rx = (struct rx_session *)client;

	give_remains_up(rx);
	endpoint_remove_client(&rx->client);
	free(rx);
}

void rx_session_release(struct rx_session *rx)
{
	struct ring_consumer *consumer = &rx->consumer;
	const struct shm *const lent[] = {&consumer->state_shm, &consumer->page_shm};

	endpoint_detach_client(&rx->client);
	endpoint_discharge_leases(&rx->client); /* the worker has given them back */
	retained_memory_watch(&rx->client.endpoint->control->retained, &rx->client.retained, lent,
	                      sizeof(lent) / sizeof(lent[0]));
	give_remains_up(rx);
	rx->client.is_retained = true;
	if (!retained_memory_exists(&rx->client.retained))
		rx_session_free(&rx->client);
}

/* If the mailbox is full, rx_endpoint_retry() tries again. */
void rx_session_mail_removal(struct rx_session *rx)
{
	const struct mail mail = {.type = MAIL_REMOVE_CONSUMER, .consumer = &rx->consumer};

	if (!rx->client.endpoint->ended && !rx->client.remove_mailed)
		rx->client.remove_mailed = mailbox_send(rx_session_endpoint(rx)->queue->inbox, &mail) == 0;
}

void rx_session_close(struct endpoint_client *client)
{
	struct rx_session *rx = (struct rx_session *)client;
	enum ibvcap_disconnect reason = endpoint_disconnect_reason(client->endpoint, client->session);

	endpoint_detach_client(client);
	/* The client may live on and read: it must learn that its leases end before the worker ends them. */
	daemon_disconnect(&rx->consumer.state->link, reason);
	notifier_remove(rx_session_endpoint(rx)->notifier, rx->consumer.page);
	rx_session_mail_removal(rx);
}

/* ---- coming -------------------------------------------------------------------------------------- */

static uint64_t rx_epoch(const struct rx_endpoint *rx_endpoint)
{
	return rx_endpoint->queue->ring->ring->segment.epoch;
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
	segment_describe(&consumer->state->segment, IBVCAP_STATE_MAGIC, consumer->state_shm.bytes, epoch);
	segment_describe(&consumer->page->segment, IBVCAP_CONSUMER_MAGIC, consumer->page_shm.bytes, epoch);
	daemon_store_policy(consumer->state, consumer->policy);
	consumer->state->lease_blocks = consumer->lease_blocks;
	r = shm_seal_readonly(&consumer->state_shm);
	if (r < 0)
		return r;
	return shm_seal_size(&consumer->page_shm);
}

int rx_session_new(struct rx_session **out, struct rx_endpoint *rx_endpoint, struct session *session,
                   struct user_share *share, uint32_t lease_blocks, enum ibvcap_policy policy)
{
	struct rx_session *rx = calloc(1, sizeof(*rx));
	int r;

	if (rx)
		rx->remains = make_remains(session->user, rx_endpoint->notifier);
	if (!rx || !rx->remains) {
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
		r = notifier_make_socket(&rx->wake, &rx->wake_theirs);
	if (r == 0)
		r = notifier_add(rx_endpoint->notifier, &rx->consumer, rx->wake, rx->client.user);
	if (r < 0) {
		rx_session_free(&rx->client);
		return r;
	}
	*out = rx;
	return 0;
}

/* Opens n read-only descriptors; -1 where none was opened. 0 or -errno. */
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

/* r < 0: close the descriptors only. */
static int send_attached(struct session *session, const struct rx_endpoint *rx_endpoint, int r, int *fds,
                         unsigned n_fds)
{
	struct protocol_attached message = {.epoch = rx_epoch(rx_endpoint)};

	protocol_init(&message.header, PROTOCOL_ATTACHED, sizeof(message));
	if (r == 0)
		return session_send(session, &message.header, fds, n_fds);
	for (unsigned i = 0; i < n_fds; i++)
		fd_close(&fds[i]);
	return r;
}

int rx_session_send(struct rx_session *rx)
{
	const struct rx_ring *ring = rx_session_endpoint(rx)->queue->ring;
	const struct shm *payload = ring->flags & IBVCAP_RING_FLAG_LENT ? &ring->headers : &ring->payload;
	const struct shm *const readonly[] = {payload, &ring->headers, &ring->ring_shm, &rx->consumer.state_shm};
	int fds[PROTOCOL_FD_N];
	int r = reopen_readonly(readonly, PROTOCOL_FD_CONSUMER_PAGE, fds);

	fds[PROTOCOL_FD_CONSUMER_PAGE] = fcntl(rx->consumer.page_shm.fd, F_DUPFD_CLOEXEC, 0);
	if (r == 0 && fds[PROTOCOL_FD_CONSUMER_PAGE] < 0)
		r = -errno;
	fds[PROTOCOL_FD_WAKE_SOCKET] = rx->wake_theirs;
	rx->wake_theirs = -1;
	return send_attached(rx->client.session, rx_session_endpoint(rx), r, fds, PROTOCOL_FD_N);
}

int rx_session_send_tap(struct session *session, const struct rx_endpoint *rx_endpoint)
{
	const struct rx_ring *ring = rx_endpoint->queue->ring;
	const struct shm *const readonly[] = {&ring->payload, &ring->headers, &ring->ring_shm};
	int fds[PROTOCOL_FD_TAP_N];
	int r = reopen_readonly(readonly, PROTOCOL_FD_TAP_N, fds);

	return send_attached(session, rx_endpoint, r, fds, PROTOCOL_FD_TAP_N);
}

/* ---- the last consumer that stopped the queue --------------------------------------------------- */

static void rx_stall_note_end(struct rx_stall *stall, const struct rx_session *rx)
{
	stall->pid = rx->client.pid;
	stall->uid = rx->client.uid;
	stall->until_ns = time_utc_ns();
}

/* The client may have left already; the worker has the consumer's memory until MAIL_CONSUMER_REMOVED. */
void rx_stall_note_demoted(struct rx_stall *stall, const struct rx_session *rx)
{
	const char *stream = rx->client.endpoint->name;
	const struct payer *payer = &rx->client.share->user->payer;
	struct payer_text text = payer_describe(payer, rx->client.uid);
	bool is_shared = payer->kind != PAYER_USER;

	rx_stall_note_end(stall, rx);
	if (loop_should_log(++stall->n_demoted))
		log_message(LOG_WARNING,
		            &(struct log_about){.event = LOG_EVENT_CONSUMER_DEMOTED,
		                                .stream = stream,
		                                .peer = "CONSUMER",
		                                .pid = rx->client.pid,
		                                .uid = rx->client.uid},
		            "stream '%s': consumer process %d of user %s kept the queue waiting for more than %llu ms "
		            "(lossless_deadline_ms)%s%s: lossy from now on (%llu so far)",
		            stream, (int)rx->client.pid, id_of_user(rx->client.uid).text,
		            (unsigned long long)rx->consumer.deadline_ns / 1000000, is_shared ? ", counted for " : "",
		            is_shared ? text.who : "", (unsigned long long)stall->n_demoted);
}

void rx_stall_note_removed(struct rx_stall *stall, const struct rx_session *rx)
{
	if (rx->consumer.has_stalled && rx->consumer.policy == IBVCAP_POLICY_LOSSLESS)
		rx_stall_note_end(stall, rx);
}
