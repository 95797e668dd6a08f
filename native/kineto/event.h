// Turns one event of a trace into one or several rows.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "kineto/chunk_rows.h"
#include "json/walk.h"

namespace sightline {

// Keys of an event's `args` that mean something; the names are in event.cpp, in this order.
enum Arg : uint8_t {
    kCorrelation, kSequence, kForwardThread, kDims, kDimsOld, kTypes, kStrides, kValues, kCallStack, kPythonId,
    kPythonParent, kModule, kDeviceArg, kStream, kContext, kGrid, kBlock, kRegisters, kShared,
    kBytes, kCopyKind, kGraph, kGraphNode, kCollective, kSyncKind, kWaitEvent, kWaitStream,
    kRecordedBy, kMemoryBytes, kDeviceType, kMemoryDevice, kAddress, kAllocated, kReserved, kName,
    kGroupName, kGroupId, kGroupDescription, kGroupRanks, kGroupSize, kSeq, kCollectiveSeq, kDtype,
    kElementsIn, kElementsOut, kSource, kTarget, kArgs
};

class EventReader {
public:
    // `trusted` events were made by the Python side, which has judged all that is odd.
    EventReader(ChunkRows& rows, bool trusted) : rows_(rows), trusted_(trusted) {}

    // Adds the event's rows. False where the event is to be read by Python instead: nothing of it
    // has been added then. `end`: where the bytes of the whole piece end.
    bool add(od::value value, const char* end);

private:
    bool read_fields(od::object object);
    bool read_args(od::value value);
    bool read_arg(Arg arg, od::value value);
    bool read_triple(od::value value, std::array<int64_t, 3>& triple);

    bool dispatch(const char* begin, const char* end);
    bool complete();
    bool host_row(Layer layer, int64_t start, int64_t end, bool is_open);
    bool device_row(device::Op op, int64_t start, int64_t end);
    bool collective_row(collective::Owner owner, size_t row);
    bool range_row(int64_t start, int64_t end);
    void sync_row(int64_t start, int64_t end);
    bool instant();
    bool flow_row(char phase);
    bool naming();
    bool half(char phase);
    bool counters(const char* begin, const char* end);

    bool odd() const { return !trusted_; }
    bool ids(int64_t& pid, int64_t& tid);
    bool id(const Token& token, int64_t& value);
    bool time(const Token& token, int64_t& ns, bool& known);
    bool text_code(const Token& token, uint32_t& code);
    bool name_code(uint32_t& code);
    bool lower_category();
    bool ranks_code(uint32_t& code);
    const Token& arg(Arg which) const { return args_[which]; }
    int64_t integer(Arg which) const { return integer_of(args_[which]); }
    PieceTable& table(TableId id) { return rows_.tables[id]; }

    ChunkRows& rows_;
    const bool trusted_;

    Token ph_, ts_, dur_, cat_, name_, pid_, tid_, id_;
    bool has_args_ = false;  // `args` is an object
    bool is_broken_ = false;  // a name stands twice, or holds zeros
    std::array<Token, kArgs> args_;
    std::vector<Arg> seen_;
    std::array<int64_t, 3> grid_{}, block_{};
    bool has_grid_ = false, has_block_ = false;
    // Canonical JSON of shapes, old shapes, types, strides, values, ranks.
    std::array<std::string, 6> dumps_;
    std::string category_;
};

}  // namespace sightline
