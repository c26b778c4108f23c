#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>

#include "tests/train/checkpoint_state.h"
#include "train/checkpoint/tiling.h"

namespace trireme::train {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

StoredChunk rectangle(std::vector<std::int64_t> offset, std::vector<std::int64_t> extent) {
  return {.shard = 0, .offset = std::move(offset), .extent = std::move(extent)};
}

std::string tiling(std::vector<std::int64_t> shape, std::vector<StoredChunk> chunks) {
  return refused([&] { check_tiling(shape, chunks, "T"); });
}

TEST(Tiling, AcceptsExactCutsOnly) {
  EXPECT_EQ(tiling({}, {rectangle({}, {})}), "accepted");
  EXPECT_EQ(tiling({4}, {rectangle({3}, {1}), rectangle({0}, {3})}), "accepted");
  // A flat range of a matrix: the rest of a row, whole rows, the start of a row.
  EXPECT_EQ(tiling({4, 5}, {rectangle({0, 0}, {1, 2}), rectangle({0, 2}, {1, 3}), rectangle({1, 0}, {2, 5}),
                            rectangle({3, 0}, {1, 1}), rectangle({3, 1}, {1, 4})}),
            "accepted");
  // A pinwheel: no cut goes through.
  EXPECT_EQ(tiling({3, 3}, {rectangle({0, 0}, {1, 2}), rectangle({0, 2}, {2, 1}), rectangle({2, 1}, {1, 2}),
                            rectangle({1, 0}, {2, 1}), rectangle({1, 1}, {1, 1})}),
            "accepted");
}

TEST(Tiling, SaysWhatIsWrong) {
  EXPECT_EQ(tiling({4}, {rectangle({0}, {3})}), "T: chunks hold 3 of 4 elements");
  EXPECT_EQ(tiling({4}, {}), "T: chunks hold 0 of 4 elements");
  EXPECT_THAT(tiling({4}, {rectangle({0}, {3}), rectangle({2}, {2})}), HasSubstr("overlap"));
  EXPECT_EQ(tiling({4}, {rectangle({0}, {2}), rectangle({1}, {2})}), "T: chunks overlap and leave a gap");
  EXPECT_EQ(tiling({2, 2}, {rectangle({0, 0}, {1, 2}), rectangle({0, 0}, {2, 1})}),
            "T: chunks overlap and leave a gap");
  EXPECT_THAT(tiling({4}, {rectangle({0}, {4}), rectangle({0}, {0})}), HasSubstr("empty"));
  EXPECT_THAT(tiling({4}, {rectangle({1}, {4})}), HasSubstr("outside"));
  EXPECT_THAT(tiling({4}, {rectangle({INT64_MAX}, {1})}), HasSubstr("outside"));
  EXPECT_THAT(tiling({4}, {rectangle({0, 0}, {4, 1})}), HasSubstr("rank"));
  EXPECT_THAT(tiling({INT64_MAX, INT64_MAX}, {}), HasSubstr("too large"));
  EXPECT_THAT(tiling({0}, {}), HasSubstr("empty"));
}

TEST(Tiling, IsQuickForManyChunksOfOneRow) {
  std::vector<StoredChunk> chunks;
  for (std::int64_t i = 0; i < 200'000; ++i) chunks.push_back(rectangle({0, i}, {1, 1}));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(tiling({1, 200'000}, chunks), "accepted");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

class ManifestText : public testing::Test {
 protected:
  ManifestText() {
    CheckpointStore store(scratch_ / "checkpoints", "run");
    State state(1);
    text_ = content_of(save(store, state, 7) / std::string(kManifestName));
    root_ = json::parse(text_);
  }
  std::string parsed(const std::string& text) const {
    return refused([&] { Manifest::parse(text, "M"); });
  }
  /// Why the manifest with a change and a right checksum is refused.
  std::string changed(const std::function<void(json&)>& change) const {
    json root = root_;
    change(root);
    return parsed(signed_text(root));
  }
  json& tensor(json& root, const std::string& name, const std::string& state) const {
    for (json& item : root["tensors"])
      if (item["name"] == name && item.value("state", "") == state) return item;
    throw std::runtime_error("no such tensor");
  }
  static constexpr const char* kName = "blocks.0.mlp.up.weight";
  Scratch scratch_;
  std::string text_;
  json root_;
};

