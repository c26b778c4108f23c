#include "data/tokenizer/rounds.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

namespace trireme::data {

namespace {
constexpr std::size_t kLarge = 2 * kPartBytes;
constexpr std::size_t kRoundBytesPerThread = 8 * kPartBytes;

void make_groups(Round& round) {
  round.groups.clear();
  std::size_t begin = 0;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < round.records.size(); ++i) {
    bytes += round.records[i].bytes.size();
    if (bytes < kPartBytes && i + 1 < round.records.size()) continue;
    round.groups.push_back(std::span(round.records).subspan(begin, i + 1 - begin));
    begin = i + 1;
    bytes = 0;
  }
}
}  // namespace

bool RoundReader::next(Round& round) {
  round.records.clear();
  round.large = false;
  std::size_t bytes = 0;
  while (bytes < kRoundBytesPerThread * static_cast<std::size_t>(threads_)) {
    if (!has_pending_ && !reader_.next(pending_)) break;
    has_pending_ = true;
    const bool large = pending_.bytes.size() > kLarge;
    if (large && !round.records.empty()) break;
    bytes += pending_.bytes.size();
    round.records.push_back(std::move(pending_));
    has_pending_ = false;
    round.large = large;
    if (large) break;
  }
  make_groups(round);
  return !round.records.empty();
}

void run_on_threads(int threads, std::size_t count, const std::function<void(std::size_t, int)>& work) {
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> end{count};
  std::mutex mutex;
  std::exception_ptr error;
  const auto run = [&](int thread) {
    for (std::size_t item = next++; item < end; item = next++) {
      try {
        work(item, thread);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (item < end) {
          end = item;
          error = std::current_exception();
        }
      }
    }
  };
  {
    std::vector<std::jthread> others;
    const auto wanted = static_cast<int>(std::min<std::size_t>(count, static_cast<std::size_t>(threads)));
    for (int thread = 1; thread < wanted; ++thread) others.emplace_back(run, thread);
    run(0);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace trireme::data
