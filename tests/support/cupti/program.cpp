// A program that uses CUDA, as far as the injection library can tell: it loads that library as the
// driver does, and then does what its arguments say, each `verb` or `verb=number`.
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace {

void* cupti = nullptr;

template <typename F>
F control(const char* name) {
  auto* found = dlsym(cupti, name);
  if (!found) std::fprintf(stderr, "the mock has no %s\n", name), std::exit(90);
  return reinterpret_cast<F>(found);
}

uint64_t next = 0;  // the running number of what is launched

void repeat(const char* name, uint64_t count) {
  auto* one = control<void (*)(uint64_t)>(name);
  for (uint64_t i = 0; i < count; i++) one(next++);
}

void launch(uint64_t count) {
  auto* one = control<void (*)(uint64_t, uint32_t)>("mock_launch");
  for (uint64_t i = 0; i < count; i++, next++) one(next, 100 + static_cast<uint32_t>(next % 4));
}

// Every way to say a range or mark that NVTX has, by NVIDIA's own header.
void annotate() {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
  nvtxStringHandle_t registered = nvtxDomainRegisterStringA(domain, "registered name");
  nvtxDomainNameCategoryA(domain, 3, "io");
  nvtxNameCategoryA(9, "math");
  nvtxEventAttributes_t a{};
  a.version = NVTX_VERSION;
  a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  nvtxRangePushA("outer");
  a.messageType = NVTX_MESSAGE_TYPE_ASCII;
  a.message.ascii = "with payload";
  a.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  a.payload.llValue = -42;
  a.category = 9;
  nvtxRangePushEx(&a);
  nvtxRangePushW(L"gr\u00fc\u00dfe");
  nvtxMarkA("a mark");
  nvtxRangePop();
  nvtxRangePop();
  a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  a.message.registered = registered;
  a.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
  a.payload.dValue = 2.5;
  a.category = 3;
  nvtxDomainRangePushEx(domain, &a);
  nvtxDomainRangePop(domain);
  const nvtxRangeId_t id = nvtxRangeStartA("across threads");
  std::thread([id] { nvtxRangeEnd(id); }).join();
  a.payloadType = NVTX_PAYLOAD_TYPE_FLOAT;
  a.payload.fValue = 0.5f;
  a.category = 4;  // without a name
  nvtxDomainMarkEx(domain, &a);
  nvtxRangePop();
}

bool has_recording_open() {
  for (int number = 0; number < 256; number++) {
    char target[4096] = "";
    if (readlink(("/proc/self/fd/" + std::to_string(number)).c_str(), target, sizeof target - 1) > 0 && std::strstr(target, ".cupti"))
      return true;
  }
  return false;
}

// Threads that say ranges in every way, and forks meanwhile whose children say some, too.
void storm(uint64_t forks) {
  std::atomic<bool> is_over{false};
  std::vector<std::thread> all;
  for (int t = 0; t < 8; t++)
    all.emplace_back([&] {
      while (!is_over) annotate();
    });
  for (uint64_t i = 0; i < forks; i++) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // one that hangs is killed
      annotate();
      std::thread(annotate).join();
      _exit(7);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) {
      std::fprintf(stderr, "child %llu of a fork did not end\n", static_cast<unsigned long long>(i));
      _exit(91);
    }
  }
  is_over = true;
  for (auto& thread : all) thread.join();
}

