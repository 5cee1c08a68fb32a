// SPDX-License-Identifier: Apache-2.0
/* What the subcommands print when a stream or channel ends, and their exit codes. */
#include "tools/common/report.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <stdio.h>
#include <sysexits.h>

Test(report, each_end_has_its_words, .init = cr_redirect_stderr)
{
	cr_expect(eq(int, report_end("recv", "stream", "lidar", -ESHUTDOWN), EX_UNAVAILABLE));
	cr_expect(eq(int, report_end("recv", "stream", "lidar", -ENODEV), EX_UNAVAILABLE));
	cr_expect(eq(int, report_end("send", "channel", "out", -EIO), EX_UNAVAILABLE));
	cr_expect(eq(int, report_end("send", "channel", "out", -ECONNABORTED), EX_UNAVAILABLE));
	cr_expect(eq(int, report_end("recv", "stream", "lidar", -ENOMEM), EX_OSERR));
	fflush(stderr);
	cr_assert_stderr_eq_str("ibvcap recv: stream 'lidar': the daemon has ended\n"
	                        "ibvcap recv: stream 'lidar': the administrator has removed it\n"
	                        "ibvcap send: channel 'out': its device failed; the daemon's log says more\n"
	                        "ibvcap send: channel 'out': the daemon disconnected this client; its log says why\n"
	                        "ibvcap recv: stream 'lidar': Cannot allocate memory\n");
}

Test(report, no_error_says_nothing, .init = cr_redirect_stderr)
{
	cr_expect(eq(int, report_end("recv", "stream", "lidar", 0), EX_OK));
	fputs("end\n", stderr);
	fflush(stderr);
	cr_assert_stderr_eq_str("end\n");
}

Test(report, each_error_has_its_exit_code)
{
	static const struct {
		int error;
		int code;
	} cases[] = {{-EINVAL, EX_USAGE},    {-EACCES, EX_NOPERM},     {-EPERM, EX_NOPERM},  {-EAGAIN, EX_TEMPFAIL},
	             {-EPROTO, EX_PROTOCOL}, {-EBUSY, EX_CONFIG},      {-EEXIST, EX_CONFIG}, {-E2BIG, EX_CONFIG},
	             {-ENOMEM, EX_OSERR},    {-ENOENT, EX_UNAVAILABLE}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect(eq(int, report_exit_code(cases[i].error), cases[i].code), "errno %d", -cases[i].error);
}
