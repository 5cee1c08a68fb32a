// SPDX-License-Identifier: Apache-2.0
/*
 * Prints a status as metrics. The table of a status gives each metric its name, type, unit and help; the labels below
 * are what tells two parts of one kind apart. Times are in seconds, and rates in bytes per second.
 */
#include "tools/status/metrics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define NS_PER_S UINT64_C(1000000000)
#define MS_PER_S UINT64_C(1000)

#define LABELS_MAX 6

/* Names of fields in the table of the part, and of labels; but the field "name" is the label "stream" of a stream. */
static const struct labelling {
	const char *part;
	const char *names[LABELS_MAX + 1]; /* on each metric of the part; queue is the last; shared metrics lack it */
	const char *facts[LABELS_MAX + 1]; /* on ibvcap_PART_info alone, since they change */
} labellings[STATUS_N_PARTS] = {
	[STATUS_DAEMON] = {"daemon", .facts = {"version"}},
	[STATUS_STREAM] = {"stream",
                           {"name", "queue"},
                           {"interface", "device", "backend", "state", "clock_source", "system_clock"}},
	[STATUS_CONSUMER] = {"consumer", {"stream", "queue", "pid", "uid"}, {"policy", "group"}},
	[STATUS_CHANNEL] = {"channel", {"name"}, {"interface", "device", "backend", "state"}},
	[STATUS_SENDER] = {"sender", {"channel", "pid", "uid"}, .facts = {NULL}},
	[STATUS_INTERFACE] = {"interface", {"interface", "backend"}, {"device"}},
};

/* A part with its labels. */
struct entry {
	const void *part;
	char *labels;     /* stream="lidar",queue="0" */
	int shared_bytes; /* length of the shared metrics' labels; -1: another entry has those */
	unsigned again;   /* number of older entries with the same labels */
};

struct entries {
	enum status_kind_of_part kind;
	struct entry *at;
	int n;
};

/* ---- labels -------------------------------------------------------------------------------------- */

/* One byte that is no UTF-8 would make Prometheus refuse all metrics. */
static void print_escaped(FILE *to, const char *text)
{
	for (; *text; text++) {
		if (*text == '\\' || *text == '"')
			fputc('\\', to);
		fputc(*text >= ' ' && *text <= '~' ? *text : '?', to);
	}
}

static void print_label(FILE *to, enum status_kind_of_part kind, const void *part, const char *name)
{
	const struct status_field *field = status_parts[kind].fields;

	while (strcmp(field->name, name) != 0)
		field++;
	fprintf(to, "%s=\"", strcmp(name, "name") == 0 ? labellings[kind].part : name);
	if (field->type == STATUS_TEXT)
		print_escaped(to, (const char *)part + field->offset);
	else if (field->type == STATUS_WORD)
		fputs(status_word(field->words, status_number(field, part)), to);
	else
		fprintf(to, "%" PRId64, (int64_t)status_number(field, part));
	fputc('"', to);
}

/*
 * A process may attach twice, and a stream that ends has the name of the one in its place. The older entry comes later
 * in the list, and its labels stay as they are.
 */
static unsigned count_same(const struct entries *entries, int of)
{
	unsigned n = 0;

	for (int i = of + 1; i < entries->n; i++)
		n += strcmp(entries->at[i].labels, entries->at[of].labels) == 0;
	return n;
}

static void entry_init(struct entry *entry, enum status_kind_of_part kind, const void *part)
{
	size_t bytes = 0;
	FILE *to = open_memstream(&entry->labels, &bytes);

	if (!to)
		exit(EX_OSERR);
	entry->part = part;
	for (const char *const *name = labellings[kind].names; *name; name++) {
		if (strcmp(*name, "queue") == 0)
			entry->shared_bytes = (int)ftell(to);
		if (name != labellings[kind].names)
			fputc(',', to);
		print_label(to, kind, part, *name);
	}
	if (fclose(to) != 0)
		exit(EX_OSERR);
}

static struct entries entries_new(const struct status_view *view, enum status_kind_of_part kind)
{
	struct entries entries = {.kind = kind};
	const char *part = status_view_parts(view, kind, &entries.n);

	entries.at = calloc((size_t)entries.n + 1, sizeof(*entries.at));
	if (!entries.at)
		exit(EX_OSERR);
	for (int i = 0; i < entries.n; i++, part += status_parts[kind].bytes) {
		entry_init(&entries.at[i], kind, part);
		if (kind == STATUS_STREAM && !stream_sum_is_first(view, i))
			entries.at[i].shared_bytes = -1;
	}
	for (int i = 0; i < entries.n; i++)
		entries.at[i].again = count_same(&entries, i);
	return entries;
}

static void entries_free(struct entries *entries)
{
	for (int i = 0; i < entries->n; i++)
		free(entries->at[i].labels);
	free(entries->at);
}

/* ---- families: a name with its samples ------------------------------------------------------------- */

static void print_head(FILE *to, enum metrics_format format, const char *name, const char *unit, bool is_total,
                       const char *help)
{
	const char *suffix = is_total && format == METRICS_TEXT ? "_total" : "";

	fprintf(to, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, suffix, help, name, suffix,
	        is_total ? "counter" : "gauge");
	if (unit && format == METRICS_OPENMETRICS)
		fprintf(to, "# UNIT %s %s\n", name, unit);
}

static const char *metric_unit(const struct status_field *field)
{
	static const char *const units[][2] = {
		{"ns", "seconds"}, {"ms", "seconds"}, {"s", "seconds"}, {"bps", "bytes_per_second"}};

	for (unsigned i = 0; field->unit && i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(field->unit, units[i][0]) == 0)
			return units[i][1];
	return field->unit;
}

