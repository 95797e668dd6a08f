/* The parts of NVML with handles of their own: instances of a GPU (MIG), GPM's samples, events. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "library.h"

/* ---- instances ---- */

Return nvmlDeviceIsMigDeviceHandle(Device *device, unsigned *out) {
  Return code = check(device, out, "IsMigDeviceHandle", read_fake_time());
  if (!code) *out = device->parent != NULL;
  return code;
}

static Device *find_instance(const Device *parent, unsigned index) {
  for (size_t i = 0; i < scenario->device_count; i++) {
    Device *one = &scenario->devices[i];
    if (one->parent == parent && one->index == index) return one;
  }
  return NULL;
}

Return nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **out) {
  Return code = check(device, out, "MigDeviceHandleByIndex", read_fake_time());
  if (code) return code;
  Device *found = find_instance(device, index);
  if (!found) return NOT_FOUND;
  *out = found;
  return OK;
}

Return nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device *device, Device **out) {
  Return code = check(device, out, "DeviceHandleFromMigDeviceHandle", read_fake_time());
  if (code) return code;
  if (!device->parent) return INVALID_ARGUMENT;
  *out = device->parent;
  return OK;
}

Return nvmlDeviceGetGpuInstanceId(Device *device, unsigned *out) {
  Return code = check(device, out, "GpuInstanceId", read_fake_time());
  if (code) return code;
  if (!device->parent) return NOT_SUPPORTED;
  *out = device->gpu_instance;
  return OK;
}

Return nvmlDeviceGetComputeInstanceId(Device *device, unsigned *out) {
  Return code = check(device, out, "ComputeInstanceId", read_fake_time());
  if (code) return code;
  if (!device->parent) return NOT_SUPPORTED;
  *out = device->compute_instance;
  return OK;
}

typedef struct {
  unsigned multiprocessors, copy_engines, decoders, encoders, jpegs, ofas, gpu_slices,
      compute_slices;
  unsigned long long memory_mb;
} Attributes;

Return nvmlDeviceGetAttributes_v2(Device *device, Attributes *out) {
  static const char *const names[] = {
      "multiprocessorCount", "sharedCopyEngineCount", "sharedDecoderCount", "sharedEncoderCount",
      "sharedJpegCount", "sharedOfaCount", "gpuInstanceSliceCount", "computeInstanceSliceCount"};
  Return code = check(device, out, "Attributes", read_fake_time());
  if (code) return code;
  if (!device->parent) return NOT_SUPPORTED;
  unsigned *const parts[] = {&out->multiprocessors, &out->copy_engines, &out->decoders,
                             &out->encoders, &out->jpegs, &out->ofas, &out->gpu_slices,
                             &out->compute_slices};
  double value;
  for (int i = 0; i < 8; i++) {
    code = ask(device, &value, "Attributes.%s", names[i]);
    if (code) return code;
    *parts[i] = (unsigned)value;
  }
  code = ask(device, &value, "Attributes.memorySizeMB");
  if (!code) out->memory_mb = (unsigned long long)value;
  return code;
}

/* ---- GPM ---- */

typedef struct {
  Device *device;
  double at;
} GpmSample;

typedef struct {
  unsigned version, is_supported;
} GpmSupport;

typedef struct {
  unsigned id;
  Return code;
  double value;
  struct {
    const char *short_name, *long_name, *unit;
  } info;
} GpmMetric;

typedef struct {
  unsigned version, count;
  GpmSample *first, *second;
  GpmMetric metrics[]; /* how many there is room for differs from release to release */
} GpmMetricsGet;

Return nvmlGpmQueryDeviceSupport(Device *device, GpmSupport *out) {
  if (out && out->version != 1) return VERSION_MISMATCH;
  double value;
  Return code = ask(device, out ? &value : NULL, "GpmSupport");
  if (code == NOT_SUPPORTED) code = OK, value = 0;
  if (!code) out->is_supported = (unsigned)value;
  return code;
}

Return nvmlGpmSampleAlloc(GpmSample **out) {
  if (!scenario) return UNINITIALIZED;
  if (!out) return INVALID_ARGUMENT;
  *out = calloc(1, sizeof **out);
  return *out ? OK : MEMORY;
}

Return nvmlGpmSampleFree(GpmSample *sample) {
  if (!sample) return INVALID_ARGUMENT;
  free(sample);
  return OK;
}

Return nvmlGpmSampleGet(Device *device, GpmSample *sample) {
  double supported;
  Return code = ask(device, sample ? &supported : NULL, "GpmSupport");
  if (code) return code;
  if (!supported) return NOT_SUPPORTED;
  *sample = (GpmSample){device, read_fake_time()};
  return OK;
}

