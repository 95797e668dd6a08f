"""Training that logs its loss to a thread which holds the lock while it sends."""

import threading
import time

import torch
from torch import nn

import sightline as sl

STEPS = 120
SEND_S = 0.02  # a round trip to a tracking server


class Log:
    """Values that a thread of its own sends away."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.values: list[float] = []
        threading.Thread(target=self.send_for_ever, daemon=True).start()

    def add(self, value: float) -> None:
        with self.lock:
            self.values.append(value)

    def send_for_ever(self) -> None:
        while True:
            with self.lock:
                self.values.clear()
                time.sleep(SEND_S)
            time.sleep(0.0005)


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    features, labels = torch.randn(256, 256), torch.randint(0, 10, (256,))
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    log = Log()
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(features), labels)
        loss.backward()
        optimizer.step()
        log.add(loss.item())
        sl.step()


if __name__ == "__main__":
    main()
