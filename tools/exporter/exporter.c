// SPDX-License-Identifier: Apache-2.0
/*
 * The program behind `ibvcap metrics --listen`, which runs it as `ibvcap-metrics ADDRESS:PORT [SOCKET]`. It asks the
 * daemon each second and serves the answers by HTTP. It is a program of its own, because no other subcommand needs
 * libmicrohttpd.
 */
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "tools/common/stop_signal.h"
#include "tools/exporter/exporter.h"

#include <signal.h>
#include <sysexits.h>
#include <systemd/sd-daemon.h>

#define INTERVAL_NS TIME_SECOND_NS

/* Signals come to this thread alone, whose sleep they end. */
static struct server *start_server(const char *address, struct watch *watch)
{
	struct server *server;
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	server = server_new(address, watch);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return server;
}

/* Until a signal comes. */
static void serve(const char *address, struct server *server, struct watch *watch)
{
	const struct timespec pause = {.tv_nsec = INTERVAL_NS / 2};

	fprintf(stderr, "ibvcap metrics: http://%s/ has a page for a browser, http://%s/metrics is for Prometheus\n",
	        address, address);
	sd_notify(1, "READY=1");
	while (!stop_signal_came()) {
		nanosleep(&pause, NULL);
		server_end_old_connections(server);
		if (!stop_signal_came())
			nanosleep(&pause, NULL);
		if (!stop_signal_came())
			watch_ask(watch);
	}
}

int main(int argc, char **argv)
{
	struct server *server;
	struct watch watch;
	int code = EX_UNAVAILABLE;

	standard_files_open();
	if (argc < 2 || argc > 3) {
		fputs("ibvcap-metrics: run 'ibvcap metrics --listen ADDRESS:PORT' instead\n", stderr);
		return EX_USAGE;
	}
	if (!server_address_is_one(argv[1]))
		return EX_USAGE;
	watch_init(&watch, argc == 3 ? argv[2] : NULL);
	watch_ask(&watch);
	stop_signal_catch();
	server = start_server(argv[1], &watch);
	if (server) {
		serve(argv[1], server, &watch);
		server_free(server);
		code = EX_OK;
	}
	top_view_take(&watch.view, NULL, 0);
	return code;
}
