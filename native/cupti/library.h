// CUPTI, found and loaded while the program runs: the program's own, else one that is installed.
// Nothing is linked, so one build works with every version, and where there is none.
#pragma once

#include <cupti.h>
#include <cupti_pcsampling.h>

#include <string>

namespace sightline::cupti {

// Functions that every CUPTI since 12.4 has.
#define SIGHTLINE_CUPTI_FUNCTIONS(X)                                                             \
  X(cuptiGetVersion) X(cuptiGetResultString) X(cuptiGetTimestamp) X(cuptiGetCallbackName)         \
  X(cuptiGetContextId) X(cuptiGetDeviceId) X(cuptiSetThreadIdType) X(cuptiSubscribe)              \
  X(cuptiUnsubscribe) X(cuptiEnableCallback) X(cuptiActivityRegisterCallbacks)                    \
  X(cuptiActivityEnable) X(cuptiActivityDisable) X(cuptiActivityFlushAll)                         \
  X(cuptiActivityGetNextRecord) X(cuptiActivityGetNumDroppedRecords)

// Functions that may be missing; null then.
#define SIGHTLINE_CUPTI_OPTIONAL(X)                                                               \
  X(cuptiGetCubinCrc) X(cuptiPCSamplingEnable) X(cuptiPCSamplingDisable)                          \
  X(cuptiPCSamplingGetData) X(cuptiPCSamplingGetNumStallReasons) X(cuptiPCSamplingGetStallReasons) \
  X(cuptiPCSamplingSetConfigurationAttribute) X(cuptiPCSamplingGetConfigurationAttribute)         \
  X(cuptiPCSamplingStart) X(cuptiPCSamplingStop) X(cuptiActivityEnableHWTrace)

#if CUPTI_API_VERSION >= 130000
#define SIGHTLINE_CUPTI_SINCE_13(X) \
  X(cuptiSubscribe_v2) X(cuptiActivityEnableDriverApi) X(cuptiActivityEnableRuntimeApi)
#else
#define SIGHTLINE_CUPTI_SINCE_13(X)
#endif

// Of several subscribers, and of user-defined records with layouts.
#if CUPTI_API_VERSION >= 130300
#define SIGHTLINE_CUPTI_LAYOUTS(X)                                                                \
  X(cuptiActivityEnable_v2) X(cuptiActivityDisable_v2) X(cuptiActivityRegisterCallbacks_v2)       \
  X(cuptiActivityGetNumDroppedRecords_v2) X(cuptiActivitySetAttribute_v2)                         \
  X(cuptiActivityGetNextRecord_v2)
#else
#define SIGHTLINE_CUPTI_LAYOUTS(X)
#endif

// Single calls of a subscriber. The headers of 13.3 and 13.4 were not at hand: from 13.5 on they are seen.
#if CUPTI_API_VERSION >= 130500
#define SIGHTLINE_CUPTI_SINCE_13_5(X) X(cuptiActivityEnableDriverApi_v2) X(cuptiActivityEnableRuntimeApi_v2)
#else
#define SIGHTLINE_CUPTI_SINCE_13_5(X)
#endif

struct Library {
  void* handle = nullptr;
  std::string path;
  uint32_t version = 0;  // CUPTI_API_VERSION of what was loaded

#define DECLARE(name) decltype(&::name) name = nullptr;
  SIGHTLINE_CUPTI_FUNCTIONS(DECLARE)
  SIGHTLINE_CUPTI_OPTIONAL(DECLARE)
  SIGHTLINE_CUPTI_SINCE_13(DECLARE)
  SIGHTLINE_CUPTI_LAYOUTS(DECLARE)
  SIGHTLINE_CUPTI_SINCE_13_5(DECLARE)
#undef DECLARE

  // What a result means, in CUPTI's words.
  std::string describe(CUptiResult result) const;
};

// Loads CUPTI. False, and why, where there is none or it is too old.
bool load_library(Library& library, std::string& why);

// Libraries of other profilers that the process has loaded, for a message: CUPTI itself does not
// name who is subscribed before 13.0.
std::string name_other_profilers();

}  // namespace sightline::cupti
