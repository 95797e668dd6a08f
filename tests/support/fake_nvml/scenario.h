/* What a fake GPU answers, as functions of time: read from a file, asked by name.
 *
 * The file has one item a line, its parts separated by tabs; __init__.py writes it. A name is that
 * of NVML's function without nvmlDeviceGet, then its arguments after slashes, then the field of the
 * structure after a dot: PowerUsage, ClockInfo/1, UtilizationRates.gpu, FieldValues/83/0. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Return codes of nvml.h. */
enum {
  OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4,
  NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15,
  MEMORY = 20, NO_DATA = 21, VERSION_MISMATCH = 25, UNKNOWN = 999
};

/* A value over time, in NVML's unit: points in order of time, which may share a moment (a jump). */
typedef struct {
  const char *name;
  int is_ramp; /* straight between points; else each holds until the next */
  size_t count;
  double *times, *values; /* seconds */
} Line;

/* What a function answers instead, from one moment to another. */
typedef struct {
  const char *name; /* "*" for every function */
  unsigned code;
  double from_s, until_s;
} Failure;

/* How long a function takes, in real time: a driver in trouble answers after seconds. */
typedef struct {
  const char *name;
  double seconds, from_s, until_s;
} Delay;

typedef struct {
  double at_s;
  uint64_t type, data;
  unsigned gpu_instance, compute_instance;
} Event;

typedef struct {
  int is_graphics;
  unsigned pid;
  uint64_t used_bytes;
  unsigned gpu_instance, compute_instance;
  double from_s, until_s;
  unsigned sm, memory, encoder, decoder; /* % */
} Process;

/* A GPU, or an instance of one (MIG): what NVML's callers hold a pointer to. */
typedef struct Device {
  struct Device *parent; /* of an instance */
  unsigned index;        /* among GPUs, or among the instances of one */
  const char *name, *uuid, *bus_id, *serial;
  unsigned gpu_instance, compute_instance;
  Line *lines;
  Failure *failures;
  Delay *delays;
  Event *events;
  Process *processes;
  size_t line_count, failure_count, delay_count, event_count, process_count;
} Device;

typedef struct {
  const char *driver_version, *nvml_version;
  int cuda_version;
  unsigned init_code; /* what nvmlInit answers */
  int64_t epoch_ns;   /* the wall clock when a time that is given is 0 */
  Device *devices;
  size_t device_count;
} Scenario;

/* The scenario that FAKE_NVML_SCENARIO names; NULL where there is none or it is wrong (said on
 * stderr). */
Scenario *read_scenario(void);
void free_scenario(Scenario *scenario);

/* Seconds of the fake time: what the 8 bytes of the file FAKE_NVML_CLOCK hold in ns, where there is
 * one, else since the monotonic clock's time FAKE_NVML_BEGAN (ns), else since the first call. */
double read_fake_time(void);
/* The wall clock at that time: by the scenario's epoch where the time is given, else the real one. */
int64_t read_wall_ns(const Scenario *scenario, double now);
void forget_clock(void);

/* What the device answers to a function now: OK, or the code of a failure. */
unsigned find_failure(const Device *device, const char *name, double now);
/* Take the time that the function takes now. */
void wait_as_told(const Device *device, const char *name, double now);
/* A value by name: NOT_SUPPORTED where the scenario has none, or the code of a failure. */
unsigned look_up(const Device *device, const char *name, double now, double *value);
/* The mean of a value between two moments. */
unsigned look_up_mean(const Device *device, const char *name, double from, double to,
                      double *value);
