/* libnvidia-ml.so.1 without a GPU: NVML's functions as programs call them, answered by a scenario.
 *
 * Signatures, structures and codes: NVML API reference (https://docs.nvidia.com/deploy/nvml-api/)
 * and nvml.h. A function that the scenario has no value for is not supported, as on a GPU that
 * lacks it. What changes a GPU is not here at all. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "library.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users;
Scenario *scenario;

static int is_device(const Device *device) {
  return device >= scenario->devices && device < scenario->devices + scenario->device_count;
}

Return check(const Device *device, const void *out, const char *name, double now) {
  if (!scenario) return UNINITIALIZED;
  if (!is_device(device) || !out) return INVALID_ARGUMENT;
  wait_as_told(device, name, now);
  return find_failure(device, name, now);
}

Return ask(Device *device, double *value, const char *format, ...) {
  char name[96];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(name, sizeof name, format, arguments);
  va_end(arguments);
  double now = read_fake_time();
  Return code = check(device, value, name, now);
  return code ? code : look_up(device, name, now, value);
}

static Return put_text(const char *text, char *out, unsigned room) {
  if (!out) return INVALID_ARGUMENT;
  if (strlen(text) >= room) return INSUFFICIENT_SIZE;
  strcpy(out, text);
  return OK;
}

/* ---- the library ---- */

Return nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  pthread_mutex_lock(&lock);
  Return code = OK;
  if (!scenario) scenario = read_scenario();
  if (!scenario) code = DRIVER_NOT_LOADED;
  else if (scenario->init_code) code = scenario->init_code;
  if (!code) {
    users++;
    read_fake_time(); /* time begins here */
  } else if (!users) {
    free_scenario(scenario);
    scenario = NULL;
  }
  pthread_mutex_unlock(&lock);
  return code;
}

Return nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
Return nvmlInit(void) { return nvmlInitWithFlags(0); }

Return nvmlShutdown(void) {
  pthread_mutex_lock(&lock);
  Return code = users ? OK : UNINITIALIZED;
  if (users && !--users) {
    free_scenario(scenario);
    scenario = NULL;
    forget_clock();
  }
  pthread_mutex_unlock(&lock);
  return code;
}

const char *nvmlErrorString(Return code) {
  switch (code) {
    case OK: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NO_PERMISSION: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case TIMEOUT: return "Timeout";
    case GPU_IS_LOST: return "GPU is lost";
    case NO_DATA: return "No data";
    case VERSION_MISMATCH: return "Argument version mismatch";
    default: return "Unknown Error";
  }
}

Return nvmlSystemGetDriverVersion(char *out, unsigned room) {
  return scenario ? put_text(scenario->driver_version, out, room) : UNINITIALIZED;
}
Return nvmlSystemGetNVMLVersion(char *out, unsigned room) {
  return scenario ? put_text(scenario->nvml_version, out, room) : UNINITIALIZED;
}
Return nvmlSystemGetCudaDriverVersion(int *out) {
  if (!scenario) return UNINITIALIZED;
  *out = scenario->cuda_version;
  return OK;
}
Return nvmlSystemGetCudaDriverVersion_v2(int *out) { return nvmlSystemGetCudaDriverVersion(out); }

/* ---- devices and what they are ---- */

Return nvmlDeviceGetCount_v2(unsigned *count) {
  if (!scenario) return UNINITIALIZED;
  if (!count) return INVALID_ARGUMENT;
  *count = 0;
  for (size_t i = 0; i < scenario->device_count; i++) *count += !scenario->devices[i].parent;
  return OK;
}
Return nvmlDeviceGetCount(unsigned *count) { return nvmlDeviceGetCount_v2(count); }

static Return hand_out(Device *device, Device **out) {
  if (!device) return NOT_FOUND;
  *out = device;
  return find_failure(device, "HandleByIndex", read_fake_time());
}

Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **out) {
  if (!scenario) return UNINITIALIZED;
  for (size_t i = 0; i < scenario->device_count; i++)
    if (!scenario->devices[i].parent && scenario->devices[i].index == index)
      return hand_out(&scenario->devices[i], out);
  return INVALID_ARGUMENT;
}
Return nvmlDeviceGetHandleByIndex(unsigned index, Device **out) {
  return nvmlDeviceGetHandleByIndex_v2(index, out);
}

Return nvmlDeviceGetHandleByUUID(const char *uuid, Device **out) {
  if (!scenario) return UNINITIALIZED;
  Device *found = NULL;
  for (size_t i = 0; i < scenario->device_count; i++)
    if (!strcmp(scenario->devices[i].uuid, uuid)) found = &scenario->devices[i];
  return hand_out(found, out);
}

