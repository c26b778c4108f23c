#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "train/side_file.h"

namespace trireme::train {

/// One rectangle of a global tensor's state, in memory. For saving: what this writer owns; for loading: what is needed
/// here.
struct StateChunk {
  std::string tensor;
  std::string state;  ///< master, adam_m, adam_v, weight
  core::DType dtype = core::DType::f32;
  core::Shape shape;                 ///< of the global tensor
  std::vector<std::int64_t> offset;  ///< of the rectangle, one a dimension
  std::vector<std::int64_t> extent;
  void* data = nullptr;  ///< row-major, contiguous [extent]
  /// When saving, K: the chunk's place among all chunks of its tensor state, whoever writes them. -1 with a single
  /// writer: numbered in the order given.
  std::int64_t number = -1;
};

struct TiedAlias {
  std::string name;
  std::string tied_to;
};

/// What a manifest says besides files and tensors.
struct CheckpointMeta {
  std::string kind = "full";  ///< full, or weights: no moments
  std::string run_id, run_name;
  std::int64_t attempt = 1;
  std::string nonce;  ///< of this save; made by save
  std::int64_t step = 0, updates = 0, samples = 0, tokens = 0;
  std::uint64_t seed = 0;
  nlohmann::json data, schedule, optimizer, model, guard, goodput, layout;
  std::string config_toml;
};

struct StoredChunk {
  std::int64_t shard = 0;
  std::vector<std::int64_t> offset, extent;
  std::uint64_t at = 0;  ///< byte offset of the values in the shard
  std::uint32_t crc32c = 0;
};

struct StoredTensor {
  std::string name, state;
  core::DType dtype = core::DType::f32;
  std::vector<std::int64_t> shape;
  double l2 = 0;
  std::uint64_t fingerprint = 0;
  std::vector<StoredChunk> chunks;
};

struct StoredFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;
  std::string sha256;  ///< empty: not stored
};

/// MANIFEST.json, the last file of a checkpoint to be written: it lists every other one.
struct Manifest {
  CheckpointMeta meta;
  std::vector<StoredFile> files;
  std::vector<StoredTensor> tensors;  ///< by name, then state
  std::vector<TiedAlias> ties;

  std::uint64_t bytes() const;  ///< of all files
  std::string text() const;
  /// Parses and checks everything that the text alone can show: checksum line, limits, names, chunks that tile each
  /// tensor, places inside the files, totals, tensors as the model's keys imply. Throws Error(no_checkpoint) starting
  /// with `where`.
  static Manifest parse(const std::string& text, const std::string& where);
};

/// How much of a checkpoint is looked at when it is opened.
enum class Verify {
  sizes,     ///< manifest, names and sizes of the files: what listings need
  contents,  ///< also every checksum and the structure of the shards
};

/// What may differ between a stored type and the wanted one.
enum class Convert {
  none,
  widen,  ///< fp32 -> fp64
  exact,  ///< also fp64 -> fp32 where every value survives
};

struct OpenOptions {
  Verify verify = Verify::contents;
  std::string manifest_sha256;  ///< pins the checkpoint unless empty
};

/// One committed checkpoint, verified on construction. Throws Error(no_checkpoint) naming file or tensor and reason. An
/// input/output error, as against wrong contents, is tried once more first.
class CheckpointReader {
 public:
  explicit CheckpointReader(const std::filesystem::path& directory, const OpenOptions& options = {});
  const Manifest& manifest() const { return manifest_; }
  const std::string& manifest_sha256() const { return manifest_sha256_; }
  /// Fills every wanted rectangle, whatever the stored chunks are. Throws Error(no_checkpoint) for a tensor that is
  /// missing, of another shape, or whose fingerprint or l2 differs after reading (checked where the rectangles make a
  /// whole tensor), Error(usage) for a type that `convert` does not allow.
  void read(std::span<StateChunk> wanted, Convert convert = Convert::widen) const;
  std::vector<SideFile> side_files() const;
  const std::filesystem::path& directory() const { return directory_; }

 private:
  void verify(const OpenOptions& options);
  std::filesystem::path directory_;
  Manifest manifest_;
  std::string manifest_sha256_;
};

/// Writes a checkpoint directory under any name (`trireme import`): beside its place, then renamed. An existing one is
/// refused (exit 73) unless `overwrite`; then it is exchanged for the new one and removed.
void write_weights(const std::filesystem::path& directory, const CheckpointMeta& meta,
                   std::span<const StateChunk> chunks, std::span<const TiedAlias> ties,
                   std::span<const SideFile> side_files, bool overwrite);

}  // namespace trireme::train
