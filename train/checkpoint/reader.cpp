#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "core/file.h"
#include "core/log.h"
#include "train/checkpoint/checksum.h"
#include "train/checkpoint/names.h"
#include "train/checkpoint/shard.h"
#include "train/checkpoint/store.h"

namespace trireme::train {

namespace fs = std::filesystem;
using core::ExitCode;

namespace {

constexpr std::uint64_t kLargestManifest = std::uint64_t{256} << 20;
constexpr std::uint64_t kLargestSideFile = std::uint64_t{1} << 30;

/// A regular file, not a link, of the size and checksum in the manifest.
void verify_file(const fs::path& directory, const StoredFile& file) {
  const fs::path path = directory / file.name;
  struct stat status {};
  core::require(::lstat(path.c_str(), &status) == 0, ExitCode::no_checkpoint, "{}: missing", path.string());
  core::require(S_ISREG(status.st_mode), ExitCode::no_checkpoint, "{}: not a regular file", path.string());
  core::require(static_cast<std::uint64_t>(status.st_size) == file.bytes, ExitCode::no_checkpoint,
                "{}: {} bytes, the manifest says {}", path.string(), status.st_size, file.bytes);
  const std::uint32_t sum = crc32c_of_file(path, 0, file.bytes);
  core::require(sum == file.crc32c, ExitCode::no_checkpoint, "{}: checksum {:08x}, the manifest says {:08x}",
                path.string(), sum, file.crc32c);
}

void verify_structure(const fs::path& directory, const Manifest& manifest) {
  std::map<std::int64_t, std::vector<ExpectedDataset>> shards;
  for (const StoredTensor& tensor : manifest.tensors)
    for (std::size_t k = 0; k < tensor.chunks.size(); ++k)
      shards[tensor.chunks[k].shard].push_back(
          {dataset_path(tensor.state, tensor.name, k), tensor.dtype, tensor.chunks[k].extent, tensor.chunks[k].at});
  for (const auto& [shard, expected] : shards)
    check_structure(directory / shard_name(shard), expected, ExitCode::no_checkpoint);
}

/// The part of a stored chunk that a wanted one overlaps.
struct Overlap {
  std::vector<std::int64_t> begin, extent;  // global
  bool empty = false;
};

Overlap intersect(const StateChunk& wanted, const StoredChunk& stored) {
  Overlap out;
  for (std::size_t axis = 0; axis < wanted.offset.size(); ++axis) {
    const std::int64_t begin = std::max(wanted.offset[axis], stored.offset[axis]);
    const std::int64_t end =
        std::min(wanted.offset[axis] + wanted.extent[axis], stored.offset[axis] + stored.extent[axis]);
    out.begin.push_back(begin);
    out.extent.push_back(end - begin);
    out.empty = out.empty || end <= begin;
  }
  return out;
}

/// Row-major index of a global position inside a rectangle.
std::int64_t index_in(const std::vector<std::int64_t>& position, const std::vector<std::int64_t>& offset,
                      const std::vector<std::int64_t>& extent) {
  std::int64_t index = 0;
  for (std::size_t axis = 0; axis < position.size(); ++axis)
    index = index * extent[axis] + position[axis] - offset[axis];
  return index;
}

/// Copies an overlap run by run. Trailing axes that both rectangles hold whole make longer runs.
class Transfer {
 public:
  Transfer(const core::ReadFile& file, core::DType stored_type, StateChunk& wanted)
      : file_(file), stored_type_(stored_type), wanted_(wanted) {}

  void run(const StoredChunk& stored, const Overlap& overlap) {
    std::size_t axis = overlap.extent.size();
    std::int64_t length = 1;
    while (axis > 0) {
      --axis;
      length *= overlap.extent[axis];
      if (overlap.extent[axis] != stored.extent[axis] || overlap.extent[axis] != wanted_.extent[axis]) break;
    }
    std::int64_t runs = 1;
    for (std::size_t outer = 0; outer < axis; ++outer) runs *= overlap.extent[outer];
    for (std::int64_t i = 0; i < runs; ++i) {
      std::vector<std::int64_t> position = overlap.begin;
      std::int64_t rest = i;
      for (std::size_t outer = axis; outer-- > 0;) {
        position[outer] += rest % overlap.extent[outer];
        rest /= overlap.extent[outer];
      }
      copy(stored, index_in(position, stored.offset, stored.extent), index_in(position, wanted_.offset, wanted_.extent),
           length);
    }
  }

 private:
  void copy(const StoredChunk& stored, std::int64_t from, std::int64_t to, std::int64_t count) {
    const std::size_t width = core::size_of(stored_type_);
    const std::uint64_t offset = stored.at + static_cast<std::uint64_t>(from) * width;
    if (stored_type_ == wanted_.dtype) {
      auto* out = static_cast<std::byte*>(wanted_.data) + static_cast<std::size_t>(to) * width;
      return file_.read({out, static_cast<std::size_t>(count) * width}, offset);
    }
    std::vector<float> narrow(static_cast<std::size_t>(count));
    file_.read(std::as_writable_bytes(std::span(narrow)), offset);
    std::copy(narrow.begin(), narrow.end(), static_cast<double*>(wanted_.data) + to);
  }

