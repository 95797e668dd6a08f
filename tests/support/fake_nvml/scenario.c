#include "scenario.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MOST_PARTS = 16 };

static void *grow(void *items, size_t count, size_t size) {
  if (count & (count - 1)) return items; /* room is made at 0, 1, 2, 4, 8 … */
  void *more = realloc(items, (count ? 2 * count : 1) * size);
  if (!more) abort();
  memset((char *)more + count * size, 0, (count ? count : 1) * size);
  return more;
}

static int split(char *text, char **parts) {
  int count = 0;
  for (char *part = strtok(text, "\t"); part && count < MOST_PARTS; part = strtok(NULL, "\t"))
    parts[count++] = part;
  return count;
}

static Line read_line(char **parts) {
  Line line = {.name = strdup(parts[1]), .is_ramp = !strcmp(parts[2], "ramp")};
  char *at = parts[3];
  for (;;) {
    char *after;
    double time = strtod(at, &after);
    if (after == at) break;
    double value = strtod(after, &at);
    line.times = grow(line.times, line.count, sizeof *line.times);
    line.values = grow(line.values, line.count, sizeof *line.values);
    line.times[line.count] = time;
    line.values[line.count++] = value;
  }
  return line;
}

static Process read_process(char **p) {
  return (Process){
      .is_graphics = p[1][0] == 'G',
      .pid = strtoul(p[2], NULL, 10),
      .used_bytes = !strcmp(p[3], "-") ? UINT64_MAX : strtoull(p[3], NULL, 10),
      .gpu_instance = strtoul(p[4], NULL, 10),
      .compute_instance = strtoul(p[5], NULL, 10),
      .from_s = strtod(p[6], NULL),
      .until_s = strtod(p[7], NULL),
      .sm = strtoul(p[8], NULL, 10),
      .memory = strtoul(p[9], NULL, 10),
      .encoder = strtoul(p[10], NULL, 10),
      .decoder = strtoul(p[11], NULL, 10),
  };
}

/* 0 where the line is none that __init__.py writes. Devices are linked to parents at the end: they
 * move while they grow, so until then `parent` is a number, one more than that of the parent. */
static int read_item(Scenario *scenario, char **p, int count) {
  Device *device = scenario->device_count ? &scenario->devices[scenario->device_count - 1] : NULL;
  if (!strcmp(p[0], "system") && count == 6) {
    scenario->driver_version = strdup(p[1]);
    scenario->nvml_version = strdup(p[2]);
    scenario->cuda_version = atoi(p[3]);
    scenario->init_code = strtoul(p[4], NULL, 10);
    scenario->epoch_ns = strtoll(p[5], NULL, 10);
  } else if (!strcmp(p[0], "device") && count == 8) {
    scenario->devices = grow(scenario->devices, scenario->device_count, sizeof *device);
    scenario->devices[scenario->device_count++] = (Device){
        .parent = (Device *)(uintptr_t)(atoi(p[1]) + 1),
        .name = strdup(p[2]), .uuid = strdup(p[3]), .bus_id = strdup(p[4]), .serial = strdup(p[5]),
        .gpu_instance = strtoul(p[6], NULL, 10), .compute_instance = strtoul(p[7], NULL, 10),
    };
  } else if (device && !strcmp(p[0], "value") && count == 4) {
    device->lines = grow(device->lines, device->line_count, sizeof(Line));
    device->lines[device->line_count++] = read_line(p);
  } else if (device && !strcmp(p[0], "failure") && count == 5) {
    device->failures = grow(device->failures, device->failure_count, sizeof(Failure));
    device->failures[device->failure_count++] = (Failure){
        strdup(p[1]), strtoul(p[2], NULL, 10), strtod(p[3], NULL), strtod(p[4], NULL)};
  } else if (device && !strcmp(p[0], "delay") && count == 5) {
    device->delays = grow(device->delays, device->delay_count, sizeof(Delay));
    device->delays[device->delay_count++] = (Delay){
        strdup(p[1]), strtod(p[2], NULL), strtod(p[3], NULL), strtod(p[4], NULL)};
  } else if (device && !strcmp(p[0], "event") && count == 6) {
    device->events = grow(device->events, device->event_count, sizeof(Event));
    device->events[device->event_count++] = (Event){
        strtod(p[1], NULL), strtoull(p[2], NULL, 10), strtoull(p[3], NULL, 10),
        strtoul(p[4], NULL, 10), strtoul(p[5], NULL, 10)};
  } else if (device && !strcmp(p[0], "process") && count == 12) {
    device->processes = grow(device->processes, device->process_count, sizeof(Process));
    device->processes[device->process_count++] = read_process(p);
  } else {
    return 0;
  }
  return 1;
}

