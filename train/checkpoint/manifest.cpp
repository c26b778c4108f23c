#include <algorithm>
#include <bit>
#include <charconv>
#include <ctime>
#include <set>

#include "core/log.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checksum.h"
#include "train/checkpoint/names.h"

namespace trireme::train {

namespace {

using core::ExitCode;
using nlohmann::json;

constexpr std::size_t kLargestText = std::size_t{256} << 20;
constexpr int kDeepest = 16;
constexpr std::size_t kMostTensors = std::size_t{1} << 20;
constexpr std::size_t kMostChunks = std::size_t{1} << 24;
constexpr std::size_t kHighestRank = 4;

std::string hex32(std::uint32_t value) { return fmt::format("{:08x}", value); }

json chunk_json(const StoredChunk& chunk) {
  return {{"shard", chunk.shard},
          {"offset", chunk.offset},
          {"extent", chunk.extent},
          {"at", chunk.at},
          {"crc32c", hex32(chunk.crc32c)}};
}

const char* dtype_name(core::DType dtype) {
  return dtype == core::DType::f64 ? "f64" : dtype == core::DType::bf16 ? "bf16" : "f32";
}

json tensor_json(const StoredTensor& tensor) {
  json out{
      {"name", tensor.name},    {"state", tensor.state}, {"dtype", dtype_name(tensor.dtype)},
      {"shape", tensor.shape},  {"l2", tensor.l2},       {"fingerprint", fmt::format("{:016x}", tensor.fingerprint)},
      {"chunks", json::array()}};
  for (const StoredChunk& chunk : tensor.chunks) out["chunks"].push_back(chunk_json(chunk));
  return out;
}

json totals_json(const Manifest& manifest) {
  std::size_t chunks = 0;
  std::uint64_t bytes = 0;
  for (const StoredTensor& tensor : manifest.tensors) chunks += tensor.chunks.size();
  for (const StoredFile& file : manifest.files) bytes += file.bytes;
  return {{"tensors", manifest.tensors.size()}, {"chunks", chunks}, {"bytes", bytes}};
}

/// Reads members of the manifest's JSON, each failure naming the place.
class Fields {
 public:
  Fields(const json& object, std::string place) : object_(object), place_(std::move(place)) {
    core::require(object.is_object(), ExitCode::no_checkpoint, "{}: not an object", place_);
  }
  const json& at(const char* key) const {
    const auto found = object_.find(key);
    core::require(found != object_.end(), ExitCode::no_checkpoint, "{}: no \"{}\"", place_, key);
    return *found;
  }
  std::string text(const char* key) const {
    const json& value = at(key);
    core::require(value.is_string(), ExitCode::no_checkpoint, "{}: \"{}\" is not a string", place_, key);
    return value.get<std::string>();
  }
  std::int64_t count(const char* key) const {
    const json& value = at(key);
    core::require(value.is_number_integer() && value >= 0 && value <= INT64_MAX, ExitCode::no_checkpoint,
                  "{}: \"{}\" is not a count", place_, key);
    return value.get<std::int64_t>();
  }
  template <class T>
  T hexadecimal(const char* key) const {
    const std::string digits = text(key);
    T value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    core::require(error == std::errc() && end == digits.data() + digits.size() && digits.size() == 2 * sizeof(T),
                  ExitCode::no_checkpoint, "{}: \"{}\" is not {} hexadecimal digits", place_, key, 2 * sizeof(T));
    return value;
  }
  std::vector<std::int64_t> counts(const char* key) const {
    const json& list = at(key);
    core::require(list.is_array() && list.size() <= kHighestRank, ExitCode::no_checkpoint,
                  "{}: \"{}\" is not a list of at most {} numbers", place_, key, kHighestRank);
    std::vector<std::int64_t> out;
    for (const json& value : list) {
      core::require(value.is_number_integer() && value >= 0 && value <= INT64_MAX, ExitCode::no_checkpoint,
                    "{}: \"{}\" holds {}, not a count", place_, key, value.dump());
      out.push_back(value.get<std::int64_t>());
    }
    return out;
  }
  const json& list(const char* key, std::size_t most) const {
    const json& value = at(key);
    core::require(value.is_array() && value.size() <= most, ExitCode::no_checkpoint,
                  "{}: \"{}\" is not a list of at most {}", place_, key, most);
    return value;
  }
  json optional(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() ? json() : *found;
  }

