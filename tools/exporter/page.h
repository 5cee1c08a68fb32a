// SPDX-License-Identifier: Apache-2.0
/* page.html as the program has it: the build makes the file of these constants with embed_page.py. */
#ifndef TOOLS_EXPORTER_PAGE_H
#define TOOLS_EXPORTER_PAGE_H

#include <stddef.h>

extern const unsigned char page_html[];
extern const size_t page_html_bytes;
extern const char page_policy[]; /* the header Content-Security-Policy: a browser runs the page's own script alone */

#endif