typedef struct {
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
} PciInfo;

static int parse_bus_id(const char *text, PciInfo *info) {
  return sscanf(text, "%x:%x:%x", &info->domain, &info->bus, &info->device) == 3;
}

Return nvmlDeviceGetHandleByPciBusId_v2(const char *text, Device **out) {
  if (!scenario) return UNINITIALIZED;
  PciInfo wanted, own;
  if (!parse_bus_id(text, &wanted)) return INVALID_ARGUMENT;
  Device *found = NULL;
  for (size_t i = 0; i < scenario->device_count; i++)
    if (!scenario->devices[i].parent && parse_bus_id(scenario->devices[i].bus_id, &own) &&
        own.domain == wanted.domain && own.bus == wanted.bus && own.device == wanted.device)
      found = &scenario->devices[i];
  return hand_out(found, out);
}

Return nvmlDeviceGetPciInfo_v3(Device *device, PciInfo *info) {
  Return code = check(device, info, "PciInfo", read_fake_time());
  if (code) return code;
  memset(info, 0, sizeof *info);
  if (!parse_bus_id(device->bus_id, info)) return UNKNOWN;
  double id = 0;
  if (!ask(device, &id, "PciInfo.pciDeviceId")) info->device_id = (unsigned)id;
  snprintf(info->bus_id, sizeof info->bus_id, "%08X:%02X:%02X.0", info->domain, info->bus,
           info->device);
  snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "%04X:%02X:%02X.0",
           info->domain & 0xffff, info->bus & 0xff, info->device & 0xff);
  return OK;
}

#define TEXT(FUNCTION, NAME, PART)                              \
  Return FUNCTION(Device *device, char *out, unsigned room) {   \
    Return code = check(device, out, NAME, read_fake_time());   \
    return code ? code : put_text(device->PART, out, room);     \
  }
TEXT(nvmlDeviceGetName, "Name", name)
TEXT(nvmlDeviceGetUUID, "UUID", uuid)
TEXT(nvmlDeviceGetSerial, "Serial", serial)

Return nvmlDeviceGetIndex(Device *device, unsigned *out) {
  Return code = check(device, out, "Index", read_fake_time());
  if (!code) *out = device->index;
  return code;
}

/* ---- one number ---- */

#define SCALAR(NAME, TYPE)                               \
  Return nvmlDeviceGet##NAME(Device *device, TYPE *out) { \
    double value;                                         \
    Return code = ask(device, out ? &value : NULL, #NAME); \
    if (!code) *out = (TYPE)value;                        \
    return code;                                          \
  }
SCALAR(MinorNumber, unsigned)
SCALAR(PersistenceMode, unsigned)
SCALAR(ComputeMode, unsigned)
SCALAR(DisplayMode, unsigned)
SCALAR(DisplayActive, unsigned)
SCALAR(Brand, unsigned)
SCALAR(Architecture, unsigned)
SCALAR(NumGpuCores, unsigned)
SCALAR(MemoryBusWidth, unsigned)
SCALAR(PowerUsage, unsigned)
SCALAR(PowerManagementMode, unsigned)
SCALAR(PowerManagementLimit, unsigned)
SCALAR(PowerManagementDefaultLimit, unsigned)
SCALAR(EnforcedPowerLimit, unsigned)
SCALAR(TotalEnergyConsumption, unsigned long long)
SCALAR(PerformanceState, unsigned)
SCALAR(FanSpeed, unsigned)
SCALAR(NumFans, unsigned)
SCALAR(CurrentClocksEventReasons, unsigned long long)
SCALAR(SupportedClocksEventReasons, unsigned long long)
SCALAR(PcieReplayCounter, unsigned)
SCALAR(CurrPcieLinkGeneration, unsigned)
SCALAR(CurrPcieLinkWidth, unsigned)
SCALAR(MaxPcieLinkGeneration, unsigned)
SCALAR(MaxPcieLinkWidth, unsigned)
SCALAR(RetiredPagesPendingStatus, unsigned)
SCALAR(MaxMigDeviceCount, unsigned)

/* The names of before driver 535. */
Return nvmlDeviceGetCurrentClocksThrottleReasons(Device *device, unsigned long long *out) {
  return nvmlDeviceGetCurrentClocksEventReasons(device, out);
}
Return nvmlDeviceGetSupportedClocksThrottleReasons(Device *device, unsigned long long *out) {
  return nvmlDeviceGetSupportedClocksEventReasons(device, out);
}
Return nvmlDeviceGetPowerState(Device *device, unsigned *out) {
  return nvmlDeviceGetPerformanceState(device, out);
}

