"""The same with a thread that talks to the server."""

import multiprocessing
import queue
import socket
import threading
import time

import torch
from torch import nn

import sightline as sl

STEPS = 120
ROUND_TRIP_S = 0.02  # of a server in another building


def serve(listener: socket.socket) -> None:
    """The tracking server: an answer to each line, a round trip later."""
    connection, _ = listener.accept()
    while connection.recv(256):
        time.sleep(ROUND_TRIP_S)
        connection.sendall(b"ok\n")


class Tracker:
    """A connection to the server, used by a thread of its own."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.connection = socket.create_connection(address)
        self.values: queue.SimpleQueue[float] = queue.SimpleQueue()
        threading.Thread(target=self.send_for_ever, daemon=True).start()

    def log(self, loss: float) -> None:
        self.values.put(loss)

    def send_for_ever(self) -> None:
        while True:
            self.connection.sendall(f"{self.values.get()}\n".encode())
            self.connection.recv(16)


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    listener = socket.create_server(("127.0.0.1", 0))
    server = multiprocessing.get_context("fork").Process(
        target=serve, args=(listener,), daemon=True
    )
    server.start()
    tracker = Tracker(listener.getsockname())
    features, labels = torch.randn(256, 256), torch.randint(0, 10, (256,))
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(features), labels)
        loss.backward()
        optimizer.step()
        tracker.log(loss.item())
        sl.step()


if __name__ == "__main__":
    main()
