#include "data/loader.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <fstream>
#include <map>
#include <set>

#include "tests/data/allocation_count.h"
#include "tests/data/corpus_bytes.h"

namespace trireme::data {

namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<std::int32_t>;
using Triple = std::tuple<std::size_t, std::int64_t, std::int64_t>;

std::vector<Triple> ids_of(const TrainLoader& loader) {
  std::vector<Triple> out;
  for (const SampleId& id : loader.ids()) out.emplace_back(id.corpus, id.epoch, id.sample);
  return out;
}

class Loader : public CorpusTest {
 protected:
  /// Two corpora of 20 and 10 samples.
  Dataset two() const {
    return Dataset({.train = {{put_pair("x", {counting(211, 211)}), 0.3}, {put_pair("y", {counting(101, 101)}), 0.7}}},
                   {.sequence = 10, .vocab_size = 300, .seed = 1234});
  }
  /// Samples of `steps` steps of `global` sequences, in order of their place, read by `ranks` ranks.
  static std::vector<Triple> run(const Dataset& data, std::int64_t first, std::int64_t count, std::int64_t micro,
                                 std::int64_t ranks = 1) {
    std::map<std::int64_t, Triple> read;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      TrainLoader loader(data, micro, first, {rank, ranks});
      for (std::int64_t i = 0; i < count / micro / ranks; ++i) {
        const std::int64_t at = loader.next().first_position;
        const auto ids = ids_of(loader);
        for (std::int64_t row = 0; row < micro; ++row)
          EXPECT_TRUE(read.emplace(at + row, ids[static_cast<std::size_t>(row)]).second) << at + row;
      }
    }
    std::vector<Triple> out;
    for (const auto& [at, id] : read) {
      EXPECT_EQ(at, first + std::ssize(out));
      out.push_back(id);
    }
    return out;
  }
  static Ids row(const std::int32_t* values, std::int64_t at, std::int64_t count) {
    return {values + at * count, values + (at + 1) * count};
  }
};

std::uint64_t blocked_signals(const std::string& task) {
  std::ifstream status("/proc/self/task/" + task + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigBlk:")) return std::stoull(line.substr(7), nullptr, 16);
  return 0;
}
}  // namespace

TEST_F(Loader, GivesTheTokensOfTheSamplesInOrder) {
  const Dataset data = two();
  TrainLoader loader(data, 3, 0);
  Blend blend({0.3, 0.7});
  for (std::int64_t i = 0; i < 40; ++i) {
    const Batch& batch = loader.next();
    EXPECT_EQ(batch.first_position, 3 * i);
    EXPECT_EQ(batch.targets_counted, 30);
    EXPECT_EQ(batch.document_start, nullptr);
    for (std::int64_t r = 0; r < 3; ++r) {
      const std::size_t corpus = blend.next();
      const std::int64_t pick = blend.counts()[corpus] - 1, n = corpus == 0 ? 21 : 10;
      const std::int64_t sample =
          permute(1234, static_cast<std::uint32_t>(pick / n), static_cast<std::uint32_t>(corpus), n, pick % n);
      EXPECT_EQ(ids_of(loader)[static_cast<std::size_t>(r)], Triple(corpus, pick / n, sample));
      for (std::int64_t k = 0; k < 10; ++k) {
        EXPECT_EQ(batch.tokens[r * 10 + k], sample * 10 + k);
        EXPECT_EQ(batch.targets[r * 10 + k], sample * 10 + k + 1);
      }
    }
  }
}

TEST_F(Loader, ResumesAtEveryPositionWithTheSameSamples) {
  const Dataset data = two();
  const auto straight = run(data, 0, 120, 1);
  for (std::int64_t first = 0; first < 60; ++first) {
    const auto resumed = run(data, first, 60, 1);
    EXPECT_TRUE(std::equal(resumed.begin(), resumed.end(), straight.begin() + first)) << first;
    EXPECT_FALSE(std::equal(resumed.begin(), resumed.end(), straight.begin() + first + 1)) << first;
  }
}

