// SPDX-License-Identifier: Apache-2.0
/* ibvcap doctor: runs the program ibvcap-doctor, which links the daemon's configuration and libibverbs. */
#include "tools/ibvcap/ibvcap.h"

int cmd_doctor(int argc, char **argv)
{
	(void)argc;
	return run_program("ibvcap-doctor", "ibvcap-tools again", argv);
}