#define OF_KIND(FUNCTION, NAME)                                       \
  Return FUNCTION(Device *device, unsigned kind, unsigned *out) {     \
    double value;                                                     \
    Return code = ask(device, out ? &value : NULL, NAME "/%u", kind); \
    if (!code) *out = (unsigned)value;                                \
    return code;                                                      \
  }
OF_KIND(nvmlDeviceGetTemperature, "Temperature")
OF_KIND(nvmlDeviceGetTemperatureThreshold, "TemperatureThreshold")
OF_KIND(nvmlDeviceGetFanSpeed_v2, "FanSpeed_v2")
OF_KIND(nvmlDeviceGetClockInfo, "ClockInfo")
OF_KIND(nvmlDeviceGetMaxClockInfo, "MaxClockInfo")
OF_KIND(nvmlDeviceGetApplicationsClock, "ApplicationsClock")
OF_KIND(nvmlDeviceGetDefaultApplicationsClock, "DefaultApplicationsClock")
OF_KIND(nvmlDeviceGetPcieThroughput, "PcieThroughput")
OF_KIND(nvmlDeviceGetNvLinkState, "NvLinkState")

Return nvmlDeviceGetClock(Device *device, unsigned type, unsigned id, unsigned *out) {
  double value;
  Return code = ask(device, out ? &value : NULL, "Clock/%u/%u", type, id);
  if (!code) *out = (unsigned)value;
  return code;
}

typedef struct {
  unsigned version, sensor;
  int temperature;
} Temperature;

Return nvmlDeviceGetTemperatureV(Device *device, Temperature *out) {
  if (out && out->version != (1u << 24 | sizeof *out)) return VERSION_MISMATCH;
  double value;
  Return code = ask(device, out ? &value : NULL, "Temperature/%u", out ? out->sensor : 0);
  if (!code) out->temperature = (int)value;
  return code;
}

Return nvmlDeviceGetTotalEccErrors(Device *device, unsigned type, unsigned counter,
                                   unsigned long long *out) {
  double value;
  Return code = ask(device, out ? &value : NULL, "TotalEccErrors/%u/%u", type, counter);
  if (!code) *out = (unsigned long long)value;
  return code;
}

Return nvmlDeviceGetMemoryErrorCounter(Device *device, unsigned type, unsigned counter,
                                       unsigned location, unsigned long long *out) {
  double value;
  Return code = ask(device, out ? &value : NULL, "MemoryErrorCounter/%u/%u/%u", type, counter,
                    location);
  if (!code) *out = (unsigned long long)value;
  return code;
}

/* ---- two numbers and more ---- */

#define PAIR(FUNCTION, FIRST, SECOND)                                  \
  Return FUNCTION(Device *device, unsigned *first, unsigned *second) { \
    double a, b;                                                       \
    Return code = ask(device, first ? &a : NULL, FIRST);               \
    if (!code) code = ask(device, second ? &b : NULL, SECOND);         \
    if (!code) *first = (unsigned)a, *second = (unsigned)b;            \
    return code;                                                       \
  }
PAIR(nvmlDeviceGetPowerManagementLimitConstraints, "PowerManagementLimitConstraints.min",
     "PowerManagementLimitConstraints.max")
PAIR(nvmlDeviceGetEncoderUtilization, "EncoderUtilization.util", "EncoderUtilization.period")
PAIR(nvmlDeviceGetDecoderUtilization, "DecoderUtilization.util", "DecoderUtilization.period")
PAIR(nvmlDeviceGetJpgUtilization, "JpgUtilization.util", "JpgUtilization.period")
PAIR(nvmlDeviceGetOfaUtilization, "OfaUtilization.util", "OfaUtilization.period")
PAIR(nvmlDeviceGetEccMode, "EccMode.current", "EccMode.pending")
PAIR(nvmlDeviceGetMigMode, "MigMode.current", "MigMode.pending")
PAIR(nvmlDeviceGetCudaComputeCapability, "CudaComputeCapability.major",
     "CudaComputeCapability.minor")

/* What no GPU of a Linux machine has, or only one with confidential computing. */
#define LACKING(FUNCTION)                                                   \
  Return FUNCTION(Device *device) {                                          \
    return scenario && is_device(device) ? NOT_SUPPORTED : UNINITIALIZED;    \
  }
LACKING(nvmlDeviceGetDriverModel)
LACKING(nvmlDeviceGetDriverModel_v2)
LACKING(nvmlDeviceGetConfComputeMemSizeInfo)
LACKING(nvmlDeviceGetRunningProcessDetailList)

