#include "data/loader.h"

#include <algorithm>
#include <csignal>

#include "core/clock.h"

namespace trireme::data {

BatchMemory::BatchMemory(std::int64_t samples, std::int64_t sequence) : samples_(samples), sequence_(sequence) {
  const auto all = static_cast<std::size_t>(samples * sequence);
  const auto one = static_cast<std::size_t>(sequence + 1);
  for (auto* memory : {&tokens_, &targets_, &document_start_}) memory->assign(all, 0);
  for (auto* memory : {&ids_, &marks_}) memory->assign(one, 0);
  ids.resize(static_cast<std::size_t>(samples));
}

void BatchMemory::fill(std::int64_t row, const Part& part, std::int64_t begin, std::int64_t count, bool document_mask) {
  const std::span read(ids_.data(), static_cast<std::size_t>(count + 1));
  const std::int64_t from = part.begin + begin;
  part.corpus->read(from, read);
  clear(row);
  const std::int64_t at = row * sequence_;
  std::copy_n(ids_.begin(), count, tokens_.begin() + at);
  std::copy_n(ids_.begin() + 1, count, targets_.begin() + at);
  if (!document_mask) return;
  part.corpus->mark_documents(from, read, std::span(marks_.data(), read.size()));
  std::copy_n(marks_.begin(), count, document_start_.begin() + at);
  for (std::int64_t i = 0; i < count; ++i) {
    const bool other = marks_[static_cast<std::size_t>(i + 1)] == i + 1;
    const bool separator =
        part.corpus->separator_starts() && ids_[static_cast<std::size_t>(i + 1)] == part.corpus->separator_id();
    if (other && !separator) targets_[static_cast<std::size_t>(at + i)] = -1;
  }
}

void BatchMemory::clear(std::int64_t row) {
  std::fill_n(tokens_.begin() + row * sequence_, sequence_, 0);
  std::fill_n(targets_.begin() + row * sequence_, sequence_, -1);
  std::fill_n(document_start_.begin() + row * sequence_, sequence_, 0);
}

Batch BatchMemory::view(std::int64_t first_position, bool document_mask) const {
  const auto counted = std::count_if(targets_.begin(), targets_.end(), [](std::int32_t id) { return id >= 0; });
  return {.samples = samples_,
          .sequence = sequence_,
          .tokens = tokens_.data(),
          .targets = targets_.data(),
          .document_start = document_mask ? document_start_.data() : nullptr,
          .first_position = first_position,
          .targets_counted = counted};
}

TrainLoader::TrainLoader(const Dataset& dataset, std::int64_t micro, std::int64_t first_position)
    : dataset_(dataset), micro_(micro), blend_(dataset.weights()), given_position_(first_position) {
  blend_.advance_to(first_position);
  for (std::size_t i = 0; i <= kAhead; ++i) slots_.emplace_back(micro, dataset.sequence());
  current_ = kAhead;  // so that the first batch lies in slot 0
  sigset_t all, before;
  sigfillset(&all);
  core::check(pthread_sigmask(SIG_BLOCK, &all, &before) == 0, "pthread_sigmask");
  thread_ = std::thread([this] { run(); });
  core::check(pthread_sigmask(SIG_SETMASK, &before, nullptr) == 0, "pthread_sigmask");
}

TrainLoader::~TrainLoader() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void TrainLoader::run() {
  try {
    for (std::size_t slot = 0;; slot = (slot + 1) % slots_.size()) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ended_ || ready_ < kAhead; });
      if (ended_) return;
      lock.unlock();
      load(slots_[slot]);
      lock.lock();
      ++ready_;
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    changed_.notify_all();
  }
}

void TrainLoader::load(BatchMemory& memory) {
  for (std::int64_t row = 0; row < micro_; ++row) {
    const std::size_t corpus = blend_.next();
    const SampleId id = dataset_.sample(corpus, blend_.counts()[corpus] - 1);
    memory.fill(row, dataset_.training()[corpus], id.sample * dataset_.sequence(), dataset_.sequence(),
                dataset_.document_mask());
    memory.ids[static_cast<std::size_t>(row)] = id;
  }
}

const Batch& TrainLoader::next() {
  const double begin = core::now();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ready_ > 0 || error_; });
  if (ready_ == 0) std::rethrow_exception(error_);
  --ready_;
  current_ = (current_ + 1) % slots_.size();
  batch_ = slots_[current_].view(given_position_, dataset_.document_mask());
  given_position_ += micro_;
  changed_.notify_all();
  wait_ += core::now() - begin;
  return batch_;
}

double TrainLoader::take_wait_seconds() { return std::exchange(wait_, 0); }

ValidLoader::ValidLoader(const Part& part, std::int64_t sequence, std::int64_t micro, std::int64_t samples,
                         bool document_mask)
    : part_(part), sequence_(sequence), micro_(micro), document_mask_(document_mask), memory_(micro, sequence) {
  const std::int64_t all = (part.tokens - 1 + sequence - 1) / sequence;
  samples_ = samples > 0 ? std::min(samples, all) : all;
}

const Batch* ValidLoader::next() {
  if (at_ >= samples_) return nullptr;
  for (std::int64_t row = 0; row < micro_; ++row) {
    const std::int64_t begin = (at_ + row) * sequence_;
    if (at_ + row < samples_)
      memory_.fill(row, part_, begin, std::min(sequence_, part_.tokens - 1 - begin), document_mask_);
    else
      memory_.clear(row);
  }
  batch_ = memory_.view(at_, document_mask_);
  at_ += micro_;
  return &batch_;
}

}  // namespace trireme::data