TEST_F(Loader, SamplesDependOnNeitherMicroBatchNorRanks) {
  const Dataset data = two();
  const auto straight = run(data, 0, 96, 1);
  for (const std::int64_t micro : {1, 2, 3, 4})
    for (const std::int64_t ranks : {1, 2, 4}) EXPECT_EQ(run(data, 0, 96, micro, ranks), straight) << micro << ranks;
  EXPECT_EQ(run(data, 48, 48, 2, 4), std::vector<Triple>(straight.begin() + 48, straight.end()));
}

TEST_F(Loader, SaysHowFarTheEpochsAre) {
  const Dataset data({.train = {{put_pair("x", {counting(101, 101)})}}}, {.sequence = 10, .vocab_size = 300});
  TrainLoader loader(data, 4, 8);
  EXPECT_EQ(loader.epoch_progress(), "epoch 0.80");
  loader.next();
  EXPECT_EQ(loader.epoch_progress(), "epoch 1.20");
  loader.next();
  EXPECT_EQ(loader.epoch_progress(), "epoch 1.60");
}

TEST_F(Loader, MasksDocumentsOfAnIndex) {
  const Dataset data({.train = {{put_pair("x", {{1, 2, 3, 9}, {4, 5, 9}, {6, 7, 8, 9}})}}, .document_mask = true},
                     {.sequence = 5, .vocab_size = 10});
  TrainLoader loader(data, 2, 0);
  const Batch& batch = loader.next();
  const std::int64_t first = std::get<2>(ids_of(loader)[0]) == 0 ? 0 : 1, second = 1 - first;
  EXPECT_THAT(row(batch.tokens, first, 5), ElementsAre(1, 2, 3, 9, 4));
  EXPECT_THAT(row(batch.targets, first, 5), ElementsAre(2, 3, 9, -1, 5));
  EXPECT_THAT(row(batch.document_start, first, 5), ElementsAre(0, 0, 0, 0, 4));
  EXPECT_THAT(row(batch.tokens, second, 5), ElementsAre(5, 9, 6, 7, 8));
  EXPECT_THAT(row(batch.targets, second, 5), ElementsAre(9, -1, 7, 8, 9));
  EXPECT_THAT(row(batch.document_start, second, 5), ElementsAre(0, 0, 2, 2, 2));
  EXPECT_EQ(batch.targets_counted, 8);
}

TEST_F(Loader, CountsASeparatorThatStartsADocumentButNotTheTokenAfterOneThatEnds) {
  put("start.bin", llmc_bytes({0, 1, 2, 0, 3}));
  put("end.bin", u16_bytes({1, 2, 0, 3, 4}));
  const auto batch_of = [&](const CorpusEntry& entry, Ids& targets) {
    const Dataset data({.train = {entry}, .document_mask = true, .separator_id = 0}, {.sequence = 4, .vocab_size = 9});
    TrainLoader loader(data, 1, 0);
    const Batch& batch = loader.next();
    targets = row(batch.targets, 0, 4);
    return row(batch.document_start, 0, 4);
  };
  Ids targets;
  EXPECT_THAT(batch_of({path("start.bin")}, targets), ElementsAre(0, 0, 0, 3));
  EXPECT_THAT(targets, ElementsAre(1, 2, 0, 3));
  EXPECT_THAT(batch_of({path("end.bin"), 1, "raw-u16"}, targets), ElementsAre(0, 0, 0, 3));
  EXPECT_THAT(targets, ElementsAre(2, 0, -1, 4));
}

