"""A penalty in someone else's Lightning training: one more callback, and not a line of their module changed."""

import logging
import warnings

import torch
from torch import nn

import noumena as nm

try:
    import lightning.pytorch as pl
except ImportError:
    pl = None
    print("This example needs Lightning, which noumena does not:\n  pip install lightning\nNothing was trained.")

torch.manual_seed(0)
torch.set_num_threads(1)
truth = nm.Structure([[1, 0], [1, 0], [1, 0], [1, 1], [0, 1], [0, 1], [0, 1]])
sample = nm.worlds.structured(truth, random_state=0).sample(512)
x = torch.as_tensor(sample.x, dtype=torch.float32)
x = (x - x.mean(dim=0)) / x.std(dim=0)


def trained(callbacks):
    class Theirs(pl.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.encoder = nn.Sequential(nn.Linear(7, 32), nn.ELU(), nn.Linear(32, 2))
            self.decoder = nn.Sequential(nn.Linear(2, 32), nn.ELU(), nn.Linear(32, 7))

        def training_step(self, batch, index):
            return (self.decoder(self.encoder(batch[0])) - batch[0]).square().sum(dim=1).mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    rows = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x), batch_size=128, shuffle=True)
    module = Theirs()
    pl.Trainer(max_steps=300, max_epochs=-1, accelerator="cpu", devices=1, callbacks=callbacks, **quiet).fit(
        module, rows
    )
    return module.eval()


if pl is not None:
    from noumena.integrations import PenaltyCallback

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    penalty = PenaltyCallback(0.2 * nm.DependencySparsity(), decoder="decoder")
    for name, callbacks in (("as it was", []), ("with the callback", [penalty])):
        module = trained(callbacks)
        z = module.encoder(x).detach()
        score = nm.metrics.mcc(sample.z, z).score
        print(f"{name}: MCC with the truth {score:.2f}; {nm.certify(module.decoder, at=z).headline}")
    print(f"the training step is theirs again: {'training_step' not in vars(module)}")
