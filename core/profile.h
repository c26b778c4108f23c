#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/clock.h"

namespace trireme::core {

/// Where time goes, by operator. Work is sequential on the calling thread, so `lap` gives the time since the last one
/// to the operator that just ended, and the entries add up to the whole. Names must outlive the profile.
class Profile {
 public:
  struct Entry {
    std::string_view name;
    double seconds = 0;
    std::int64_t calls = 0;
  };
  void enable() { enabled_ = true; }
  void restart() {
    entries_.clear();
    last_ = now();
  }
  void lap(std::string_view name) {
    if (enabled_) record(name);
  }
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  void record(std::string_view name) {
    const double time = now();
    Entry* found = nullptr;
    for (Entry& entry : entries_)
      if (entry.name == name) found = &entry;
    if (!found) found = &entries_.emplace_back(Entry{name});
    found->seconds += time - last_;
    ++found->calls;
    last_ = time;
  }
  bool enabled_ = false;
  double last_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace trireme::core
