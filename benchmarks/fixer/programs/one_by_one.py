"""Asks a server for one page after the other."""

import socket
import threading
import time

PAGES = 100


def serve(listener: socket.socket) -> None:
    while True:
        client, _ = listener.accept()
        threading.Thread(target=answer, args=(client,), daemon=True).start()


def answer(client: socket.socket) -> None:
    with client:
        number = int(client.recv(16))
        time.sleep(0.012)  # as far away as the next town
        client.sendall(f"{number * 3}".encode())


def fetch_page(port: int, number: int) -> int:
    with socket.create_connection(("127.0.0.1", port)) as server:
        server.sendall(f"{number}".encode())
        return int(server.recv(16))


def fetch_all(port: int) -> list[int]:
    return [fetch_page(port, number) for number in range(PAGES)]


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        print(sum(fetch_all(listener.getsockname()[1])))


if __name__ == "__main__":
    main()