  const core::ReadFile& file_;
  core::DType stored_type_;
  StateChunk& wanted_;
};

std::vector<std::int64_t> extents_of(const core::Shape& shape) {
  std::vector<std::int64_t> out;
  for (int axis = 0; axis < shape.rank(); ++axis) out.push_back(shape[axis]);
  return out;
}

}  // namespace

CheckpointReader::CheckpointReader(const fs::path& directory) : directory_(directory) {
  const fs::path path = directory / kManifestName;
  core::require(fs::is_regular_file(fs::symlink_status(path)), ExitCode::no_checkpoint, "{}: missing", path.string());
  manifest_ = Manifest::parse(core::read_whole(path, kLargestManifest, ExitCode::no_checkpoint), path.string());
  if (const auto step = step_of(directory.filename().string()))
    core::require(*step == manifest_.meta.step, ExitCode::no_checkpoint, "{}: step {} in a directory of another name",
                  path.string(), manifest_.meta.step);
  for (const StoredFile& file : manifest_.files) verify_file(directory, file);
  verify_structure(directory, manifest_);
}

void CheckpointReader::read(std::span<StateChunk> wanted) const {
  std::map<std::int64_t, core::ReadFile> files;
  for (StateChunk& chunk : wanted) {
    const auto found = std::find_if(manifest_.tensors.begin(), manifest_.tensors.end(), [&](const StoredTensor& t) {
      return t.name == chunk.tensor && t.state == chunk.state;
    });
    core::require(found != manifest_.tensors.end(), ExitCode::no_checkpoint, "{}: no tensor {} {}", directory_.string(),
                  chunk.tensor, chunk.state);
    core::require(found->shape == extents_of(chunk.shape), ExitCode::no_checkpoint,
                  "{}: tensor {} {} is [{}], the model's is {}", directory_.string(), chunk.tensor, chunk.state,
                  fmt::join(found->shape, ", "), chunk.shape.text());
    const bool widened = found->dtype == core::DType::f32 && chunk.dtype == core::DType::f64;
    core::require(found->dtype == chunk.dtype || widened, ExitCode::usage, "{}: tensor {} {} is {}, the run needs {}",
                  directory_.string(), chunk.tensor, chunk.state, core::name_of(found->dtype),
                  core::name_of(chunk.dtype));
    for (const StoredChunk& stored : found->chunks) {
      const Overlap overlap = intersect(chunk, stored);
      if (overlap.empty) continue;
      const auto file =
          files.try_emplace(stored.shard, directory_ / shard_name(stored.shard), ExitCode::no_checkpoint).first;
      Transfer(file->second, found->dtype, chunk).run(stored, overlap);
    }
  }
}

std::vector<SideFile> CheckpointReader::side_files() const {
  std::vector<SideFile> out;
  for (const StoredFile& file : manifest_.files)
    if (!is_shard_name(file.name))
      out.push_back({file.name, core::read_whole(directory_ / file.name, kLargestSideFile, ExitCode::no_checkpoint)});
  return out;
}

std::vector<Candidate> list_candidates(const fs::path& root) {
  std::vector<Candidate> out;
  if (!fs::is_directory(root)) return out;
  for (const auto& entry : fs::directory_iterator(root))
    if (const auto step = step_of(entry.path().filename().string()); step && entry.is_directory())
      out.push_back({*step, entry.path()});
  std::sort(out.begin(), out.end(), [](const Candidate& a, const Candidate& b) { return a.step > b.step; });
  return out;
}

std::optional<CheckpointReader> newest_valid(const fs::path& root, std::vector<std::string>& rejected) {
  for (const Candidate& candidate : list_candidates(root)) {
    try {
      return CheckpointReader(candidate.directory);
    } catch (const core::Error& error) {
      rejected.push_back(fmt::format("{} is not used: {}", candidate.directory.string(), error.what()));
    }
  }
  return {};
}

CheckpointReader open_checkpoint(const fs::path& path) {
  core::require(fs::exists(path), ExitCode::no_checkpoint, "{}: no such checkpoint", path.string());
  if (fs::exists(path / kManifestName) || step_of(path.filename().string())) return CheckpointReader(path);
  const fs::path root = fs::is_directory(path / "checkpoints") ? path / "checkpoints" : path;
  std::vector<std::string> rejected;
  std::optional<CheckpointReader> found = newest_valid(root, rejected);
  for (const std::string& line : rejected) core::warning(line);
  core::require(found.has_value(), ExitCode::no_checkpoint, "{}: no valid checkpoint among {} candidates{}{}",
                root.string(), rejected.size(), rejected.empty() ? "" : ": ", fmt::join(rejected, "; "));
  return std::move(*found);
}

}  // namespace trireme::train
