// SPDX-License-Identifier: Apache-2.0
/* Reads a recording block by block, and lets it be judged. */
#include "tools/inspect/inspect_file.h"

#include "tools/recording/recording.h"

#include <errno.h>

/* How the reading ended, for inspect_judge(). */
static int find_end(const struct recording *recording, int r)
{
	if (r == 0 && recording_is_cut_off(recording))
		return -ENODATA;
	return r == -EBADMSG && recording_is_pcap(recording) ? INSPECT_END_PCAP : r;
}

static const char *find_error(const struct recording *recording)
{
	const char *error = recording_error(recording);

	return error[0] ? error : "the file ends within its compressed data";
}

static int read_blocks(struct inspect_file *file, struct recording *recording)
{
	struct pcapng_block block;
	int memory = 0, r = 0;

	while (memory == 0 && (r = recording_next(recording, &block)) > 0) {
		memory = inspect_sum_add(&file->sum, &block);
		if (memory == 0)
			memory = inspect_numbers_add(&file->numbers, &file->sum, &block);
	}
	if (memory < 0 || r == -ENOMEM)
		return -ENOMEM;
	if (inspect_is_extract(&file->sum)) /* numbers are absent that were not lost */
		inspect_numbers_free(&file->numbers);
	inspect_numbers_end(&file->numbers, &file->sum);
	inspect_judge(&file->finding, &file->sum, &file->numbers, find_end(recording, r), find_error(recording));
	return 0;
}

int inspect_file_read(struct inspect_file *file, const char *path)
{
	struct recording recording;
	int r = recording_open(&recording, path);

	*file = (struct inspect_file){.path = path};
	if (r < 0)
		return r;
	file->is_index = recording_is_index(&recording);
	if (!file->is_index)
		r = read_blocks(file, &recording);
	recording_close(&recording);
	return r;
}

void inspect_file_deinit(struct inspect_file *file)
{
	inspect_numbers_free(&file->numbers);
	inspect_sum_free(&file->sum);
}
