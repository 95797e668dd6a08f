#include "cupti/tables.h"

namespace sightline::cupti {

const std::vector<TableOf>& list_own_tables() {
  constexpr Type u8 = Type::u8, u16 = Type::u16, u32 = Type::u32, u64 = Type::u64, text = Type::text;
  static const std::vector<TableOf> tables = {
      // The names of API calls: domain is that of CUpti_CallbackDomain, 1 driver and 2 runtime.
      {kCallNames, "call_names", {{"domain", u8}, {"cbid", u32}, {"name", text}}},
      // The same moment by CUPTI's clock and the system's: ns.
      {kClocks, "clocks", {{"cupti", u64}, {"realtime", u64}, {"monotonic", u64}}},
      // Records that CUPTI dropped since the row before, and bytes of a buffer that it could not read.
      {kDrops, "drops", {{"time", u64}, {"records", u64}, {"unread_bytes", u64}}},
      // A stretch of time: whether and how much was recorded (throttle.h), and what that cost:
      // the program's threads in our callbacks, and our own threads. Launches are counted where
      // windows alternate with pauses (is_measured).
      {kWindows, "windows",
       {{"start", u64}, {"end", u64}, {"level", u8}, {"is_on", u8}, {"launches", u64}, {"records", u64},
        {"own_ns", u64}, {"cpu_ns", u64}, {"is_measured", u8}}},
      {kStallReasons, "stall_reasons", {{"context", u32}, {"reason", u32}, {"name", text}}},
      // Samples of one instruction for one reason since the samples were last fetched.
      {kSamples, "samples",
       {{"time", u64}, {"context", u32}, {"cubin", u64}, {"offset", u64}, {"function_index", u32},
        {"function", text}, {"correlation", u32}, {"reason", u32}, {"samples", u32}}},
      // A context's totals since the samples were last fetched; period_log2 is what is in force.
      {kSampleTotals, "sample_totals",
       {{"time", u64}, {"context", u32}, {"device", u32}, {"total", u64}, {"dropped", u64},
        {"non_user", u64}, {"hardware_full", u8}, {"mode", u8}, {"period_log2", u32}}},
      // NVTX: kind 1 range of a thread, 2 range of a process, 3 mark; an unfinished one has end 0.
      {kRanges, "ranges",
       {{"start", u64}, {"end", u64}, {"tid", u32}, {"end_tid", u32}, {"kind", u8}, {"name", text},
        {"domain", text}, {"category", text}, {"payload_type", u8}, {"payload", u64}, {"depth", u16}}},
  };
  return tables;
}

}  // namespace sightline::cupti
