#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>
#include <limits>
#include <memory>
#include <random>

#include "tests/train/checkpoint_state.h"
#include "train/checkpoint/directory_file.h"
#include "train/checkpoint/hdf5.h"
#include "train/checkpoint/store.h"
#include "train/checkpoint/transfer.h"

namespace trireme::train {
namespace {

using core::DType;
using core::ExitCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

std::vector<std::string> names_in(const fs::path& root) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(root)) out.push_back(entry.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

std::string reason(const fs::path& directory) {
  return refused([&] { CheckpointReader reader(directory); });
}

class Store : public testing::Test {
 protected:
  fs::path root() const { return scratch_ / "checkpoints"; }
  CheckpointStore& store() {
    if (!store_) store_ = std::make_unique<CheckpointStore>(root(), "run");
    return *store_;
  }
  fs::path save(State& state, std::int64_t step) { return train::save(store(), state, step); }
  Scratch scratch_;
  std::unique_ptr<CheckpointStore> store_;
};

TEST_F(Store, SaveLoadSaveGivesTheSameBytes) {
  for (const DType master : {DType::f32, DType::f64})
    for (const DType moment : {DType::f32, DType::bf16}) {
      State state(3, master, moment), loaded(4, master, moment);
      Scratch scratch;
      CheckpointStore store(scratch.path() / "c", "run");
      const CheckpointReader first(train::save(store, state, 1));
      ASSERT_FALSE(loaded == state);
      first.read(loaded.chunks());
      EXPECT_TRUE(loaded == state);
      const CheckpointReader second(train::save(store, loaded, 2));
      for (std::size_t i = 0; i < first.manifest().tensors.size(); ++i) {
        const StoredTensor &a = first.manifest().tensors[i], &b = second.manifest().tensors[i];
        EXPECT_EQ(a.name, b.name);
        EXPECT_EQ(a.fingerprint, b.fingerprint);
        EXPECT_EQ(a.l2, b.l2);
        EXPECT_EQ(a.chunks[0].crc32c, b.chunks[0].crc32c);
      }
      const auto side = second.side_files();
      ASSERT_EQ(side.size(), side_files().size());
      for (std::size_t i = 0; i < side.size(); ++i) {
        EXPECT_EQ(side[i].name, side_files()[i].name);
        EXPECT_EQ(side[i].content, side_files()[i].content);
      }
    }
}

TEST_F(Store, HoldsTheFilesOfTheFormat) {
  State state(1);
  EXPECT_EQ(save(state, 123), root() / "step-000000123");
  EXPECT_THAT(names_in(root()), ElementsAre("LATEST", "OWNER", "step-000000123"));
  EXPECT_EQ(content_of(root() / "LATEST"), "step-000000123\n");
  EXPECT_THAT(names_in(root() / "step-000000123"),
              ElementsAre("MANIFEST.json", "bytes.bin", "model.h5", "shard-00000.h5", "tokenizer.json"));
  store_.reset();
  EXPECT_THAT(names_in(root()), ElementsAre("LATEST", "step-000000123"));
}

TEST_F(Store, AMovedDirectoryStillLoads) {
  State state(1), loaded(2);
  save(state, 5);
  store_.reset();
  fs::rename(root(), scratch_ / "elsewhere");
  open_checkpoint(scratch_ / "elsewhere").read(loaded.chunks());
  EXPECT_TRUE(loaded == state);
}

/// Cuts every tensor into rows [begin, end) and columns, copies of its values.
struct Pieces {
  std::vector<StateChunk> chunks;
  std::vector<std::vector<std::byte>> memory;

  void add(const StateChunk& whole, const std::vector<std::int64_t>& offset, const std::vector<std::int64_t>& extent,
           std::int64_t number) {
    const std::size_t width = core::size_of(whole.dtype);
    const std::int64_t rows = extent.size() == 2 ? extent[0] : 1, columns = extent.back();
    const std::int64_t first_row = extent.size() == 2 ? offset[0] : 0, stride = whole.extent.back();
    memory.emplace_back(static_cast<std::size_t>(rows * columns) * width);
    for (std::int64_t row = 0; row < rows; ++row)
      std::memcpy(memory.back().data() + static_cast<std::size_t>(row * columns) * width,
                  static_cast<const std::byte*>(whole.data) +
                      static_cast<std::size_t>((first_row + row) * stride + offset.back()) * width,
                  static_cast<std::size_t>(columns) * width);
    StateChunk chunk = whole;
    chunk.offset = offset;
    chunk.extent = extent;
    chunk.data = memory.back().data();
    chunk.number = number;
    chunks.push_back(std::move(chunk));
  }
};

/// Three writers: of each tensor the last has the end of the last axis, the others share the rest by the first axis.
fs::path save_by_three(State& state, const fs::path& directory) {
  std::vector<Pieces> writers(3);
  for (const StateChunk& whole : state.chunks()) {
    std::vector<std::int64_t> offset(whole.extent.size(), 0), extent = whole.extent;
    const std::int64_t right = extent.back() / 3;
    extent.back() -= right;
    std::vector<std::int64_t> last_offset = offset, last_extent = whole.extent;
    last_offset.back() = extent.back();
    last_extent.back() = right;
    const std::int64_t half = extent[0] / 2;
    std::vector<std::int64_t> upper = extent, lower = extent, lower_offset = offset;
    upper[0] = half;
    lower[0] -= half;
    lower_offset[0] = half;
    writers[1].add(whole, offset, upper, 0);
    writers[0].add(whole, lower_offset, lower, 1);
    writers[2].add(whole, last_offset, last_extent, 2);
  }
  fs::create_directory(directory);
  std::vector<ShardReport> reports;
  for (std::int64_t i = 0; i < 3; ++i)
    reports.push_back(write_shard(directory / shard_name(i), {"run", "0", 9, i, 3},
                                  writers[static_cast<std::size_t>(i)].chunks, true));
  std::swap(reports[0], reports[2]);
  write_manifest(directory, state.meta(9), reports, state.ties(), side_files(), true);
  return directory;
}

TEST_F(Store, ChunksOfSeveralWritersMakeTheSameTensors) {
  State state(5), loaded(6);
  const CheckpointReader one(save(state, 9)), three(save_by_three(state, scratch_ / "three"));
  ASSERT_EQ(three.manifest().tensors.size(), one.manifest().tensors.size());
  for (std::size_t i = 0; i < one.manifest().tensors.size(); ++i) {
    EXPECT_EQ(three.manifest().tensors[i].chunks.size(), 3u);
    EXPECT_EQ(three.manifest().tensors[i].fingerprint, one.manifest().tensors[i].fingerprint);
  }
  EXPECT_EQ(three.manifest().files[0].sha256.size(), 64u);
  three.read(loaded.chunks());
  EXPECT_TRUE(loaded == state);
  EXPECT_TRUE(write_view(three.directory(), three.manifest()));
}

TEST_F(Store, AnyRectangleIsReadFromAnyChunks) {
  State state(5);
  const CheckpointReader one(save(state, 9)), three(save_by_three(state, scratch_ / "three"));
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const StateChunk& whole = state.chunks()[random() % state.chunks().size()];
    std::vector<std::int64_t> offset, extent;
    for (const std::int64_t size : whole.extent) {
      offset.push_back(static_cast<std::int64_t>(random() % static_cast<unsigned>(size)));
      extent.push_back(1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(size - offset.back())));
    }
    Pieces expected, got;
    expected.add(whole, offset, extent, -1);
    for (const CheckpointReader* reader : {&one, &three}) {
      got.add(whole, offset, extent, -1);
      std::fill(got.memory.back().begin(), got.memory.back().end(), std::byte{0x5a});
      reader->read(std::span(&got.chunks.back(), 1));
      ASSERT_EQ(got.memory.back(), expected.memory.back()) << whole.tensor;
    }
  }
}

