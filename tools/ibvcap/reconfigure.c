// SPDX-License-Identifier: Apache-2.0
/* The request to change the running daemon's configuration, and the options that come with it. */
#include "tools/ibvcap/reconfigure.h"

#include "tools/ibvcap/ibvcap.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <sysexits.h>

int reconfigure_parse(int argc, char **argv, const char *usage, int n_words, bool or_more, const char **socket)
{
	static const struct option known[] = {
		{"socket", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option;

	*socket = NULL;
	while ((option = getopt_long(argc, argv, "s:h", known, NULL)) != -1) {
		if (option != 's')
			return say_usage(option, usage);
		*socket = optarg;
	}
	if (argc - optind == n_words || (or_more && argc - optind > n_words))
		return -1;
	return say_usage('?', usage);
}

int reconfigure_daemon(const char *command, const char *socket, enum ibvcap_reconfigure what, const char *name,
                       const char *text)
{
	char said[1024];
	int r = ibvcap_reconfigure(socket, what, name, text, said, sizeof(said), 0);

	if (r < 0) {
		fprintf(stderr, "ibvcap %s: %s\n", command, ibvcap_error_text());
		/* The command line was right: what is invalid is what it names. */
		return r == -EINVAL ? EX_CONFIG : exit_code_of(r);
	}
	puts(said);
	return EX_OK;
}
