#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/fields.h"

namespace trireme::parallel {

/// Section [parallel]: the layout. Data parallelism is what is left of the ranks.
struct ParallelConfig {
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t context = 1;
  std::int64_t virtual_stages = 1;
  std::string schedule = "1f1b";
  bool sequence_parallel = true;
  std::int64_t zero_stage = 1;
  std::int64_t zero_shard_degree = 0;
  bool tensor_across_nodes = false;
  std::string recompute = "none";  ///< none, selective, full
  std::int64_t recompute_layers = -1;
  std::vector<std::int64_t> stage_layers;
  std::int64_t bucket_bytes = std::int64_t{32} << 20;
  bool overlap = true;

  void fields(core::FieldVisitor& visit) {
    static constexpr std::array<std::string_view, 3> kSchedules{"gpipe", "1f1b", "zb-h1"};
    static constexpr std::array<std::string_view, 3> kRecompute{"none", "selective", "full"};
    constexpr core::IntegerRange degree{1, 1 << 20};
    visit.integer("tensor", tensor, degree, "tensor parallel ranks");
    visit.integer("pipeline", pipeline, degree, "pipeline stages");
    visit.integer("context", context, degree, "context parallel ranks");
    visit.integer("virtual_stages", virtual_stages, degree, "chunks of layers a pipeline rank");
    visit.choice("schedule", schedule, kSchedules, "pipeline schedule");
    visit.flag("sequence_parallel", sequence_parallel, "split norms and residuals over tensor ranks");
    visit.integer("zero_stage", zero_stage, {0, 3},
                  "what data parallel ranks share: 1 optimizer, 2 gradients, 3 weights");
    visit.integer("zero_shard_degree", zero_shard_degree, {0, 1 << 20}, "ranks that share; 0: all");
    visit.flag("tensor_across_nodes", tensor_across_nodes, "allow a tensor group on two nodes");
    visit.choice("recompute", recompute, kRecompute, "activations computed again in the backward pass");
    visit.integer("recompute_layers", recompute_layers, {-1, 1 << 20}, "the first so many layers recompute; -1: all");
    visit.integers("stage_layers", stage_layers, {0, 1 << 20}, "layers of each stage; empty: even");
    visit.integer("bucket_bytes", bucket_bytes, {1, std::int64_t{1} << 40}, "gradients reduced at a time");
    visit.flag("overlap", overlap, "communicate while computing");
  }
};

}  // namespace trireme::parallel
