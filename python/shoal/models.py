"""GPT and Llama models as objects, for scripts that train without a Trainer, and for looking inside.

    model = shoal.models.Model("gpt", layers=2, hidden=64, heads=4, vocab=256, seq=64)
    loss = model.loss_and_gradients(tokens, targets)    # int32 arrays [samples, seq]; a target of -1 does not count
    model.gradients["blocks.0..."]                      # arrays by logical name, always copies"""
from ._core import Model

__all__ = ["Model"]
