// train.check_replicas: what ranks hold alike is compared, and a difference names tensor and ranks.
#include <gtest/gtest.h>

#include <functional>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"
#include "shoal/train/trainer.hpp"
#include "support/expect_message.hpp"
#include "support/jobs.hpp"

namespace shoal::train {
namespace {

// One step, then `damage` on every rank, then the rest of the run.
void run_damaged(int ranks, const test::TempDir& dir, const std::vector<std::string>& items,
                 const std::function<void(Trainer&, int)>& damage) {
  run_local(ranks, [&](const std::shared_ptr<Communicator>& comm) {
    Trainer trainer(test::tiny_job(dir, items), comm);
    trainer.step();
    damage(trainer, comm->rank());
    trainer.run();
  });
}

// The last element of a parameter, without its padding.
void flip(Trainer& trainer, const std::string& name) {
  for (nn::Parameter* p : trainer.engine().flat().parameters)
    if (p->name == name) {
      auto* bytes = static_cast<unsigned char*>(p->value.select(p->pieces() - 1).data());
      bytes[p->shape.tail().numel() * size_of(p->value.dtype()) - 1] ^= 1u;
      return;
    }
  FAIL() << "no parameter " << name;
}

TEST(Replicas, OfAHealthyRunAreTheSame) {
  test::TempDir dir;
  for (const char* zero : {"parallel.zero=0", "parallel.zero=1"})
    EXPECT_NO_THROW(
        run_damaged(3, dir, {zero, "train.check_replicas=1", "train.global_batch=12"}, [](auto&, int) {}));
}

TEST(Replicas, OneFlippedBitIsFoundAndNamed) {
  test::TempDir dir;
  const auto damaged = [&](int ranks, int rank, const std::string& zero) {
    run_damaged(ranks, dir, {zero, "train.check_replicas=2", "train.global_batch=12"},
                [&](Trainer& trainer, int r) {
                  if (r == rank) flip(trainer, "ln_f.bias");
                });
  };
  EXPECT_MESSAGE(damaged(3, 1, "parallel.zero=0"), TrainError,
                 "step 2: replicas differ: the value of ln_f.bias: rank 1 has other bits than ranks 0, 2");
  EXPECT_MESSAGE(damaged(2, 0, "parallel.zero=0"), TrainError,
                 "step 2: replicas differ: the value of ln_f.bias: rank 1 has other bits than rank 0");
}

TEST(Replicas, AreComparedAtTheEndToo) {
  test::TempDir dir;
  EXPECT_MESSAGE(run_damaged(2, dir, {"train.check_replicas=1000", "train.steps=3"},
                             [](Trainer& trainer, int rank) {
                               if (rank == 1) flip(trainer, "ln_f.weight");
                             }),
                 TrainError, "step 3: replicas differ: the value of ln_f.weight");
}

}  // namespace
}  // namespace shoal::train
