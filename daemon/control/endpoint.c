// SPDX-License-Identifier: Apache-2.0
/*
 * The part of streams and channels that does not depend on the direction: refusals, the list of clients, their charges.
 */
#include "daemon/control/endpoint.h"

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/probes.h"
#include "daemon/control/id_name.h"
#include "daemon/control/server.h"

#include <errno.h>
#include <stdio.h>

#define PLACES_TEXT_MAX 400

void endpoint_init(struct endpoint *endpoint, const struct endpoint_kind *kind, struct control *control,
                   const char *name)
{
	endpoint->kind = kind;
	endpoint->control = control;
	snprintf(endpoint->name, sizeof(endpoint->name), "%s", name);
	LIST_INIT(&endpoint->clients);
}

/* ---- refusals -------------------------------------------------------------------------------------- */

int endpoint_admit_connection(struct session *session, uint16_t abi_major, uint16_t abi_minor)
{
	if (session_is_in_use(session))
		return session_send_error(
			session, -EALREADY,
			"this connection is attached or sends already: one ring or channel a connection");
	if (abi_major != IBVCAP_ABI_MAJOR)
		return session_send_error(session, -EPROTO, "shared memory ABI %u.%u asked for, the daemon has %u.%u",
		                          abi_major, abi_minor, IBVCAP_ABI_MAJOR, IBVCAP_ABI_MINOR);
	return ENDPOINT_ADMITTED;
}

int endpoint_admit_rights(struct session *session, const char *noun, const char *name, enum rights rights,
                          const char *file, int line)
{
	struct id_text user;

	if (rights == RIGHTS_GRANTED)
		return ENDPOINT_ADMITTED;
	user = id_of_user(session->peer.uid);
	if (rights == RIGHTS_DAEMONS_USER)
		return session_send_error(session, -EACCES,
		                          "%s '%s': refused to user %s, which is the daemon's own: it could write "
		                          "memory that only the daemon may write; use another user",
		                          noun, name, user.text);
	if (rights == RIGHTS_OBSERVER)
		return session_send_error(session, -EACCES,
		                          "%s '%s': not for user %s, a member of observer_groups; the administrator "
		                          "sets observers_receive, or names the user in the %s's configuration, %s:%d",
		                          noun, name, user.text, noun, file, line);
	return session_send_error(session, -EACCES,
	                          "%s '%s': not for user %s; the administrator names users and groups in the %s's "
	                          "configuration, %s:%d",
	                          noun, name, user.text, noun, file, line);
}

/* Clients that have left but still count: their users cannot see why all places are taken. Returns text. */
static const char *explain_places(const struct endpoint *endpoint, char text[PLACES_TEXT_MAX])
{
	const struct endpoint_client *client, *keeper = NULL;
	uint32_t n_left = 0, n_retained = 0;
	int n = 0;

	LIST_FOREACH (client, &endpoint->clients, link) {
		if (client->is_retained) {
			n_retained++;
			keeper = client;
		} else if (!client->session) {
			n_left++;
		}
	}
	text[0] = 0;
	if (n_left)
		n = snprintf(text, PLACES_TEXT_MAX, " (%u of all have ended, and count until %s)", n_left,
		             endpoint->kind->until);
	if (keeper)
		snprintf(
			text + n, PLACES_TEXT_MAX - (size_t)n,
			" (%u of all have hung up, and count until no process maps their memory or has a descriptor of "
			"it: process %d, or one that got the memory from it; 'ibvcap doctor', run as root, lists the "
			"processes that do)",
			n_retained, (int)keeper->pid);
	return text;
}

int endpoint_admit_place(struct session *session, struct endpoint *endpoint, const struct user_share *share,
                         const struct endpoint_limits *limits)
{
	const struct endpoint_kind *kind = endpoint->kind;
	struct payer_text payer;
	char places[PLACES_TEXT_MAX];

	endpoint_free_retained(endpoint);
	if (endpoint->ended || !session->control->listening) /* control_stop_accepting() */
		return session_send_error(session, -EAGAIN, "%s '%s': the daemon is stopping", kind->noun,
		                          endpoint->name);
	if (!share)
		return session_send_error(session, -ENOMEM, "%s '%s': out of memory", kind->noun, endpoint->name);
	if (endpoint->n_clients >= limits->places)
		return session_send_error(session, -EAGAIN,
		                          "%s '%s': all %u %ss that it may have (%s) are there%s; wait for one to "
		                          "leave, or ask the administrator to raise %s in %s:%d",
		                          kind->noun, endpoint->name, limits->places, kind->client, kind->places_key,
		                          explain_places(endpoint, places), kind->places_key, limits->file,
		                          limits->line);
	if (!user_share_exceeds(share, USER_PLACES, 1, limits->places_per_user))
		return ENDPOINT_ADMITTED;
	payer = payer_describe(&share->user->payer, session->peer.uid);
	return session_send_error(session, -EAGAIN,
	                          "%s '%s': %s has %u %ss and %s is %u%s; close one, or ask the administrator to "
	                          "raise it%s in %s:%d",
	                          kind->noun, endpoint->name, payer.who, share->used[USER_PLACES], kind->client,
	                          kind->user_key, limits->places_per_user, explain_places(endpoint, places),
	                          payer.remedy, limits->file, limits->line);
}

