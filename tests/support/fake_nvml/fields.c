/* Field values and processes: the functions of NVML that fill arrays. */
#include "library.h"

/* ---- field values ---- */

typedef struct {
  unsigned id, scope;
  long long time_us, latency_us;
  unsigned type;
  Return code;
  union {
    double d;
    unsigned u;
    unsigned long long ull;
  } value;
} Field;

/* Fields that NVML gives as unsigned int; the others here are unsigned long long. */
static int is_int_field(unsigned id) {
  return id == 82 || id == 1 || id == 2 || (id >= 142 && id <= 145) || (id >= 185 && id <= 192) || id == 230;
}

Return nvmlDeviceGetFieldValues(Device *device, int count, Field *fields) {
  double now = read_fake_time();
  Return code = check(device, fields, "FieldValues", now);
  if (code) return code;
  for (Field *field = fields; field < fields + count; field++) {
    double value = 0;
    field->code = ask(device, &value, "FieldValues/%u/%u", field->id, field->scope);
    field->time_us = read_wall_ns(scenario, now) / 1000;
    field->latency_us = 0;
    field->type = is_int_field(field->id) ? 1 : 3;
    field->value.ull = 0;
    if (field->code) continue;
    if (field->type == 1) field->value.u = (unsigned)value;
    else field->value.ull = (unsigned long long)value;
  }
  return OK;
}

/* ---- processes ---- */

typedef struct {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
} ProcessInfo;

static int runs(const Process *one, double now) { return now >= one->from_s && now < one->until_s; }

static Return list_processes(Device *device, int is_graphics, const char *name, unsigned *count,
                             ProcessInfo *out) {
  double now = read_fake_time();
  Return code = check(device, count, name, now);
  if (code) return code;
  unsigned room = *count, found = 0;
  for (size_t i = 0; i < device->process_count; i++) {
    const Process *one = &device->processes[i];
    if (one->is_graphics != is_graphics || !runs(one, now)) continue;
    if (out && found < room)
      out[found] = (ProcessInfo){one->pid, one->used_bytes, one->gpu_instance,
                                 one->compute_instance};
    found++;
  }
  *count = found;
  return found > room || (found && !out) ? INSUFFICIENT_SIZE : OK;
}

Return nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *count, ProcessInfo *out) {
  return list_processes(device, 0, "ComputeRunningProcesses", count, out);
}
Return nvmlDeviceGetComputeRunningProcesses_v2(Device *device, unsigned *count, ProcessInfo *out) {
  return nvmlDeviceGetComputeRunningProcesses_v3(device, count, out);
}
Return nvmlDeviceGetGraphicsRunningProcesses_v3(Device *device, unsigned *count,
                                                ProcessInfo *out) {
  return list_processes(device, 1, "GraphicsRunningProcesses", count, out);
}
Return nvmlDeviceGetGraphicsRunningProcesses_v2(Device *device, unsigned *count,
                                                ProcessInfo *out) {
  return nvmlDeviceGetGraphicsRunningProcesses_v3(device, count, out);
}

/* Nobody shares a GPU by MPS here. */
Return nvmlDeviceGetMPSComputeRunningProcesses_v3(Device *device, unsigned *count,
                                                  ProcessInfo *out) {
  (void)out;
  Return code = check(device, count, "MPSComputeRunningProcesses", read_fake_time());
  if (!code) *count = 0;
  return code;
}

typedef struct {
  unsigned pid;
  unsigned long long time_us;
  unsigned sm, memory, encoder, decoder;
} ProcessSample;

/* One sample a process and microsecond; those at `since` and before were seen already. */
Return nvmlDeviceGetProcessUtilization(Device *device, ProcessSample *out, unsigned *count,
                                       unsigned long long since) {
  double now = read_fake_time();
  Return code = check(device, count, "ProcessUtilization", now);
  if (code) return code;
  unsigned long long time_us = (unsigned long long)read_wall_ns(scenario, now) / 1000;
  unsigned room = *count, found = 0;
  for (size_t i = 0; i < device->process_count && time_us > since; i++) {
    const Process *one = &device->processes[i];
    if (!runs(one, now)) continue;
    if (out && found < room)
      out[found] = (ProcessSample){one->pid, time_us, one->sm, one->memory, one->encoder,
                                   one->decoder};
    found++;
  }
  *count = found;
  if (!found) return NOT_FOUND;
  return found > room || !out ? INSUFFICIENT_SIZE : OK;
}

/* ---- profiles of GPU instances (MIG) ---- */

typedef struct {
  unsigned version, id, is_p2p, slices, instances, sms, copy, decoders, encoders, jpeg, ofa;
  unsigned long long memory_mib;
  char name[96];
} ProfileInfo;

Return nvmlDeviceGetGpuInstanceProfileInfoV(Device *device, unsigned profile, ProfileInfo *out) {
  double now = read_fake_time(), id = 0, slices = 0, instances = 0, sms = 0, memory = 0;
  Return code = check(device, out, "GpuInstanceProfile", now);
  if (code) return code;
  code = ask(device, &id, "GpuInstanceProfile/%u.id", profile);
  if (code) return code;
  ask(device, &slices, "GpuInstanceProfile/%u.sliceCount", profile);
  ask(device, &instances, "GpuInstanceProfile/%u.instanceCount", profile);
  ask(device, &sms, "GpuInstanceProfile/%u.multiprocessorCount", profile);
  ask(device, &memory, "GpuInstanceProfile/%u.memorySizeMB", profile);
  out->id = (unsigned)id;
  out->slices = (unsigned)slices;
  out->instances = (unsigned)instances;
  out->sms = (unsigned)sms;
  out->memory_mib = (unsigned long long)memory;
  return OK;
}