TEST_F(Store, ColumnsOfALargeMatrixAreReadThroughTheBuffer) {
  Scratch scratch;
  constexpr std::int64_t rows = 700, columns = 4001;
  std::vector<float> values(rows * columns), column(rows * 2), middle(rows * 3000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  StateChunk whole{.tensor = "t",
                   .state = "master",
                   .shape = {rows, columns},
                   .offset = {0, 0},
                   .extent = {rows, columns},
                   .data = values.data()};
  const ShardReport report = write_shard(scratch / "shard-00000.h5", {}, std::span(&whole, 1), false);
  const DirectoryFile file(scratch.path(), "shard-00000.h5");
  for (auto& [width, out] : std::vector<std::pair<std::int64_t, std::vector<float>*>>{{2, &column}, {3000, &middle}}) {
    StateChunk wanted = whole;
    wanted.offset = {0, 17};
    wanted.extent = {rows, width};
    wanted.data = out->data();
    EXPECT_TRUE(transfer(file, DType::f32, report.chunks[0].chunk, wanted));
    for (std::int64_t i = 0; i < rows * width; ++i)
      ASSERT_EQ((*out)[static_cast<std::size_t>(i)], static_cast<float>(i / width * columns + 17 + i % width));
  }
}

TEST_F(Store, TypesAreConvertedOnlyWhereAsked) {
  State narrow(1, DType::f32), wide(2, DType::f64);
  const CheckpointReader of_narrow(save(narrow, 1)), of_wide(save(wide, 2));
  const auto no = [](auto call) { return refusal(call, ExitCode::usage); };
  EXPECT_THAT(no([&] { of_narrow.read(std::span(&wide.chunks()[0], 1), Convert::none); }), HasSubstr("is fp32"));
  EXPECT_THAT(no([&] { of_wide.read(std::span(&narrow.chunks()[0], 1)); }), HasSubstr("is fp64"));
  EXPECT_THAT(no([&] { of_wide.read(std::span(&narrow.chunks()[0], 1), Convert::exact); }), HasSubstr("fp32 does not"));
  of_narrow.read(wide.chunks());
  State again(3, DType::f32);
  const CheckpointReader of_widened(save(wide, 3));
  of_widened.read(again.chunks(), Convert::exact);
  State original(1, DType::f32);
  EXPECT_TRUE(again == original);
}

TEST_F(Store, ATensorThatIsMissingOrOfAnotherShapeIsNamed) {
  State state(1);
  const CheckpointReader reader(save(state, 1));
  StateChunk chunk = state.chunks()[0];
  chunk.tensor = "blocks.9.x";
  EXPECT_THAT(refused([&] { reader.read(std::span(&chunk, 1)); }), HasSubstr("no tensor blocks.9.x master"));
  chunk = state.chunks()[0];
  chunk.shape = {11, 9};
  EXPECT_THAT(refused([&] { reader.read(std::span(&chunk, 1)); }), HasSubstr("is [11, 8], wanted is [11, 9]"));
}

TEST_F(Store, ANonFiniteStateIsNotSaved) {
  State state(1);
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::memcpy(state.bytes(4).data(), &value, sizeof value);
    EXPECT_THAT(refusal([&] { save(state, 1); }, ExitCode::storage), HasSubstr("non-finite state"));
    EXPECT_THAT(names_in(root()), ElementsAre("OWNER"));
  }
}