void run(const std::string& verb, uint64_t n, const std::string& text) {
  if (verb == "launch") return launch(n);
  if (verb == "ranges") return annotate();
  if (verb == "pushes") {  // n ranges, one after the other
    for (uint64_t i = 0; i < n; i++) {
      nvtxRangePushA(i % 2 ? "odd" : "even");
      nvtxRangePop();
    }
    return;
  }
  if (verb == "storm") return storm(n);
  if (verb == "open") return static_cast<void>(nvtxRangePushA("open"));
  if (verb == "work") {  // launches for n ms, as fast as it goes
    auto* one = control<void (*)(uint64_t, uint32_t)>("mock_launch");
    auto* work = control<void (*)(uint64_t)>("mock_work");
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(n);
    for (; std::chrono::steady_clock::now() < end; next++) {
      work(next);
      one(next, 100);
    }
    std::fprintf(stderr, "%llu\n", static_cast<unsigned long long>(next));
    return;
  }
  if (verb == "threads" || verb == "crowd") {  // n launches on each of 4 or 64 threads, at once
    std::vector<std::thread> all;
    auto* one = control<void (*)(uint64_t, uint32_t)>("mock_launch");
    const uint32_t count = verb == "threads" ? 4 : 64;
    for (uint32_t t = 0; t < count; t++)
      all.emplace_back([=] {
        for (uint64_t i = 0; i < n; i++) one(next + t * n + i, 100 + t);
      });
    for (auto& thread : all) thread.join();
    next += count * n;
    return;
  }
  if (verb == "copy") {
    for (uint64_t i = 0; i < n; i++, next++) control<void (*)(uint64_t, int)>("mock_copy")(next, 1 + static_cast<int>(i % 2));
    return;
  }
  if (verb == "sync") {
    for (uint64_t i = 0; i < n; i++, next++) control<void (*)(uint64_t, int)>("mock_sync")(next, 1 + static_cast<int>(i % 4));
    return;
  }
  for (const char* name : {"peer_copy", "fill", "graph", "overhead", "pool", "event"})
    if (verb == name) return repeat((std::string("mock_") + name).c_str(), n);
  auto* kernel = control<void (*)(uint64_t, uint64_t, uint64_t, uint32_t, uint32_t)>("mock_kernel");
  if (verb == "lookup") {
    for (uint64_t i = 0; i < n; i++) control<void (*)(uint64_t, uint32_t)>("mock_lookup")(i, 100 + static_cast<uint32_t>(i % 4));
    return;
  }
  if (verb == "driver") {
    for (uint64_t i = 0; i < n; i++) control<void (*)(uint64_t, uint32_t)>("mock_driver_call")(i, 100 + static_cast<uint32_t>(i % 4));
  } else if (verb == "unfinished") {  // still running when the records are handed over
    for (uint64_t i = 0; i < n; i++, next++) kernel(next, next * 10000 + 5000, 0, static_cast<uint32_t>(next + 1), 0);
  } else if (verb == "untimed") {  // no memory on the device for its times
    for (uint64_t i = 0; i < n; i++, next++) kernel(next, 0, 0, static_cast<uint32_t>(next + 1), 0);
  } else if (verb == "uncorrelated") {
    for (uint64_t i = 0; i < n; i++, next++) kernel(next, next * 10000 + 5000, next * 10000 + 8000, 0, 0);
  } else if (verb == "nodes") {  // kernels of a graph
    for (uint64_t i = 0; i < n; i++, next++) kernel(next, next * 10000 + 5000, next * 10000 + 8000, 1, 5);
  } else if (verb == "device") {
    control<void (*)(uint32_t)>("mock_device")(static_cast<uint32_t>(n));
  } else if (verb == "late") {  // kinds of CUPTI 13.5
    control<void (*)()>("mock_late_kinds")();
  } else if (verb == "no_hardware_times") {
    control<void (*)()>("mock_no_hardware_times")();
  } else if (verb == "unknown") {
    for (uint64_t i = 0; i < n; i++) control<void (*)()>("mock_unknown")();
  } else if (verb == "damage") {
    control<void (*)(uint32_t)>("mock_damage")(static_cast<uint32_t>(n));
  } else if (verb == "flush") {
    control<int (*)(uint32_t)>("cuptiActivityFlushAll")(static_cast<uint32_t>(n));
  } else if (verb == "context" || verb == "destroy") {
    control<void (*)(uint32_t, uintptr_t, const void*, size_t)>("mock_resource")(verb == "context" ? 1 : 2, 0x1000 + n, nullptr, 0);
  } else if (verb == "module") {
    std::ifstream file(text, std::ios::binary);
    static std::vector<std::vector<char>> kept;
    kept.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    control<void (*)(uint32_t, uintptr_t, const void*, size_t)>("mock_resource")(6, 0x1000, kept.back().data(), kept.back().size());
  } else if (verb == "samples") {
    control<void (*)(const char*)>("mock_samples")(text.c_str());
  } else if (verb == "fetch") {  // until what there is was fetched, however busy the machine is
    auto* fetches = control<uint64_t (*)()>("mock_fetches");
    for (const uint64_t before = fetches(); fetches() == before;) usleep(1000);
  } else if (verb == "sleep") {
    usleep(static_cast<useconds_t>(n * 1000));
  } else if (verb == "say") {
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  } else if (verb == "fork") {
    const pid_t child = fork();
    if (child == 0) {
      if (has_recording_open()) std::exit(8);  // what the parent writes to is not its
      launch(n);
      std::exit(7);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) std::exit(91);
  } else if (verb == "exec") {  // becomes another program, which does the other verb
    execl("/proc/self/exe", "program", text.c_str(), static_cast<char*>(nullptr));
    std::exit(95);
  } else if (verb == "quit") {
    _exit(0);
  } else if (verb == "kill") {
    raise(SIGKILL);
  } else if (verb == "abort") {
    std::abort();
  } else {
    std::fprintf(stderr, "there is no %s\n", verb.c_str());
    std::exit(92);
  }
}

}  // namespace

int main(int count, char** words) {
  void* injection = dlopen(std::getenv("CUDA_INJECTION64_PATH"), RTLD_NOW | RTLD_LOCAL);
  if (!injection) return std::fprintf(stderr, "%s\n", dlerror()), 93;
  auto* start = reinterpret_cast<int (*)()>(dlsym(injection, "InitializeInjection"));
  if (!start || start() != 1) return 94;
  cupti = dlopen(std::getenv("SIGHTLINE_CUPTI_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
  for (int i = 1; i < count; i++) {
    const std::string word = words[i];
    const size_t at = word.find('=');
    const std::string text = at == std::string::npos ? "" : word.substr(at + 1);
    run(word.substr(0, at), text.empty() ? 1 : std::strtoull(text.c_str(), nullptr, 0), text);
  }
  return 0;
}