static int order_lines(const void *a, const void *b) {
  return strcmp(((const Line *)a)->name, ((const Line *)b)->name);
}

/* Parents by address, indices among siblings, and lines in order of their names. */
static void finish(Scenario *scenario) {
  for (size_t i = 0; i < scenario->device_count; i++) {
    Device *device = &scenario->devices[i];
    uintptr_t parent = (uintptr_t)device->parent;
    device->parent = parent ? &scenario->devices[parent - 1] : NULL;
    for (size_t before = 0; before < i; before++)
      device->index += scenario->devices[before].parent == device->parent;
    if (device->line_count) qsort(device->lines, device->line_count, sizeof(Line), order_lines);
  }
}

Scenario *read_scenario(void) {
  const char *path = getenv("FAKE_NVML_SCENARIO");
  FILE *file = path ? fopen(path, "r") : NULL;
  if (!file) return NULL;
  Scenario *scenario = calloc(1, sizeof *scenario);
  if (!scenario) abort();
  char *text = NULL;
  size_t room = 0, number = 0;
  ssize_t length;
  while ((length = getline(&text, &room, file)) > 0) {
    char *parts[MOST_PARTS] = {0};
    number++;
    if (text[length - 1] == '\n') text[length - 1] = 0;
    int count = split(text, parts);
    if (!count || !read_item(scenario, parts, count)) {
      fprintf(stderr, "fake NVML: line %zu of %s is no item\n", number, path);
      free_scenario(scenario);
      scenario = NULL;
      break;
    }
  }
  free(text);
  fclose(file);
  if (scenario) finish(scenario);
  return scenario;
}

void free_scenario(Scenario *scenario) {
  if (!scenario) return;
  for (size_t i = 0; i < scenario->device_count; i++) {
    Device *device = &scenario->devices[i];
    for (size_t n = 0; n < device->line_count; n++) {
      free((char *)device->lines[n].name);
      free(device->lines[n].times);
      free(device->lines[n].values);
    }
    for (size_t n = 0; n < device->failure_count; n++) free((char *)device->failures[n].name);
    free(device->lines);
    for (size_t n = 0; n < device->delay_count; n++) free((char *)device->delays[n].name);
    free(device->failures);
    free(device->delays);
    free(device->events);
    free(device->processes);
    free((char *)device->name);
    free((char *)device->uuid);
    free((char *)device->bus_id);
    free((char *)device->serial);
  }
  free(scenario->devices);
  free((char *)scenario->driver_version);
  free((char *)scenario->nvml_version);
  free(scenario);
}

static const int64_t *clock_file; /* ns; whoever drives the test writes it */
static int64_t began_ns;

static int64_t read_monotonic(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

double read_fake_time(void) {
  if (!clock_file && !began_ns) {
    const char *path = getenv("FAKE_NVML_CLOCK"), *began = getenv("FAKE_NVML_BEGAN");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file >= 0) {
      void *mapped = mmap(NULL, sizeof *clock_file, PROT_READ, MAP_SHARED, file, 0);
      close(file);
      if (mapped != MAP_FAILED) clock_file = mapped;
    }
    began_ns = began ? strtoll(began, NULL, 10) : read_monotonic();
  }
  int64_t ns = clock_file ? __atomic_load_n(clock_file, __ATOMIC_RELAXED)
                          : read_monotonic() - began_ns;
  return (double)ns / 1e9;
}