/* ---- the list of clients --------------------------------------------------------------------------- */

struct user_share *endpoint_share(const struct endpoint *endpoint, const struct payer *payer)
{
	struct user *user = user_at(&endpoint->control->users, payer);

	return user ? user_share_at(user, endpoint) : NULL;
}

void endpoint_add_client(struct endpoint *endpoint, struct endpoint_client *client, struct session *session,
                         struct user_share *share, uint32_t lease_blocks)
{
	client->endpoint = endpoint;
	client->session = session;
	client->user = session->user;
	client->share = share;
	client->lease_blocks = lease_blocks;
	client->pid = session->peer.pid;
	client->uid = session->peer.uid;
	user_ref(client->user);
	user_share_charge(share, USER_PLACES, 1);
	user_share_charge(share, USER_LEASE_BLOCKS, lease_blocks);
	LIST_INSERT_HEAD(&endpoint->clients, client, link);
	endpoint->n_clients++;
	session->client = client;
	log_debug("%s '%s': %s process %d of user %u has a place: %u in all", endpoint->kind->noun, endpoint->name,
	          endpoint->kind->client, (int)client->pid, (unsigned)client->uid, endpoint->n_clients);
}

void endpoint_serve_client(struct endpoint_client *client)
{
	client->served = true;
	PROBE_ATTACH(client->endpoint->name, client->pid, client->uid);
}

void endpoint_detach_client(struct endpoint_client *client)
{
	if (client->served)
		PROBE_DETACH(client->endpoint->name, client->pid, client->uid);
	if (client->session)
		client->session->client = NULL;
	client->session = NULL;
	client->served = false;
}

void endpoint_discharge_leases(struct endpoint_client *client)
{
	user_share_discharge(client->share, USER_LEASE_BLOCKS, client->lease_blocks);
	client->lease_blocks = 0;
}

void endpoint_remove_client(struct endpoint_client *client)
{
	endpoint_detach_client(client);
	retained_memory_drop(&client->retained);
	LIST_REMOVE(client, link);
	client->endpoint->n_clients--;
	log_debug("%s '%s': the place of process %d of user %u is free: %u are left", client->endpoint->kind->noun,
	          client->endpoint->name, (int)client->pid, (unsigned)client->uid, client->endpoint->n_clients);
	endpoint_discharge_leases(client);
	user_share_discharge(client->share, USER_PLACES, 1);
	user_unref(client->user);
}

void endpoint_free_retained(struct endpoint *endpoint)
{
	struct endpoint_client *client, *next;

	for (client = LIST_FIRST(&endpoint->clients); client; client = next) {
		next = LIST_NEXT(client, link);
		if (client->is_retained && !retained_memory_exists(&client->retained))
			endpoint->kind->free(client);
	}
}

/* ---- disconnecting --------------------------------------------------------------------------------- */

enum ibvcap_disconnect endpoint_disconnect_reason(const struct endpoint *endpoint, const struct session *session)
{
	if (session->reason != IBVCAP_DISCONNECT_NONE)
		return session->reason;
	if (!endpoint->ended)
		return IBVCAP_DISCONNECT_HUNG_UP;
	return endpoint->ending != IBVCAP_DISCONNECT_NONE ? endpoint->ending : IBVCAP_DISCONNECT_SHUTDOWN;
}

/* n: such disconnections so far */
static void log_client(const struct endpoint_client *client, const char *event, const char *what, uint64_t n)
{
	const struct endpoint *endpoint = client->endpoint;
	struct log_about about = {.event = event, .peer = endpoint->kind->peer, .pid = client->pid, .uid = client->uid};

	*(endpoint->kind->is_channel ? &about.channel : &about.stream) = endpoint->name;
	log_message(LOG_WARNING, &about, "%s '%s': %s process %d of user %s %s: disconnected (%llu so far)",
	            endpoint->kind->noun, endpoint->name, endpoint->kind->client, (int)client->pid,
	            id_of_user(client->uid).text, what, (unsigned long long)n);
}

void endpoint_log_bad(const struct endpoint_client *client, uint32_t reason)
{
	char what[64] = "woke the worker more often than it submitted packets";

	if (!loop_should_log(++client->endpoint->n_bad))
		return;
	if (reason != IBVCAP_DISCONNECT_IDLE_KICKS)
		snprintf(what, sizeof(what), "broke the rules of its page (reason %u)", reason);
	log_client(client, client->endpoint->kind->bad_event, what, client->endpoint->n_bad);
}
