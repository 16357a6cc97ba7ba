"""Gradients of losses with respect to logits [B, C], by hand and to the bit what autograd gives.

They keep autograd's operations and their order; numbers that autograd holds in single precision are
rounded to it here too.
"""

from __future__ import annotations

import numpy as np
import torch

LEAST = 1e-12  # of a class's mean probability, in the prior regulariser


def cross_entropy_gradient(
    log_p: torch.Tensor, labels: torch.Tensor, weight: float = 1.0
) -> torch.Tensor:
    """Of `weight` times the mean cross-entropy, from log-probabilities [B, C] and labels [B]."""
    each = np.float32(weight) / np.float32(len(log_p))
    upstream = torch.zeros_like(log_p).scatter_(1, labels[:, None], -float(each))
    return torch._log_softmax_backward_data(upstream, log_p, 1, log_p.dtype)


def prior_gradient(logits: torch.Tensor, weight: float) -> torch.Tensor:
    """Of `weight` times the prior regulariser (`prior_loss`)."""
    batch, classes = logits.shape
    softmax = logits.softmax(1)
    mean = softmax.mean(0)
    each = np.float32(weight) / np.float32(classes)
    upstream = torch.full_like(mean, -float(each)).div_(mean.clamp_min(LEAST))
    upstream = torch.where(mean >= LEAST, upstream, 0.0).div_(batch)
    return torch._softmax_backward_data(upstream.expand(batch, classes), softmax, 1, logits.dtype)