 private:
  const json& object_;
  std::string place_;
};

std::int64_t elements_of(const std::vector<std::int64_t>& extents, const std::string& place) {
  std::int64_t product = 1;
  for (const std::int64_t extent : extents)
    core::require(!__builtin_mul_overflow(product, extent, &product), ExitCode::no_checkpoint,
                  "{}: a product of extents is too large", place);
  return product;
}

/// Chunks lie inside the tensor, do not overlap and cover every element.
void check_tiling(const StoredTensor& tensor, const std::string& place) {
  std::int64_t covered = 0;
  for (const StoredChunk& chunk : tensor.chunks) {
    core::require(chunk.offset.size() == tensor.shape.size() && chunk.extent.size() == tensor.shape.size(),
                  ExitCode::no_checkpoint, "{}: a chunk has another rank than the tensor", place);
    for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis)
      core::require(chunk.extent[axis] >= 1 && chunk.extent[axis] <= tensor.shape[axis] &&
                        chunk.offset[axis] <= tensor.shape[axis] - chunk.extent[axis],
                    ExitCode::no_checkpoint, "{}: a chunk reaches outside the tensor", place);
    covered += elements_of(chunk.extent, place);
  }
  core::require(covered == elements_of(tensor.shape, place), ExitCode::no_checkpoint,
                "{}: chunks hold {} of {} elements", place, covered, elements_of(tensor.shape, place));
  const auto overlap = [&](const StoredChunk& a, const StoredChunk& b) {
    for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis)
      if (a.offset[axis] >= b.offset[axis] + b.extent[axis] || b.offset[axis] >= a.offset[axis] + a.extent[axis])
        return false;
    return true;
  };
  // Sorted by their first row, only neighbours whose rows meet need comparing.
  std::vector<const StoredChunk*> sorted;
  for (const StoredChunk& chunk : tensor.chunks) sorted.push_back(&chunk);
  const auto first_row = [](const StoredChunk* c) { return c->offset.empty() ? 0 : c->offset[0]; };
  std::sort(sorted.begin(), sorted.end(), [&](auto a, auto b) { return first_row(a) < first_row(b); });
  for (std::size_t i = 0; i < sorted.size(); ++i)
    for (std::size_t j = i + 1;
         j < sorted.size() &&
         (sorted[i]->offset.empty() || first_row(sorted[j]) < first_row(sorted[i]) + sorted[i]->extent[0]);
         ++j)
      core::require(!overlap(*sorted[i], *sorted[j]), ExitCode::no_checkpoint, "{}: two chunks overlap", place);
}

StoredTensor parse_tensor(const json& object, const std::string& where, std::size_t shards) {
  const Fields fields(object, where + " tensors");
  StoredTensor tensor{.name = fields.text("name"), .state = fields.text("state")};
  const std::string place =
      fmt::format("{}: tensor {} {}", where, core::escaped(tensor.name), core::escaped(tensor.state));
  const std::string dtype = Fields(object, place).text("dtype");
  core::require(dtype == "f32" || dtype == "f64" || dtype == "bf16", ExitCode::no_checkpoint, "{}: dtype \"{}\"", place,
                core::escaped(dtype));
  tensor.dtype = dtype == "f64" ? core::DType::f64 : dtype == "bf16" ? core::DType::bf16 : core::DType::f32;
  const Fields named(object, place);
  tensor.shape = named.counts("shape");
  const json& l2 = named.at("l2");
  core::require(l2.is_number(), ExitCode::no_checkpoint, "{}: \"l2\" is not a number", place);
  tensor.l2 = l2.get<double>();
  tensor.fingerprint = named.hexadecimal<std::uint64_t>("fingerprint");
  for (const json& item : named.list("chunks", kMostChunks)) {
    const Fields part(item, place + " chunk");
    StoredChunk chunk{.shard = part.count("shard"), .offset = part.counts("offset"), .extent = part.counts("extent")};
    core::require(chunk.shard < static_cast<std::int64_t>(shards), ExitCode::no_checkpoint,
                  "{}: chunk in shard {} of {}", place, chunk.shard, shards);
    chunk.at = static_cast<std::uint64_t>(part.count("at"));
    chunk.crc32c = part.hexadecimal<std::uint32_t>("crc32c");
    tensor.chunks.push_back(std::move(chunk));
  }
  check_tiling(tensor, place);
  return tensor;
}