TEST_F(Loader, ThrowsWhatGoesWrongInItsThreadAfterTheBatchesBefore) {
  put("x.bin", llmc_bytes(counting(4001, 100)));
  const Dataset data({.train = {{path("x.bin")}}}, {.sequence = 1000, .vocab_size = 100});
  std::filesystem::resize_file(path("x.bin"), 1024);
  TrainLoader loader(data, 1, 0);
  for (int i = 0; i < 2; ++i) EXPECT_THAT(refusal([&] { loader.next(); }), HasSubstr("x.bin: wanted 2002 bytes at"));
}

TEST_F(Loader, AllocatesNothingAfterItsConstruction) {
  for (const bool mask : {false, true}) {
    const Dataset data({.train = {{put_pair("x", {counting(211, 211)})}, {put_pair("y", {counting(101, 101)})}},
                        .document_mask = mask},
                       {.sequence = 10, .vocab_size = 300});
    TrainLoader loader(data, 4, 0);
    loader.next();
    const std::int64_t before = allocation_count();
    for (int i = 0; i < 200; ++i) loader.next();
    EXPECT_EQ(allocation_count(), before);
  }
}

TEST_F(Loader, MeasuresItsWaitingAnew) {
  const Dataset data = two();
  TrainLoader loader(data, 3, 0);
  loader.next();
  EXPECT_GT(loader.take_wait_seconds(), 0);
  EXPECT_EQ(loader.take_wait_seconds(), 0);
}

TEST_F(Loader, LeavesSignalsToTheOtherThreads) {
  const Dataset data = two();
  TrainLoader loader(data, 3, 0);
  loader.next();
  constexpr std::uint64_t wanted = (1u << (SIGINT - 1)) | (1u << (SIGTERM - 1)) | (1u << (SIGUSR1 - 1));
  const std::string own = std::to_string(::getpid());
  EXPECT_EQ(blocked_signals(own) & wanted, 0u);
  int others = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const std::string name = task.path().filename();
    if (name == own) continue;
    EXPECT_EQ(blocked_signals(name) & wanted, wanted);
    ++others;
  }
  EXPECT_GE(others, 1);
}

TEST_F(Loader, ValidationCountsEveryTargetOnce) {
  const Dataset data({.train = {{put_pair("x", {counting(20, 50)})}}, .valid = {{put_pair("v", {counting(44, 50)})}}},
                     {.sequence = 10, .vocab_size = 50});
  for (const std::int64_t micro : {1, 2, 4})
    for (const std::int64_t ranks : {1, 2, 3}) {
      std::map<std::int32_t, int> targets;
      std::set<std::int64_t> batches;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        ValidLoader loader(data.validation()[0], 10, micro, 0, false);
        loader.share({rank, ranks});
        std::int64_t count = 0;
        for (; const Batch* batch = loader.next(); ++count)
          for (std::int64_t k = 0; k < micro * 10; ++k)
            if (batch->targets[k] >= 0) {
              EXPECT_EQ(batch->targets[k], batch->tokens[k] + 1);
              ++targets[batch->targets[k]];
            }
        batches.insert(count);
      }
      EXPECT_EQ(batches.size(), 1u) << "every rank joins every micro-batch";
      EXPECT_EQ(targets.size(), 43u);
      for (const auto& [id, times] : targets) EXPECT_EQ(times, 1) << id;
    }
}

TEST_F(Loader, ValidationStopsAtTheSamplesAskedFor) {
  const Dataset data({.train = {{put_pair("x", {counting(45, 50)})}}}, {.sequence = 10, .vocab_size = 50});
  const Part part = data.training()[0];
  const auto counted = [&](std::int64_t samples) {
    std::vector<std::int64_t> out;
    ValidLoader loader(part, 10, 2, samples, false);
    while (const Batch* batch = loader.next()) out.push_back(batch->targets_counted);
    return out;
  };
  EXPECT_THAT(counted(0), ElementsAre(20, 20, 4));
  EXPECT_THAT(counted(3), ElementsAre(20, 10));
  EXPECT_THAT(counted(99), ElementsAre(20, 20, 4));
}

}  // namespace trireme::data
