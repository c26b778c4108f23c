#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/checkpoint_state.h"

namespace trireme::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A run directory with checkpoints of steps 1, 2 and 3.
class Resume : public testing::Test {
 protected:
  Resume() {
    CheckpointStore store(root(), "run");
    State state(1);
    for (const std::int64_t step : {1, 2, 3}) save(store, state, step);
  }
  fs::path root() const { return scratch_ / "checkpoints"; }
  ResumeChoice choose(const std::string& resume) const { return choose_resume(resume, root(), scratch_.path()); }
  std::string without(const std::string& resume) const {
    return refused([&] { choose(resume); });
  }
  void spoil(const std::string& name) const {
    const fs::path shard = root() / name / "shard-00000.h5";
    std::string bytes = content_of(shard);
    bytes[bytes.size() / 2] = static_cast<char>(~bytes[bytes.size() / 2]);
    put(shard, bytes);
  }
  void spoil_all() const {
    for (const char* name : {"step-000000001", "step-000000002", "step-000000003"}) spoil(name);
  }
  Scratch scratch_;
};

TEST_F(Resume, TakesTheNewest) {
  for (const char* resume : {"auto", "must"}) EXPECT_EQ(choose(resume).checkpoint->manifest().meta.step, 3);
  EXPECT_FALSE(choose("never").checkpoint);
}

TEST_F(Resume, FallsBackToAnOlderOneAndSaysWhatIsLost) {
  spoil("step-000000003");
  for (const char* resume : {"auto", "must"}) {
    const ResumeChoice choice = choose(resume);
    EXPECT_EQ(choice.checkpoint->manifest().meta.step, 2);
    EXPECT_THAT(choice.rejected, testing::ElementsAre(AllOf(HasSubstr("step-000000003"), HasSubstr("shard-00000.h5"),
                                                            HasSubstr("checksum"), HasSubstr("1 steps are lost"))));
  }
  EXPECT_TRUE(fs::exists(root() / "step-000000003" / "shard-00000.h5"));
}

TEST_F(Resume, ABrokenExplicitPathIsRefusedWithoutFallingBack) {
  EXPECT_EQ(choose(root() / "step-000000002").checkpoint->manifest().meta.step, 2);
  EXPECT_EQ(choose((root() / "step-000000002/").string()).checkpoint->manifest().meta.step, 2);
  spoil("step-000000003");
  EXPECT_THAT(without(root() / "step-000000003"), HasSubstr("step-000000003/shard-00000.h5"));
  EXPECT_THAT(without(root() / "step-000000004"), HasSubstr("step-000000004"));
  EXPECT_THAT(without(root()), HasSubstr("MANIFEST.json: missing"));
}

TEST_F(Resume, NeverBeginsAnewInSilence) {
  spoil_all();
  for (const char* resume : {"auto", "must"})
    EXPECT_THAT(without(resume), AllOf(HasSubstr("step-000000001"), HasSubstr("step-000000002"),
                                       HasSubstr("step-000000003"), HasSubstr("--run.resume=never")));
  EXPECT_FALSE(choose("never").checkpoint);
  EXPECT_EQ(list_candidates(root()).size(), 3u);
}

TEST_F(Resume, AnEmptyRootBeginsAtStepZeroUnlessThereMustBeOne) {
  fs::remove_all(root());
  EXPECT_FALSE(choose("auto").checkpoint);
  EXPECT_THAT(without("must"), HasSubstr("no valid checkpoint"));
  put(root() / "step-abc" / "x", "");
  put(root() / "step-100.backup" / "x", "");
  put(scratch_ / "metrics.jsonl",
      "{\"kind\":\"train\",\"step\":1}\n{\"kind\":\"checkpoint\",\"step\":1,\"committed\":false}\n");
  EXPECT_FALSE(choose("auto").checkpoint);
}

TEST_F(Resume, SignsOfEarlierSavesForbidAFreshStart) {
  fs::remove_all(root());
  put(scratch_ / "metrics.jsonl",
      "{\"kind\":\"checkpoint\",\"step\":40,\"committed\":true}\n{\"kind\":\"checkpoint\",\"st");
  EXPECT_THAT(without("auto"), AllOf(HasSubstr("a commit of step 40"), HasSubstr("--run.resume=never")));
  fs::remove(scratch_ / "metrics.jsonl");
  put(root() / "aside-step-000000003-0" / "x", "");
  EXPECT_THAT(without("auto"), HasSubstr("aside-step-000000003-0"));
}

TEST_F(Resume, ACheckpointArgumentIsADirectoryARootOrARun) {
  EXPECT_EQ(open_checkpoint(root() / "step-000000001").manifest().meta.step, 1);
  EXPECT_EQ(open_checkpoint(root()).manifest().meta.step, 3);
  EXPECT_EQ(open_checkpoint(scratch_.path()).manifest().meta.step, 3);
  spoil("step-000000003");
  EXPECT_EQ(open_checkpoint(scratch_ / "").manifest().meta.step, 2);
  spoil_all();
  spoil("step-000000003");
  for (const fs::path& path : {root(), scratch_.path()})
    EXPECT_THAT(refused([&] { open_checkpoint(path); }),
                AllOf(HasSubstr("step-000000001"), HasSubstr("step-000000002")));
  EXPECT_THAT(refused([&] { open_checkpoint(scratch_ / "nothing"); }), HasSubstr("no such directory"));
}

TEST_F(Resume, TheLastCommitIsKnownFromManifestsAndSizes) {
  EXPECT_EQ(last_committed(root()), 3);
  fs::remove(root() / "step-000000003" / "MANIFEST.json");
  EXPECT_EQ(last_committed(root()), 2);
  EXPECT_EQ(last_committed(scratch_ / "nothing"), -1);
}

}  // namespace
}  // namespace trireme::train