typedef struct {
  unsigned gpu, memory;
} Utilization;

Return nvmlDeviceGetUtilizationRates(Device *device, Utilization *out) {
  double gpu, memory;
  Return code = ask(device, out ? &gpu : NULL, "UtilizationRates.gpu");
  if (!code) code = ask(device, &memory, "UtilizationRates.memory");
  if (!code) *out = (Utilization){(unsigned)gpu, (unsigned)memory};
  return code;
}

typedef struct {
  unsigned long long total, free, used;
} Memory;
typedef struct {
  unsigned version;
  unsigned long long total, reserved, free, used;
} Memory2;

static Return read_memory(Device *device, const void *out, double *total, double *reserved,
                          double *used) {
  *reserved = 0;
  Return code = ask(device, out ? total : NULL, "MemoryInfo.total");
  if (!code) code = ask(device, used, "MemoryInfo.used");
  if (!code) ask(device, reserved, "MemoryInfo.reserved");
  return code;
}

/* The first form counts what the driver reserves as used. */
Return nvmlDeviceGetMemoryInfo(Device *device, Memory *out) {
  double total, reserved, used;
  Return code = read_memory(device, out, &total, &reserved, &used);
  if (!code)
    *out = (Memory){(unsigned long long)total, (unsigned long long)(total - used - reserved),
                    (unsigned long long)(used + reserved)};
  return code;
}
Return nvmlDeviceGetMemoryInfo_v2(Device *device, Memory2 *out) {
  if (out && out->version != (2u << 24 | sizeof *out)) return VERSION_MISMATCH;
  double total, reserved, used;
  Return code = read_memory(device, out, &total, &reserved, &used);
  if (!code)
    *out = (Memory2){out->version, (unsigned long long)total, (unsigned long long)reserved,
                     (unsigned long long)(total - used - reserved), (unsigned long long)used};
  return code;
}
Return nvmlDeviceGetBAR1MemoryInfo(Device *device, Memory *out) {
  double total, used;
  Return code = ask(device, out ? &total : NULL, "BAR1MemoryInfo.bar1Total");
  if (!code) code = ask(device, &used, "BAR1MemoryInfo.bar1Used");
  if (!code)
    *out = (Memory){(unsigned long long)total, (unsigned long long)(total - used),
                    (unsigned long long)used};
  return code;
}

typedef struct {
  unsigned long long reference_us, violation_ns;
} Violation;

Return nvmlDeviceGetViolationStatus(Device *device, unsigned policy, Violation *out) {
  double value;
  Return code = ask(device, out ? &value : NULL, "ViolationStatus/%u", policy);
  if (!code)
    *out = (Violation){(unsigned long long)read_wall_ns(scenario, read_fake_time()) / 1000,
                       (unsigned long long)value};
  return code;
}

/* The structure's first two members; with no feature nothing follows (nvml.h, ..._v4_t). */
Return nvmlDeviceGetGridLicensableFeatures_v4(Device *device, unsigned *features) {
  double value;
  Return code = ask(device, features ? &value : NULL, "GridLicensableFeatures");
  if (code) return code;
  features[0] = (unsigned)value;
  features[1] = 0;
  return OK;
}

Return nvmlDeviceGetRemappedRows(Device *device, unsigned *corrected, unsigned *uncorrected,
                                 unsigned *pending, unsigned *failure) {
  unsigned *outs[] = {corrected, uncorrected, pending, failure};
  static const char *const names[] = {"corrected", "uncorrected", "pending", "failure"};
  for (int i = 0; i < 4; i++) {
    double value;
    Return code = ask(device, outs[i] ? &value : NULL, "RemappedRows.%s", names[i]);
    if (code) return code;
    *outs[i] = (unsigned)value;
  }
  return OK;
}

Return nvmlDeviceGetRetiredPages_v2(Device *device, unsigned cause, unsigned *count,
                                    unsigned long long *addresses, unsigned long long *times) {
  double value;
  Return code = ask(device, count ? &value : NULL, "RetiredPages/%u", cause);
  if (code) return code;
  unsigned room = *count;
  *count = (unsigned)value;
  if (*count > room || (*count && !addresses)) return INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < *count; i++) {
    addresses[i] = 0x10000ull * (i + 1);
    if (times) times[i] = (unsigned long long)scenario->epoch_ns / 1000;
  }
  return OK;
}
Return nvmlDeviceGetRetiredPages(Device *device, unsigned cause, unsigned *count,
                                 unsigned long long *addresses) {
  return nvmlDeviceGetRetiredPages_v2(device, cause, count, addresses, NULL);
}