TEST_F(Store, AnExistingStepIsNeverWritten) {
  State state(1), other(2), loaded(3);
  save(state, 5);
  EXPECT_THAT(refusal([&] { save(other, 5); }, ExitCode::storage), HasSubstr("step-000000005"));
  EXPECT_THAT(names_in(root()), ElementsAre("LATEST", "OWNER", "step-000000005"));
  CheckpointReader(root() / "step-000000005").read(loaded.chunks());
  EXPECT_TRUE(loaded == state);
  save(other, 6);
}

TEST_F(Store, AnyFlippedBitIsRefusedByFileName) {
  State state(1);
  const fs::path directory = save(state, 5);
  std::mt19937 random(11);
  for (const std::string name : {"shard-00000.h5", "tokenizer.json", "bytes.bin", "MANIFEST.json"}) {
    const std::string before = content_of(directory / name);
    for (int round = 0; round < (name == "shard-00000.h5" ? 200 : 20); ++round) {
      std::string text = before;
      const std::size_t at = random() % text.size();
      text[at] = static_cast<char>(text[at] ^ (1 << random() % 8));
      put(directory / name, text);
      EXPECT_THAT(reason(directory), HasSubstr(name)) << "byte " << at;
    }
    put(directory / name, before);
  }
  EXPECT_EQ(reason(directory), "accepted");
}

TEST_F(Store, WithoutChecksumsAFlippedBitWouldPassUntilTheTensorIsSummed) {
  State state(1);
  const fs::path directory = save(state, 5);
  std::string shard = content_of(directory / "shard-00000.h5");
  const CheckpointReader before(directory);
  shard[before.manifest().tensors[0].chunks[0].at] ^= 1;
  put(directory / "shard-00000.h5", shard);
  ASSERT_THAT(reason(directory), HasSubstr("checksum"));
  const CheckpointReader unverified(directory, {.verify = Verify::sizes});
  State loaded(2);
  EXPECT_THAT(refused([&] { unverified.read(loaded.chunks()); }), HasSubstr("fingerprint"));
}