void parse_files(const Fields& root, const std::string& where, Manifest& manifest) {
  std::set<std::string> names;
  for (const json& item : root.list("files", kMostTensors)) {
    const Fields fields(item, where + " files");
    StoredFile file{.name = fields.text("name"), .bytes = static_cast<std::uint64_t>(fields.count("bytes"))};
    core::require(is_file_name(file.name) && file.name != kManifestName, ExitCode::no_checkpoint,
                  "{}: file name \"{}\" is not allowed", where, core::escaped(file.name));
    core::require(names.insert(file.name).second, ExitCode::no_checkpoint, "{}: file {} twice", where, file.name);
    file.crc32c = fields.hexadecimal<std::uint32_t>("crc32c");
    if (const json sum = fields.optional("sha256"); sum.is_string()) file.sha256 = sum.get<std::string>();
    manifest.files.push_back(std::move(file));
  }
}

void parse_tensors(const Fields& root, const std::string& where, Manifest& manifest) {
  const auto shards = static_cast<std::size_t>(std::count_if(
      manifest.files.begin(), manifest.files.end(), [](const StoredFile& file) { return is_shard_name(file.name); }));
  std::set<std::pair<std::string, std::string>> names;
  std::size_t chunks = 0;
  for (const json& item : root.list("tensors", kMostTensors)) {
    const Fields fields(item, where + " tensors");
    if (const json tied = fields.optional("tied_to"); !tied.is_null()) {
      manifest.ties.push_back({fields.text("name"), fields.text("tied_to")});
      continue;
    }
    StoredTensor tensor = parse_tensor(item, where, shards);
    chunks += tensor.chunks.size();
    core::require(chunks <= kMostChunks, ExitCode::no_checkpoint, "{}: more than {} chunks", where, kMostChunks);
    core::require(names.insert({tensor.name, tensor.state}).second, ExitCode::no_checkpoint, "{}: tensor {} {} twice",
                  where, core::escaped(tensor.name), core::escaped(tensor.state));
    manifest.tensors.push_back(std::move(tensor));
  }
}

CheckpointMeta parse_meta(const Fields& root, const std::string& where) {
  CheckpointMeta meta{.kind = root.text("kind")};
  core::require(meta.kind == "full" || meta.kind == "weights", ExitCode::no_checkpoint, "{}: kind \"{}\"", where,
                core::escaped(meta.kind));
  const Fields run(root.at("run"), where + " run");
  meta.run_id = run.text("id");
  meta.run_name = run.text("name");
  meta.attempt = run.count("attempt");
  meta.nonce = run.text("nonce");
  meta.step = root.count("step");
  meta.updates = root.count("updates");
  meta.samples = root.count("samples");
  meta.tokens = root.count("tokens");
  const json& seed = root.at("seed");
  core::require(seed.is_number_unsigned() || (seed.is_number_integer() && seed >= 0), ExitCode::no_checkpoint,
                "{}: \"seed\" is not a count", where);
  meta.seed = seed.get<std::uint64_t>();
  meta.config_toml = root.text("config");
  meta.data = root.optional("data");
  meta.schedule = root.optional("schedule");
  meta.optimizer = root.optional("optimizer");
  meta.model = root.at("model");
  meta.guard = root.optional("guard");
  meta.goodput = root.optional("goodput");
  meta.layout = root.optional("layout");
  return meta;
}

