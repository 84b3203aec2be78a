#include "shoal/train/job.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "shoal/core/error.hpp"
#include "support/expect_message.hpp"
#include "support/temp_dir.hpp"

namespace shoal::train {
namespace {

using Items = std::vector<std::string>;

Job job_of(const Items& items) { return load_job("", items); }

TEST(Job, FileThenOverridesLaterOnesWinning) {
  test::TempDir dir;
  const std::string file =
      dir.write("job.toml",
                "[model]\ntype = \"llama\"\nlayers = 2\nkv_heads = 2\n[data]\ntrain = \"text.txt\"\n"
                "[optimizer]\nbetas = [0.9, 0.99]\nlr = 3e-4\n[train]\nsteps = 10\n");
  const Job job =
      load_job(file, {"train.steps=20", "optimizer.lr=1", "train.steps = 30", "run.name=first-try",
                      "data.val='a b'", "parallel.zero=1", "reproducible.on=true"});
  EXPECT_EQ(job.model.type, models::ModelType::llama);
  EXPECT_EQ(job.model.layers, 2);
  EXPECT_EQ(job.data.train, "text.txt");
  EXPECT_EQ(job.data.val, "a b");
  EXPECT_EQ(job.optimizer.beta2, 0.99);
  EXPECT_EQ(job.schedule.lr, 1.0);  // an integer is a number
  EXPECT_EQ(job.train.steps, 30);
  EXPECT_EQ(job.run.name, "first-try");
  EXPECT_EQ(job.parallel.zero, 1);
  EXPECT_TRUE(job.reproducible.on);
}

TEST(Job, BareWordsAreStrings) {
  EXPECT_EQ(job_of({"data.train=/data/some text.txt"}).data.train, "/data/some text.txt");
  EXPECT_EQ(job_of({"data.train=a=b"}).data.train, "a=b");
  EXPECT_EQ(job_of({"data.train=\"quoted\""}).data.train, "quoted");
  EXPECT_EQ(job_of({"run.dir="}).run.dir, "");
  EXPECT_EQ(job_of({"data.train=a\ntrain.steps = 5"}).train.steps, Job().train.steps);  // one key each
}

TEST(Job, LlamaIsUntiedUnlessAsked) {
  EXPECT_TRUE(job_of({}).model.tie_embeddings);
  EXPECT_FALSE(job_of({"model.type=llama"}).model.tie_embeddings);
  EXPECT_TRUE(job_of({"model.tie_embeddings=true", "model.type=llama"}).model.tie_embeddings);
}

TEST(Job, ProductsThatDoNotFitAreRefused) {
  constexpr auto most = "9223372036854775807";
  EXPECT_MESSAGE(
      job_of({"parallel.pipeline=4294967296", "parallel.virtual_stages=4294967296"}), ConfigError,
      "parallel.pipeline = 4294967296 x parallel.virtual_stages = 4294967296 does not fit 64 bits");
  const auto one_rank = [](const Items& items) { return resolve(job_of(items), 1); };
  EXPECT_MESSAGE(one_rank({fmt::format("train.global_batch={}", most)}), ConfigError,
                 fmt::format("train.global_batch = {} x model.seq = ", most));
  EXPECT_MESSAGE(
      one_rank({"train.global_batch=4", fmt::format("train.micro_batch={}", most)}), ConfigError,
      fmt::format("train.micro_batch = {} = {}; microbatches that would do: 1, 2 or 4", most, most));
  EXPECT_MESSAGE(resolve(job_of({"train.global_batch=4", fmt::format("train.micro_batch={}", most)}), 2),
                 ConfigError,
                 fmt::format("train.micro_batch = {}; microbatches that would do: 1 or 2", most));
  EXPECT_MESSAGE(
      one_rank({"reproducible.on=true", "train.global_batch=4", fmt::format("reproducible.data={}", most)}),
      ConfigError, fmt::format("global batches that would do: {}; shard counts", most));
}

TEST(Job, UnknownKeysNameTheNearest) {
  EXPECT_MESSAGE(job_of({"train.stepz=100"}), ConfigError,
                 "unknown key train.stepz (value 100): the nearest known key is train.steps");
  EXPECT_MESSAGE(job_of({"train.lr=0.1"}), ConfigError, "the nearest known key is optimizer.lr");
  EXPECT_MESSAGE(job_of({"model.n_layers=2"}), ConfigError, "the nearest known key is model.layers");
  EXPECT_MESSAGE(job_of({"steps=2"}), ConfigError, "the nearest known key is train.steps");
  test::TempDir dir;
  const std::string file = dir.write("job.toml", "[train]\nsteps = 1\n[optimiser]\nlr = 0.5\n");
  EXPECT_MESSAGE(load_job(file, {}), ConfigError, "job.toml:4: unknown key optimiser.lr (value 0.5)");
  EXPECT_MESSAGE(
      load_job(dir.write("b.toml", "[optimiser]\n"), {}), ConfigError,
      "b.toml:1: unknown section [optimiser]: the nearest is optimizer, of model, data, parallel, comm, "
      "train, precision, scaler, outliers, ema, optimizer, reproducible, checkpoint, run");
  EXPECT_MESSAGE(load_job(dir.write("c.toml", "train = 3\n"), {}), ConfigError,
                 "unknown key train (value 3): it is a section, with the keys steps, global_batch, ");
}

TEST(Job, UnknownSectionsNameTheSectionsThereAre) {
  EXPECT_MESSAGE(job_of({"modle.layers=2"}), ConfigError,
                 "unknown key modle.layers (value 2): there is no section modle, only model, data, parallel, "
                 "comm, train, precision, scaler, outliers, ema, optimizer, reproducible, checkpoint, run: "
                 "the nearest known key is model.layers");
  EXPECT_MESSAGE(job_of({"optimiser.betas=[0.9, 0.1]"}), ConfigError,
                 "unknown key optimiser.betas (value [0.9, 0.1]): there is no section optimiser, only ");
}

TEST(Job, FloatsAreShortWhereverTheyAreShown) {
  EXPECT_MESSAGE(job_of({"optimizer.betas=[0.9, 0.1, 0.3]"}), ConfigError,
                 "optimizer.betas = [0.9, 0.1, 0.3]: expected two numbers");
  EXPECT_NE(to_toml(job_of({"optimizer.betas=[0.9, 0.98]"})).find("betas = [0.9, 0.98]\n"),
            std::string::npos);
}

TEST(Job, EvaluationsThatCannotBeAreRefused) {
  EXPECT_MESSAGE(job_of({"data.split=1", "train.eval_every=5"}), ConfigError,
                 "train.eval_every = 5 asks for evaluations, but data.split = 1.0 leaves nothing");
  EXPECT_NO_THROW(job_of({"data.split=1"}));
  EXPECT_NO_THROW(job_of({"data.split=1", "train.eval_every=5", "data.val=val.txt"}));
}

TEST(Job, WarnsOfWhatWillNotBeAsAsked) {
  const auto warned = [](const Items& items) { return warnings(resolve(job_of(items), 1)); };
  EXPECT_TRUE(warned({}).empty());
  EXPECT_TRUE(warned({"optimizer.warmup=20", "train.steps=20"}).empty());
  const auto warmup = warned({"optimizer.warmup=30", "train.steps=20", "optimizer.lr=3"});
  ASSERT_EQ(warmup.size(), 1u);
  EXPECT_EQ(warmup[0],
            "optimizer.warmup = 30 is longer than train.steps = 20: the learning rate is still rising at the "
            "end, to 2 of optimizer.lr = 3");
  const auto logical = warned({"reproducible.data=2", "train.steps=0", "optimizer.warmup=30"});
  ASSERT_EQ(logical.size(), 1u);
  EXPECT_NE(logical[0].find("are recorded but not used"), std::string::npos);
}

TEST(Job, WrongTypesNameKeyValueAndWhatIsExpected) {
  EXPECT_MESSAGE(job_of({"train.steps=many"}), ConfigError,
                 "train.steps = 'many': expected an integer, at least 0");
  EXPECT_MESSAGE(job_of({"train.steps=1.5"}), ConfigError, "train.steps = 1.5: expected an integer");
  EXPECT_MESSAGE(job_of({"train.steps=true"}), ConfigError, "train.steps = true: expected an integer");
  EXPECT_MESSAGE(job_of({"reproducible.on=1"}), ConfigError, "reproducible.on = 1: expected true or false");
  EXPECT_MESSAGE(job_of({"run.name=5"}), ConfigError, "run.name = 5: expected a string");
  EXPECT_MESSAGE(job_of({"optimizer.betas=0.9"}), ConfigError,
                 "optimizer.betas = 0.9: expected two numbers in brackets, each at least 0 and below 1");
  EXPECT_MESSAGE(job_of({"optimizer.betas=[0.9, 'x']"}), ConfigError, "expected two numbers");
  EXPECT_MESSAGE(job_of({"optimizer.lr=inf"}), ConfigError, "optimizer.lr = inf: expected a number");
  EXPECT_MESSAGE(job_of({"train.threads=99999999999"}), ConfigError,
                 "train.threads = 99999999999: expected an integer");
  EXPECT_MESSAGE(job_of({"model.type=bert"}), ConfigError,
                 "model.type = 'bert': expected one of \"gpt\", \"llama\"");
}

TEST(Job, ImpossibleValuesAreRefused) {
  EXPECT_MESSAGE(job_of({"train.global_batch=0"}), ConfigError,
                 "train.global_batch = 0: expected an integer, at least 1");
  EXPECT_MESSAGE(job_of({"data.split=0"}), ConfigError,
                 "data.split = 0.0: expected a number, above 0 and at most 1");
  EXPECT_MESSAGE(job_of({"model.dropout=1"}), ConfigError,
                 "model.dropout = 1.0: expected a number, at least 0 and below 1");
  EXPECT_MESSAGE(job_of({"optimizer.betas=[0.9, 1]"}), ConfigError,
                 "optimizer.betas = [0.9, 1.0]: expected two numbers");
  EXPECT_MESSAGE(job_of({"train.seed=-1"}), ConfigError, "train.seed = -1: expected an integer, at least 0");
  EXPECT_MESSAGE(job_of({"parallel.zero=4"}), ConfigError,
                 "parallel.zero = 4: expected an integer, at least 0 and at most 3");
  EXPECT_MESSAGE(job_of({"optimizer.schedule=cos"}), ConfigError, "expected one of \"cosine\", \"linear\"");
  EXPECT_MESSAGE(job_of({"comm.timeout=0"}), ConfigError, "comm.timeout = 0.0: expected a number, above 0");
}

TEST(Job, WhatIsNotAJobFile) {
  test::TempDir dir;
  EXPECT_MESSAGE(load_job(dir / "none.toml", {}), ConfigError, "none.toml: No such file or directory");
  EXPECT_MESSAGE(load_job(dir.write("bad.toml", "[train]\nsteps = = 3\n"), {}), ConfigError,
                 "bad.toml:2:9: not TOML");
  EXPECT_MESSAGE(job_of({"train.steps"}), ConfigError, "\"train.steps\" is neither a job file nor key=value");
  EXPECT_MESSAGE(job_of({"optimizer.betas=[0.9"}), ConfigError, "optimizer.betas = [0.9: not TOML");
}

TEST(Job, ListedKeysThatAreNotBuiltAreRefusedAsSuch) {
  for (const auto& [item, text] : std::vector<std::pair<std::string, std::string>>{
           {"parallel.tensor=2", "parallel.tensor = 2 is not built yet; this release has 1"},
           {"parallel.pipeline=2", "parallel.pipeline = 2 is not built yet"},
           {"parallel.virtual_stages=2", "parallel.virtual_stages = 2 is not built yet"},
           {"parallel.sequence=true", "parallel.sequence = true is not built yet"},
           {"parallel.zero=2", "parallel.zero = 2 is not built yet; this release has 0, 1"},
           {"parallel.schedule=gpipe", "parallel.schedule = \"gpipe\" is not built yet"},
           {"parallel.schedule=mine.csv", "parallel.schedule = \"mine.csv\" is not built yet"},
           {"checkpoint.every=10", "checkpoint.every = 10 is not built yet"},
           {"checkpoint.resume=runs/a/checkpoints/5", "is not built yet"},
           {"train.recompute=full", "train.recompute = \"full\" is not built yet"},
           {"precision.grad_accum_dtype=bf16", "precision.grad_accum_dtype = \"bf16\" is not built yet"},
           {"train.device=cuda", "train.device = \"cuda\" is not built yet"},
           {"comm.backend=nccl", "comm.backend = \"nccl\" is not built yet"}})
    EXPECT_MESSAGE(job_of({item}), ConfigError, text);
}

TEST(Job, WhatCannotDivideIsNamedBeforeWhatIsNotBuilt) {
  EXPECT_MESSAGE(job_of({"parallel.tensor=3", "model.heads=4"}), ConfigError,
                 "parallel.tensor = 3: 4 heads do not divide by 3; degrees that would do: 1, 2 or 4");
  EXPECT_MESSAGE(job_of({"parallel.pipeline=3", "model.layers=4"}), ConfigError,
                 "4 layers do not divide by 3 stages; counts that would do: 1, 2 or 4");
}

TEST(Job, ResolveFillsWhatIsInferred) {
  const Job job = resolve(job_of({"train.global_batch=12", "train.steps=50", "run.name=x"}), 3);
  EXPECT_EQ(job.parallel.data, 3);
  EXPECT_EQ(job.train.micro_batch, 4);
  EXPECT_EQ(job.run.dir, "runs/x");
  EXPECT_EQ(job.schedule.steps, 50);
  EXPECT_EQ(job.train.device, "cpu");
  const Job logical = resolve(job_of({"train.global_batch=24", "reproducible.on=true", "reproducible.data=12",
                                      "reproducible.tensor=2"}),
                              3);
  EXPECT_EQ(logical.train.micro_batch, 2);
  EXPECT_EQ(logical.model.tensor, 2);
  EXPECT_EQ(resolve(job_of({"reproducible.tensor=2"}), 1).model.tensor, 1);  // recorded, not used
}

TEST(Job, PrecisionPresetsAndWhatOverridesThem) {
  const auto types = [](const std::vector<std::string>& items) {
    const Types t = types_of(resolve(job_of(items), 1));
    return std::vector<DType>{t.param, t.compute, t.reduce};
  };
  using V = std::vector<DType>;
  EXPECT_EQ(types({}), (V{DType::f32, DType::f32, DType::f32}));
  EXPECT_EQ(types({"train.precision=bf16"}), (V{DType::bf16, DType::bf16, DType::f32}));
  EXPECT_EQ(types({"train.precision=fp16"}), (V{DType::f16, DType::f16, DType::f32}));
  EXPECT_EQ(types({"train.precision=bf16", "precision.param_dtype=fp32", "precision.reduce_dtype=bf16"}),
            (V{DType::f32, DType::bf16, DType::bf16}));
  EXPECT_EQ(resolve(job_of({"train.precision=bf16"}), 1).precision.grad_accum_dtype, "fp32");
  EXPECT_MESSAGE(job_of({"train.precision=fp8"}), ConfigError,
                 "train.precision = \"fp8\": expected one of \"fp32\", \"bf16\", \"fp16\"");
  EXPECT_MESSAGE(resolve(job_of({"train.precision=bf16", "precision.param_dtype=fp16"}), 1), ConfigError,
                 "precision.param_dtype = \"fp16\" with precision.compute_dtype = \"bf16\"");
  EXPECT_MESSAGE(resolve(job_of({"reproducible.on=true", "precision.reduce_dtype=bf16"}), 1), ConfigError,
                 "precision.reduce_dtype = \"bf16\" with reproducible.on = true");
}

TEST(Job, ResolveNamesAllFactorsAndWhatWouldDo) {
  EXPECT_MESSAGE(resolve(job_of({"train.global_batch=8"}), 3), ConfigError,
                 "train.global_batch = 8 does not divide by 3 data-parallel ranks; global batches that would "
                 "do: 6 or 9; "
                 "shard counts that would do: 1, 2, 4 or 8");
  EXPECT_MESSAGE(
      resolve(job_of({"train.global_batch=12", "train.micro_batch=4"}), 2), ConfigError,
      "train.global_batch = 12 does not divide by 2 data-parallel ranks x train.micro_batch = 4 = 8; "
      "microbatches that would do: 1, 2, 3 or 6");
  EXPECT_MESSAGE(
      resolve(job_of({"parallel.data=4"}), 2), ConfigError,
      "parallel.data = 4 x parallel.tensor = 1 x parallel.pipeline = 1 needs 4 ranks, and there are 2");
  EXPECT_MESSAGE(
      resolve(job_of({"reproducible.on=true", "reproducible.data=12", "train.global_batch=12"}), 5),
      ConfigError,
      "reproducible.data = 12 does not divide by 5 data-parallel ranks: set it to a multiple of 5 that "
      "divides the "
      "global batch (it is part of the job: the bits are the same on every rank count that divides it), or "
      "use a rank "
      "count that divides 12: 1, 2, 3, 4, 6 or 12");
  EXPECT_MESSAGE(resolve(job_of({"reproducible.on=true", "reproducible.data=12", "train.global_batch=8"}), 1),
                 ConfigError,
                 "train.global_batch = 8 does not divide by reproducible.data = 12; global batches that "
                 "would do: 12 or 24");
  EXPECT_MESSAGE(resolve(job_of({"reproducible.on=true", "reproducible.tensor=4", "model.seq=33",
                                 "train.global_batch=2", "model.hidden=64"}),
                         1),
                 ConfigError,
                 "train.micro_batch = 2 x model.seq = 33 = 66 tokens do not divide by 4 tensor pieces");
  EXPECT_MESSAGE(resolve(job_of({"optimizer.min_lr=1"}), 1), ConfigError,
                 "optimizer.min_lr = 1 is above optimizer.lr");
  EXPECT_MESSAGE(resolve(job_of({"model.hidden=130"}), 1), ConfigError, "130");
}

TEST(Job, TomlReadsBackToTheSameJob) {
  test::TempDir dir;
  const Job job =
      resolve(job_of({"model.type=llama", "optimizer.lr=0.1", "optimizer.eps=1e-8", "train.global_batch=12",
                      "data.train=a \\ \"b\"", "optimizer.betas=[0.9, 0.95]", "parallel.zero=1",
                      "train.seed=9223372036854775807", "reproducible.on=true", "reproducible.data=6"}),
              2);
  const std::string text = to_toml(job);
  const Job again = load_job(dir.write("job.toml", text), {});
  EXPECT_EQ(to_toml(again), text);
  EXPECT_EQ(again.data.train, "a \\ \"b\"");
  EXPECT_EQ(again.optimizer.beta2, 0.95);
  EXPECT_EQ(again.train.seed, 9223372036854775807u);
  EXPECT_EQ(again.schedule.lr, 0.1);
  EXPECT_FALSE(again.model.tie_embeddings);
  EXPECT_EQ(to_toml(resolve(again, 2)), text);
}

TEST(Job, DocumentationIsTheKeyList) {
  std::ifstream in(SHOAL_SOURCE_DIR "/docs/job.md");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  EXPECT_TRUE(page == job_reference())
      << "docs/job.md is out of date; write it anew: shoal train --keys > docs/job.md";
}

}  // namespace
}  // namespace shoal::train
