// Trains a small GPT on a text file, data parallel: mpirun -n 2 ./train TEXT [key=value ...]
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "shoal/train/program.hpp"
#include "shoal/train/trainer.hpp"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: train TEXT [key=value ...]\n");
    return 2;
  }
  // Joins the world; what goes wrong is shown once, by the rank that failed, and makes the exit status.
  return shoal::train::run_program("train", [&](const std::shared_ptr<shoal::Communicator>& world) {
    std::vector<std::string> keys = {"model.layers=2",
                                     "model.heads=4",
                                     "model.hidden=64",
                                     "model.seq=64",
                                     "train.steps=30",
                                     "train.global_batch=12",
                                     "train.threads=1",
                                     "optimizer.lr=3e-3",
                                     "optimizer.warmup=5",
                                     "run.name=cpp_training",
                                     "data.train=\"" + std::string(argv[1]) + "\""};
    keys.insert(keys.end(), argv + 2, argv + argc);

    shoal::train::TrainerOptions options;
    options.write_records = false;
    shoal::train::Trainer trainer(shoal::train::load_job("", keys), world, options);
    for (std::int64_t i = 0; i < trainer.job().train.steps; ++i) {
      const auto metrics = trainer.step();
      if (world->rank() == 0 && metrics.step % 10 == 0)
        std::printf("step %lld  loss %.4f  gradient norm %.4f\n", static_cast<long long>(metrics.step),
                    metrics.loss, metrics.grad_norm);
    }
    const double validation = trainer.evaluate();
    if (world->rank() == 0)
      std::printf("%d rank%s, validation loss %.4f\n", world->size(), world->size() == 1 ? "" : "s",
                  validation);
  });
}
