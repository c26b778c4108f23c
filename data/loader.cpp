#include "data/loader.h"

#include <algorithm>
#include <csignal>
#include <system_error>
#include <utility>

#include "core/clock.h"

namespace trireme::data {

BatchMemory::BatchMemory(std::int64_t samples, std::int64_t sequence, bool document_mask)
    : ids(static_cast<std::size_t>(samples)), samples_(samples), sequence_(sequence), document_mask_(document_mask) {
  const auto all = static_cast<std::size_t>(samples * sequence);
  const auto one = static_cast<std::size_t>(sequence + 1);
  for (auto* memory : {&tokens_, &targets_}) memory->assign(all, 0);
  ids_.assign(one, 0);
  if (!document_mask) return;
  document_start_.assign(all, 0);
  marks_.assign(one, 0);
}

void BatchMemory::fill(std::int64_t row, const Part& part, std::int64_t begin, std::int64_t count) {
  const std::span read(ids_.data(), static_cast<std::size_t>(count + 1));
  part.corpus->read(part.begin + begin, read);
  clear(row);
  std::copy_n(ids_.begin(), count, tokens_.begin() + row * sequence_);
  std::copy_n(ids_.begin() + 1, count, targets_.begin() + row * sequence_);
  if (document_mask_) mask_documents(row, *part.corpus, part.begin + begin, count);
}

void BatchMemory::mask_documents(std::int64_t row, const Corpus& corpus, std::int64_t begin, std::int64_t count) {
  const auto inputs = static_cast<std::size_t>(count);
  corpus.mark_documents(begin, std::span(ids_).first(inputs + 1), std::span(marks_).first(inputs + 1));
  std::copy_n(marks_.begin(), count, document_start_.begin() + row * sequence_);
  for (std::size_t i = 0; i < inputs; ++i) {
    const bool other = marks_[i + 1] != marks_[i];
    const bool separator = corpus.separator_starts() && ids_[i + 1] == corpus.separator_id();
    if (other && !separator) targets_[static_cast<std::size_t>(row * sequence_) + i] = -1;
  }
}

void BatchMemory::clear(std::int64_t row) {
  std::fill_n(tokens_.begin() + row * sequence_, sequence_, 0);
  std::fill_n(targets_.begin() + row * sequence_, sequence_, -1);
  if (document_mask_) std::fill_n(document_start_.begin() + row * sequence_, sequence_, 0);
}

Batch BatchMemory::view() const {
  return {.samples = samples_,
          .sequence = sequence_,
          .tokens = tokens_.data(),
          .targets = targets_.data(),
          .document_start = document_mask_ ? document_start_.data() : nullptr,
          .first_position = first_position,
          .targets_counted = std::ssize(targets_) - std::count(targets_.begin(), targets_.end(), -1)};
}

TrainLoader::TrainLoader(const Dataset& dataset, std::int64_t micro, std::int64_t first_position, DataRank rank)
    : dataset_(dataset), micro_(micro), rank_(rank), blend_(dataset.weights()) {
  core::check(micro > 0 && rank.index >= 0 && rank.index < rank.count, "{} sequences on rank {} of {}", micro,
              rank.index, rank.count);
  blend_.advance_to(first_position + rank.index * micro);
  slots_.reserve(kAhead + 1);
  for (std::size_t i = 0; i <= kAhead; ++i) {
    slots_.emplace_back(micro, dataset.sequence(), dataset.document_mask());
    slots_.back().drawn = blend_.counts();
  }
  current_ = kAhead;  // so that the first batch lies in slot 0
  start();
}

void TrainLoader::start() {
  sigset_t all, before;
  core::check(sigfillset(&all) == 0 && pthread_sigmask(SIG_BLOCK, &all, &before) == 0, "pthread_sigmask");
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    core::fail(core::ExitCode::machine, "no thread for reading data: {}", error.what());
  }
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
  memory.first_position = blend_.position();
  for (std::int64_t row = 0; row < micro_; ++row) {
    const std::size_t corpus = blend_.next();
    const SampleId id = dataset_.sample(corpus, blend_.counts()[corpus] - 1);
    memory.fill(row, dataset_.training()[corpus], id.sample * dataset_.sequence(), dataset_.sequence());
    memory.ids[static_cast<std::size_t>(row)] = id;
  }
  std::copy(blend_.counts().begin(), blend_.counts().end(), memory.drawn.begin());
  blend_.advance_to(blend_.position() + (rank_.count - 1) * micro_);
}

const Batch& TrainLoader::next() {
  const double begin = core::now();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ready_ > 0 || error_; });
  if (ready_ == 0) std::rethrow_exception(error_);
  --ready_;
  current_ = (current_ + 1) % slots_.size();
  lock.unlock();
  changed_.notify_all();
  wait_ += core::now() - begin;
  batch_ = slots_[current_].view();
  return batch_;
}

double TrainLoader::take_wait_seconds() { return std::exchange(wait_, 0); }

ValidLoader::ValidLoader(const Part& part, std::int64_t sequence, std::int64_t micro, std::int64_t samples,
                         bool document_mask)
    : part_(part), sequence_(sequence), micro_(micro), memory_(micro, sequence, document_mask) {
  const std::int64_t targets = std::max<std::int64_t>(part.tokens - 1, 0);
  const std::int64_t all = targets / sequence + (targets % sequence != 0);
  samples_ = samples > 0 ? std::min(samples, all) : all;
}

const Batch* ValidLoader::next() {
  const std::int64_t turn = turn_++ * rank_.count;
  if (turn * micro_ >= samples_) return nullptr;
  memory_.first_position = (turn + rank_.index) * micro_;
  for (std::int64_t row = 0; row < micro_; ++row) {
    const std::int64_t sample = memory_.first_position + row, begin = sample * sequence_;
    if (sample < samples_)
      memory_.fill(row, part_, begin, std::min(sequence_, part_.tokens - 1 - begin));
    else
      memory_.clear(row);
  }
  batch_ = memory_.view();
  return &batch_;
}

}  // namespace trireme::data
