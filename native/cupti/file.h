// The file that is appended to: chunks of rows, texts, blobs and facts. Used by one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cupti/format.h"

namespace sightline::cupti {

// Facts as JSON, put together member by member.
class Facts {
 public:
  void add(std::string_view key, std::string_view text);
  void add(std::string_view key, int64_t number);
  void add(std::string_view key, double number);
  void add(std::string_view key, bool yes);
  void add(std::string_view key, const std::vector<std::string>& texts);
  void add_object(std::string_view key, const Facts& object);
  std::string json() const { return "{" + body_ + "}"; }

 private:
  void begin(std::string_view key);
  std::string body_;
};

struct NamedType {
  const char* name;
  Type type;
};

// Text numbers, each text once. Pointers are remembered, and compared anew each time: a library
// may use the memory of an unloaded module's names again.
class Texts {
 public:
  // The number of a text; 0 for none. A new one is put down to be written.
  uint32_t number(const char* text);
  // The same of a text whose memory is used again at once.
  uint32_t number_copy(const std::string& text) { return number_content(text.c_str()); }
  std::vector<uint8_t> take_new();
  // What there may be of texts. Names beyond are all one.
  static constexpr size_t kMostBytes = 256u << 20;

 private:
  uint32_t number_content(const char* text);
  std::unordered_map<const char*, uint32_t> by_pointer_;
  std::unordered_map<std::string, uint32_t> by_content_;
  std::vector<const std::string*> all_;
  std::vector<uint8_t> new_;
  size_t bytes_ = 0;
};

class File {
 public:
  ~File();
  // Makes PREFIX-PID.cupti, or with the first free number behind the process id. False with errno.
  bool open(const std::string& prefix, uint32_t pid);
  const std::string& path() const { return path_; }
  bool is_good() const { return descriptor_ >= 0 && error_ == 0; }
  int error() const { return error_; }
  uint64_t bytes() const { return bytes_; }

  // What follows is put together, and written by one call at `commit`.
  void begin_table(uint16_t table, const char* name, const std::vector<NamedType>& columns);
  void add_rows(uint16_t table, const uint8_t* rows, uint32_t bytes, uint32_t count);
  void add_texts();
  void add_blob(uint64_t key, const uint8_t* data, size_t size);
  void add_facts(const Facts& facts);
  void commit();

  uint64_t rows_of(uint16_t table) const { return table < rows_.size() ? rows_[table] : 0; }
  void close();
  void abandon();  // in a fork: the file is the parent's

  Texts texts;

 private:
  void add_chunk(Chunk kind, uint16_t table, uint32_t rows, const uint8_t* data, size_t size,
                 const uint8_t* more = nullptr, size_t more_size = 0);
  int descriptor_ = -1;
  int error_ = 0;
  uint32_t sequence_ = 0;
  uint64_t bytes_ = 0;
  std::string path_;
  std::vector<uint8_t> pending_;
  std::vector<uint64_t> rows_;
};

}  // namespace sightline::cupti