TEST_F(ManifestText, SaysWhatWasSavedAndReadsBackTheSame) {
  State state(1);
  const Manifest manifest = Manifest::parse(text_, "M");
  const CheckpointMeta expected = state.meta(7);
  EXPECT_EQ(manifest.meta.kind, "full");
  EXPECT_EQ(manifest.meta.run_id, expected.run_id);
  EXPECT_EQ(manifest.meta.step, 7);
  EXPECT_EQ(manifest.meta.updates, 7);
  EXPECT_EQ(manifest.meta.samples, 28);
  EXPECT_EQ(manifest.meta.tokens, 140);
  EXPECT_EQ(manifest.meta.seed, expected.seed);
  EXPECT_EQ(manifest.meta.optimizer, expected.optimizer);
  EXPECT_EQ(manifest.meta.model, expected.model);
  EXPECT_EQ(manifest.meta.config_toml, expected.config_toml);
  EXPECT_EQ(manifest.tensors.size(), state.chunks().size());
  ASSERT_EQ(manifest.ties.size(), 1u);
  EXPECT_EQ(manifest.ties[0].name, "head.weight");
  EXPECT_EQ(manifest.ties[0].tied_to, "token_embedding.weight");
  EXPECT_EQ(manifest.files.size(), 3u);
}

TEST_F(ManifestText, EndsWithTheSumOfEverythingBefore) {
  const std::size_t line = text_.rfind('\n', text_.size() - 2) + 1;
  const std::string summed = text_.substr(0, line);
  EXPECT_EQ(text_.substr(line), fmt::format("\"crc32c\": \"{:08x}\"}}\n", crc32c(std::as_bytes(std::span(summed)))));
}

TEST_F(ManifestText, DoublesHaveSeventeenDigits) { EXPECT_THAT(text_, HasSubstr("5.9999999999999995e-04")); }

TEST_F(ManifestText, TensorsAreSortedByNameThenState) {
  std::vector<std::pair<std::string, std::string>> keys;
  for (const json& item : root_["tensors"]) keys.emplace_back(item["name"], item.value("state", ""));
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
}

TEST_F(ManifestText, TheUnchangedOneIsAcceptedWithANewSum) {
  EXPECT_EQ(changed([](json&) {}), "accepted");
}

TEST_F(ManifestText, EveryFlippedBitIsRefused) {
  for (std::size_t i = 0; i < text_.size(); ++i) {
    std::string text = text_;
    text[i] = static_cast<char>(text[i] ^ (1 << (i % 8)));
    ASSERT_NE(parsed(text), "accepted") << "byte " << i;
  }
}

TEST_F(ManifestText, EveryCutIsRefused) {
  for (std::size_t size = 0; size < text_.size(); ++size) ASSERT_NE(parsed(text_.substr(0, size)), "accepted") << size;
  EXPECT_NE(parsed(text_ + "\n"), "accepted");
  EXPECT_NE(parsed(text_ + " "), "accepted");
}

TEST_F(ManifestText, FormatVersionAndKindAreChecked) {
  EXPECT_THAT(changed([](json& r) { r["format"] = "other"; }), HasSubstr("format \"other\""));
  EXPECT_THAT(changed([](json& r) { r["version"] = 2; }), HasSubstr("version 2"));
  EXPECT_THAT(changed([](json& r) { r["kind"] = "half"; }), HasSubstr("half"));
  EXPECT_THAT(changed([](json& r) { r["kind"] = "weights"; }), HasSubstr("moments"));
  for (const char* key :
       {"format",   "version",   "kind",  "run",    "step",  "updates", "samples", "tokens", "seed",    "data",
        "schedule", "optimizer", "model", "config", "guard", "goodput", "layout",  "files",  "tensors", "totals"}) {
    EXPECT_THAT(changed([&](json& r) { r.erase(key); }), HasSubstr(key));
    EXPECT_NE(changed([&](json& r) { r[key] = nullptr; }), "accepted") << key;
    EXPECT_NE(changed([&](json& r) { r[key] = -1.5; }), "accepted") << key;
  }
  EXPECT_THAT(changed([](json& r) { r["step"] = -1; }), HasSubstr("step"));
  EXPECT_THAT(changed([](json& r) { r["samples"] = 9223372036854775808u; }), HasSubstr("samples"));
}

