// Keys of the optimizer and its schedule.
#include "train/job_keys.hpp"

namespace shoal::train {
#define SHOAL_REF(member) [](Job& j) -> Ref { return &j.member; }

// In the order of docs/job.md.
std::vector<Key> optimizer_keys() {
  return {
      {.name = "optimizer.type",
       .ref = SHOAL_REF(optimizer.type),
       .doc = "adam decays in the gradient, adamw in the weights; muon is for hidden matrices, with adamw "
              "for the rest",
       .choices = {"adamw", "adam", "sgd", "lion", "lamb", "adafactor", "muon"}},
      {.name = "optimizer.lr", .ref = SHOAL_REF(schedule.lr), .doc = "peak learning rate", .min = 0},
      {.name = "optimizer.betas",
       .ref = [](Job& j) -> Ref {
         return Betas{&j.optimizer.beta1, &j.optimizer.beta2};
       },
       .doc = "decay of the two averages of adam, adamw, lamb and muon's adamw; lion's two factors",
       .min = 0,
       .max = 1,
       .below_max = true},
      {.name = "optimizer.eps",
       .ref = SHOAL_REF(optimizer.eps),
       .doc = "epsilon of adam, adamw, lamb",
       .min = 0,
       .above_min = true},
      {.name = "optimizer.momentum",
       .ref = SHOAL_REF(optimizer.momentum),
       .doc = "of sgd and muon",
       .min = 0,
       .max = 1,
       .below_max = true},
      {.name = "optimizer.nesterov", .ref = SHOAL_REF(optimizer.nesterov), .doc = "Nesterov momentum (SGD)"},
      {.name = "optimizer.weight_decay",
       .ref = SHOAL_REF(optimizer.weight_decay),
       .doc = "of matrices; norms and biases never decay",
       .min = 0},
      {.name = "optimizer.decay_embeddings",
       .ref = SHOAL_REF(optimizer.decay_embeddings),
       .doc = "embeddings decay too"},
      {.name = "optimizer.decay_rate",
       .ref = SHOAL_REF(optimizer.decay_rate),
       .doc = "adafactor: its averages decay by 1 - t^-decay_rate",
       .min = 0,
       .max = 1,
       .above_min = true},
      {.name = "optimizer.clip_threshold",
       .ref = SHOAL_REF(optimizer.clip_threshold),
       .doc = "adafactor: root mean square to which an update is clipped",
       .min = 0,
       .above_min = true},
      {.name = "optimizer.scale_parameter",
       .ref = SHOAL_REF(optimizer.scale_parameter),
       .doc = "adafactor: the rate is relative to a tensor's root mean square"},
      {.name = "optimizer.newton_schulz_steps",
       .ref = SHOAL_REF(optimizer.newton_schulz_steps),
       .doc = "muon: steps of its orthogonalisation",
       .min = 1,
       .max = 100},
      {.name = "optimizer.muon_scale",
       .ref = SHOAL_REF(optimizer.muon_scale),
       .doc = "muon: the factor of an update; match_rms_adamw: AdamW's rates and decay fit",
       .choices = {"match_rms_adamw", "original"}},
      {.name = "optimizer.groups",
       .ref = SHOAL_REF(optimizer.groups),
       .doc = "rules, of which the first that covers a tensor holds. Conditions: pattern (of the tensor's "
              "name, with * and ?), "
              "kinds (of matrix, embedding, norm, bias, head), dims (1 or 2), tied. Settings: lr_scale, "
              "weight_decay, "
              "betas, eps, momentum, muon (false: left to adamw). name: for messages"},
      {.name = "optimizer.schedule",
       .ref = SHOAL_REF(schedule.type),
       .doc =
           "learning rate after warm-up, down to min_lr at train.steps; wsd: constant, then a linear decay",
       .choices = {"cosine", "linear", "wsd", "constant"}},
      {.name = "optimizer.warmup",
       .ref = SHOAL_REF(schedule.warmup),
       .doc = "updates of linear warm-up",
       .min = 0},
      {.name = "optimizer.min_lr", .ref = SHOAL_REF(schedule.min_lr), .doc = "final learning rate", .min = 0},
      {.name = "optimizer.decay_fraction",
       .ref = SHOAL_REF(schedule.decay_fraction),
       .doc = "wsd: the share of the steps, at the end, in which it decays",
       .min = 0,
       .max = 1},
  };
}

#undef SHOAL_REF

}  // namespace shoal::train
