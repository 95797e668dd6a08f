#include "cupti/file.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cupti/checksum.h"

namespace sightline::cupti {
namespace {

void append(std::vector<uint8_t>& to, const void* data, size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  to.insert(to.end(), bytes, bytes + size);
}

void append_json(std::string& to, std::string_view text) {
  to += '"';
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      to += '\\';
      to += static_cast<char>(c);
    } else if (c < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", c);
      to += code;
    } else {
      to += static_cast<char>(c);
    }
  }
  to += '"';
}

}  // namespace

void Facts::begin(std::string_view key) {
  if (!body_.empty()) body_ += ",";
  append_json(body_, key);
  body_ += ":";
}

void Facts::add(std::string_view key, std::string_view text) {
  begin(key);
  append_json(body_, text);
}

void Facts::add(std::string_view key, int64_t number) {
  begin(key);
  body_ += std::to_string(number);
}

void Facts::add(std::string_view key, double number) {
  begin(key);
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", number);
  body_ += text;
}

void Facts::add(std::string_view key, bool yes) {
  begin(key);
  body_ += yes ? "true" : "false";
}

void Facts::add(std::string_view key, const std::vector<std::string>& texts) {
  begin(key);
  body_ += "[";
  for (size_t i = 0; i < texts.size(); i++) {
    if (i) body_ += ",";
    append_json(body_, texts[i]);
  }
  body_ += "]";
}

void Facts::add_object(std::string_view key, const Facts& object) {
  begin(key);
  body_ += object.json();
}

uint32_t Texts::number(const char* text) {
  if (text == nullptr) return 0;
  auto known = by_pointer_.find(text);
  if (known != by_pointer_.end() && *all_[known->second - 1] == text) return known->second;
  const uint32_t number = number_content(text);
  // Ranges whose names are made anew each time would fill the map with pointers.
  if (by_pointer_.size() > 1u << 20) by_pointer_.clear();
  by_pointer_[text] = number;
  return number;
}

uint32_t Texts::number_content(const char* text) {
  auto known = by_content_.find(text);
  if (known != by_content_.end()) return known->second;
  const bool fits = bytes_ + std::strlen(text) <= kMostBytes;
  auto [place, is_new] = by_content_.try_emplace(fits ? text : "[too many names]",
                                                 static_cast<uint32_t>(all_.size() + 1));
  if (!is_new) return place->second;
  all_.push_back(&place->first);
  const uint32_t size = static_cast<uint32_t>(place->first.size());
  bytes_ += size;
  append(new_, &place->second, 4);
  append(new_, &size, 4);
  append(new_, place->first.data(), size);
  return place->second;
}

std::vector<uint8_t> Texts::take_new() {
  std::vector<uint8_t> taken;
  taken.swap(new_);
  return taken;
}

File::~File() { close(); }

bool File::open(const std::string& prefix, uint32_t pid) {
  for (int attempt = 1; attempt < 1000 && descriptor_ < 0; attempt++) {
    // A process that became another program by exec has the number of the one before.
    path_ = prefix + "-" + std::to_string(pid) + (attempt > 1 ? "." + std::to_string(attempt) : "") + ".cupti";
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (descriptor_ < 0 && errno != EEXIST) return false;
  }
  if (descriptor_ < 0) return false;
  FileHeader header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.pid = pid;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  header.start_ns = static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
  append(pending_, &header, sizeof header);
  return true;
}

void File::begin_table(uint16_t table, const char* name, const std::vector<NamedType>& columns) {
  std::vector<uint8_t> data;
  append(data, name, std::strlen(name) + 1);
  for (const NamedType& column : columns) {
    data.push_back(static_cast<uint8_t>(column.type));
    append(data, column.name, std::strlen(column.name) + 1);
  }
  add_chunk(Chunk::table, table, static_cast<uint32_t>(columns.size()), data.data(), data.size());
}

void File::add_rows(uint16_t table, const uint8_t* rows, uint32_t bytes, uint32_t count) {
  if (count == 0) return;
  if (rows_.size() <= table) rows_.resize(table + 1u);
  rows_[table] += count;
  add_chunk(Chunk::rows, table, count, rows, bytes);
}

void File::add_texts() {
  const std::vector<uint8_t> data = texts.take_new();
  if (!data.empty()) add_chunk(Chunk::texts, 0, 0, data.data(), data.size());
}

void File::add_blob(uint64_t key, const uint8_t* data, size_t size) {
  add_chunk(Chunk::blob, 0, 0, reinterpret_cast<const uint8_t*>(&key), sizeof key, data, size);
}

void File::add_facts(const Facts& facts) {
  const std::string text = facts.json();
  add_chunk(Chunk::facts, 0, 0, reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

void File::add_chunk(Chunk kind, uint16_t table, uint32_t rows, const uint8_t* data, size_t size,
                     const uint8_t* more, size_t more_size) {
  ChunkHeader header{};
  std::memcpy(header.magic, kChunkMagic, sizeof kChunkMagic);
  header.kind = static_cast<uint16_t>(kind);
  header.table = table;
  header.bytes = static_cast<uint32_t>(size + more_size);
  header.rows = rows;
  header.sequence = sequence_++;
  const size_t start = pending_.size();
  append(pending_, &header, sizeof header);
  append(pending_, data, size);
  if (more_size) append(pending_, more, more_size);
  const uint32_t sum = checksum(pending_.data() + start + sizeof header, header.bytes);
  std::memcpy(pending_.data() + start + offsetof(ChunkHeader, checksum), &sum, sizeof sum);
}

void File::commit() {
  size_t done = 0;
  while (is_good() && done < pending_.size()) {
    const ssize_t count = ::write(descriptor_, pending_.data() + done, pending_.size() - done);
    if (count < 0) {
      if (errno == EINTR) continue;
      error_ = errno;  // a full disk ends the recording, not the program
    } else {
      done += static_cast<size_t>(count);
    }
  }
  bytes_ += done;
  pending_.clear();
  if (pending_.capacity() > 16u << 20) pending_.shrink_to_fit();
}

void File::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

void File::abandon() {
  close();
  pending_.clear();
}

}  // namespace sightline::cupti