#define NAME_BYTES 96

/* ibvcap_channel_timed_lateness_seconds, of the counter timed_lateness_ns. */
static void metric_name(enum status_kind_of_part kind, const struct status_field *field, char name[NAME_BYTES])
{
	const char *unit = metric_unit(field);
	size_t stem = strlen(field->name);

	if (unit && stem > strlen(field->unit) + 1 &&
	    strcmp(field->name + stem - strlen(field->unit), field->unit) == 0)
		stem -= strlen(field->unit) + 1;
	snprintf(name, NAME_BYTES, "ibvcap_%s_%.*s%s%s%s", labellings[kind].part, (int)stem, field->name,
	         field->kind == STATUS_TIME ? "_timestamp" : "", unit ? "_" : "", unit ? unit : "");
}

static void print_value(FILE *to, const char *unit, uint64_t value)
{
	if (unit && strcmp(unit, "ns") == 0 && (int64_t)value < 0) {
		fputc('-', to);
		value = -value;
	}
	if (unit && strcmp(unit, "ns") == 0)
		fprintf(to, "%" PRIu64 ".%09" PRIu64 "\n", value / NS_PER_S, value % NS_PER_S);
	else if (unit && strcmp(unit, "ms") == 0)
		fprintf(to, "%" PRIu64 ".%03" PRIu64 "\n", value / MS_PER_S, value % MS_PER_S);
	else if (unit && strcmp(unit, "bps") == 0)
		fprintf(to, "%" PRIu64 ".%03" PRIu64 "\n", value / 8, value % 8 * 125);
	else
		fprintf(to, "%" PRId64 "\n", (int64_t)value);
}

/* The value of the field, or of the counter. False: it is not known, or the part has no such counter. */
static bool find_value(const struct entries *entries, const struct status_field *field, const void *part,
                       uint64_t *value)
{
	const struct counters counters = counters_of(entries->kind, part);

	if (field->bytes) {
		*value = status_number(field, part);
		return !field->may_lack || *value != IBVCAP_NOT_KNOWN;
	}
	*value = counters_value(counters, field->name);
	return counters_have(counters, field->name);
}

static void print_family(FILE *to, const struct entries *entries, const struct status_field *field,
                         enum metrics_format format)
{
	const bool is_total = field->kind == STATUS_TOTAL;
	char name[NAME_BYTES];
	uint64_t value;

	metric_name(entries->kind, field, name);
	print_head(to, format, name, metric_unit(field), is_total, field->help);
	for (const struct entry *entry = entries->at; entry < entries->at + entries->n; entry++) {
		const int bytes = field->is_shared ? entry->shared_bytes : (int)strlen(entry->labels);

		if (bytes < 0 || !find_value(entries, field, entry->part, &value))
			continue;
		fprintf(to, "%s%s{%.*s", name, is_total ? "_total" : "", bytes, entry->labels);
		if (entry->again)
			fprintf(to, ",again=\"%u\"", entry->again);
		fputs("} ", to);
		print_value(to, field->unit, value);
	}
}

static void print_facts(FILE *to, const struct entries *entries, enum metrics_format format)
{
	const char *part = labellings[entries->kind].part;
	char info[NAME_BYTES];

	snprintf(info, sizeof(info), "ibvcap_%s_info", part);
	print_head(to, format, info, NULL, false, "Always 1: the labels describe the part");
	for (const struct entry *entry = entries->at; entry < entries->at + entries->n; entry++) {
		const char *comma = entry->labels[0] ? "," : "";

		fprintf(to, "%s{%s", info, entry->labels);
		for (const char *const *name = labellings[entries->kind].facts; *name; name++, comma = ",") {
			fputs(comma, to);
			print_label(to, entries->kind, entry->part, *name);
		}
		if (entry->again)
			fprintf(to, ",again=\"%u\"", entry->again);
		fputs("} 1\n", to);
	}
}

static void print_part(FILE *to, const struct status_view *view, enum status_kind_of_part kind,
                       enum metrics_format format)
{
	const struct status_part *part = &status_parts[kind];
	struct entries entries = entries_new(view, kind);

	if (labellings[kind].facts[0])
		print_facts(to, &entries, format);
	for (const struct status_field *field = part->fields; field->name; field++)
		if (field->kind != STATUS_LABEL)
			print_family(to, &entries, field, format);
	for (uint32_t i = 0; i < part->n_counters; i++)
		if (part->counters[i].name)
			print_family(to, &entries, &part->counters[i], format);
	entries_free(&entries);
}

void metrics_print(FILE *to, const struct status_view *view, struct metrics_health health, enum metrics_format format)
{
	print_head(to, format, "ibvcap_build_info", NULL, false, "Always 1: the label is the version of this program");
	fprintf(to, "ibvcap_build_info{version=\"%s\"} 1\n", IBVCAP_BUILD_VERSION);
	print_head(to, format, "ibvcap_up", NULL, false, "Whether the daemon answers");
	fprintf(to, "ibvcap_up %d\n", health.is_up);
	print_head(to, format, "ibvcap_status_age_seconds", "seconds", false,
	           "The time since the daemon's last answer");
	fputs("ibvcap_status_age_seconds ", to);
	print_value(to, "ns", health.age_ns);
	for (enum status_kind_of_part kind = 0; kind < STATUS_N_PARTS; kind++)
		if (labellings[kind].part)
			print_part(to, view, kind, format);
	if (format == METRICS_OPENMETRICS)
		fputs("# EOF\n", to);
}
