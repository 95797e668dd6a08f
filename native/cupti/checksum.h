// CRC-32 as zlib computes it, eight bytes at a time: the library links nothing that a program may
// have in another version.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sightline::cupti {

namespace detail {
constexpr std::array<std::array<uint32_t, 256>, 8> make_tables() {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t word = i;
    for (int bit = 0; bit < 8; bit++) word = (word >> 1) ^ ((word & 1) ? 0xEDB88320u : 0);
    tables[0][i] = word;
  }
  for (uint32_t i = 0; i < 256; i++)
    for (size_t t = 1; t < 8; t++)
      tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xFF];
  return tables;
}
inline constexpr auto kTables = make_tables();
}  // namespace detail

inline uint32_t checksum(const uint8_t* data, size_t size) {
  const auto& t = detail::kTables;
  uint32_t crc = 0xFFFFFFFFu;
  while (size >= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);  // little-endian, as CUDA's hosts are
    word ^= crc;
    crc = t[7][word & 0xFF] ^ t[6][(word >> 8) & 0xFF] ^ t[5][(word >> 16) & 0xFF] ^
          t[4][(word >> 24) & 0xFF] ^ t[3][(word >> 32) & 0xFF] ^ t[2][(word >> 40) & 0xFF] ^
          t[1][(word >> 48) & 0xFF] ^ t[0][word >> 56];
    data += 8;
    size -= 8;
  }
  while (size--) crc = (crc >> 8) ^ t[0][(crc ^ *data++) & 0xFF];
  return ~crc;
}

}  // namespace sightline::cupti