TEST_F(Store, CutMissingEmptyAndReplacedFilesAreRefusedByName) {
  State state(1);
  const fs::path directory = save(state, 5);
  for (const std::string name : {"shard-00000.h5", "tokenizer.json", "MANIFEST.json"}) {
    const std::string before = content_of(directory / name);
    for (const std::size_t size : {std::size_t{0}, before.size() / 2, before.size() - 1}) {
      put(directory / name, before.substr(0, size));
      EXPECT_THAT(reason(directory), HasSubstr(name)) << size;
    }
    put(directory / name, before + "x");
    EXPECT_THAT(reason(directory), HasSubstr(name));
    fs::remove(directory / name);
    EXPECT_THAT(reason(directory), HasSubstr(name + ": missing"));
    put(scratch_ / "outside", before);
    fs::create_symlink(scratch_ / "outside", directory / name);
    EXPECT_THAT(reason(directory), HasSubstr(name + ": not a regular file"));
    fs::remove(directory / name);
    ASSERT_EQ(::mkfifo((directory / name).c_str(), 0600), 0);
    EXPECT_THAT(reason(directory), HasSubstr(name + ": not a regular file"));
    fs::remove(directory / name);
    fs::create_directory(directory / name);
    EXPECT_THAT(reason(directory), HasSubstr(name + ": not a regular file"));
    fs::remove(directory / name);
    put(directory / name, before);
  }
  EXPECT_EQ(reason(directory), "accepted");
}

