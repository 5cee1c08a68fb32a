// SPDX-License-Identifier: Apache-2.0
#include "lib/ibvcap/start.h"

uint64_t start_oldest(const struct start_view *view)
{
	return view->floor > view->head / view->slots_per_block ? view->head : view->floor * view->slots_per_block;
}
