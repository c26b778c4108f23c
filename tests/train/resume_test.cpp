// Runs of the trireme binary, each in a fresh process, that are stopped and resumed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/data/corpus_bytes.h"
#include "train/checkpoint/names.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kGpt = "layers = 2\nhidden = 32\nheads = 2\nvocab_size = 61\nsequence_length = 16\n";
constexpr const char* kLlama =
    "layers = 2\nhidden = 32\nheads = 2\nvocab_size = 61\nsequence_length = 16\nkv_heads = 1\nnorm = \"rmsnorm\"\n"
    "activation = \"swiglu\"\nposition = \"rope\"\nbias = false\ntied_embeddings = false\n";

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// One run directory; 24 samples an epoch, 4 a step in two micro-batches, warm-up over 5 steps.
struct TrainingRun {
  fs::path work;
  std::string name, model = kGpt, precision = "fp32", corpus = "a.bin";

  fs::path directory() const { return work / name; }
  fs::path root() const { return directory() / "checkpoints"; }
  fs::path checkpoint(std::int64_t step) const { return root() / step_name(step); }
  fs::path output() const { return work / (name + ".out"); }

  pid_t start(std::int64_t steps, std::vector<std::string> options) const {
    const fs::path config = work / (name + ".toml");
    std::ofstream(config) << "[run]\ndirectory = \"" << name << "\"\nsteps = " << steps << "\n[model]\n"
                          << model << "[precision]\ncompute = \"" << precision
                          << "\"\n[batch]\nglobal = 4\nmicro = 2\n[data]\ntrain = [{ path = \"" << corpus
                          << "\", format = \"llmc\" }]\n[optimizer]\nlr = 1e-2\n[schedule]\nkind = \"cosine\"\n"
                          << "warmup_steps = 5\ndecay_steps = 20\n[checkpoint]\nkeep = 50\n"
                          << "[log]\nevery_steps = 1\ntensorboard = false\n[device]\nthreads = 1\n";
    options.insert(options.begin(), {TRIREME_BINARY, "train", config.string()});
    std::vector<char*> arguments;
    for (std::string& option : options) arguments.push_back(option.data());
    arguments.push_back(nullptr);
    const pid_t child = ::fork();
    if (child != 0) return child;
    const int out = ::open(output().c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (out < 0 || ::dup2(out, 1) < 0 || ::dup2(out, 2) < 0) ::_exit(127);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  static int wait(pid_t child) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int train(std::int64_t steps, std::vector<std::string> options = {}) const {
    return wait(start(steps, std::move(options)));
  }
  std::string said() const { return read_text(output()); }

  /// Loss and gradient norm of each step as exact text; a step done again replaces the earlier one.
  std::map<std::int64_t, std::string> numbers() const {
    std::map<std::int64_t, std::string> out;
    std::ifstream file(directory() / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const auto record = nlohmann::json::parse(line, nullptr, false);
      if (!record.is_object() || record.value("kind", "") != "train") continue;
      const std::size_t from = line.find("\"loss\""), to = line.find("\"lr\"");
      out[record["step"]] = line.substr(from, to - from);
    }
    return out;
  }
  /// State, name and fingerprint of every tensor.
  std::string weights(std::int64_t step) const {
    std::string out;
    const auto manifest = nlohmann::json::parse(read_text(checkpoint(step) / "MANIFEST.json"), nullptr, false);
    EXPECT_TRUE(manifest.is_object()) << checkpoint(step);
    for (const auto& tensor : manifest.value("tensors", nlohmann::json::array()))
      if (!tensor.contains("tied_to"))
        out += fmt::format("{} {} {}\n", tensor["state"].get<std::string>(), tensor["name"].get<std::string>(),
                           tensor["fingerprint"].get<std::string>());
    return out;
  }
  void damage(std::int64_t step) const {
    std::fstream file(checkpoint(step) / shard_name(0), std::ios::in | std::ios::out | std::ios::binary);
    const auto middle = static_cast<std::streamoff>(fs::file_size(checkpoint(step) / shard_name(0)) / 2);
    file.seekg(middle);
    const int byte = file.get();
    file.seekp(middle);
    file.put(static_cast<char>(byte ^ 1));
    ASSERT_TRUE(file.good());
  }
};

class ResumeOfRuns : public testing::Test {
 protected:
  ResumeOfRuns() : work_(fs::temp_directory_path() / ("trireme-resume-" + make_nonce())) {
    fs::create_directories(work_);
    for (const int factor : {7, 11}) {
      std::vector<int> ids;
      for (int i = 0; i < 400; ++i) ids.push_back((factor * i + i * i / 5) % 61);
      std::ofstream(work_ / (factor == 7 ? "a.bin" : "b.bin"), std::ios::binary) << data::llmc_bytes(ids);
    }
  }
  ~ResumeOfRuns() override { fs::remove_all(work_); }
  TrainingRun run(const std::string& name) const { return {.work = work_, .name = name}; }
  /// A run of 8 steps with checkpoints 3, 6 and 8.
  TrainingRun saved_run(const std::string& name) const {
    const TrainingRun out = run(name);
    EXPECT_EQ(out.train(8, {"--checkpoint.every_steps=3"}), 0) << out.said();
    return out;
  }
  static std::vector<std::string> names_in(const fs::path& root) {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(root)) out.push_back(entry.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }
  static void expect_equal(const TrainingRun& a, const TrainingRun& b, std::int64_t step) {
    EXPECT_EQ(a.numbers(), b.numbers());
    EXPECT_EQ(a.numbers().size(), static_cast<std::size_t>(step));
    EXPECT_EQ(a.weights(step), b.weights(step));
  }
  void expect_equal_after_stops(const std::string& model, const std::string& precision, const std::string& dropout) {
    constexpr std::int64_t kSteps = 16;
    TrainingRun whole = run("whole-" + precision + dropout);
    whole.model = model;
    whole.precision = precision;
    const std::string option = "--model.dropout=" + dropout;
    ASSERT_EQ(whole.train(kSteps, {option, "--checkpoint.every_steps=1"}), 0) << whole.said();
    // After one step, in warm-up, at an epoch's end and after it, twice in a row.
    for (const std::vector<std::int64_t>& stops : {std::vector<std::int64_t>{1}, {3}, {6, 7}, {5, 12}}) {
      TrainingRun part = whole;
      part.name = fmt::format("part-{}{}-{}", precision, dropout, fmt::join(stops, "-"));
      fs::copy(whole.directory(), part.directory(), fs::copy_options::recursive);
      for (const std::int64_t stop : stops) {
        ASSERT_EQ(part.train(kSteps,
                             {option, "--checkpoint.every_steps=1", "--run.resume=" + part.checkpoint(stop).string()}),
                  0)
            << part.said();
        ASSERT_THAT(part.said(), HasSubstr(fmt::format("resuming from step {}:", stop)));
      }
      expect_equal(whole, part, kSteps);
    }
  }
  fs::path work_;
};

void wait_for_steps(const TrainingRun& run, std::size_t count) {
  for (int i = 0; i < 1000 && run.numbers().size() < count; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_GE(run.numbers().size(), count) << run.said();
}

TEST_F(ResumeOfRuns, GptGivesTheNumbersOfTheRunThatWasNotStopped) {
  for (const char* precision : {"fp32", "bf16", "fp64"})
    for (const char* dropout : {"0", "0.2"}) expect_equal_after_stops(kGpt, precision, dropout);
}

TEST_F(ResumeOfRuns, LlamaGivesTheNumbersOfTheRunThatWasNotStopped) {
  for (const char* precision : {"fp32", "bf16", "fp64"})
    for (const char* dropout : {"0", "0.2"}) expect_equal_after_stops(kLlama, precision, dropout);
}

TEST_F(ResumeOfRuns, AnotherSeedGivesOtherNumbers) {
  const TrainingRun one = run("one"), other = run("other");
  ASSERT_EQ(one.train(8), 0);
  ASSERT_EQ(other.train(8, {"--run.seed=7"}), 0);
  EXPECT_NE(one.numbers(), other.numbers());
  EXPECT_NE(one.weights(8), other.weights(8));
}

TEST_F(ResumeOfRuns, AFinishedRunIsExtended) {
  const TrainingRun extended = saved_run("extended"), whole = run("whole");
  ASSERT_EQ(extended.train(12), 0) << extended.said();
  ASSERT_EQ(whole.train(12), 0) << whole.said();
  expect_equal(extended, whole, 12);
}

TEST_F(ResumeOfRuns, ASignalOrTheFileStopSavesAndGoesOnEqually) {
  for (const int signal : {SIGUSR1, SIGTERM, 0}) {
    const TrainingRun stopped = run(fmt::format("stopped-{}", signal)), whole = run(fmt::format("whole-{}", signal));
    const pid_t child = stopped.start(1000000, {});
    wait_for_steps(stopped, 5);
    if (signal != 0)
      ASSERT_EQ(::kill(child, signal), 0);
    else
      std::ofstream(stopped.directory() / "STOP");
    ASSERT_EQ(TrainingRun::wait(child), 75) << stopped.said();
    EXPECT_FALSE(fs::exists(stopped.directory() / "STOP"));
    const std::int64_t done = stopped.numbers().rbegin()->first;
    EXPECT_TRUE(fs::exists(stopped.checkpoint(done))) << done;
    ASSERT_EQ(stopped.train(done + 4), 0) << stopped.said();
    ASSERT_EQ(whole.train(done + 4), 0) << whole.said();
    expect_equal(stopped, whole, done + 4);
  }
}

TEST_F(ResumeOfRuns, ASecondRunOnTheDirectoryIsRefused) {
  const TrainingRun first = run("first");
  const pid_t child = first.start(1000000, {});
  wait_for_steps(first, 3);
  TrainingRun second = first;
  EXPECT_EQ(second.train(1000000), 73) << second.said();
  ASSERT_EQ(::kill(child, SIGTERM), 0);
  EXPECT_EQ(TrainingRun::wait(child), 75);
}

TEST_F(ResumeOfRuns, AnotherModelIsRefusedWithBothValues) {
  const TrainingRun saved = saved_run("saved");
  for (const char* option :
       {"layers=3", "hidden=64", "heads=4", "tied_embeddings=false", "norm=rmsnorm", "norm_eps=1e-6", "bias=false"})
    EXPECT_EQ(saved.train(10, {std::string("--model.") + option}), 64) << option << saved.said();
  EXPECT_EQ(saved.train(10, {"--model.layers=3"}), 64);
  EXPECT_THAT(saved.said(), HasSubstr("model.layers is 3, the checkpoint of step 8 has 2"));
  EXPECT_EQ(saved.train(10, {"--precision.compute=fp64"}), 64) << saved.said();
  EXPECT_EQ(saved.train(10, {"--optimizer.lr=3e-3"}), 0) << saved.said();
  EXPECT_THAT(saved.said(), HasSubstr("changed: optimizer.lr"));
}

TEST_F(ResumeOfRuns, AnotherSeedOrCorpusIsRefusedUnlessAllowed) {
  const TrainingRun seed = saved_run("seed");
  EXPECT_EQ(seed.train(10, {"--run.seed=9"}), 65) << seed.said();
  EXPECT_EQ(seed.train(10, {"--run.seed=9", "--data.allow_change=true"}), 0) << seed.said();
  TrainingRun corpus = saved_run("corpus");
  corpus.corpus = "b.bin";
  EXPECT_EQ(corpus.train(10), 65) << corpus.said();
  EXPECT_EQ(corpus.train(10, {"--data.allow_change=true"}), 0) << corpus.said();
}

TEST_F(ResumeOfRuns, MustAndPathsNeverFallBack) {
  EXPECT_EQ(run("empty").train(8, {"--run.resume=must"}), 66);
  EXPECT_EQ(run("empty").train(8, {"--run.resume=" + (work_ / "nowhere").string()}), 66);
  const TrainingRun broken = saved_run("broken");
  broken.damage(8);
  EXPECT_EQ(broken.train(10, {"--run.resume=" + broken.checkpoint(8).string()}), 66);
  EXPECT_EQ(broken.train(10), 0) << broken.said();
  EXPECT_THAT(broken.said(), HasSubstr("resuming from step 6:"));
}

TEST_F(ResumeOfRuns, NothingValidIsSaidWithEveryReasonAndNothingIsDeleted) {
  const TrainingRun saved = saved_run("saved");
  for (const std::int64_t step : {3, 6, 8}) saved.damage(step);
  const auto before = names_in(saved.root());
  for (const char* resume : {"auto", "must"}) {
    EXPECT_EQ(saved.train(10, {std::string("--run.resume=") + resume}), 66);
    const std::string said = saved.said();
    const std::string error = said.substr(std::min(said.size(), said.find("trireme: error:")));
    for (const std::int64_t step : {3, 6, 8}) EXPECT_THAT(error, HasSubstr(step_name(step)));
  }
  EXPECT_EQ(names_in(saved.root()), before);
}

TEST_F(ResumeOfRuns, SignsOfEarlierSavesForbidAFreshStart) {
  const TrainingRun gone = saved_run("gone");
  for (const std::int64_t step : {3, 6, 8}) fs::remove_all(gone.checkpoint(step));
  EXPECT_EQ(gone.train(10), 66) << "metrics.jsonl tells of commits: " << gone.said();
  const TrainingRun aside = saved_run("aside");
  for (const std::int64_t step : {3, 6, 8})
    fs::rename(aside.checkpoint(step), aside.root() / ("aside-" + step_name(step) + "-9f3a61c2"));
  fs::remove(aside.directory() / "metrics.jsonl");
  EXPECT_EQ(aside.train(10), 66) << aside.said();
}

TEST_F(ResumeOfRuns, NeverBeginsAnewAndSetsTheOldOnesAside) {
  const TrainingRun saved = saved_run("saved");
  const std::string weights = saved.weights(8);
  EXPECT_EQ(saved.train(8, {"--run.resume=never"}), 0) << saved.said();
  EXPECT_EQ(saved.weights(8), weights);
  const auto names = names_in(saved.root());
  EXPECT_EQ(std::count_if(names.begin(), names.end(), [](const auto& name) { return name.starts_with("aside-"); }), 3);
}

TEST_F(ResumeOfRuns, NonFiniteRunsEndAndSaveNothing) {
  const TrainingRun wild = run("wild");
  EXPECT_EQ(wild.train(40, {"--optimizer.lr=1e6", "--optimizer.clip=0", "--schedule.warmup_steps=0"}), 65);
  EXPECT_EQ(names_in(wild.root()), std::vector<std::string>{});
}

TEST_F(ResumeOfRuns, AFileInTheRootsPlaceIsRefused) {
  const TrainingRun blocked = run("blocked");
  fs::create_directories(blocked.directory());
  std::ofstream(blocked.root()) << "";
  EXPECT_EQ(blocked.train(8), 73) << blocked.said();
}

}  // namespace
}  // namespace trireme::train
