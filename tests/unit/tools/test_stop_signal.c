// SPDX-License-Identifier: Apache-2.0
#include "tools/common/stop_signal.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <unistd.h>

Test(stop_signal, any_number_is_one_request)
{
	stop_signal_catch();
	cr_expect_not(stop_signal_came());
	raise(SIGINT);
	sleep(1);
	raise(SIGTERM);
	cr_expect(stop_signal_came());
}

Test(stop_signal, a_second_one_a_second_later_ends_the_program_that_asked_for_it, .signal = SIGTERM)
{
	stop_signal_catch();
	stop_signal_end_by_second();
	raise(SIGTERM);
	raise(SIGTERM);
	cr_expect(stop_signal_came());
	sleep(1);
	raise(SIGTERM);
}