TEST_F(ManifestText, HostileFileNamesAreRefused) {
  for (const char* name :
       {"../x", "/etc/passwd", "a/b", "", ".", "..", ".hidden", "MANIFEST.json", "model.h5", "a b", "x\n", "shard-0.h5",
        "shard-000000.h5", "shard-00000.h5 ", "shard-99999999999999999999.h5"}) {
    EXPECT_NE(changed([&](json& r) { r["files"][1]["name"] = name; }), "accepted") << name;
    EXPECT_THAT(changed([&](json& r) { r["files"][1]["name"] = name; }), testing::Not(HasSubstr("\n"))) << name;
  }
  EXPECT_THAT(changed([](json& r) { r["files"][1]["name"] = r["files"][2]["name"]; }), HasSubstr("twice"));
}

TEST_F(ManifestText, ShardsAreNumberedWithoutAGap) {
  EXPECT_THAT(changed([](json& r) { r["files"][0]["name"] = "shard-00001.h5"; }),
              HasSubstr("shard-00000.h5 is missing"));
  EXPECT_THAT(changed([](json& r) { r["files"].erase(0); }), AllOf(HasSubstr("M: "), HasSubstr("totals")));
}

TEST_F(ManifestText, HostileTensorNamesAreRefused) {
  for (const char* name : {"", "..", ".", "a/b", "/", "x\ny", "\x1b[31m", "unknown.weight", "head.weight"}) {
    const std::string problem = changed([&](json& r) { tensor(r, kName, "master")["name"] = name; });
    EXPECT_NE(problem, "accepted") << name;
    EXPECT_THAT(problem, testing::Not(testing::AnyOf(HasSubstr("\n"), HasSubstr("\x1b"))));
  }
  EXPECT_THAT(changed([&](json& r) { tensor(r, kName, "master")["state"] = "momentum"; }), HasSubstr("momentum"));
  EXPECT_THAT(changed([&](json& r) { tensor(r, kName, "master")["state"] = "adam_m"; }), HasSubstr("twice"));
}

TEST_F(ManifestText, TensorsAreThoseOfTheModel) {
  const auto without = [&](const std::string& name, const std::string& state) {
    return changed([&](json& r) {
      json kept = json::array();
      for (const json& item : r["tensors"])
        if (item["name"] != name || item.value("state", "") != state) kept.push_back(item);
      const bool alias = state.empty();
      r["tensors"] = kept;
      if (alias) return;
      r["totals"]["tensors"] = r["totals"]["tensors"].get<int>() - 1;
      r["totals"]["chunks"] = r["totals"]["chunks"].get<int>() - 1;
    });
  };
  for (const char* state : {"master", "adam_m", "adam_v"})
    EXPECT_EQ(without(kName, state), fmt::format("M: tensor {} {} is missing", kName, state));
  EXPECT_THAT(without("head.weight", ""), HasSubstr("head.weight is missing"));
  EXPECT_THAT(changed([](json& r) {
                r["model"]["hidden"] = 16;
                r["model"]["head_dim"] = 8;
              }),
              HasSubstr("shape"));
  EXPECT_THAT(changed([](json& r) { r["model"]["layers"] = 3; }), HasSubstr("blocks.2"));
  EXPECT_THAT(changed([](json& r) { r["model"]["layers"] = 1; }), HasSubstr("no such parameter"));
  EXPECT_THAT(changed([](json& r) { r["model"]["layers"] = 9000; }), HasSubstr("layers"));
  EXPECT_THAT(changed([](json& r) { r["model"]["tied_embeddings"] = false; }), HasSubstr("head.weight"));
  EXPECT_THAT(changed([](json& r) { r["model"].erase("heads"); }), HasSubstr("heads"));
  EXPECT_NE(changed([](json& r) {
              for (const char* key : {"heads", "kv_heads", "head_dim", "hidden", "ffn_hidden", "vocab_size"})
                r["model"][key] = 1 << 24;
            }),
            "accepted");
  EXPECT_THAT(changed([](json& r) {
                r["tensors"].push_back({{"name", "x"}, {"tied_to", "y"}});
              }),
              HasSubstr("x is tied"));
}

