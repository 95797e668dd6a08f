// PC sampling: where warps stood and why they did not move, of each context, fetched now and then.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cupti/library.h"
#include "cupti/options.h"
#include "cupti/writer.h"

namespace sightline::cupti {

class Sampler {
 public:
  Sampler(const Library& library, const Options& options, Writer& writer);

  void add_context(CUcontext context);
  void remove_context(CUcontext context);
  // A module's code, once for each CRC, as long as there is room.
  void keep_cubin(const void* cubin, size_t size);
  void fetch();
  void finish();

 private:
  struct Buffer {
    CUpti_PCSamplingData data{};
    std::vector<CUpti_PCSamplingPCData> places;
    std::vector<CUpti_PCSamplingStallReason> reasons;
    void prepare(size_t count, size_t reasons_each);
  };
  struct Context {
    uint32_t number = 0, device = 0, period = 0;
    std::vector<uint32_t> reasons;
    Buffer configured;  // CUPTI fills it when a module is loaded, and at the end
    Buffer fetched;
  };

  bool enable(CUcontext handle, Context& context, std::string& why);
  bool configure(CUcontext handle, Context& context, std::string& why);
  void read_reasons(CUcontext handle, Context& context);
  void fetch_context(CUcontext handle, Context& context);
  void keep(const Context& context, CUpti_PCSamplingData& data, bool is_full);
  void note(const std::string& problem);

  const Library& library_;
  const Options options_;
  Writer& writer_;
  std::mutex lock_;
  std::map<CUcontext, std::unique_ptr<Context>> contexts_;
  // Of its own: a module is loaded with the driver's lock held, for which a fetch may wait.
  std::mutex cubins_lock_;
  std::set<uint64_t> kept_;
  std::set<std::string> problems_;
  uint64_t cubin_bytes_ = 0, cubins_left_out_ = 0;
};

}  // namespace sightline::cupti
