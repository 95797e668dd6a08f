// The recording that the injection library writes: docs/formats/cupti.md.
//
// A file is a header and then chunks, each written whole by one call, so that a program that is
// killed leaves all chunks but the last one. It says itself which tables and columns it holds.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sightline::cupti {

constexpr char kMagic[16] = {'S', 'I', 'G', 'H', 'T', 'L', 'I', 'N', 'E', '-', 'C', 'U', 'P', 'T', 'I', '\n'};
constexpr uint32_t kVersion = 1;
constexpr char kChunkMagic[4] = {'S', 'L', 'C', 'K'};

struct FileHeader {
  char magic[16];
  uint32_t version;
  uint32_t pid;
  uint64_t start_ns;  // CLOCK_REALTIME
};
static_assert(sizeof(FileHeader) == 32);

enum class Chunk : uint16_t {
  facts = 1,  // JSON: what is known of the recording; later ones add to earlier ones
  table = 2,  // a table's name and columns
  rows = 3,   // rows of a table, packed
  texts = 4,  // numbered texts: id, length, bytes
  blob = 5,   // a cubin: its CRC as CUPTI computes it, then its bytes
};

struct ChunkHeader {
  char magic[4];
  uint16_t kind;   // Chunk
  uint16_t table;  // number of the table, of chunks `table` and `rows`
  uint32_t bytes;  // behind this header
  uint32_t rows;
  uint32_t checksum;  // CRC-32 of what is behind this header
  uint32_t sequence;  // 0, 1, 2, ...: what is missing in between is known
};
static_assert(sizeof(ChunkHeader) == 24);

enum class Type : uint8_t { u8 = 1, u16, u32, u64, i32, text, f64 };

constexpr uint32_t width_of(Type type) {
  switch (type) {
    case Type::u8: return 1;
    case Type::u16: return 2;
    case Type::u32:
    case Type::i32:
    case Type::text: return 4;  // a text is its number; 0 is none
    case Type::u64:
    case Type::f64: return 8;
  }
  return 0;
}

}  // namespace sightline::cupti
