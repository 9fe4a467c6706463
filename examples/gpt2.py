"""A small GPT-2 from its config, random weights: the target of `make demo`."""

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel


def small() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """4 layers, 256 wide, 8 heads, vocabulary 50257; batch 8 x 128."""
    config = GPT2Config(
        n_layer=4,
        n_embd=256,
        n_head=8,
        vocab_size=50257,
        n_positions=128,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    model = GPT2LMHeadModel(config)
    tokens = torch.randint(0, config.vocab_size, (8, 128))
    return model, {"input_ids": tokens, "labels": tokens}
