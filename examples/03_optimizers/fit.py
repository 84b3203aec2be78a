"""An optimizer and the gradient scaler over arrays of one's own: a line is fitted in float16."""
import numpy as np
import shoal

rng = np.random.default_rng(1)
x = rng.standard_normal((256, 8)).astype(np.float32)
y = x @ np.arange(8, dtype=np.float32) + 3

weights = {"w": np.zeros(8, np.float16), "b": np.zeros(1, np.float16)}  # updated in place, with FP32 masters beside
adamw = shoal.optim.AdamW(weights, lr=0.05, weight_decay=0.0)
scaler = shoal.optim.GradScaler(init_scale=2.0**24)

skipped = 0
for step in range(400):
    w, b = (v.astype(np.float32) for v in weights.values())
    error = x @ w + b - y
    with np.errstate(all="ignore"):  # an overflow is what the scaler is for
        scaled = (scaler.scale(2 * error) / len(error)).astype(np.float16)
        gradients = {"w": x.T @ scaled.astype(np.float32), "b": np.array([scaled.sum(dtype=np.float32)])}
    result = adamw.step(gradients, loss_scale=scaler.get_scale(), max_norm=10.0)
    scaler.update(result.skipped)
    skipped += result.skipped

print(f"{adamw.applied} updates, {skipped} skipped, loss scale {scaler.get_scale():.0f}")
print("w", np.round(weights["w"].astype(float), 1), "b", np.round(weights["b"].astype(float), 1))