TEST_F(ManifestText, ShapesDtypesAndChunksAreChecked) {
  const auto with = [&](const char* key, const json& value) {
    return changed([&](json& r) { tensor(r, kName, "adam_v")[key] = value; });
  };
  const std::string name = fmt::format("M: tensor {} adam_v", kName);
  EXPECT_THAT(with("shape", {32, 9}), HasSubstr(name));
  EXPECT_THAT(with("shape", {8, 32}), HasSubstr(name));
  EXPECT_THAT(with("shape", {1, 1, 1, 32, 8}), HasSubstr(name));
  EXPECT_THAT(with("shape", {-32, 8}), HasSubstr(name));
  EXPECT_THAT(with("dtype", "f16"), HasSubstr("dtype \"f16\""));
  EXPECT_THAT(with("dtype", "f64"), HasSubstr(kName));  // longer values reach into the neighbour
  EXPECT_THAT(with("l2", nullptr), HasSubstr(name));
  EXPECT_THAT(with("l2", -1.0), HasSubstr(name));
  EXPECT_THAT(with("fingerprint", "123"), HasSubstr(name));
  EXPECT_THAT(with("fingerprint", "zzzzzzzzzzzzzzzz"), HasSubstr(name));
  EXPECT_THAT(with("chunks", json::array()), HasSubstr("hold 0 of 256"));
  const auto chunk = [&](const char* key, const json& value) {
    return changed([&](json& r) { tensor(r, kName, "adam_v")["chunks"][0][key] = value; });
  };
  EXPECT_THAT(chunk("extent", {31, 8}), HasSubstr("hold 248 of 256"));
  EXPECT_THAT(chunk("offset", {1, 0}), HasSubstr("outside"));
  EXPECT_THAT(chunk("shard", 1), HasSubstr("shard-00001.h5"));
  EXPECT_THAT(chunk("at", 1u << 30), HasSubstr("beyond the end"));
  EXPECT_THAT(chunk("at", 9223372036854775807), HasSubstr("beyond the end"));
  EXPECT_THAT(chunk("at", tensor(root_, kName, "master")["chunks"][0]["at"]), HasSubstr("share bytes"));
  EXPECT_THAT(chunk("crc32c", "1"), HasSubstr("crc32c"));
}

TEST_F(ManifestText, TotalsMustAgree) {
  for (const char* key : {"tensors", "chunks", "bytes"})
    EXPECT_THAT(changed([&](json& r) { r["totals"][key] = 1; }), HasSubstr(fmt::format("totals: {} 1", key)));
}

TEST_F(ManifestText, DepthAndDoubleKeysAreRefused) {
  EXPECT_EQ(changed([](json& r) { r["guard"]["a"] = json::parse("[[[[[[[[[[[[[0]]]]]]]]]]]]]"); }), "accepted");
  EXPECT_THAT(changed([](json& r) { r["guard"]["a"] = json::parse("[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]"); }),
              HasSubstr("nested deeper than 16"));
  const auto resigned = [](std::string summed) {
    return summed + fmt::format("\"crc32c\": \"{:08x}\"}}\n", crc32c(std::as_bytes(std::span(summed))));
  };
  const std::string summed = text_.substr(0, text_.rfind('\n', text_.size() - 2) + 1);
  EXPECT_EQ(parsed(resigned(summed)), "accepted");
  EXPECT_THAT(parsed(resigned(summed + "\"step\": 8,\n")), HasSubstr("key \"step\" twice"));
  EXPECT_THAT(parsed(resigned(summed + "\"x\": \"\xff\",\n")), HasSubstr("not JSON"));
  EXPECT_THAT(parsed(resigned(summed + "\"x\": 1e999,\n")), HasSubstr("not JSON"));
}

}  // namespace
}  // namespace trireme::train
