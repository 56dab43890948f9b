"""What attention is, for tests."""

import torch


def inputs(batch, queries, keys, heads, key_heads, dim, dtype=torch.float32, device="cpu"):
    q = torch.randn(batch, queries, heads, dim, device=device).to(dtype)
    k, v = (torch.randn(batch, keys, key_heads, dim, device=device).to(dtype) for _ in range(2))
    return q, k, v


def reference(q, k, v, slopes=None, scale=None, causal=False, left=-1, right=-1, softcap=0.0):  # noqa: PLR0913, PLR0917
    """The definition, in float64, with all scores at once."""
    heads, group = q.shape[2], q.shape[2] // max(1, k.shape[2])
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    logits = q @ k.transpose(2, 3) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap > 0:
        logits = softcap * torch.tanh(logits / softcap)
    position = torch.arange(q.shape[2], device=q.device)[:, None] + k.shape[2] - q.shape[2]
    distance = torch.arange(k.shape[2], device=q.device) - position
    if slopes is not None:
        logits = logits - slopes.double().expand(q.shape[0], heads)[:, :, None, None] * distance.abs()
    hidden = torch.zeros_like(distance, dtype=torch.bool)
    if causal:
        right = 0
    if right >= 0:
        hidden |= distance > right
    if left >= 0:
        hidden |= -distance > left
    logits = logits.masked_fill(hidden, -torch.inf)
    empty = hidden.all(dim=1)  # Of no key, all are hidden.
    lse = torch.logsumexp(logits, dim=-1).masked_fill(empty, torch.inf)
    out = torch.softmax(logits, dim=-1).masked_fill(empty[:, None], 0.0) @ v
    return out.transpose(1, 2), lse
