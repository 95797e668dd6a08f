"""What to do about a DataLoader that is slower than the GPU."""

LOAD_AHEAD = (
    "raise num_workers, set pin_memory=True and persistent_workers=True, prefetch to the GPU on a "
    "side stream, or move decoding out of __getitem__"
)
