"""Starts a program for each of many short strings."""

import subprocess


def make_digest(text: str) -> str:
    done = subprocess.run(["sha256sum"], input=text.encode(), capture_output=True, check=True)
    return done.stdout.decode().split()[0]


def main() -> None:
    print(sum(int(make_digest(f"item {number}")[:4], 16) for number in range(300)))


if __name__ == "__main__":
    main()
