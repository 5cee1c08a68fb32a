// SPDX-License-Identifier: Apache-2.0
/* ibvcap produce: runs the program ibvcap-produce, which links librdkafka. */
#include "tools/ibvcap/ibvcap.h"

int cmd_produce(int argc, char **argv)
{
	(void)argc;
	return run_program("ibvcap-produce", "ibvcap-produce", argv);
}
