// PC samples written by NVIDIA's libpcsamplingutil: `write_samples FILE SEED BUFFERS PLACES`, and
// what was handed to it on standard output, a line for each count.
#include <cupti.h>
#include <cupti_pcsampling.h>
#include <cupti_pcsampling_util.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

using namespace CUPTI::PcSamplingUtil;

namespace {
uint64_t state;
uint64_t draw() {  // xorshift64
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}
}  // namespace

int main(int, char** words) {
  state = std::strtoull(words[2], nullptr, 10) * 2654435761u + 1;
  const int buffers = std::atoi(words[3]), places = std::atoi(words[4]);
  uint32_t indices[] = {3, 4, 20};
  const char* names[] = {"smsp__pcsamp_warps_issue_stalled_long_scoreboard",
                         "smsp__pcsamp_warps_issue_stalled_long_scoreboard_not_issued",
                         "smsp__pcsamp_warps_issue_stalled_selected"};
  char* pointers[3];
  for (int i = 0; i < 3; i++) pointers[i] = strdup(names[i]);
  PcSamplingStallReasons reasons{};
  reasons.numStallReasons = 3;
  reasons.stallReasonIndex = indices;
  reasons.stallReasons = pointers;
  for (int b = 0; b < buffers; b++) {
    std::vector<CUpti_PCSamplingPCData> all(static_cast<size_t>(places));
    std::vector<std::vector<CUpti_PCSamplingStallReason>> counts(all.size());
    for (size_t i = 0; i < all.size(); i++) {
      CUpti_PCSamplingPCData& place = all[i];
      place.size = sizeof place;
      place.cubinCrc = draw();
      place.pcOffset = 16 * (draw() % 100000);
      place.functionIndex = static_cast<uint32_t>(draw() % 1000);
      place.functionName = strdup(("kernel_" + std::to_string(draw() % 50)).c_str());
      place.correlationId = static_cast<uint32_t>(draw() % 3 ? draw() % 100 : 0);
      const size_t count = 1 + draw() % 3;
      for (size_t k = 0; k < count; k++) counts[i].push_back({indices[k], static_cast<uint32_t>(draw() % 1000)});
      place.stallReasonCount = count;
      place.stallReason = counts[i].data();
      for (const auto& one : counts[i])
        std::printf("%lld %lld %s %u %u %u\n", static_cast<long long>(place.cubinCrc), static_cast<long long>(place.pcOffset),
                    place.functionName, place.correlationId, one.pcSamplingStallReasonIndex, one.samples);
    }
    CUpti_PCSamplingData data{};
    data.size = sizeof data;
    data.collectNumPcs = data.totalNumPcs = all.size();
    data.totalSamples = 1000;
    data.droppedSamples = 7;
    data.nonUsrKernelsTotalSamples = 5;
    data.pPcData = all.data();
    CUpti_PCSamplingConfigurationInfo configured[2]{};
    configured[0].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD;
    configured[0].attributeData.samplingPeriodData.samplingPeriod = 13;
    configured[1].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_STALL_REASON;
    configured[1].attributeData.stallReasonData = {3, indices};
    CUptiUtil_PutPcSampDataParams put{};
    put.size = CUptiUtil_PutPcSampDataParamsSize;
    put.bufferType = PC_SAMPLING_BUFFER_PC_TO_COUNTER_DATA;
    put.pSamplingData = &data;
    put.numAttributes = 2;
    put.pPCSamplingConfigurationInfo = configured;
    put.pPcSamplingStallReasons = &reasons;
    put.fileName = words[1];
    if (CuptiUtilPutPcSampData(&put) != CUPTI_UTIL_SUCCESS) return 1;
  }
  return 0;
}
