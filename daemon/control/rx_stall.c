// SPDX-License-Identifier: Apache-2.0
/* Remembers which consumer stopped the queue last, and logs demotions. */
#include "daemon/control/rx_stall.h"

#include "daemon/base/log.h"
#include "daemon/base/time.h"
#include "daemon/control/id_name.h"
#include "daemon/control/loop.h"
#include "daemon/control/rx_session.h"
#include "daemon/control/user.h"

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
	const struct account *account = &rx->client.share->user->account;
	struct account_text text = account_describe(account, rx->client.uid);
	bool is_shared = account->kind != ACCOUNT_USER;

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
