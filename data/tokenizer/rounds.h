#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "data/tokenizer/documents.h"

namespace trireme::data {

/// Documents to work on at once by several threads: many small ones in groups, or a single large one.
struct Round {
  std::vector<Record> records;
  std::vector<std::span<Record>> groups;
  bool large = false;  ///< one record, worth cutting
};

/// Bytes that a thread takes at a time.
inline constexpr std::size_t kPartBytes = std::size_t{512} << 10;

/// Fills the next round; false when there are no more documents.
class RoundReader {
 public:
  RoundReader(RecordReader& reader, int threads) : reader_(reader), threads_(threads) {}
  bool next(Round& round);

 private:
  RecordReader& reader_;
  int threads_;
  Record pending_;
  bool has_pending_ = false;
};

/// Runs work(item, thread) for items 0 .. count - 1, begun in this order. Of what is thrown, the lowest item's error
/// is thrown here; items above it may be left out.
void run_on_threads(int threads, std::size_t count, const std::function<void(std::size_t, int)>& work);

}  // namespace trireme::data
