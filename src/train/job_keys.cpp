#include "train/job_keys.hpp"

namespace shoal::train {
namespace {

constexpr double any_seed = 9223372036854775807.0;  // TOML's integers are signed

}  // namespace

#define SHOAL_REF(member) [](Job& j) -> Ref { return &j.member; }

// Models, data, ranks.
static std::vector<Key> input_keys() {
  return {
      {.name = "model.type",
       .ref = SHOAL_REF(model.type),
       .doc = "GPT-2's definition, or Llama's (RMS norm, rotary positions, SwiGLU, grouped-query attention)",
       .choices = {"gpt", "llama"}},
      {.name = "model.layers", .ref = SHOAL_REF(model.layers), .doc = "transformer blocks", .min = 1},
      {.name = "model.hidden", .ref = SHOAL_REF(model.hidden), .doc = "width; divisible by heads", .min = 1},
      {.name = "model.heads", .ref = SHOAL_REF(model.heads), .doc = "attention heads", .min = 1},
      {.name = "model.kv_heads",
       .ref = SHOAL_REF(model.kv_heads),
       .doc = "key/value heads (Llama); 0: as many as heads",
       .min = 0},
      {.name = "model.ffn_hidden",
       .ref = SHOAL_REF(model.ffn_hidden),
       .doc = "feed-forward width; 0: 4 hidden for GPT, 8/3 hidden rounded up to a multiple of 32 for Llama",
       .min = 0},
      {.name = "model.vocab",
       .ref = SHOAL_REF(model.vocab),
       .doc = "token ids are below this; 256 for text read as bytes",
       .min = 1},
      {.name = "model.seq", .ref = SHOAL_REF(model.seq), .doc = "tokens a sample", .min = 1},
      {.name = "model.dropout",
       .ref = SHOAL_REF(model.dropout),
       .doc = "on embeddings, attention probabilities and the outputs of attention and feed-forward",
       .min = 0,
       .max = 1,
       .below_max = true},
      {.name = "model.tie_embeddings",
       .ref = SHOAL_REF(model.tie_embeddings),
       .doc = "the head is the embedding; by default true for GPT and false for Llama"},
      {.name = "model.norm_eps",
       .ref = SHOAL_REF(model.norm_eps),
       .doc = "added to the variance in norms",
       .min = 0,
       .above_min = true},
      {.name = "model.rope_theta",
       .ref = SHOAL_REF(model.rope_theta),
       .doc = "base of the rotary angles (Llama)",
       .min = 0,
       .above_min = true},
      {.name = "data.train",
       .ref = SHOAL_REF(data.train),
       .doc = "training data: a packed token file, or text (bytes as tokens)"},
      {.name = "data.val",
       .ref = SHOAL_REF(data.val),
       .doc = "validation data, likewise; empty: cut from train"},
      {.name = "data.split",
       .ref = SHOAL_REF(data.split),
       .doc = "the training share of train where val is empty; 1: no validation",
       .min = 0,
       .max = 1,
       .above_min = true},
      {.name = "data.verify",
       .ref = SHOAL_REF(data.verify),
       .doc = "reading token files once at the start to compare their checksum; auto: those of at most 1 GiB",
       .choices = {"auto", "always", "never"}},
      {.name = "data.seed",
       .ref = SHOAL_REF(data.seed),
       .doc = "of the order of the samples",
       .min = 0,
       .max = any_seed},
      {.name = "parallel.data",
       .ref = SHOAL_REF(parallel.data),
       .doc = "data-parallel ranks; 0: inferred from the rank count (with comm.backend = \"local\": threads "
              "to start)",
       .min = 0},
      {.name = "parallel.tensor",
       .ref = SHOAL_REF(parallel.tensor),
       .doc = "ranks that share each layer",
       .min = 1,
       .built = {"1"}},
      {.name = "parallel.pipeline",
       .ref = SHOAL_REF(parallel.pipeline),
       .doc = "pipeline stages",
       .min = 1,
       .built = {"1"}},
      {.name = "parallel.sequence",
       .ref = SHOAL_REF(parallel.sequence),
       .doc = "sequence parallelism beside tensor parallelism",
       .built = {"false"}},
      {.name = "parallel.zero",
       .ref = SHOAL_REF(parallel.zero),
       .doc = "what is sharded over data ranks: 0 nothing, 1 optimizer state, 2 also gradients, 3 also "
              "parameters",
       .min = 0,
       .max = 3,
       .built = {"0", "1"}},
      {.name = "parallel.virtual_stages",
       .ref = SHOAL_REF(parallel.virtual_stages),
       .doc = "pipeline stages a rank",
       .min = 1,
       .built = {"1"}},
      {.name = "parallel.schedule",
       .ref = SHOAL_REF(parallel.schedule),
       .doc = "pipeline schedule",
       .choices = {"gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_h2", "zb_v"},
       .or_path = "of a CSV file",
       .built = {"\"1f1b\""}},
      {.name = "comm.backend",
       .ref = SHOAL_REF(comm.backend),
       .doc = "how ranks talk; auto: local where one launcher started all ranks on one host, local on each "
              "of several hosts and mpi among them, self where nothing launched us; local: threads of one "
              "process, or processes of one host "
              "over shared memory",
       .choices = {"auto", "self", "local", "mpi", "nccl"},
       .built = {"\"auto\"", "\"self\"", "\"local\"", "\"mpi\""}},
      {.name = "comm.timeout",
       .ref = SHOAL_REF(comm.timeout),
       .doc = "seconds after which a wait for other ranks is an error (SHOAL_TIMEOUT overrides)",
       .min = 0,
       .above_min = true},
      {.name = "comm.shared_buffers",
       .ref = SHOAL_REF(comm.shared_buffers),
       .doc = "processes of one host keep gradients and parameters in shared memory; false where /dev/shm "
              "has no "
              "room for them (SHOAL_SHARED_BUFFERS overrides)"},
  };
}

#undef SHOAL_REF

const std::vector<Key>& job_keys() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> all = input_keys();
    for (const std::vector<Key>& more : {training_keys(), optimizer_keys(), run_keys()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return keys;
}

}  // namespace shoal::train
