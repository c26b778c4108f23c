#include <cmath>
#include <map>
#include <set>

#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checksum.h"
#include "train/checkpoint/manifest_checks.h"
#include "train/checkpoint/manifest_fields.h"
#include "train/checkpoint/manifest_json.h"
#include "train/checkpoint/names.h"
#include "train/checkpoint/tiling.h"

namespace trireme::train {

using core::ExitCode;
using nlohmann::json;

namespace {

constexpr std::size_t kLargestText = std::size_t{256} << 20;
constexpr int kDeepest = 16;
constexpr std::size_t kMostTensors = std::size_t{1} << 20;
constexpr std::size_t kMostChunks = std::size_t{1} << 24;
constexpr std::size_t kHighestRank = 4;
constexpr std::size_t kHashDigits = 64;

core::DType parse_dtype(const std::string& name, const std::string& place) {
  if (name == "f32") return core::DType::f32;
  if (name == "f64") return core::DType::f64;
  core::require(name == "bf16", ExitCode::no_checkpoint, "{}: dtype \"{}\" is not f32, f64 or bf16", place,
                core::escaped(name));
  return core::DType::bf16;
}

StoredChunk parse_chunk(const json& object, const std::string& place) {
  const Fields fields(object, place);
  return {.shard = fields.count("shard"),
          .offset = fields.counts("offset", kHighestRank),
          .extent = fields.counts("extent", kHighestRank),
          .at = static_cast<std::uint64_t>(fields.count("at")),
          .crc32c = fields.hexadecimal<std::uint32_t>("crc32c")};
}

StoredTensor parse_tensor(const json& object, const std::string& where) {
  const std::string list = where + ": tensors";
  const Fields unnamed(object, list);
  StoredTensor tensor{.name = unnamed.text("name"), .state = unnamed.text("state")};
  const std::string place =
      fmt::format("{}: tensor {} {}", where, core::escaped(tensor.name), core::escaped(tensor.state));
  core::require(is_tensor_name(tensor.name) && is_tensor_name(tensor.state), ExitCode::no_checkpoint,
                "{}: such a name is not allowed", place);
  const Fields fields(object, place);
  tensor.dtype = parse_dtype(fields.text("dtype"), place);
  tensor.shape = fields.counts("shape", kHighestRank);
  tensor.l2 = fields.number("l2");
  core::require(std::isfinite(tensor.l2) && tensor.l2 >= 0, ExitCode::no_checkpoint, "{}: l2 {}", place, tensor.l2);
  tensor.fingerprint = fields.hexadecimal<std::uint64_t>("fingerprint");
  for (const json& item : fields.list("chunks", kMostChunks)) tensor.chunks.push_back(parse_chunk(item, place));
  check_tiling(tensor.shape, tensor.chunks, place);
  return tensor;
}

void parse_files(const Fields& root, const std::string& where, Manifest& manifest) {
  const std::string place = where + ": files";
  std::set<std::string> names;
  std::uint64_t bytes = 0;
  for (const json& item : root.list("files", kMostTensors)) {
    const Fields fields(item, place);
    StoredFile file{.name = fields.text("name"), .bytes = static_cast<std::uint64_t>(fields.count("bytes"))};
    core::require(is_file_name(file.name) && file.name != kManifestName && file.name != kViewName,
                  ExitCode::no_checkpoint, "{}: file name \"{}\" is not allowed", where, core::escaped(file.name));
    core::require(names.insert(file.name).second, ExitCode::no_checkpoint, "{}: file {} twice", where, file.name);
    core::require(!__builtin_add_overflow(bytes, file.bytes, &bytes), ExitCode::no_checkpoint,
                  "{}: files are too large", where);
    file.crc32c = fields.hexadecimal<std::uint32_t>("crc32c");
    if (fields.has("sha256")) {
      file.sha256 = fields.text("sha256");
      core::require(file.sha256.size() == kHashDigits, ExitCode::no_checkpoint, "{}: {}: sha256 of {} digits", where,
                    file.name, file.sha256.size());
    }
    manifest.files.push_back(std::move(file));
  }
}

void parse_tensors(const Fields& root, const std::string& where, Manifest& manifest) {
  std::size_t chunks = 0;
  for (const json& item : root.list("tensors", kMostTensors)) {
    if (const std::string place = where + ": tensors"; Fields(item, place).has("tied_to")) {
      const Fields fields(item, place);
      manifest.ties.push_back({fields.text("name"), fields.text("tied_to")});
      continue;
    }
    manifest.tensors.push_back(parse_tensor(item, where));
    chunks += manifest.tensors.back().chunks.size();
    core::require(chunks <= kMostChunks, ExitCode::no_checkpoint, "{}: more than {} chunks", where, kMostChunks);
  }
  const std::string place = where + ": totals";
  const Fields totals(root.object("totals"), place);
  const auto agree = [&](const char* key, std::uint64_t counted) {
    core::require(static_cast<std::uint64_t>(totals.count(key)) == counted, ExitCode::no_checkpoint,
                  "{}: {} {}, not {}", place, key, totals.count(key), counted);
  };
  agree("tensors", manifest.tensors.size());
  agree("chunks", chunks);
  agree("bytes", manifest.bytes());
}

CheckpointMeta parse_meta(const Fields& root, const std::string& where) {
  CheckpointMeta meta{.kind = root.text("kind")};
  core::require(meta.kind == "full" || meta.kind == "weights", ExitCode::no_checkpoint,
                "{}: kind \"{}\" is not full or weights", where, core::escaped(meta.kind));
  const std::string place = where + ": run";
  const Fields run(root.object("run"), place);
  meta.run_id = run.text("id");
  meta.run_name = run.text("name");
  meta.attempt = run.count("attempt");
  meta.nonce = run.text("nonce");
  meta.step = root.count("step");
  meta.updates = root.count("updates");
  meta.samples = root.count("samples");
  meta.tokens = root.count("tokens");
  core::require(root.at("seed").is_number_unsigned(), ExitCode::no_checkpoint, "{}: seed: not a count", where);
  meta.seed = root.at("seed").get<std::uint64_t>();
  meta.data = root.object("data");
  meta.schedule = root.object("schedule");
  meta.optimizer = root.object("optimizer");
  meta.model = root.object("model");
  meta.config_toml = root.text("config");
  meta.guard = root.object("guard");
  meta.goodput = root.object("goodput");
  meta.layout = root.object("layout");
  return meta;
}

/// The last line is the sum of everything before it.
void check_sum(const std::string& text, const std::string& where) {
  constexpr std::string_view begin = "\n\"crc32c\": \"", end = "\"}\n";
  constexpr std::size_t digits = 8, line = begin.size() + digits + end.size();
  core::require(text.size() > line && std::string_view(text).substr(text.size() - line, begin.size()) == begin &&
                    text.ends_with(end),
                ExitCode::no_checkpoint, "{}: cut off: no checksum line at its end", where);
  const std::string_view summed(text.data(), text.size() - line + 1);
  const std::string_view stored(text.data() + text.size() - end.size() - digits, digits);
  const std::string sum = fmt::format("{:08x}", crc32c(std::as_bytes(std::span(summed))));
  core::require(sum == stored, ExitCode::no_checkpoint, "{}: checksum {}, its last line says {}", where, sum,
                core::escaped(stored));
}

}  // namespace

Manifest Manifest::parse(const std::string& text, const std::string& where) {
  core::require(text.size() <= kLargestText, ExitCode::no_checkpoint, "{}: {} bytes, at most {}", where, text.size(),
                kLargestText);
  check_sum(text, where);
  const json object = parse_json(text, kDeepest, where);
  const Fields root(object, where);
  core::require(root.text("format") == "trireme-checkpoint", ExitCode::no_checkpoint, "{}: format \"{}\"", where,
                core::escaped(root.text("format")));
  core::require(root.count("version") == 1, ExitCode::no_checkpoint, "{}: version {}, only 1 is known", where,
                root.count("version"));
  Manifest manifest{.meta = parse_meta(root, where)};
  parse_files(root, where, manifest);
  parse_tensors(root, where, manifest);
  check_places(manifest, where);
  check_model_tensors(manifest, where);
  return manifest;
}

}  // namespace trireme::train
