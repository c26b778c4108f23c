#include <algorithm>
#include <ctime>

#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checksum.h"
#include "train/checkpoint/manifest_json.h"

namespace trireme::train {

using nlohmann::json;

namespace {

std::string hex32(std::uint32_t value) { return fmt::format("{:08x}", value); }

const char* dtype_name(core::DType dtype) {
  return dtype == core::DType::f64 ? "f64" : dtype == core::DType::bf16 ? "bf16" : "f32";
}

json file_json(const StoredFile& file) {
  json out{{"name", file.name}, {"bytes", file.bytes}, {"crc32c", hex32(file.crc32c)}};
  if (!file.sha256.empty()) out["sha256"] = file.sha256;
  return out;
}

json tensor_json(const StoredTensor& tensor) {
  json chunks = json::array();
  for (const StoredChunk& chunk : tensor.chunks)
    chunks.push_back({{"shard", chunk.shard},
                      {"offset", chunk.offset},
                      {"extent", chunk.extent},
                      {"at", chunk.at},
                      {"crc32c", hex32(chunk.crc32c)}});
  return {{"name", tensor.name},   {"state", tensor.state}, {"dtype", dtype_name(tensor.dtype)},
          {"shape", tensor.shape}, {"l2", tensor.l2},       {"fingerprint", fmt::format("{:016x}", tensor.fingerprint)},
          {"chunks", chunks}};
}

/// Tensors and aliases as one list, by name.
std::vector<json> tensor_list(const Manifest& manifest) {
  std::vector<json> out;
  for (const StoredTensor& tensor : manifest.tensors) out.push_back(tensor_json(tensor));
  for (const TiedAlias& tie : manifest.ties) out.push_back({{"name", tie.name}, {"tied_to", tie.tied_to}});
  std::stable_sort(out.begin(), out.end(), [](const json& a, const json& b) { return a["name"] < b["name"]; });
  return out;
}

/// Members of an object, one a line, in the order given.
class Members {
 public:
  void add(const char* key, const json& value) {
    begin(key);
    append_json(value, text_);
  }
  void add_lines(const char* key, const std::vector<json>& items) {
    begin(key);
    const char* before = "[\n";
    for (const json& item : items) {
      text_ += std::exchange(before, ",\n");
      append_json(item, text_);
    }
    text_ += items.empty() ? "[]" : "]";
  }
  std::string take() { return std::move(text_); }

 private:
  void begin(const char* key) { text_ += fmt::format("{}\"{}\": ", text_.empty() ? "{" : ",\n", key); }
  std::string text_;
};

json object_of(const json& value) { return value.is_null() ? json::object() : value; }

}  // namespace

std::uint64_t Manifest::bytes() const {
  std::uint64_t total = 0;
  for (const StoredFile& file : files) total += file.bytes;
  return total;
}

std::string Manifest::text() const {
  Members root;
  root.add("format", "trireme-checkpoint");
  root.add("version", 1);
  root.add("kind", meta.kind);
  root.add("run", {{"id", meta.run_id},
                   {"name", meta.run_name},
                   {"attempt", meta.attempt},
                   {"nonce", meta.nonce},
                   {"program", TRIREME_VERSION},
                   {"time", static_cast<std::int64_t>(std::time(nullptr))}});
  root.add("step", meta.step);
  root.add("updates", meta.updates);
  root.add("samples", meta.samples);
  root.add("tokens", meta.tokens);
  root.add("seed", meta.seed);
  root.add("data", object_of(meta.data));
  root.add("schedule", object_of(meta.schedule));
  root.add("optimizer", object_of(meta.optimizer));
  root.add("model", object_of(meta.model));
  root.add("config", meta.config_toml);
  root.add("guard", object_of(meta.guard));
  root.add("goodput", object_of(meta.goodput));
  root.add("layout", object_of(meta.layout));
  std::vector<json> items;
  for (const StoredFile& file : files) items.push_back(file_json(file));
  root.add_lines("files", items);
  root.add_lines("tensors", tensor_list(*this));
  std::size_t chunks = 0;
  for (const StoredTensor& tensor : tensors) chunks += tensor.chunks.size();
  root.add("totals", {{"tensors", tensors.size()}, {"chunks", chunks}, {"bytes", bytes()}});
  const std::string summed = root.take() + ",\n";
  return summed + fmt::format("\"crc32c\": \"{}\"}}\n", hex32(crc32c(std::as_bytes(std::span(summed)))));
}

}  // namespace trireme::train
