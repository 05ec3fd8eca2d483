"""A model of transformers: read its layers as tables, and ask whether two of its seeds agree. No network is needed."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from torch import nn
from transformers import BertConfig, BertModel, logging

import noumena as nm

logging.set_verbosity_error()
torch.set_num_threads(1)
config = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
)  # yours would be AutoModel.from_pretrained(...)
tokens = torch.randint(0, 50, (600, 12), generator=torch.Generator().manual_seed(0))
data = {"input_ids": tokens, "attention_mask": (torch.arange(12) < 9).long().expand(600, 12)}


def model(seed):
    torch.manual_seed(seed)
    return BertModel(config)


for layer in (0, -1, "encoder.layer.0.attention"):
    print(f"layer {layer}: table of shape {nm.representations(model(0), data, layer=layer).shape}")

runs = {f"seed {seed}": nm.representations(model(seed), data, layer=-1) for seed in range(2)}
print(nm.audit(runs).verdict)

torch.manual_seed(0)
plain = nn.Sequential(nn.Embedding(50, 8), nn.Flatten(), nn.Linear(96, 4))
print(f"any module of torch: {nm.representations(plain, tokens, layer='2').shape}")
