// What the CUDA driver calls: it loads the library that CUDA_INJECTION64_PATH names when the program
// first uses CUDA, and calls InitializeInjection.
#include <pthread.h>

#include <cstdlib>

#include "cupti/ranges.h"
#include "cupti/recorder.h"

namespace {

// Never destroyed: CUPTI's threads may call to the very end of the process.
sightline::cupti::Recorder* recorder = nullptr;

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  using namespace sightline::cupti;
  static bool is_called = false;
  if (is_called) return 1;
  is_called = true;
  const Options options = read_options();
  if (!options.chosen) return 1;
  prepare_ranges();
  recorder = new Recorder(options);
  // A child that is forked while CUDA is in use cannot use it: there, nothing is recorded.
  pthread_atfork(nullptr, nullptr, [] { recorder->abandon(); });
  recorder->start();
  std::atexit([] { recorder->stop(); });
  return 1;  // whatever happens, the program goes on
}
