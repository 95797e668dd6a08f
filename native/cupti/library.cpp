#include "cupti/library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <vector>

namespace sightline::cupti {
namespace {

// 22 is CUPTI of CUDA 12.4 (cupti_version.h): the oldest whose structs have all columns that are read.
constexpr uint32_t kOldest = 22;

std::vector<std::string> list_candidates() {
  std::vector<std::string> names;
  if (const char* chosen = std::getenv("SIGHTLINE_CUPTI_LIBRARY")) {
    if (*chosen) names.emplace_back(chosen);
    return names;
  }
  // `sightline run` names those of wheels that are installed, newest first.
  if (const char* listed = std::getenv("SIGHTLINE_CUPTI_LIBRARIES")) {
    const char* start = listed;
    while (*start) {
      const char* stop = std::strchr(start, ':');
      const size_t size = stop ? static_cast<size_t>(stop - start) : std::strlen(start);
      if (size) names.emplace_back(start, size);
      start += size + (stop ? 1 : 0);
    }
  }
  for (const char* name : {"libcupti.so.13", "libcupti.so.12", "/usr/local/cuda/lib64/libcupti.so.13",
                           "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13",
                           "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.12"})
    names.emplace_back(name);
  return names;
}

void* open_library(std::string& why) {
  const std::vector<std::string> names = list_candidates();
  if (std::getenv("SIGHTLINE_CUPTI_LIBRARY") == nullptr) {
    // Two CUPTIs in one process disturb each other: the one that the program has loaded is taken.
    for (const char* name : {"libcupti.so.13", "libcupti.so.12"})
      if (void* handle = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) return handle;
  }
  for (const std::string& name : names) {
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    if (const char* error = dlerror(); error && why.empty()) why = error;
  }
  if (why.empty()) why = "libcupti was not found";
  return nullptr;
}

}  // namespace

std::string Library::describe(CUptiResult result) const {
  const char* text = nullptr;
  if (cuptiGetResultString) cuptiGetResultString(result, &text);
  return text ? text : "CUPTI's error " + std::to_string(static_cast<int>(result));
}

bool load_library(Library& library, std::string& why) {
  library.handle = open_library(why);
  if (library.handle == nullptr) return false;
#define LOOK_UP(name) \
  library.name = reinterpret_cast<decltype(library.name)>(dlsym(library.handle, #name));
  SIGHTLINE_CUPTI_FUNCTIONS(LOOK_UP)
  SIGHTLINE_CUPTI_OPTIONAL(LOOK_UP)
  SIGHTLINE_CUPTI_SINCE_13(LOOK_UP)
  SIGHTLINE_CUPTI_LAYOUTS(LOOK_UP)
  SIGHTLINE_CUPTI_SINCE_13_5(LOOK_UP)
#undef LOOK_UP
  link_map* map = nullptr;
  if (dlinfo(library.handle, RTLD_DI_LINKMAP, &map) == 0 && map) library.path = map->l_name;
#define REQUIRE(name)                                             \
  if (library.name == nullptr) {                                  \
    why = library.path + " has no " #name;                        \
    return false;                                                 \
  }
  SIGHTLINE_CUPTI_FUNCTIONS(REQUIRE)
#undef REQUIRE
  library.cuptiGetVersion(&library.version);
  if (library.version < kOldest) {
    why = library.path + " is older than CUDA 12.4 (CUPTI " + std::to_string(library.version) + ")";
    return false;
  }
  return true;
}

std::string name_other_profilers() {
  struct Known {
    const char* file;
    const char* tool;
  };
  static constexpr Known known[] = {
      {"libToolsInjection", "Nsight Systems"},   {"libnsys", "Nsight Systems"},
      {"libcuda-injection", "Nsight Compute"},   {"libTreeLauncherTargetInjection", "Nsight Compute"},
      {"libInterceptorInjectionTarget", "Nsight Compute"}, {"libsanitizer", "Compute Sanitizer"},
      {"libparcagpucupti", "parcagpu"},          {"libproton", "Triton's Proton"},
      {"libkineto", "PyTorch's profiler"},       {"libtorch_cpu", "PyTorch's profiler"},
      {"libscorep", "Score-P"},                  {"libTAU", "TAU"},
  };
  std::string found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& names = *static_cast<std::string*>(data);
        for (const Known& one : known)
          if (info->dlpi_name && std::strstr(info->dlpi_name, one.file) &&
              names.find(one.tool) == std::string::npos)
            names += (names.empty() ? "" : ", ") + std::string(one.tool);
        return 0;
      },
      &found);
  return found;
}

}  // namespace sightline::cupti