/// Why a shard's structure is refused after a change to it, checksums apart.
std::string forged_reason(const fs::path& directory, const std::function<void(hid_t)>& change) {
  std::vector<ExpectedDataset> expected;
  const CheckpointReader reader(directory);
  for (const StoredTensor& tensor : reader.manifest().tensors)
    expected.push_back({dataset_path(tensor.state, tensor.name, 0), tensor.dtype, tensor.shape, tensor.chunks[0].at});
  const fs::path shard = directory / "shard-00000.h5";
  const hid_t file = H5Fopen(shard.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  core::check(file >= 0, "cannot be opened");
  change(file);
  core::check(H5Fget_obj_count(file, H5F_OBJ_ALL) == 1 && H5Fclose(file) >= 0, "cannot be closed");
  return refused([&] { check_structure(shard, expected, ExitCode::no_checkpoint); });
}

TEST_F(Store, AForgedShardIsRefusedByItsStructure) {
  constexpr const char* name = "/master/final_norm.bias/0";
  State state(1);
  std::int64_t step = 1;
  const auto forged = [&](const std::function<void(hid_t)>& change) {
    return forged_reason(save(state, step++), change);
  };
  EXPECT_EQ(forged([](hid_t) {}), "accepted");
  EXPECT_THAT(forged([](hid_t f) { H5Gclose(H5Gcreate2(f, "more", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)); }),
              "accepted");
  EXPECT_THAT(forged([](hid_t f) { H5Ldelete(f, name, H5P_DEFAULT); }), HasSubstr(std::string("no dataset ") + name));
  EXPECT_THAT(forged([](hid_t f) { H5Lcreate_hard(f, name, f, "copy", H5P_DEFAULT, H5P_DEFAULT); }),
              HasSubstr("unexpected dataset /copy"));
  EXPECT_THAT(forged([](hid_t f) { H5Lcreate_soft(name, f, "soft", H5P_DEFAULT, H5P_DEFAULT); }),
              HasSubstr("soft is not a hard link"));
  EXPECT_THAT(forged([](hid_t f) { H5Lcreate_external("/etc/passwd", "/", f, "out", H5P_DEFAULT, H5P_DEFAULT); }),
              HasSubstr("out is not a hard link"));
  const auto commit_type = [](hid_t f) {
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tcommit2(f, "type", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Tclose(type);
  };
  EXPECT_THAT(forged(commit_type), HasSubstr("type is neither group nor dataset"));
  const auto replaced = [&](hid_t type, hsize_t extent, const std::function<void(hid_t)>& setting) {
    return forged([&](hid_t f) {
      H5Ldelete(f, name, H5P_DEFAULT);
      const hid_t space = H5Screate_simple(1, &extent, nullptr), list = H5Pcreate(H5P_DATASET_CREATE);
      setting(list);
      const hid_t dataset = H5Dcreate2(f, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
      const std::vector<double> values(extent);
      H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
      H5Dclose(dataset);
      H5Pclose(list);
      H5Sclose(space);
    });
  };
  const auto plain = [](hid_t) {};
  const auto swap = [](hid_t f) {
    H5Lmove(f, name, f, "aside", H5P_DEFAULT, H5P_DEFAULT);
    H5Lmove(f, "/master/final_norm.weight/0", f, name, H5P_DEFAULT, H5P_DEFAULT);
    H5Lmove(f, "aside", f, "/master/final_norm.weight/0", H5P_DEFAULT, H5P_DEFAULT);
  };
  EXPECT_THAT(forged(swap), HasSubstr("data at byte"));
  EXPECT_THAT(replaced(H5T_IEEE_F32BE, 8, plain), HasSubstr("not of type fp32"));
  EXPECT_THAT(replaced(H5T_STD_I32LE, 8, plain), HasSubstr("not of type fp32"));
  EXPECT_THAT(replaced(H5T_IEEE_F32LE, 9, plain), HasSubstr("extent [9]"));
  EXPECT_THAT(replaced(H5T_IEEE_F32LE, 8,
                       [](hid_t list) {
                         const hsize_t chunk = 4;
                         H5Pset_chunk(list, 1, &chunk);
                       }),
              HasSubstr("not contiguous"));
  EXPECT_THAT(
      replaced(H5T_IEEE_F32LE, 8, [&](hid_t list) { H5Pset_external(list, (scratch_ / "raw").c_str(), 0, 32); }),
      HasSubstr("external storage"));
}

TEST_F(Store, AManifestThatOnlyItsShardsBelieIsRefused) {
  State state(1);
  const fs::path directory = save(state, 5);
  const auto changed = [&](const std::function<void(nlohmann::json&)>& change) {
    const std::string before = content_of(directory / "MANIFEST.json");
    auto root = nlohmann::json::parse(before);
    change(root);
    put(directory / "MANIFEST.json", signed_text(root));
    const std::string result = reason(directory);
    put(directory / "MANIFEST.json", before);
    return result;
  };
  EXPECT_THAT(changed([](auto& r) { r["step"] = 6; }), HasSubstr("holds step 6"));
  EXPECT_THAT(changed([](auto& r) { r["tensors"][0]["chunks"][0]["crc32c"] = "00000000"; }),
              HasSubstr("blocks.0.attention.key.bias/0"));
  EXPECT_THAT(changed([](auto& r) { r["files"][0]["sha256"] = std::string(64, '0'); }), HasSubstr("sha256"));
  const std::string text = content_of(directory / "MANIFEST.json");
  auto root = nlohmann::json::parse(text);
  root["tensors"][0]["fingerprint"] = "0000000000000000";
  put(directory / "MANIFEST.json", signed_text(root));
  State loaded(2);
  const CheckpointReader reader(directory);
  EXPECT_THAT(refused([&] { reader.read(loaded.chunks()); }), HasSubstr("tensor blocks.0.attention.key.bias"));
}

TEST_F(Store, ThePinnedManifestIsTheOnlyOneAccepted) {
  State state(1);
  const fs::path directory = save(state, 5);
  const std::string sum = CheckpointReader(directory).manifest_sha256();
  core::Sha256 sha;
  sha.update(content_of(directory / "MANIFEST.json"));
  EXPECT_EQ(sum, sha.hex());
  CheckpointReader pinned(directory, {.manifest_sha256 = sum});
  EXPECT_THAT(refused([&] { CheckpointReader other(directory, {.manifest_sha256 = std::string(64, '0')}); }),
              HasSubstr("MANIFEST.json"));
}

TEST_F(Store, RetentionKeepsTheNewestMultiplesAndMarkedOnes) {
  State state(1);
  for (std::int64_t step = 1; step <= 10; ++step) {
    const fs::path directory = save(state, step);
    if (step == 3) put(directory / "KEEP", "");
    store().retain(3, 4);
  }
  EXPECT_THAT(names_in(root()), ElementsAre("LATEST", "OWNER", "step-000000003", "step-000000004", "step-000000008",
                                            "step-000000009", "step-000000010"));
  store().retain(1, 0);
  EXPECT_THAT(names_in(root()), ElementsAre("LATEST", "OWNER", "step-000000003", "step-000000009", "step-000000010"));
}

TEST_F(Store, RetentionLeavesWhatItDidNotVerify) {
  State state(1);
  for (const char* name : {"step-100.backup", "step-abc", "aside-step-000000002-0", "step-000000001", "other"}) {
    fs::create_directories(root() / name);
    put(root() / name / "file", "mine");
  }
  Scratch scratch;
  {
    CheckpointStore foreign(scratch.path() / "c", "another");
    State other(1);
    CheckpointMeta meta = other.meta(2);
    meta.run_id = "another run";
    fs::rename(foreign.save(meta, other.chunks(), other.ties(), {}, false).directory, root() / "step-000000002");
  }
  for (std::int64_t step = 5; step < 10; ++step) {
    save(state, step);
    store().retain(2, 0);
  }
  EXPECT_THAT(names_in(root()),
              ElementsAre("LATEST", "OWNER", "aside-step-000000002-0", "other", "step-000000001", "step-000000002",
                          "step-000000008", "step-000000009", "step-100.backup", "step-abc"));
  for (const char* name : {"step-100.backup", "step-abc", "aside-step-000000002-0", "step-000000001", "other"})
    EXPECT_EQ(content_of(root() / name / "file"), "mine");
}

TEST_F(Store, RetentionCountsWhatEarlierAttemptsOfTheRunCommitted) {
  State state(1);
  for (std::int64_t step = 1; step <= 3; ++step) save(state, step);
  store_.reset();
  save(state, 4);
  store().retain(3, 0);
  EXPECT_THAT(names_in(root()), ElementsAre("LATEST", "OWNER", "step-000000002", "step-000000003", "step-000000004"));
}

TEST_F(Store, LaterCheckpointsAreSetAside) {
  State state(1);
  for (const std::int64_t step : {1, 2, 3, 4}) save(state, step);
  EXPECT_EQ(store().set_aside_after(2).size(), 2u);
  EXPECT_THAT(names_in(root()),
              ElementsAre("LATEST", "OWNER", testing::StartsWith("aside-step-000000003-"),
                          testing::StartsWith("aside-step-000000004-"), "step-000000001", "step-000000002"));
  EXPECT_TRUE(store().set_aside_after(2).empty());
  save(state, 3);
  store().retain(2, 0);
  EXPECT_EQ(store().set_aside_after(-1).size(), 2u);
  EXPECT_TRUE(list_candidates(root()).empty());
}

TEST_F(Store, AStartRemovesWhatAnInterruptedSaveLeft) {
  for (const char* name : {".staging-000000007-0a0b0c0d", ".trash-step-000000001-0a0b0c0d"}) {
    fs::create_directories(root() / name);
    put(root() / name / "shard-00000.h5", "half");
  }
  store();
  EXPECT_THAT(names_in(root()), ElementsAre("OWNER"));
}

TEST_F(Store, OnlyTheCheckpointOfItsOwnNameIsACandidate) {
  State state(1);
  const fs::path good = save(state, 7);
  for (const char* name : {"step-100.backup", "step-abc", "step-00000008", "step-0000000008", "Step-000000009",
                           "aside-step-000000009-0", ".staging-000000009-0"})
    fs::copy(good, root() / name, fs::copy_options::recursive);
  ASSERT_EQ(list_candidates(root()).size(), 1u);
  EXPECT_EQ(list_candidates(root())[0].step, 7);
  fs::copy(good, root() / "step-000000009", fs::copy_options::recursive);
  std::vector<std::string> rejected;
  EXPECT_EQ(newest_valid(root(), rejected)->manifest().meta.step, 7);
  EXPECT_THAT(rejected, ElementsAre(HasSubstr("holds step 7; 2 steps are lost")));
}

TEST_F(Store, ImportWritesUnderAnyNameAndReplacesOnlyWhenAsked) {
  State state(1), other(2), loaded(3);
  CheckpointMeta meta = state.meta(0);
  meta.kind = "weights";
  const auto masters = [](State& from) {
    std::vector<StateChunk> out;
    for (const StateChunk& chunk : from.chunks())
      if (chunk.state == "master") out.push_back(chunk);
    return out;
  };
  const fs::path place = scratch_ / "imported";
  write_weights(place, meta, masters(state), state.ties(), side_files(), false);
  EXPECT_THAT(
      refusal([&] { write_weights(place, meta, masters(other), state.ties(), {}, false); }, ExitCode::run_directory),
      HasSubstr("exists already"));
  auto wanted = masters(loaded);
  open_checkpoint(place / "").read(wanted);
  EXPECT_EQ(loaded.bytes(0), state.bytes(0));
  write_weights(place, meta, masters(other), state.ties(), {}, true);
  open_checkpoint(place).read(wanted);
  EXPECT_EQ(loaded.bytes(0), other.bytes(0));
  EXPECT_THAT(names_in(scratch_.path()), ElementsAre("imported"));
  EXPECT_THAT(refused([&] { open_checkpoint(place).read(loaded.chunks()); }), HasSubstr("adam_m"));
}

}  // namespace
}  // namespace trireme::train
