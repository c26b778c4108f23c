#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <set>
#include <thread>

#include "tests/train/checkpoint_state.h"

namespace trireme::train {
namespace {

using core::ExitCode;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> names_in(const fs::path& root) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(root)) out.push_back(entry.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

/// A process of its own that runs `work`; it says numbers to the test through a pipe.
class Child {
 public:
  using Say = std::function<void(std::int64_t)>;
  explicit Child(const std::function<void(const Say&)>& work) {
    int ends[2];
    core::check(::pipe(ends) == 0, "no pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      int code = 0;
      try {
        work([&](std::int64_t number) { core::check(::write(ends[1], &number, sizeof number) > 0, "pipe"); });
      } catch (const core::Error& error) {
        std::fprintf(stderr, "child: %s\n", error.what());
        code = static_cast<int>(error.code());
      }
      std::exit(code);  // runs what the libraries left for the end
    }
    ::close(ends[1]);
    from_ = ends[0];
  }
  ~Child() {
    if (!waited_) kill();
    ::close(from_);
  }
  /// The next number, or -1 when the process has ended.
  std::int64_t heard() const {
    std::int64_t number = 0;
    return ::read(from_, &number, sizeof number) == sizeof number ? number : -1;
  }
  void kill() {
    ::kill(pid_, SIGKILL);
    wait();
  }
  /// Exit code, or minus the signal.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    waited_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = 0;
  int from_ = -1;
  bool waited_ = false;
};

void sleep_ms(unsigned milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

void save_on_and_on(const fs::path& root, std::int64_t step, const Child::Say& say) {
  CheckpointStore store(root, "run");
  say(step);
  for (;;) {
    ++step;
    State state(static_cast<std::uint32_t>(step));
    save(store, state, step);
    say(step);
    store.retain(2, 0);
  }
}

unsigned milliseconds_of_a_save() {
  Scratch scratch;
  CheckpointStore store(scratch / "checkpoints", "run");
  State state(1);
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t step = 1; step <= 3; ++step) save(store, state, step);
  const auto three = std::chrono::steady_clock::now() - begin;
  return static_cast<unsigned>(std::chrono::duration_cast<std::chrono::milliseconds>(three).count()) / 3 + 1;
}

TEST(Faults, ThirtyKillsLoseNothingCommittedAndLeaveNothingBroken) {
  Scratch scratch;
  const fs::path root = scratch / "checkpoints";
  std::mt19937 random(5);
  const unsigned save_ms = milliseconds_of_a_save();
  std::set<std::string> left;
  std::int64_t committed = 0, saves = 0;
  // On a busy machine fewer saves end between kills; then there are more kills.
  for (int round = 0; round < 30 || (saves <= 10 && round < 150); ++round) {
    // The take-over of a dead owner takes two seconds; one of ten rounds goes that way.
    if (round % 10 != 0) fs::remove(root / "OWNER");
    Child child([&](const Child::Say& say) { save_on_and_on(root, committed, say); });
    ASSERT_EQ(child.heard(), committed);
    for (const std::string& name : names_in(root)) EXPECT_FALSE(left.contains(name)) << name;
    sleep_ms(random() % (3 * save_ms));
    child.kill();
    for (std::int64_t step = child.heard(); step > 0; step = child.heard()) {
      committed = step;
      ++saves;
    }
    for (const std::string& name : names_in(root))
      if (name.starts_with(".")) left.insert(name);
    for (const Candidate& candidate : verify_candidates(root)) {
      ASSERT_EQ(candidate.reason, "") << "round " << round;
      State expected(static_cast<std::uint32_t>(candidate.step)), loaded(0);
      CheckpointReader(candidate.directory).read(loaded.chunks());
      ASSERT_TRUE(loaded == expected);
    }
    const std::int64_t newest = list_candidates(root).empty() ? 0 : list_candidates(root)[0].step;
    ASSERT_GE(newest, committed) << "round " << round;
    committed = newest;
  }
  EXPECT_GT(saves, 10);
  EXPECT_GT(left.size(), 5u);
}

TEST(Faults, WritingStraightIntoPlaceWouldBeFoundByKills) {
  Scratch scratch;
  std::mt19937 random(6);
  int broken = 0;
  for (int round = 0; round < 10; ++round) {
    const fs::path root = scratch / std::to_string(round);
    fs::create_directory(root);
    Child child([&](const Child::Say& say) {
      say(0);
      for (std::int64_t step = 1;; ++step) {
        const fs::path directory = root / step_name(step);
        fs::create_directory(directory);
        State state(1);
        const std::vector<ShardReport> reports{
            write_shard(directory / shard_name(0), {"run", "0", step, 0, 1}, state.chunks(), false)};
        write_manifest(directory, state.meta(step), reports, state.ties(), side_files(), false);
      }
    });
    child.heard();
    sleep_ms(random() % 60 + 5);
    child.kill();
    for (const Candidate& candidate : verify_candidates(root)) broken += !candidate.reason.empty();
  }
  EXPECT_GT(broken, 0);
}

TEST(Faults, AFullDiskIsSaidAndLeavesTheOldCheckpoints) {
  Scratch scratch;
  const fs::path root = scratch / "checkpoints";
  State old(1);
  std::uintmax_t whole = 0;
  {
    CheckpointStore store(root, "run");
    whole = fs::file_size(save(store, old, 1) / "shard-00000.h5");
  }
  for (const std::uintmax_t limit : {std::uintmax_t{1000}, whole / 4, whole / 2, whole - 100, whole - 1}) {
    Child child([&](const Child::Say& say) {
      std::signal(SIGXFSZ, SIG_IGN);
      CheckpointStore store(root, "run");
      const struct rlimit most { limit, limit };
      core::check(::setrlimit(RLIMIT_FSIZE, &most) == 0, "setrlimit");
      State state(2);
      for (int attempt = 0; attempt < 2; ++attempt) {
        const std::string message = refusal([&] { save(store, state, 2); }, ExitCode::storage);
        say(message.find("File too large") != std::string::npos && message.find("bytes, ") != std::string::npos &&
            message.find(" are free") != std::string::npos);
        say(static_cast<std::int64_t>(names_in(root).size()));
      }
    });
    for (int attempt = 0; attempt < 2; ++attempt) {
      EXPECT_EQ(child.heard(), 1) << "limit " << limit;
      EXPECT_EQ(child.heard(), 3) << "OWNER, LATEST and the old one";
    }
    EXPECT_EQ(child.wait(), 0) << "limit " << limit;
    State loaded(3);
    open_checkpoint(root).read(loaded.chunks());
    EXPECT_TRUE(loaded == old);
  }
}

/// Becomes somebody without rights, if the tests run as root.
void drop_rights() {
  constexpr uid_t nobody = 65534;
  if (::geteuid() == 0) core::check(::setresuid(nobody, nobody, nobody) == 0, "setresuid");
}

TEST(Faults, ARootThatCannotBeWrittenIsSaidBeforeTheRun) {
  Scratch scratch;
  ASSERT_EQ(::chmod(scratch.path().c_str(), 0555), 0);
  for (const char* name : {"present", "absent"}) {
    const fs::path root = scratch / name;
    if (std::string(name) == "present") fs::create_directory(root);
    ASSERT_TRUE(!fs::exists(root) || ::chmod(root.c_str(), 0555) == 0);
    Child child([&](const Child::Say&) {
      drop_rights();
      CheckpointStore store(root, "run");
    });
    EXPECT_EQ(child.wait(), 73) << name;
  }
  ASSERT_EQ(::chmod(scratch.path().c_str(), 0755), 0);
  put(scratch / "file", "");
  EXPECT_THAT(refusal([&] { CheckpointStore store(scratch / "file", "run"); }, ExitCode::run_directory),
              HasSubstr("file"));
  EXPECT_THAT(refusal([&] { CheckpointStore store(scratch / "file" / "below", "run"); }, ExitCode::run_directory),
              HasSubstr("below"));
}

TEST(Ownership, ASecondOwnerIsRefusedAndChangesNothing) {
  Scratch scratch;
  const fs::path root = scratch / "checkpoints";
  State state(1);
  Child child([&](const Child::Say& say) {
    CheckpointStore store(root, "first-run");
    save(store, state, 1);
    say(1);
    sleep_ms(60'000);
  });
  ASSERT_EQ(child.heard(), 1);
  fs::create_directory(root / ".staging-000000002-0");
  EXPECT_THAT(refusal([&] { CheckpointStore store(root, "second-run"); }, ExitCode::run_directory),
              AllOf(HasSubstr("first-run"), HasSubstr("host "), HasSubstr("pid ")));
  EXPECT_THAT(names_in(root), testing::ElementsAre(".staging-000000002-0", "LATEST", "OWNER", "step-000000001"));
}

TEST(Ownership, ADeadOwnerIsTakenOverAtOnce) {
  Scratch scratch;
  const fs::path root = scratch / "checkpoints";
  Child child([&](const Child::Say& say) {
    CheckpointStore store(root, "first-run");
    say(1);
    sleep_ms(60'000);
  });
  ASSERT_EQ(child.heard(), 1);
  child.kill();
  const auto begin = std::chrono::steady_clock::now();
  CheckpointStore store(root, "second-run");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_THAT(content_of(root / "OWNER"), AllOf(HasSubstr("second-run"), Not(HasSubstr("first-run"))));
  store.owner().confirm();
}

TEST(Ownership, WhoLostTheDirectorySavesNothingMore) {
  Scratch scratch;
  const fs::path root = scratch / "checkpoints";
  State state(1);
  CheckpointStore first(root, "first-run");
  save(first, state, 1);
  CheckpointStore second(root, "second-run", true);
  EXPECT_THAT(refusal([&] { save(first, state, 2); }, ExitCode::run_directory), HasSubstr("second-run"));
  EXPECT_THAT(names_in(root), testing::ElementsAre("LATEST", "OWNER", "step-000000001"));
  save(second, state, 2);
  sleep_ms(5'500);
  EXPECT_TRUE(first.owner().lost());
  EXPECT_FALSE(second.owner().lost());
  EXPECT_THAT(content_of(root / "OWNER"), HasSubstr("second-run"));
}

}  // namespace
}  // namespace trireme::train