Return nvmlGpmMigSampleGet(Device *device, unsigned gpu_instance, GpmSample *sample) {
  GpmSample of_gpu;
  Return code = nvmlGpmSampleGet(device, sample ? &of_gpu : NULL);
  for (size_t i = 0; !code && i < scenario->device_count; i++) {
    Device *one = &scenario->devices[i];
    if (one->parent != device || one->gpu_instance != gpu_instance) continue;
    *sample = (GpmSample){one, of_gpu.at};
    return OK;
  }
  return code ? code : INVALID_ARGUMENT;
}

/* Each metric is its mean from the first sample to the second. */
Return nvmlGpmMetricsGet(GpmMetricsGet *out) {
  if (!scenario) return UNINITIALIZED;
  if (!out || !out->first || !out->second || !out->first->device) return INVALID_ARGUMENT;
  if (out->version != 1) return VERSION_MISMATCH;
  const GpmSample *first = out->first, *second = out->second;
  if (first->device != second->device) return INVALID_ARGUMENT;
  Return failure = find_failure(second->device, "GpmMetricsGet", second->at);
  if (failure) return failure;
  for (unsigned i = 0; i < out->count; i++) {
    GpmMetric *metric = &out->metrics[i];
    char name[32];
    snprintf(name, sizeof name, "Gpm/%u", metric->id);
    metric->info.short_name = metric->info.long_name = metric->info.unit = "";
    metric->code = second->at <= first->at
                       ? NO_DATA
                       : look_up_mean(second->device, name, first->at, second->at, &metric->value);
  }
  return OK;
}

/* ---- events ---- */

enum { MOST_REGISTRATIONS = 64 };

typedef struct {
  size_t count;
  struct {
    Device *device;
    uint64_t types;
    size_t next;       /* the first event that was not handed out */
  } registered[MOST_REGISTRATIONS];
} EventSet;

typedef struct {
  Device *device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
} EventData;

static pthread_mutex_t events_lock = PTHREAD_MUTEX_INITIALIZER;

Return nvmlEventSetCreate(EventSet **out) {
  if (!scenario) return UNINITIALIZED;
  if (!out) return INVALID_ARGUMENT;
  *out = calloc(1, sizeof **out);
  return *out ? OK : MEMORY;
}

Return nvmlEventSetFree(EventSet *set) {
  if (!set) return INVALID_ARGUMENT;
  free(set);
  return OK;
}

Return nvmlDeviceGetSupportedEventTypes(Device *device, unsigned long long *out) {
  double value;
  Return code = ask(device, out ? &value : NULL, "SupportedEventTypes");
  if (!code) *out = (unsigned long long)value;
  return code;
}

Return nvmlDeviceRegisterEvents(Device *device, unsigned long long types, EventSet *set) {
  unsigned long long known;
  Return code = nvmlDeviceGetSupportedEventTypes(device, set ? &known : NULL);
  if (code) return code;
  if (types & ~known) return NOT_SUPPORTED;
  if (set->count == MOST_REGISTRATIONS) return MEMORY;
  double now = read_fake_time();
  size_t next = 0;
  while (next < device->event_count && device->events[next].at_s < now) next++;
  pthread_mutex_lock(&events_lock);
  set->registered[set->count].device = device;
  set->registered[set->count].types = types;
  set->registered[set->count++].next = next;
  pthread_mutex_unlock(&events_lock);
  return OK;
}

/* The oldest event that came by now, of all registered devices; a lost device where none did. */
static Return take_event(EventSet *set, EventData *out, double now) {
  const Event *oldest = NULL;
  size_t of = 0;
  Return code = TIMEOUT;
  for (size_t i = 0; i < set->count; i++) {
    Device *device = set->registered[i].device;
    size_t *next = &set->registered[i].next;
    while (*next < device->event_count && !(device->events[*next].type & set->registered[i].types))
      (*next)++;
    if (*next < device->event_count && device->events[*next].at_s <= now &&
        (!oldest || device->events[*next].at_s < oldest->at_s)) {
      oldest = &device->events[*next];
      of = i;
    }
    Return failure = find_failure(device, "EventSetWait", now);
    if (failure) code = failure;
  }
  if (!oldest) return code;
  set->registered[of].next++;
  *out = (EventData){set->registered[of].device, oldest->type, oldest->data, oldest->gpu_instance,
                     oldest->compute_instance};
  return OK;
}

/* The time to wait is real time, also where the scenario's is not. */
Return nvmlEventSetWait_v2(EventSet *set, EventData *out, unsigned timeout_ms) {
  if (!scenario) return UNINITIALIZED;
  if (!set || !out) return INVALID_ARGUMENT;
  for (unsigned waited_ms = 0;; waited_ms++) {
    pthread_mutex_lock(&events_lock);
    Return code = take_event(set, out, read_fake_time());
    pthread_mutex_unlock(&events_lock);
    if (code != TIMEOUT || waited_ms >= timeout_ms) return code;
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
}
Return nvmlEventSetWait(EventSet *set, EventData *out, unsigned timeout_ms) {
  return nvmlEventSetWait_v2(set, out, timeout_ms);
}