int64_t read_wall_ns(const Scenario *scenario, double now) {
  struct timespec wall;
  if (clock_file) return scenario->epoch_ns + (int64_t)(now * 1e9);
  clock_gettime(CLOCK_REALTIME, &wall);
  return wall.tv_sec * 1000000000LL + wall.tv_nsec;
}

void forget_clock(void) {
  if (clock_file) munmap((void *)clock_file, sizeof *clock_file);
  clock_file = NULL;
  began_ns = 0;
}

/* Whether `name` is what a failure is of: the same, or the same function with any arguments. */
static int is_of(const char *failing, const char *name) {
  size_t length = strlen(failing);
  return !strcmp(failing, "*") || (!strncmp(failing, name, length) && strchr("/.", name[length]));
}

unsigned find_failure(const Device *device, const char *name, double now) {
  for (size_t i = 0; i < device->failure_count; i++) {
    const Failure *one = &device->failures[i];
    if (now >= one->from_s && now < one->until_s && is_of(one->name, name)) return one->code;
  }
  return device->parent ? find_failure(device->parent, name, now) : OK;
}

void wait_as_told(const Device *device, const char *name, double now) {
  for (size_t i = 0; i < device->delay_count; i++) {
    const Delay *one = &device->delays[i];
    if (now < one->from_s || now >= one->until_s || !is_of(one->name, name)) continue;
    struct timespec rest = {(time_t)one->seconds,
                            (long)((one->seconds - (double)(time_t)one->seconds) * 1e9)};
    while (nanosleep(&rest, &rest)) continue;
  }
}

static const Line *find_line(const Device *device, const char *name) {
  Line key = {.name = name};
  if (!device->line_count) return NULL;
  return bsearch(&key, device->lines, device->line_count, sizeof(Line), order_lines);
}

/* The last point at or before a moment; -1 before all. */
static ptrdiff_t find_point(const Line *line, double at) {
  size_t low = 0, high = line->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (line->times[middle] <= at) low = middle + 1;
    else high = middle;
  }
  return (ptrdiff_t)low - 1;
}

static double evaluate(const Line *line, double at) {
  ptrdiff_t i = find_point(line, at);
  if (i < 0) return line->values[0];
  if (!line->is_ramp || (size_t)i + 1 == line->count) return line->values[i];
  double share = (at - line->times[i]) / (line->times[i + 1] - line->times[i]);
  return line->values[i] + share * (line->values[i + 1] - line->values[i]);
}

/* What the value adds up to between two moments, times seconds. */
static double integrate(const Line *line, double from, double to) {
  double sum = 0, at = from;
  while (at < to) {
    ptrdiff_t i = find_point(line, at);
    double next = (size_t)(i + 1) < line->count ? line->times[i + 1] : to;
    if (next > to) next = to;
    double begin = evaluate(line, at), end = begin;
    if (line->is_ramp && i >= 0 && (size_t)i + 1 < line->count)
      end = line->values[i] + (next - line->times[i]) / (line->times[i + 1] - line->times[i]) *
                                  (line->values[i + 1] - line->values[i]);
    sum += (begin + end) / 2 * (next - at);
    at = next;
  }
  return sum;
}

unsigned look_up(const Device *device, const char *name, double now, double *value) {
  unsigned code = find_failure(device, name, now);
  if (code) return code;
  const Line *line = find_line(device, name);
  if (!line || !line->count) return NOT_SUPPORTED;
  *value = evaluate(line, now);
  return OK;
}

unsigned look_up_mean(const Device *device, const char *name, double from, double to,
                      double *value) {
  unsigned code = look_up(device, name, to, value);
  if (!code && to > from) *value = integrate(find_line(device, name), from, to) / (to - from);
  return code;
}