/// The text up to the checksum line, whose sum must be right.
std::string_view summed_part(const std::string& text, const std::string& where) {
  constexpr std::string_view begin = "\n\"crc32c\": \"", end = "\"}\n";
  const std::size_t line = begin.size() + 8 + end.size();
  const bool shaped = text.size() > line && text.compare(text.size() - line, begin.size(), begin) == 0 &&
                      text.compare(text.size() - end.size(), end.size(), end) == 0;
  core::require(shaped, ExitCode::no_checkpoint, "{}: no checksum line at its end", where);
  const std::string_view part(text.data(), text.size() - line + 1);
  const std::string sum = hex32(crc32c(std::as_bytes(std::span(part))));
  core::require(text.compare(text.size() - line + begin.size(), 8, sum) == 0, ExitCode::no_checkpoint,
                "{}: checksum {} does not fit the contents ({})", where,
                core::escaped(text.substr(text.size() - line + begin.size(), 8)), sum);
  return part;
}

json parse_json(const std::string& text, const std::string& where) {
  bool deep = false;
  const auto watch = [&](int depth, json::parse_event_t, json&) {
    deep = deep || depth > kDeepest;
    return !deep;
  };
  json root = json::parse(text, watch, false);
  core::require(!deep, ExitCode::no_checkpoint, "{}: nested deeper than {}", where, kDeepest);
  core::require(root.is_object(), ExitCode::no_checkpoint, "{}: not a JSON object", where);
  return root;
}

}  // namespace

std::string Manifest::text() const {
  json root{{"format", "trireme-checkpoint"}, {"version", 1}, {"kind", meta.kind}};
  root["run"] = {{"id", meta.run_id},          {"name", meta.run_name},
                 {"attempt", meta.attempt},    {"nonce", meta.nonce},
                 {"program", TRIREME_VERSION}, {"time", static_cast<std::int64_t>(std::time(nullptr))}};
  root["step"] = meta.step;
  root["updates"] = meta.updates;
  root["samples"] = meta.samples;
  root["tokens"] = meta.tokens;
  root["seed"] = meta.seed;
  root["data"] = meta.data;
  root["schedule"] = meta.schedule;
  root["optimizer"] = meta.optimizer;
  root["model"] = meta.model;
  root["config"] = meta.config_toml;
  root["guard"] = meta.guard;
  root["goodput"] = meta.goodput;
  root["layout"] = meta.layout;
  root["files"] = json::array();
  for (const StoredFile& file : files) {
    json item{{"name", file.name}, {"bytes", file.bytes}, {"crc32c", hex32(file.crc32c)}};
    if (!file.sha256.empty()) item["sha256"] = file.sha256;
    root["files"].push_back(item);
  }
  root["tensors"] = json::array();
  for (const StoredTensor& tensor : tensors) root["tensors"].push_back(tensor_json(tensor));
  for (const TiedAlias& tie : ties) root["tensors"].push_back({{"name", tie.name}, {"tied_to", tie.tied_to}});
  root["totals"] = totals_json(*this);
  std::string out = root.dump();
  out.back() = ',';
  out += "\n";
  return out + fmt::format("\"crc32c\": \"{}\"}}\n", hex32(crc32c(std::as_bytes(std::span(out)))));
}

Manifest Manifest::parse(const std::string& text, const std::string& where) {
  core::require(text.size() <= kLargestText, ExitCode::no_checkpoint, "{}: {} bytes, at most {}", where, text.size(),
                kLargestText);
  summed_part(text, where);
  const json object = parse_json(text, where);
  const Fields root(object, where);
  core::require(root.text("format") == "trireme-checkpoint", ExitCode::no_checkpoint, "{}: format \"{}\"", where,
                core::escaped(root.text("format")));
  core::require(root.count("version") == 1, ExitCode::no_checkpoint, "{}: version {}, only 1 is known", where,
                root.count("version"));
  Manifest manifest{.meta = parse_meta(root, where)};
  parse_files(root, where, manifest);
  parse_tensors(root, where, manifest);
  core::require(root.at("totals") == totals_json(manifest), ExitCode::no_checkpoint, "{}: totals {} are not {}", where,
                root.at("totals").dump(), totals_json(manifest).dump());
  return manifest;
}

}  // namespace trireme::train
