"""Call stacks as a trie: a stack is a path from a root to a node."""

from sightline.core.model.columns import RANK, RECORDING, Table, ident, join, number

TABLE = Table(
    "stacks",
    "a node of the stack trie",
    (
        RANK,
        RECORDING,
        ident("stack_id", "key"),
        join("parent_id", "stacks.stack_id", "the caller's node; null at the root"),
        join("frame_id", "frames.frame_id", "the function"),
        number("depth", "callers above it"),
    ),
)
