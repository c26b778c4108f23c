#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "data/dataset.h"

namespace trireme::data {

/// One micro-batch; the memory is the loader's, until the next call.
struct Batch {
  std::int64_t samples = 0;                      ///< b
  std::int64_t sequence = 0;                     ///< s
  const std::int32_t* tokens = nullptr;          ///< [b, s]
  const std::int32_t* targets = nullptr;         ///< [b, s]; -1: not counted
  const std::int32_t* document_start = nullptr;  ///< [b, s] first token of the token's document; null without mask
  std::int64_t first_position = 0;               ///< place of the first sample in the run
  std::int64_t targets_counted = 0;
};

/// Where micro-batches come from.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// The next micro-batch; its memory is good until the next call.
  virtual const Batch& next() = 0;
};

/// One of the ranks that share the micro-batches: they take turns, this one has numbers index, index + count, ...
struct DataRank {
  std::int64_t index = 0;
  std::int64_t count = 1;
};

/// Memory of one micro-batch.
class BatchMemory {
 public:
  BatchMemory(std::int64_t samples, std::int64_t sequence, bool document_mask);
  /// Fills row `row` with `count` inputs and their targets, from token `begin` of the part on; the rest is not counted.
  void fill(std::int64_t row, const Part& part, std::int64_t begin, std::int64_t count);
  void clear(std::int64_t row);
  /// Also counts the targets.
  Batch view() const;
  std::vector<SampleId> ids;        ///< of the rows
  std::vector<std::int64_t> drawn;  ///< samples of each corpus up to the last row
  std::int64_t first_position = 0;

 private:
  void mask_documents(std::int64_t row, const Corpus& corpus, std::int64_t begin, std::int64_t count);

  std::int64_t samples_, sequence_;
  bool document_mask_;
  std::vector<std::int32_t> tokens_, targets_, document_start_, ids_, marks_;
};

/// Micro-batches of training in the order of the run, from a position on. A thread of its own reads ahead; what goes
/// wrong in it is thrown by `next`, after the micro-batches before. Allocates nothing after construction.
class TrainLoader : public BatchSource {
 public:
  /// Micro-batch i of the loader begins at place first_position + (i x rank.count + rank.index) x micro of the run.
  TrainLoader(const Dataset& dataset, std::int64_t micro, std::int64_t first_position, DataRank rank = {});
  ~TrainLoader() override;
  TrainLoader(const TrainLoader&) = delete;
  TrainLoader& operator=(const TrainLoader&) = delete;

  const Batch& next() override;
  /// The samples of the last batch.
  const std::vector<SampleId>& ids() const { return slots_[current_].ids; }
  /// How far the batches given out reach, those of the other ranks included: "epoch 1.37".
  std::string epoch_progress() const { return dataset_.epoch_progress(slots_[current_].drawn); }
  /// Seconds that `next` waited since the last call of this.
  double take_wait_seconds();

 private:
  static constexpr std::size_t kAhead = 4;
  void start();
  void run();
  void load(BatchMemory& memory);

  const Dataset& dataset_;
  const std::int64_t micro_;
  const DataRank rank_;
  Blend blend_;
  std::vector<BatchMemory> slots_;
  std::size_t current_ = 0;
  Batch batch_;
  double wait_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t ready_ = 0;  // loaded batches from current_ + 1 on
  bool ended_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

/// Micro-batches of one validation part in order; the last sample may be short, missing samples of the last micro-batch
/// are not counted.
class ValidLoader {
 public:
  /// At most `samples` samples (0: all).
  ValidLoader(const Part& part, std::int64_t sequence, std::int64_t micro, std::int64_t samples, bool document_mask);
  /// Gives only this rank's micro-batches, the same number on every rank; before the first `next`.
  void share(DataRank rank) { rank_ = rank; }
  const Batch* next();  ///< null at the end

 private:
  const Part part_;
  const std::int64_t sequence_, micro_;
  std::int64_t samples_, turn_ = 0;
  DataRank rank_;
  BatchMemory memory_;
  Batch batch_;
};

}  // namespace trireme::data
